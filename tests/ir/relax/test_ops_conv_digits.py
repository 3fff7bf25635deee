"""nn.conv2d_digits: kernels as columns, and results against the plain convolution."""
import numpy as np
import pytest
from ops_nn_check import array, call_of, check, evaluate
from test_ops_matmul_digits import EXACT

from ingot.ir.expr import Var
from ingot.ir.op import InferError
from ingot.ir.relax.ops.conv_digits import split_kernel
from ingot.ir.relax.ops.conv_layouts import pack_weights
from ingot.ir.relax.ops.layout import pack_channels
from ingot.ir.relax.ops.matmul_digits import join_columns


@pytest.mark.parametrize("channels, outputs, inner", [(64, 32, 16), (20, 9, 16), (24, 40, 8)])
def test_kernels_are_columns(channels, outputs, inner):
    """Filled up to blocks of output channels and to steps of 64 terms."""
    w = array((outputs, channels, 1, 1))
    digits, scales = split_kernel(pack_weights(w, 16, 1, inner))
    columns = join_columns(digits, scales)
    assert columns.shape == (-(-channels // 64) * 64, -(-outputs // 16) * 16)
    np.testing.assert_allclose(columns[:channels, :outputs], w[:, :, 0, 0].T, atol=1e-6)
    assert not columns[channels:].any() and not columns[:, outputs:].any()


@pytest.mark.parametrize("shape, outputs, strides", [
    ((2, 64, 3, 5), 32, (1, 1)), ((1, 20, 5, 4), 9, (2, 2)), ((1, 70, 1, 3), 40, (1, 2))])
def test_results_are_those_of_the_convolution(shape, outputs, strides):
    x, w = array(shape), array((outputs, shape[1], 1, 1), 1)
    _, result = check("nn.conv2d_digits", [pack_channels(x, 16), *split_kernel(pack_weights(w, 16, 1, 16))], 1e-5,
                      strides=strides)
    exact = evaluate("nn.conv2d", [x.astype(np.float64), w.astype(np.float64)], strides=strides)
    found = result.transpose(0, 1, 4, 2, 3).reshape(shape[0], -1, *exact.shape[2:])
    assert np.abs(found[:, :outputs] - exact).max() <= EXACT * np.abs(exact).max()
    assert not found[:, outputs:].any()


X, D, S = (1, 4, 6, 5, 16), (2, 1, 3, 2, 16, 16, 4), (64,)


@pytest.mark.parametrize("shapes, attrs, message", [
    (((1, 4, 6, 5, 8), D, S), {}, r"image \(1, 4, 6, 5, 8\) must be static but for its batch, in blocks of 16"),
    (((1, 4, Var("h", "int64"), 5, 16), D, S), {}, "must be static but for its batch"),
    (((1, 5, 6, 5, 16), D, S), {}, r"has 80 channels, digits .* are of 64 terms: must be the same, rounded up to 64"),
    ((X, (2, 1, 2, 2, 16, 16, 4), S), {}, r"digits .* must be \(2, 1, 3, 2, 16, 16, 4\)"),
    ((X, D, (40,)), {}, r"scales \(40,\) must be of whole blocks of 16 channels"),
    ((X, D, S), {"strides": (2, 0)}, r"strides \(2, 0\) must be 2 integers of at least 1"),
    ((X, D, S), {"strides": (2,)}, r"strides \(2,\) must be 2 integers"),
])
def test_what_does_not_fit_is_refused(shapes, attrs, message):
    with pytest.raises(InferError, match=message):
        call_of("nn.conv2d_digits", shapes, attrs, ["float32", "int8", "float32"])


@pytest.mark.parametrize("dtypes, message", [
    (["float64", "int8", "float32"], r"image \(1, 4, 6, 5, 16\) must be float32, not float64"),
    (["float32", "uint8", "float32"], "digits .* must be int8, not uint8"),
    (["float32", "int8", "float16"], r"scales \(64,\) must be float32, not float16")])
def test_dtypes_that_are_refused(dtypes, message):
    with pytest.raises(InferError, match=message):
        call_of("nn.conv2d_digits", (X, D, S), {}, dtypes)
