"""InjectSoftwarePipeline as scripts call it: three blocks, versions, and attributes for asynchronous copies."""
import numpy as np
import pytest
from gpu_programs import threads_agree, tiled_product
from test_gpu_pipeline import TO_LOOPS, TO_OPAQUE, pipelined
from tir_cases import arguments, results

import ingot as tvm
from ingot.ir.module import IRModule
from ingot.ir.node import collect
from ingot.ir.transform.classic import CLASSIC
from ingot.ir.transform.context import Sequential
from ingot.ir.transform.gpu.software_pipeline import PipelineError
from ingot.ir.transform.pass_table import TIR
from ingot.script import tir as T

REST = (*TO_LOOPS, "ThreadSync", "FlattenBuffer", "VectorizeLoop", "InjectPTXAsyncCopy", "Simplify")


def in_blocks(func):
    """The function after the classic pass."""
    return CLASSIC["InjectSoftwarePipeline"]()(IRModule({"main": func}))["main"]


def same(before):
    """The function after the pass, which gives what it gave before."""
    after, inputs = in_blocks(before), arguments(before)
    for a, b in zip(results(before, inputs), results(after, inputs)):
        np.testing.assert_array_equal(a, b)
    return after


@pytest.mark.parametrize("turns", [1, 2, 6])
@pytest.mark.parametrize("stages, order", [
    ([0, 0, 1], [0, 1, 2]), ([0, 0, 1], [1, 2, 0]), ([0, 0, 3], [0, 1, 2]), ([0, 0, 3], [1, 2, 0]),
    ([0, 0, 1], [0, 2, 1]), ([0, 1, 2], [0, 2, 1]), ([0, 1, 3], [2, 0, 1])], ids=str)
@pytest.mark.parametrize("late", [(), (0,), (0, 1)], ids=str)
def test_a_product_in_stages_is_the_product(turns, stages, order, late):
    func, tiled = tiled_product(8, 8, 4 * turns, 4, 4)
    late = tuple(s for s in late if s in stages[:2])
    opaque = Sequential([TIR[n]() for n in TO_OPAQUE])(IRModule({"main": pipelined(tiled, stages, order, late)}))
    if len(late) == 2:
        with pytest.raises(PipelineError, match="reads what several asynchronous stages fill"):
            in_blocks(opaque["main"])
        return
    blocked = in_blocks(opaque["main"])
    assert ("async_commit_queue_scope" in str(blocked)) is bool(late) and "software_pipeline" not in str(blocked)
    done = Sequential([TIR[n]() for n in REST])(IRModule({"main": blocked}))["main"]
    assert ("T.ptx_cp_async(" in str(done)) is bool(late) and "async_" not in str(done).replace("ptx_cp_async", "")
    inputs = arguments(func)
    threads_agree(results(func, inputs), done, inputs, "lowering")


def staged(extent, stages, order, start=0):
    @T.prim_func
    def func(A: T.Buffer((extent + start, 4), "float32"), D: T.Buffer((extent + start, 4), "float32")):
        for i in T.serial(start, start + extent,
                          annotations={"software_pipeline_stage": stages, "software_pipeline_order": order, "kept": 1}):
            with T.block("work"):
                T.reads(A[i, 0:4])
                T.writes(D[i, 0:4])
                B = T.alloc_buffer((4,), "float32")
                C = T.alloc_buffer((4,), "float32")
                for j in range(4):
                    with T.block("b"):
                        T.reads(A[i, j])
                        T.writes(B[j])
                        B[j] = A[i, j] * T.float32(2)
                for j in range(4):
                    with T.block("c"):
                        T.reads(B[3 - j])
                        T.writes(C[j])
                        C[j] = B[3 - j] + T.float32(1)
                for j in range(4):
                    with T.block("d"):
                        T.reads(C[j])
                        T.writes(D[i, j])
                        D[i, j] = C[j]
    return func


@pytest.mark.parametrize("extent", [1, 2, 3, 8])
@pytest.mark.parametrize("stages, order", [
    ([0, 0, 1], [0, 1, 2]), ([0, 0, 1], [1, 2, 0]), ([0, 1, 2], [0, 1, 2]), ([0, 1, 2], [2, 1, 0]),
    ([0, 2, 3], [1, 0, 2]), ([0, 1, 1], [2, 0, 1])], ids=str)
@pytest.mark.parametrize("start", [0, 3])
def test_stages_of_loops_of_any_length(extent, stages, order, start):
    after = same(staged(extent, stages, order, start))
    loops = [loop for loop in collect(after.body, tvm.tir.For) if "kept" in loop.annotations]
    assert loops or extent <= 2 or max(stages) == extent
    assert "software_pipeline" not in str(after)


def test_loops_of_an_unknown_length():
    @T.prim_func
    def func(a: T.handle, d: T.handle, n: T.int32):
        A = T.match_buffer(a, (8,), "float32")
        D = T.match_buffer(d, (8,), "float32")
        for i in T.serial(n, annotations={"software_pipeline_stage": [0, 2], "software_pipeline_order": [0, 1]}):
            with T.block("work"):
                T.reads(A[i])
                T.writes(D[i])
                B = T.alloc_buffer((1,), "float32")
                with T.block("b"):
                    T.reads(A[i])
                    T.writes(B[0])
                    B[0] = A[i] * T.float32(2)
                with T.block("d"):
                    T.reads(B[0])
                    T.writes(D[i])
                    D[i] = B[0] + T.float32(1)

    after = in_blocks(func)
    for n in (0, 1, 2, 3, 8):
        inputs = [np.arange(8, dtype="float32"), np.zeros(8, "float32"), n]
        np.testing.assert_array_equal(results(after, inputs)[1], results(func, inputs)[1])


def test_what_waits_says_how_much_may_be_under_way():
    @T.prim_func
    def func(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
        for tx in T.thread_binding(16, thread="threadIdx.x"):
            for i in T.serial(16, annotations={
                    "software_pipeline_stage": [0, 3, 0], "software_pipeline_order": [0, 1, 2],
                    "software_pipeline_async_stages": [0]}):
                with T.block("work"):
                    T.reads(A[tx, i], B[tx, i])
                    T.writes(C[tx, i])
                    X = T.alloc_buffer((16, 1), "float32", scope="shared")
                    Y = T.alloc_buffer((16, 1), "float32", scope="shared")
                    with T.block("x"):
                        T.reads(A[tx, i])
                        T.writes(X[tx, 0])
                        X[tx, 0] = A[tx, i]
                    with T.block("z"):
                        T.reads(X[tx, 0])
                        T.writes(C[tx, i])
                        C[tx, i] = X[tx, 0] + T.float32(1)
                    with T.block("y"):
                        T.reads(B[tx, i])
                        T.writes(Y[tx, 0])
                        Y[tx, 0] = B[tx, i]

    after = same(func)
    counts = [s.value for s in collect(after.body, tvm.tir.AttrStmt) if s.attr_key == "async_wait_inflight_count"]
    assert str(counts[0]) == "3" and len(counts) == 2  # in the loop, and in what runs after it


def test_pointers_say_nothing_of_versions():
    @T.prim_func
    def func(A: T.Buffer((8,), "float32")):
        for i in T.serial(8, annotations={"software_pipeline_stage": [0, 1], "software_pipeline_order": [0, 1]}):
            with T.block("work"):
                T.reads(A[i])
                T.writes()
                B = T.alloc_buffer((1,), "float32")
                with T.block("b"):
                    T.reads(A[i])
                    T.writes(B[0])
                    B[0] = A[i]
                with T.block("c"):
                    T.reads(B[0])
                    T.writes()
                    T.evaluate(T.call_extern("int32", "use", B.data))

    with pytest.raises(PipelineError, match=r"takes the pointer B.data, .* use T.address_of\(B\[...\]\)"):
        in_blocks(func)


def test_signatures_of_stages_say_what_blocks_state():
    """A program with a symbolic number of iterations, of which a schedule makes a pipeline by a block without a name."""
    @T.prim_func
    def func(a: T.handle, c: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,), "float32")
        C = T.match_buffer(c, (n,), "float32")
        for i in range(n):
            with T.block():
                T.reads(A[i])
                T.writes(C[i])
                B = T.alloc_buffer((1,))
                with T.block():
                    T.reads(A[i])
                    T.writes(B[0])
                    B[0] = A[i] * T.float32(2)
                with T.block():
                    T.reads(B[0])
                    T.writes(C[i])
                    C[i] = B[0] + T.float32(1)

    s = tvm.tir.Schedule(func)
    [around] = s.get_child_blocks(s.get_block("root"))
    [loop] = s.get_loops(around)
    s.annotate(loop, "software_pipeline_stage", [0, 1])
    s.annotate(loop, "software_pipeline_order", [0, 1])
    after = in_blocks(s.mod["main"])
    [block] = [b for b in collect(after.body, tvm.tir.Block) if b.alloc_buffers]
    assert [str(r.region[0].extent) for r in (*block.reads, *block.writes)] == ["T.max(1, n)", "T.max(n, 1)"]
    for n in (0, 1, 5):
        inputs = [np.arange(n, dtype="float32"), np.zeros(n, "float32")]
        np.testing.assert_array_equal(results(func, inputs)[1], results(after, inputs)[1])


def test_copies_of_scripts_say_pointers_and_offsets():
    """As TVM has them, and the same program for hardware."""
    func, tiled = tiled_product(8, 8, 8, 4, 4)
    done = Sequential([TIR[n]() for n in TO_OPAQUE])(IRModule({"main": pipelined(tiled, [0, 0, 1], [0, 1, 2], (0,))}))
    done = Sequential([CLASSIC["InjectSoftwarePipeline"](), *(TIR[n]() for n in REST if n != "InjectPTXAsyncCopy")])(done)
    ours, scripted = (Sequential([table["InjectPTXAsyncCopy"](), TIR["LowerDeviceOps"]()]) for table in (TIR, CLASSIC))
    assert "_shared.data" in str(CLASSIC["InjectPTXAsyncCopy"]()(done))
    tvm.ir.assert_structural_equal(ours(done)["main"], scripted(done)["main"])
