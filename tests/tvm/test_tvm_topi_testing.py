"""tvm.topi.testing: references in numpy."""
import numpy as np
import pytest

import ingot as tvm
import ingot.topi.testing as ref
from ingot import relax, topi
from ingot.script import ir as I, relax as R

RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def test_products():
    x, y, b = normal(2, 3, 4), normal(2, 5, 4), normal(5)
    np.testing.assert_allclose(ref.batch_matmul(x, y), np.einsum("bmk,bnk->bmn", x, y), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(ref.batch_matmul(x, x, trans_x=True, trans_y=False), np.einsum("bkm,bkn->bmn", x, x),
                               rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(ref.dense(x[0], y[0], b, True, True), np.maximum(x[0] @ y[0].T + b, 0), rtol=1e-5, atol=1e-6)


def test_convolutions():
    x, w = normal(1, 4, 6, 5), normal(2, 2, 3, 1)
    got = ref.conv2d_nchw_python(x, w, 2, (1, 0), groups=2)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (0, 0)))
    for o, i, j in np.ndindex(2, 3, 3):
        want = (padded[0, 2 * o:2 * o + 2, 2 * i:2 * i + 3, 2 * j:2 * j + 1] * w[o]).sum()
        np.testing.assert_allclose(got[0, o, i, j], want, rtol=1e-4, atol=1e-5)
    there = ref.conv2d_nhwc_python(x.transpose(0, 2, 3, 1), w.transpose(2, 3, 1, 0), 2, (1, 0), 2)
    np.testing.assert_allclose(there.transpose(0, 3, 1, 2), got, rtol=1e-6)


def test_rows():
    x, g, b = normal(3, 4), normal(4), normal(4)
    e = np.exp(x)
    np.testing.assert_allclose(ref.softmax_python(x), e / e.sum(1, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(ref.log_softmax_python(x, 0), np.log(e / e.sum(0)), rtol=1e-4, atol=1e-5)
    normed = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(ref.layer_norm_python(x, g, b, 1), normed * g + b, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(ref.layer_norm_python(x, g, None, (1,)), normed * g, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(ref.rms_norm_python(x, g, 1), x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-5) * g,
                               rtol=1e-4)
    y = normal(2, 4, 3)
    parts = y.reshape(2, 2, 6)
    parts = (parts - parts.mean(2, keepdims=True)) / np.sqrt(parts.var(2, keepdims=True) + 1e-5)
    np.testing.assert_allclose(ref.group_norm_python(y, g, b, 2, 1, [2]), parts.reshape(2, 4, 3) * g[:, None] + b[:, None],
                               rtol=1e-4, atol=1e-5)


def test_elements():
    x = np.arange(24).reshape(4, 6)
    assert (ref.strided_slice_python(x, [1], [6], [2], axes=[1]) == x[:, 1:6:2]).all()
    assert (ref.strided_slice_python(x, [1, 2], [2, -1], None, "size") == x[1:3, 2:]).all()
    assert ref.gather_python(x, 1, np.array([[5], [0], [1], [2]])).tolist() == [[5], [6], [13], [20]]
    assert ref.gather_nd_python(x, np.array([[0, 3], [1, 5]])).tolist() == [1, 23]
    assert ref.one_hot(np.array([1, 0]), 7, -1, 3, 0, "int8").tolist() == [[-1, 7], [7, -1], [-1, -1]]
    assert topi.testing is ref
    with pytest.raises(AttributeError):
        topi.testing.nothing


@I.ir_module
class Sliced:
    @R.function
    def main(x: R.Tensor((4, "n", 6), "float32"), begin: R.Tensor((3,), "int64"), end: R.Tensor((3,), "int64"),
             strides: R.Tensor((3,), "int64")):
        return R.dynamic_strided_slice(x, begin, end, strides)


@pytest.mark.parametrize("begin, end, strides", [
    ([0, 1, 2], [4, 4, 6], [1, 2, 3]), ([0, 1, 5], [9, 9, 1], [1, 1, -2]), ([2, 4, 0], [2, 1, 6], [1, 1, 1])])
def test_slices_that_a_run_decides(begin, end, strides):
    x = normal(4, 5, 6)
    vm = relax.VirtualMachine(tvm.compile(Sliced, "c"), tvm.cpu())
    found = vm["main"](tvm.nd.array(x), *(tvm.nd.array(np.array(v, "int64")) for v in (begin, end, strides)))
    np.testing.assert_array_equal(found.numpy(), ref.strided_slice_python(x, begin, end, strides))
    assert (ref.strided_set_python(x, 7, [1], [3], [1])[1:3] == 7).all() and x.max() < 7
