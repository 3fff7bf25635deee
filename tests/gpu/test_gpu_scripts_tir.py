"""Programs in the words of TVM's lowered functions: reductions of threads by T.tvm_thread_allreduce, printed, parsed
back, lowered, and run thread by thread in Python and on the emulator."""
import numpy as np
import pytest
from gpu_modules import compiles, emulated, ints, needs_emulator
from gpu_programs import lowered
from interp import run_threads

import ingot as tvm
from ingot.ir.script.functions import from_source
from ingot.ir.transform.gpu.thread_reduction import ThreadReductionError
from ingot.script import tir as T

SUMS = """
@T.prim_func
def main(A: T.Buffer(({rows}, {n}), "{dtype}"), B: T.Buffer(({rows},), "{dtype}")):
    ty = T.launch_thread("threadIdx.y", {rows})
    tx = T.launch_thread("threadIdx.x", {n})
    total = T.allocate([1], "{dtype}", "local")
    total_1 = T.Buffer((1,), "{dtype}", data=total, scope="local")
    with T.attr(T.comm_reducer(lambda x, y: {join}, [T.{dtype}({start})]), "reduce_scope",
                T.reinterpret("handle", T.uint64(0))):
        T.tvm_thread_allreduce(T.uint32(1), A[ty, tx], T.bool(True), total_1[0], tx)
    if tx == 0:
        B[ty] = total_1[0]
"""


def sums(rows, n, dtype="float32", join="x + y", start="0"):
    return from_source(SUMS.format(rows=rows, n=n, dtype=dtype, join=join, start=start))


CASES = [(1, 32, "float32", True), (4, 8, "float32", True), (2, 128, "int32", True), (1, 20, "float32", True),
         (3, 20, "float32", False), (2, 48, "float32", False), (2, 64, "int8", False)]


@pytest.mark.parametrize("rows, n, dtype, by_shuffles", CASES)
def test_threads_reduce_together(rows, n, dtype, by_shuffles):
    func = sums(rows, n, dtype)
    assert str(from_source(func.script())) == func.script()
    passes = ("UnifyThreadBinding", "ThreadSync", "FlattenBuffer")
    done = lowered(func, *passes, "LowerThreadAllreduce")
    text = done.script()
    assert ("T.tvm_warp_shuffle_down(" in text) == by_shuffles and "allreduce" not in text
    assert str(from_source(text)) == text
    made = [p() if callable(p) else p for p in map(tvm.tir.transform.__dict__.get, passes)]
    alone = tvm.transform.Sequential([*made, tvm.tir.transform.LowerThreadAllreduce(active=False)])(
        tvm.IRModule({"main": func}))["main"]
    x = ints((rows, n), dtype)
    for backwards in (False, True):
        out = np.zeros(rows, dtype)
        run_threads(alone, x.copy().reshape(-1), out, backwards=backwards)
        np.testing.assert_array_equal(out, x.sum(1, dtype=dtype))


@needs_emulator
@pytest.mark.parametrize("rows, n, dtype", [(2, 128, "float32"), (4, 8, "int32"), (2, 48, "float32")])
def test_reductions_of_lowered_functions_run(rows, n, dtype):
    mod = tvm.build(sums(rows, n, dtype, "T.max(x, y)", "-100"), target="cuda")
    x = ints((rows, n), dtype, most=50)
    *_, got = emulated(mod, x, np.zeros(rows, dtype), policy="shuffled")
    np.testing.assert_array_equal(got, x.max(1))
    compiles(mod)


def test_opencl_joins_in_shared_memory():
    text = tvm.build(sums(2, 32), target="opencl").imported_modules[0].get_source()
    assert "barrier(CLK_LOCAL_MEM_FENCE)" in text and "__local" in text


@T.prim_func
def greatest(a: T.Buffer((64,), "float32"), at: T.Buffer((1,), "int32"), most: T.Buffer((1,), "float32")):
    for tx in T.thread_binding(64, thread="threadIdx.x"):
        with T.block("greatest"):
            vi = T.axis.spatial(64, tx)
            T.reads(a[vi])
            T.writes(at[0], most[0])
            place = T.alloc_buffer((1,), "int32", scope="local")
            value = T.alloc_buffer((1,), "float32", scope="local")
            T.attr(T.comm_reducer(lambda i0, x0, i1, x1: (
                T.Select(x0 > x1 or x0 == x1 and i0 < i1, i0, i1), T.Select(x0 > x1, x0, x1)),
                [T.int32(2147483647), T.min_value("float32")]), "reduce_scope",
                T.reinterpret("handle", T.uint64(0)))
            T.tvm_thread_allreduce(T.uint32(2), vi, a[vi], vi < 60, place[0], value[0], tx, dtype="handle")
            if vi == 0:
                at[0] = place[0]
                most[0] = value[0]


@needs_emulator
def test_two_values_under_a_condition():
    text = greatest.script()
    assert str(from_source(text)) == text
    mod = tvm.build(greatest, target="cuda")
    x = ints(64)
    x[62] = 9  # beyond the condition
    _, at, most = emulated(mod, x, np.zeros(1, np.int32), np.zeros(1, np.float32))
    assert (at[0], most[0]) == (x[:60].argmax(), x[:60].max())


def test_what_threads_cannot_reduce():
    text = SUMS.format(rows=1, n=32, dtype="float32", join="x + y", start="0")
    within = text.replace("        T.tvm_thread", "        if tx < 16:\n            T.tvm_thread")
    with pytest.raises(ThreadReductionError, match="stands where some threads do not come"):
        tvm.build(from_source(within), target="cuda")
    bare = "\n".join(line for line in text.splitlines() if "T.attr" not in line and "reinterpret" not in line)
    bare = bare.replace("        T.tvm_thread", "    T.tvm_thread")
    with pytest.raises(ThreadReductionError, match='stands outside of T.attr'):
        tvm.build(from_source(bare), target="cuda")
    other = text.replace("total_1[0], tx)", "total_1[0], other)").replace(
        "    total = ", "    other: T.int32 = 0\n    total = ")
    with pytest.raises(ThreadReductionError, match="names a thread that no loop around is bound to"):
        tvm.build(from_source(other), target="cuda")


def test_passes_alone_keep_the_form_of_a_program():
    """Those that know loops bound to threads take T.launch_thread, and give it back."""
    @T.prim_func
    def reversed_rows(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
        tx = T.launch_thread("threadIdx.x", 16)
        shared = T.decl_buffer((16,), "float32", scope="shared")
        shared[tx] = A[tx]
        B[tx] = shared[15 - tx]

    done = tvm.tir.transform.ThreadSync()(tvm.IRModule({"main": reversed_rows}))["main"].script()
    assert 'T.launch_thread("threadIdx.x", 16)' in done and "thread_binding" not in done
    assert done.count('T.tvm_storage_sync("warp")') == 1

    @T.prim_func
    def virtual(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
        vx = T.launch_thread("vthread", 2)
        tx = T.launch_thread("threadIdx.x", 8)
        own = T.decl_buffer((1,), "float32", scope="local")
        own[0] = A[vx * 8 + tx]
        B[vx * 8 + tx] = own[0] + T.float32(1)

    func = tvm.tir.transform.InjectVirtualThread()(tvm.IRModule({"main": virtual}))["main"]
    assert "vthread" not in func.script() and 'T.launch_thread("threadIdx.x", 8)' in func.script()
    x, out = ints(16), np.zeros(16, np.float32)
    run_threads(lowered(func, "UnifyThreadBinding", "ThreadSync", "FlattenBuffer"), x, out)
    np.testing.assert_array_equal(out, x + 1)
