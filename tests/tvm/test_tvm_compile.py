"""tvm.compile of programs that are no networks, and of modules of several functions."""
import numpy as np
import pytest

import ingot as tvm
from ingot import relax, te
from ingot.script import tir as T


@T.prim_func
def more(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] + T.float32(1)


@pytest.mark.parametrize("program", [more, tvm.IRModule({"main": more})], ids=["function", "module"])
@pytest.mark.parametrize("target", ["llvm", "c"])
def test_a_program_of_ones_own_is_built(program, target):
    out = tvm.nd.array(np.zeros(8, np.float32))
    tvm.compile(program, target=target)(tvm.nd.array(np.arange(8, dtype=np.float32)), out)
    np.testing.assert_array_equal(out.numpy(), np.arange(8) + 1)


def test_for_a_gpu_the_call_needs_a_device():
    sch = tvm.tir.Schedule(more)
    sch.bind(sch.get_loops("B")[0], "threadIdx.x")
    built = tvm.compile(sch.mod, target="cuda")
    assert "__global__" in built.imported_modules[0].get_source()


def test_what_an_attribute_is_about():
    ib = tvm.tir.ir_builder.create()
    thread = te.thread_axis("threadIdx.x")
    ib.scope_attr(thread, "thread_extent", 4)
    ib.emit(tvm.tir.Evaluate(thread.var))
    assert ib.get().node is thread


CALLED = """
@I.ir_module
class M:
    @T.prim_func
    def more(a: T.handle, b: T.handle):
        n = T.int64()
        A, B = T.match_buffer(a, (n,), "float32"), T.match_buffer(b, (n,), "float32")
        for i in range(n):
            with T.block("B"):
                v = T.axis.spatial(n, i)
                B[v] = A[v] + T.float32(1)

    @R.function(private={private})
    def f(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        n = T.int64()
        y = R.call_tir(M.more, (x,), out_sinfo=R.Tensor((n,), "float32"))
        return R.multiply(y, y)

    @R.function
    def main(x: R.Tensor(({size}, 2), "float32")):
        s = R.split(x, 2, axis=1)
        y = M.f(R.reshape(s[0], [-1]))
        z = (M.f(y), (s, y))
        return {result}
"""


@pytest.mark.parametrize("private, size, result", [(False, "3", "z"), (True, '"m"', "s")], ids=["static", "symbolic"])
def test_main_may_call_functions_and_give_tuples_that_operators_gave(private, size, result):
    mod = tvm.script.from_source(CALLED.format(private=private, size=size, result=result))
    main = relax.VirtualMachine(tvm.compile(mod, "c"), tvm.cpu())["main"]
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    y, found = (x[:, 0] + 1) ** 2, main(tvm.nd.array(x))
    halves = found if result == "s" else found[1][0]
    for half, expected in zip(halves, (x[:, :1], x[:, 1:]), strict=True):
        np.testing.assert_array_equal(half.numpy(), expected)
    if result == "z":
        np.testing.assert_array_equal(found[0].numpy(), (y + 1) ** 2)
        np.testing.assert_array_equal(found[1][1].numpy(), y)
