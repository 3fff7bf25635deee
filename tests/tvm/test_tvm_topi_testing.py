"""tvm.topi.testing: numpy's side of comparisons."""
import numpy as np
import pytest

import ingot as tvm
import ingot.topi.testing
from ingot import relax
from ingot.script import ir as I
from ingot.script import relax as R

reference = tvm.topi.testing
X = np.random.default_rng(0).random((4, 5, 6), np.float32)


@I.ir_module
class Sliced:
    @R.function
    def main(x: R.Tensor((4, "n", 6), "float32"), begin: R.Tensor((3,), "int64"), end: R.Tensor((3,), "int64"),
             strides: R.Tensor((3,), "int64")):
        return R.dynamic_strided_slice(x, begin, end, strides)


@pytest.mark.parametrize("begin, end, strides", [
    ([0, 1, 2], [4, 4, 6], [1, 2, 3]), ([0, 1, 5], [9, 9, 1], [1, 1, -2]), ([2, 4, 0], [2, 1, 6], [1, 1, 1])])
def test_slices_that_a_run_decides(begin, end, strides):
    vm = relax.VirtualMachine(tvm.compile(Sliced, "c"), tvm.cpu())
    found = vm["main"](tvm.nd.array(X), *(tvm.nd.array(np.array(v, "int64")) for v in (begin, end, strides)))
    np.testing.assert_array_equal(found.numpy(), reference.strided_slice_python(X, begin, end, strides))


def test_slices():
    np.testing.assert_array_equal(reference.strided_slice_python(X, [1], [3], None, axes=[2]), X[:, :, 1:3])
    np.testing.assert_array_equal(reference.strided_slice_python(X, [1, 2], [2, -1], None, "size"), X[1:3, 2:])
    assert (reference.strided_set_python(X, 7, [1], [3], [1])[1:3] == 7).all() and X.max() < 1


def test_the_others():
    i = np.array([[[0, 3, 1, 2, 0, 1]]])
    np.testing.assert_array_equal(reference.gather_python(X, 0, i), np.take_along_axis(X, i, 0)[:1, :1])
    np.testing.assert_array_equal(reference.gather_nd_python(X, np.array([[1, 2], [3, 0]])), X[[1, 2], [3, 0]])
    np.testing.assert_array_equal(reference.one_hot(np.array([2, 0]), 5, 1, 3, 0, "int32"), [[1, 5], [1, 1], [5, 1]])
    np.testing.assert_allclose(np.exp(reference.log_softmax_python(X, 2)), reference.softmax_python(X, 2), rtol=1e-6)
    normal = reference.layer_norm_python(X, np.full(6, 2, "float32"), np.ones(6, "float32"), 2)
    np.testing.assert_allclose([normal.mean(), normal.std()], [1, 2], rtol=1e-3)
    np.testing.assert_allclose((reference.rms_norm_python(X, np.ones(6), -1) ** 2).mean(-1), 1, rtol=1e-3)
    np.testing.assert_allclose(reference.batch_matmul(X, X[:1]), np.einsum("bmk,nk->bmn", X, X[0]), rtol=1e-5)
    np.testing.assert_allclose(reference.dense(X[0], X[1], X[0, 0, :5], True, True), X[0] @ X[1].T + X[0, 0, :5], rtol=1e-5)
