"""Software pipelines and double buffers: versions, prologue and epilogue, groups of asynchronous copies."""
import numpy as np
import pytest
from gpu_programs import LOOPS, check, lowered, threads_agree, tiled_product
from interp import run
from tir_cases import arguments, results

import ingot as tvm
from ingot.ir import te
from ingot.ir.schedule import Schedule
from ingot.ir.script.functions import from_source
from ingot.ir.tir.spmd import RaceError
from ingot.ir.transform.gpu.software_pipeline import PipelineError
from ingot.ir.transform.pipeline import lower_prim_func
from ingot.script import tir as T

PIPELINE = ("InjectDoubleBuffer", "InjectSoftwarePipeline")
TO_OPAQUE, TO_LOOPS = LOOPS[:LOOPS.index("LowerMatchBuffer")], LOOPS[LOOPS.index("LowerMatchBuffer"):]
PASSES = (*TO_OPAQUE, *PIPELINE, *TO_LOOPS, "ThreadSync", "FlattenBuffer", "VectorizeLoop", "InjectPTXAsyncCopy",
          "Simplify")


def pipelined(func, stages, order, late=(), block="matmul"):
    s = Schedule(func)
    s.decompose_reduction(block, s.get_loops(block)[-2])
    loop = s.get_loops(f"{block}_update")[-2]
    s.annotate(loop, "software_pipeline_stage", stages)
    s.annotate(loop, "software_pipeline_order", order)
    if late:
        s.annotate(loop, "software_pipeline_async_stages", late)
    return s.func


@pytest.mark.parametrize("turns", [1, 2, 3, 6])
@pytest.mark.parametrize("stages, order", [
    ([0, 0, 1], [0, 1, 2]), ([0, 0, 1], [1, 2, 0]), ([0, 0, 2], [0, 1, 2]), ([0, 0, 3], [1, 2, 0]),
    ([0, 1, 2], [0, 2, 1]), ([0, 1, 3], [2, 0, 1]), ([0, 0, 0], [1, 0, 2]), ([2, 2, 4], [0, 1, 2])], ids=str)
@pytest.mark.parametrize("is_async", [False, True])
def test_a_product_in_stages_is_the_product(turns, stages, order, is_async):
    func, tiled = tiled_product(8, 8, 4 * turns, 4, 4)
    late = sorted(set(stages[:2])) if is_async else ()
    done = check(func, pipelined(tiled, stages, order, late), passes=PASSES)
    assert ("T.ptx_cp_async(" in str(done)) is is_async and "async_scope" not in str(done)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("ahead", [1, 2, 3])
def test_a_symbolic_number_of_turns_may_be_smaller_than_the_stages(ahead, is_async):
    n = te.var("n")
    a = te.placeholder((n, 8), name="a")
    k = te.reduce_axis((0, n), "k")
    func = te.create_prim_func([a, te.compute((8,), lambda i: te.sum(a[k, i], axis=k), name="total"), n])
    s = Schedule(func)
    i, _ = s.get_loops("total")
    s.bind(i, "threadIdx.x")
    s.compute_at(s.cache_read("total", 0, "shared"), s.get_loops("total")[-1])
    s.bind(s.get_loops("a_shared")[-1], "threadIdx.x")
    s.decompose_reduction("total", s.get_loops("total")[-1])
    loop = s.get_loops("total_update")[-1]
    for key, values in (("stage", [0, ahead]), ("order", [0, 1]), ("async_stages", [0] if is_async else [])):
        s.annotate(loop, f"software_pipeline_{key}", values)
    for size in (0, 1, 2, 3, 5):
        x = np.random.default_rng(size).random((size, 8), np.float32)
        done = check_sizes(s.func, [x, np.zeros(8, np.float32)], x.sum(0, np.float32))
    assert f"{ahead + 1} * 8" in str(done) or f"({8 * (ahead + 1)},)" in str(done)


def check_sizes(scheduled, arrays, expected):
    done = lowered(scheduled, *PASSES)
    threads_agree([arrays[0], expected], done, [*arrays, len(arrays[0])], rtol=1e-5)
    return done


def test_copies_are_waited_for_when_they_are_needed_and_no_earlier():
    _, tiled = tiled_product(8, 8, 24, 4, 4)
    text = text_of(pipelined(tiled, [0, 0, 3], [0, 1, 2], [0]))
    assert waits(text) == [2]                   # when a turn begins, before the copies that it starts
    assert text.count("T.ptx_commit_group()") == 3 + 1  # of which the last one may be empty
    assert "(4, 4, 4)" in text                  # versions of a tile
    split = text_of(pipelined(tiled, [0, 0, 3], [0, 2, 1], [0]))  # a group on each side of the product
    assert waits(split) == [4]
    mixed = text_of(pipelined(tiled, [0, 1, 3], [0, 1, 2], [0]))  # the second copy is none of those
    assert waits(mixed) == [2, 2, 1, 0]         # in turns, and then as the last ones arrive


def test_one_barrier_a_turn_serves_what_arrives_and_what_is_overwritten():
    _, tiled = tiled_product(8, 8, 24, 4, 4)
    text = str(lowered(pipelined(tiled, [0, 0, 3], [0, 1, 2], [0]), *PASSES))
    loop = text[text.index("range(6)"):]
    assert loop.count("T.tvm_storage_sync") == 1 and loop.index("wait_group") < loop.index("storage_sync") < loop.index(
        "cp_async")


def text_of(func):
    return str(lowered(func, *TO_OPAQUE, *PIPELINE))


def waits(text):
    return [int(line.split("(")[-1].rstrip(")")) for line in text.splitlines() if "ptx_wait_group" in line]


def test_a_wait_that_is_too_lax_is_noticed():
    func, tiled = tiled_product(8, 8, 24, 4, 4)
    done = lowered(pipelined(tiled, [0, 0, 1], [0, 1, 2], [0]), *PASSES)
    text = done.script().replace("T.ptx_wait_group(0)", "T.ptx_wait_group(1)")
    assert text != done.script()
    inputs = arguments(func)
    with pytest.raises((AssertionError, RaceError)):
        threads_agree(results(func, inputs), from_source(text), inputs)


def test_double_buffers_are_filled_one_turn_ahead():
    func, tiled = tiled_product(8, 8, 16, 4, 4)
    s = Schedule(tiled)
    s.decompose_reduction("matmul", s.get_loops("matmul")[-2])
    for read in s.get_producers(s.get_block("matmul_update")):
        if s.get(read).name_hint.endswith("_shared"):
            s.annotate(read, "double_buffer_scope", 0)
    assert "(2, 4, 4)" in text_of(s.func) and "double_buffer" not in text_of(s.func)
    check(func, s.func, passes=PASSES)


def test_loops_around_that_of_a_double_buffer_stay():
    @T.prim_func
    def main(x: T.Buffer((4, 6, 8), "float32"), y: T.Buffer((4, 8), "float32")):
        for i in range(4):
            for j in range(8):
                y[i, j] = 0.0
            for k in range(6):
                with T.block("row"):
                    row = T.alloc_buffer((8,), "float32", scope="shared")
                    for j in range(8):
                        with T.block("copy"):
                            T.reads(x[i, k, j])
                            T.writes(row[j])
                            T.block_attr({"double_buffer_scope": 0})
                            row[j] = x[i, k, j]
                    for j in range(8):
                        y[i, j] = y[i, j] + row[j]

    x, y = np.arange(192, dtype=np.float32).reshape(4, 6, 8), np.zeros((4, 8), np.float32)
    done = lower_prim_func(main)
    run(done, x, y)
    np.testing.assert_array_equal(y, x.sum(1))
    assert "range(5)" in str(done) and "range(4)" in str(done)


def test_a_loop_of_the_cpu_may_be_a_pipeline():
    """Stages on a target without asynchronous copies are copies that are done at once."""
    @T.prim_func
    def main(x: T.Buffer((10, 16), "float32"), y: T.Buffer((10, 16), "float32")):
        for i in T.serial(10, annotations={"software_pipeline_stage": [0, 2], "software_pipeline_order": [1, 0],
                                           "software_pipeline_async_stages": [0]}):
            with T.block("row"):
                buffer = T.alloc_buffer((16,), "float32")
                for j in range(16):
                    buffer[j] = x[i, j] + 1.0
                for j in range(16):
                    y[i, j] = buffer[j] * 2.0

    x, y = np.arange(160, dtype=np.float32).reshape(10, 16), np.zeros((10, 16), np.float32)
    done = lower_prim_func(main)
    run(done, x, y)
    np.testing.assert_array_equal(y, (x + 1) * 2)
    assert "async" not in str(done)
    z = tvm.nd.empty((10, 16))
    tvm.build(main, target="c")(tvm.nd.array(x), z)
    np.testing.assert_array_equal(z.numpy(), y)


@pytest.mark.parametrize("stages, order, message", [
    ([0, 1], [0, 1, 2], "it has 3 statements, software_pipeline_stage tells of 2, software_pipeline_order of 3"),
    ([0, 0, 1], [0, 0, 1], r"software_pipeline_order \[0, 0, 1\] does not give each statement a place from 0 to 2"),
    ([0, 0, -1], [0, 1, 2], r"software_pipeline_stage \[0, 0, -1\] has a negative stage"),
    ([1, 0, 0], [0, 1, 2], "statement 2 would run before statement 0 is done with a_shared"),
    ([0, 0, 0], [2, 0, 1], "statement 2 would run before statement 0 is done with a_shared"),
])
def test_what_is_no_pipeline_is_refused(stages, order, message):
    _, tiled = tiled_product(8, 8, 16, 4, 4)
    with pytest.raises(PipelineError, match=f"software pipeline of loop .*: {message}"):
        text_of(pipelined(tiled, stages, order))


def test_what_stages_hand_on_must_be_allocated_in_the_loop():
    @T.prim_func
    def main(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32"), z: T.Buffer((8,), "float32")):
        for i in T.serial(8, annotations={"software_pipeline_stage": [0, 1], "software_pipeline_order": [0, 1]}):
            with T.block("all"):
                y[i] = x[i] + 1.0
                z[i] = y[i] * 2.0

    with pytest.raises(PipelineError, match="statements 0 and 1 of different stages hand on y, which is allocated "
                                            "outside of the loop"):
        text_of(main)


def test_statements_of_blocks_that_only_group_some_are_the_pipelines():
    @T.prim_func
    def main(x: T.Buffer((10, 16), "float32"), y: T.Buffer((10, 16), "float32")):
        for i in T.serial(10, annotations={"software_pipeline_stage": [0, 1, 1], "software_pipeline_order": [0, 1, 2]}):
            with T.block("row"):
                once = T.alloc_buffer((16,), "float32")
                for j in range(16):
                    once[j] = x[i, j] + 1.0
                with T.block("rest"):
                    twice = T.alloc_buffer((16,), "float32")
                    for j in range(16):
                        twice[j] = once[j] * 2.0
                    for j in range(16):
                        y[i, j] = twice[j] - 3.0

    x, y = np.arange(160, dtype=np.float32).reshape(10, 16), np.zeros((10, 16), np.float32)
    done = lower_prim_func(main)
    run(done, x, y)
    np.testing.assert_array_equal(y, (x + 1) * 2 - 3)
    assert "range(9)" in str(done)
