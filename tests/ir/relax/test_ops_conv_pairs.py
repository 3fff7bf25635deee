"""nn.conv2d_pairs and nn.conv2d_winograd_pairs: kernels as columns, and results against the plain convolution."""
import numpy as np
import pytest
from ops_nn_check import array, call_of, check, evaluate

from ingot.ir.expr import Var
from ingot.ir.op import InferError
from ingot.ir.relax.ops.conv_layouts import pack_weights
from ingot.ir.relax.ops.conv_pairs import pack_kernel
from ingot.ir.relax.ops.layout import pack_channels
from ingot.ir.relax.ops.matmul_pairs import unpack_columns
from ingot.ir.relax.ops.winograd import transform_weights
from ingot.ir.relax.ops.winograd_planes import bounds
from ingot.ir.relax.ops.winograd_pairs import pack_planes


@pytest.mark.parametrize("channels, outputs, inner", [(64, 32, 16), (20, 9, 16), (24, 40, 8)])
def test_kernels_are_columns(channels, outputs, inner):
    """Filled up to blocks of channels."""
    w = array((outputs, channels, 1, 1))
    columns, scales, _ = pack_kernel(pack_weights(w, 16, 1, inner))
    matrix = unpack_columns(columns, scales, -(-channels // 16) * 16)
    np.testing.assert_array_equal(matrix[:channels, :outputs], w[:, :, 0, 0].T)
    assert not matrix[channels:].any() and not matrix[:, outputs:].any()


@pytest.mark.parametrize("shape, outputs, strides", [
    ((2, 64, 3, 5), 32, (1, 1)), ((1, 20, 5, 4), 9, (2, 2)), ((1, 70, 1, 3), 40, (1, 2))])
def test_results_are_those_of_the_convolution(shape, outputs, strides):
    x, w = array(shape), array((outputs, shape[1], 1, 1), 1)
    _, result = check("nn.conv2d_pairs", [pack_channels(x, 16), *pack_kernel(pack_weights(w, 16, 1, 16))], 1e-5,
                      strides=strides)
    exact = evaluate("nn.conv2d", [x.astype(np.float64), w.astype(np.float64)], strides=strides)
    found = result.transpose(0, 1, 4, 2, 3).reshape(shape[0], -1, *exact.shape[2:])
    assert np.abs(found[:, :outputs] - exact).max() <= 1e-6 * np.abs(exact).max()
    assert not found[:, outputs:].any()


X, C, S = (1, 3, 6, 5, 16), (4, 16, 3, 16), (64,)


@pytest.mark.parametrize("shapes, attrs, message", [
    (((1, 3, 6, 5, 8), C, S, S), {}, r"image \(1, 3, 6, 5, 8\) must be static but for its batch, in blocks of 16"),
    (((1, 3, Var("h", "int64"), 5, 16), C, S, S), {}, "must be static but for its batch"),
    (((1, 4, 6, 5, 16), C, S, S), {}, r"columns .* must be \(4, 22, 3, 16\) for 64 scales and 64 terms"),
    ((X, (3, 16, 3, 16), (40,), (40,)), {}, r"scales \(40,\) must be of whole blocks of 16 channels"),
    ((X, C, S, S), {"strides": (2, 0)}, r"strides \(2, 0\) must be 2 integers of at least 1"),
    ((X, C, S, S), {"strides": (2,)}, r"strides \(2,\) must be 2 integers"),
])
def test_what_does_not_fit_is_refused(shapes, attrs, message):
    with pytest.raises(InferError, match="nn.conv2d_pairs: .*" + message):
        call_of("nn.conv2d_pairs", shapes, attrs)


@pytest.mark.parametrize("name, attrs, shapes", [
    ("nn.conv2d_pairs", {}, (X, C, S, S)),
    ("nn.conv2d_winograd_pairs", {"tile": 2, "out_channels": 64, "data_layout": "NCHW16c"},
     (X, (4, 16, 16, 3, 16), (16, 64), (16, 64)))])
@pytest.mark.parametrize("operand, what", [
    (0, "image"), (1, "columns"), (2, "scales"), (3, "offsets")])
def test_other_dtypes_are_refused(name, attrs, shapes, operand, what):
    with pytest.raises(InferError, match=f"{what} .* must be float32, not float64"):
        call_of(name, shapes, attrs, ["float64" if k == operand else "float32" for k in range(4)])


# ---------------------------------------------------------------- Winograd

@pytest.mark.parametrize("channels, outputs, tile, kernel", [(64, 32, 2, 3), (20, 40, 4, 3), (33, 16, 2, 5)])
def test_kernels_are_planes_of_columns(channels, outputs, tile, kernel):
    """Over the bounds of their planes' columns."""
    u = transform_weights(array((outputs, channels, kernel, kernel)), tile, 16)
    columns, scales, offsets = pack_planes(u, tile, kernel)
    out_blocks, planes, in_blocks = u.shape[:3]
    assert columns.shape == (out_blocks, planes, -(-in_blocks * 16 // 3), 3, 16)
    assert scales.shape == offsets.shape == (planes, out_blocks * 16) and scales.dtype == np.float32
    limits = np.tile(bounds(tile, kernel), tile + kernel - 1)
    for plane, limit in enumerate(limits):
        found = unpack_columns(columns[:, plane], scales[plane], in_blocks * 16) / limit
        expected = u[:, plane].transpose(1, 2, 0, 3).reshape(in_blocks * 16, -1)
        np.testing.assert_allclose(found, expected, rtol=1e-6)


W = (4, 16, 16, 3, 16)


@pytest.mark.parametrize("shapes, attrs, message", [
    (((1, 3, 6, 5, 8), W, (16, 64), (16, 64)), {}, r"image \(1, 3, 6, 5, 8\) must be static but for its batch"),
    (((1, 3, Var("h", "int64"), 5, 16), W, (16, 64), (16, 64)), {}, "must be static but for its batch"),
    ((X, (3, 16, 16, 3, 16), (16, 64), (16, 64)), {}, r"columns \(3, .* must be \(4, 16, 16, 3, 16\) for tile=2"),
    ((X, W, (16, 48), (16, 64)), {}, r"scales \(16, 48\) must be \(16, 64\) for tile=2, out_channels=50 and image"),
    ((X, W, (16, 64), (15, 64)), {}, r"offsets \(15, 64\) must be \(16, 64\) for tile=2"),
    ((X, W, (16, 64), (16, 64)), {"tile": 7}, "tile=7 must be one of 2, 3, 4, 5, 6"),
    ((X, W, (16, 64), (16, 64)), {"stride": 2}, r"columns .* must be \(4, 16, 64, 3, 16\)"),
    ((X, W, (16, 64), (16, 64)), {"data_layout": "NCHW8c"}, "data_layout 'NCHW8c' does not fit input"),
])
def test_what_does_not_fit_winograd_is_refused(shapes, attrs, message):
    attrs = {"tile": 2, "out_channels": 50, "data_layout": "NCHW16c", **attrs}
    with pytest.raises(InferError, match="nn.conv2d_winograd_pairs: .*" + message):
        call_of("nn.conv2d_winograd_pairs", shapes, attrs)
