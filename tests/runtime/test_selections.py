"""Operators whose results have as many elements as a run finds, and what is computed of those."""
import numpy as np
import pytest

import ingot as tvm
from ingot import relax
from ingot.script import ir as I
from ingot.script import relax as R
from ingot.script import tir as T


@I.ir_module
class Selections:
    @R.function
    def plain(x: R.Tensor(("m", "n"), "int64")):
        return R.unique(x)

    @R.function
    def in_order(x: R.Tensor(("m", "n"), "int64")):
        return R.unique(x, sorted=False, return_index=True, return_inverse=True, return_counts=True)

    @R.function
    def rows(x: R.Tensor(("m", "n"), "int64")):
        return R.unique(x, axis=0)

    @R.function
    def places(x: R.Tensor(("m", "n"), "int64")):
        y = R.nonzero(x)
        z = R.add(R.sum(y, axis=0), R.const(1, "int64"))
        return y, z

    @R.function
    def cast(x: R.Tensor(("m", "n"), "int64")):
        y = R.match_cast(R.unique(x), R.Tensor(("k",), "int64"))
        k = T.int64()
        return R.multiply(y, y)


@pytest.fixture(scope="module")
def vm():
    return relax.VirtualMachine(relax.build(Selections, "c"), tvm.cpu())


X = np.array([[4, 0, 3], [3, 3, 1], [4, 0, 3], [0, 0, 4]])


def test_unique(vm):
    np.testing.assert_array_equal(vm["plain"](tvm.nd.array(X)).numpy(), np.unique(X))
    np.testing.assert_array_equal(vm["rows"](tvm.nd.array(X)).numpy(), np.unique(X, axis=0))
    np.testing.assert_array_equal(vm["cast"](tvm.nd.array(X)).numpy(), np.unique(X) ** 2)


def test_unique_in_the_order_of_first_occurrence(vm):
    values, index, inverse, counts = (v.numpy() for v in vm["in_order"](tvm.nd.array(X)))
    np.testing.assert_array_equal(values, [4, 0, 3, 1])
    np.testing.assert_array_equal(X.reshape(-1)[index], values)
    np.testing.assert_array_equal(values[inverse], X.reshape(-1))
    np.testing.assert_array_equal(counts, [(X == v).sum() for v in values])
    assert list(index) == sorted(index)


def test_nonzero_and_what_follows(vm):
    for x in (X, X * 0):
        places, sums = vm["places"](tvm.nd.array(x))
        np.testing.assert_array_equal(places.numpy(), np.stack(np.nonzero(x)))
        np.testing.assert_array_equal(sums.numpy(), np.stack(np.nonzero(x)).sum(0) + 1)


def test_operators_of_unknown_shapes():
    @I.ir_module
    class Unknown:
        @R.function
        def main(x: R.Tensor(dtype="float32")):
            y = R.nn.softmax(x)
            z = R.concat([y, x], axis=0)
            return R.split(z, 2, axis=0)

        @R.function
        def shaped(x: R.Tensor(ndim=2, dtype="float32"), s: R.Shape(ndim=1)):
            return R.reshape(R.max(x, axis=1, keepdims=True), s), R.shape_to_tensor(s)

    vm = relax.VirtualMachine(relax.build(Unknown, "c"), tvm.cpu())
    x = np.random.default_rng(0).random((3, 4), np.float32)
    y, same = (v.numpy() for v in vm["main"](tvm.nd.array(x)))
    np.testing.assert_allclose(y, np.exp(x) / np.exp(x).sum(-1, keepdims=True), rtol=1e-6)
    np.testing.assert_array_equal(same, x)
    most, sizes = vm["shaped"](tvm.nd.array(x), tvm.runtime.ShapeTuple([3]))
    np.testing.assert_array_equal(most.numpy(), x.max(1))
    np.testing.assert_array_equal(sizes.numpy(), [3])


def test_what_minus_one_stands_for_must_be_known():
    x = relax.Var("x", relax.TensorStructInfo(None, "float32", -1))
    with pytest.raises(ValueError, match="what -1 stands for cannot be told"):
        relax.op.reshape(x, (-1,))


def test_prints_and_assertions_show_values(capsys):
    @R.function(pure=False)
    def show(x: R.Tensor((), "int32"), y: R.Tensor((2,), "int32")):
        _ = R.print(x, (x, y), format="{} of {}")
        _ = R.print((x, (x, x)))
        _ = R.assert_op(R.const(False), [x, y])
        return x

    vm = relax.VirtualMachine(relax.build(tvm.IRModule({"main": show}), "c"), tvm.cpu())
    with pytest.raises(AssertionError, match=r"^5, \[1 2\]$"):
        vm["main"](tvm.nd.array(np.array(5, "int32")), tvm.nd.array(np.array([1, 2], "int32")))
    assert capsys.readouterr().out == "5 of (5, [1 2])\n(5, (5, 5))\n"


def test_branches_that_give_different_numbers():
    @R.function
    def main(x: R.Tensor(("n",), "int64")):
        n = T.int64()
        if R.prim_value(n % 2 == 0):
            y = R.prim_value(5)
        else:
            y = R.prim_value(10)
        return y

    assert main.ret_struct_info == relax.PrimStructInfo("int64")
    vm = relax.VirtualMachine(relax.build(tvm.IRModule({"main": main}), "c"), tvm.cpu())
    assert [vm["main"](tvm.nd.array(np.arange(n))) for n in (4, 5)] == [5, 10]


def test_tensors_stay_on_the_device_of_what_is_built():
    @I.ir_module
    class Moved:
        I.module_global_infos({"vdevice": [I.vdevice("llvm")]})

        @R.function
        def main(x: R.Tensor((3,), "float32")):
            y = R.to_vdevice(x, "llvm:0")
            return R.add(y, y)

    vm = relax.VirtualMachine(relax.build(Moved, "c"), tvm.cpu())
    np.testing.assert_array_equal(vm["main"](tvm.nd.array(np.ones(3, np.float32))).numpy(), 2)
