"""Tensors without elements: what is compiled takes them, and gives what numpy gives."""
import numpy as np
import pytest

import ingot as tvm
from ingot import relax
from ingot.script import ir as I
from ingot.script import relax as R
from ingot.script import tir as T
from ingot.runtime.shapes import InputError


@I.ir_module
class Rows:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 3), "float32")):
        with R.dataflow():
            y = R.nn.softmax(R.matmul(x, w))
            R.output(y)
        return y


@I.ir_module
class Gram:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 3), "float32")):
        with R.dataflow():
            y = R.matmul(R.permute_dims(x), x)
            z = R.add(y, R.sum(w))
            R.output(z)
        return z


def rows(x, w):
    e = np.exp(x @ w)
    return e / e.sum(-1, keepdims=True)


@pytest.mark.parametrize("legalized", [False, True])
@pytest.mark.parametrize("mod, reference", [(Rows, rows), (Gram, lambda x, w: x.T @ x + w.sum())])
@pytest.mark.parametrize("compiled", [tvm.compile, relax.build])
def test_networks_of_no_rows(mod, reference, compiled, legalized):
    vm = relax.VirtualMachine(compiled(relax.transform.LegalizeOps()(mod) if legalized else mod, "c"), tvm.cpu())
    rng = np.random.default_rng(0)
    w = rng.random((4, 3), np.float32)
    for n in (3, 0, 1):
        x = rng.random((n, 4), np.float32)
        found = vm["main"](tvm.nd.array(x), tvm.nd.array(w)).numpy()
        np.testing.assert_allclose(found, reference(x, w), rtol=1e-5)


def test_a_network_is_called_with_arrays_of_no_rows():
    assert tvm.compile(Rows, "c")(np.empty((0, 4), np.float32), np.ones((4, 3), np.float32)).shape == (0, 3)


@T.prim_func
def doubled(a: T.handle, b: T.handle):
    n, m = T.int32(), T.int32()
    A = T.match_buffer(a, (n, m), "float32")
    B = T.match_buffer(b, (n, m), "float32")
    for i, j in T.grid(n, m):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)


@T.prim_func
def summed(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n, 4), "float32")
    B = T.match_buffer(b, (4,), "float32")
    for j, i in T.grid(4, n):
        with T.block("B"):
            vj, vi = T.axis.remap("SR", [j, i])
            with T.init():
                B[vj] = T.float32(0)
            B[vj] = B[vj] + A[vi, vj]


def test_functions_have_nothing_to_do_where_outputs_have_no_elements():
    built = tvm.build(doubled, "c")
    for shape in ((0, 4), (3, 0), (0, 0)):
        built(tvm.nd.empty(shape), tvm.nd.empty(shape))
    with pytest.raises(InputError, match="dimension 0 = 0, expected at least 1"):
        built(tvm.nd.empty((0, 4)), tvm.nd.empty((2, 4)))


def test_functions_refuse_no_terms_where_there_is_something_to_write():
    with pytest.raises(InputError, match="dimension 0 = 0, expected at least 1"):
        tvm.build(summed, "c")(tvm.nd.empty((0, 4)), tvm.nd.empty((4,)))


@I.ir_module
class Called:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), text: R.Object):
        cls = Called
        y = R.call_tir(cls.column_sums, (x,), R.Tensor((4,), "float32"))
        return y

    @T.prim_func(private=True)
    def column_sums(a: T.handle, B: T.Buffer((T.int64(4),), "float32")):
        n = T.int64()
        A = T.match_buffer(a, (n, T.int64(4)), "float32")
        for j, i in T.grid(T.int64(4), n):
            with T.block("B"):
                vj, vi = T.axis.remap("SR", [j, i])
                with T.init():
                    B[vj] = T.float32(5)
                B[vj] = B[vj] + A[vi, vj]


def test_kernels_that_a_machine_calls_start_sums_without_terms():
    vm = relax.VirtualMachine(relax.build(Called, "c"), tvm.cpu())
    for n in (2, 0):
        x = np.arange(4 * n, dtype=np.float32).reshape(n, 4)
        np.testing.assert_array_equal(vm["main"](tvm.nd.array(x), "x").numpy(), x.sum(0) + 5)


@pytest.mark.parametrize("name", ["max", "argmin", "variance"])
def test_nothing_to_choose_from_names_the_operator(name):
    bb, x = relax.BlockBuilder(), relax.Var("x", R.Tensor((tvm.tir.Var("n", "int64"), 4), "float32"))
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(getattr(relax.op, name)(x, 0)))
    vm = relax.VirtualMachine(relax.build(bb.get(), "c"), tvm.cpu())
    with pytest.raises(ValueError, match=name + r": nothing to choose from: \(0, 4\) is empty along axis 0"):
        vm["main"](np.empty((0, 4), np.float32))
