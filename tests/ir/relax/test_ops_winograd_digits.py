"""nn.conv2d_winograd_digits: planes as digits; its results, and those of nn.conv2d_winograd_pairs, against the plain
convolution."""
import numpy as np
import pytest
from ops_nn_check import array, call_of, check, evaluate

from ingot.ir.expr import Var
from ingot.ir.op import InferError
from ingot.ir.relax.ops.layout import pack_channels
from ingot.ir.relax.ops.winograd import KERNELS, matrices, tiles_of, transform_weights
from ingot.ir.relax.ops.winograd_digits import join_planes, split_planes
from ingot.ir.relax.ops.winograd_pairs import pack_planes
from ingot.ir.relax.ops.winograd_planes import bounds


@pytest.mark.parametrize("tile, kernel", [(tile, kernel) for kernel in KERNELS for tile in tiles_of(kernel)])
def test_bounds_are_reached_and_not_passed(tile, kernel):
    b_t = np.array(matrices(tile, kernel)[2], np.float64)
    found = np.array(bounds(tile, kernel))
    np.testing.assert_array_equal((b_t @ np.sign(b_t).T).diagonal(), found)
    assert (np.abs(b_t @ array((len(b_t), 50), 0, "float64").clip(-1, 1)) <= found[:, None]).all()


@pytest.mark.parametrize("channels, outputs, tile, kernel", [(64, 32, 2, 3), (20, 40, 4, 3), (33, 16, 2, 5)])
def test_kernels_are_planes_of_columns(channels, outputs, tile, kernel):
    """Over the bounds of their planes' columns, filled up to steps of 64 terms and panels of 32 columns."""
    u = transform_weights(array((outputs, channels, kernel, kernel)), tile, 16)
    digits, scales = split_planes(u, tile, kernel)
    planes, in_blocks = u.shape[1:3]
    assert digits.shape == (-(-outputs // 32) * planes, -(-channels // 64), 3, 2, 16, 16, 4)
    assert scales.shape == (planes, len(u) * 16) and scales.dtype == np.float32
    limits = np.tile(bounds(tile, kernel), tile + kernel - 1)[:, None, None, None]
    np.testing.assert_allclose(join_planes(digits, scales, in_blocks) / limits, u, atol=2.0 ** -23 * np.abs(u).max())


BOTH = pytest.mark.parametrize("product, pack", [("digits", split_planes), ("pairs", pack_planes)])


@BOTH
@pytest.mark.parametrize("shape, outputs, attrs", [
    ((2, 20, 4, 3), 24, {"tile": 2, "padding": (1, 1, 1, 1)}),
    ((1, 16, 3, 5), 16, {"tile": 4, "padding": (0, 1, 2, 0)}),
    ((1, 16, 4, 4), 40, {"tile": 2, "kernel": 5, "padding": (2, 2, 2, 2)})])
def test_results_are_those_of_the_convolution(product, pack, shape, outputs, attrs):
    kernel = attrs.get("kernel", 3)
    x, w = array(shape), array((outputs, shape[1], kernel, kernel), 1) / 16
    parts = pack(transform_weights(w, attrs["tile"], 16), attrs["tile"], kernel)
    _, result = check(f"nn.conv2d_winograd_{product}", [pack_channels(x, 16), *parts], 1e-4, **attrs,
                      out_channels=outputs, data_layout="NCHW16c")
    exact = evaluate("nn.conv2d", [x.astype(np.float64), w.astype(np.float64)], padding=attrs["padding"])
    found = result.transpose(0, 1, 4, 2, 3).reshape(shape[0], -1, *exact.shape[2:])
    assert np.abs(found[:, :outputs] - exact).max() <= 2e-6 * np.abs(exact).max()
    assert not found[:, outputs:].any()


@BOTH
def test_strides(product, pack):
    """Over the phases of the input, which are blocks of their own."""
    x, w = array((1, 16, 5, 6)), array((16, 64, 3, 3), 1) / 16
    phases = np.pad(x, ((0, 0), (0, 0), (0, 1), (0, 0))).reshape(1, 16, 3, 2, 3, 2).transpose(0, 3, 5, 1, 2, 4)
    parts = pack(transform_weights(w, 2, 16), 2)
    _, result = check(f"nn.conv2d_winograd_{product}", [pack_channels(x, 16), *parts], 1e-4, tile=2, stride=2,
                      padding=(1, 1, 1, 1), out_channels=16, data_layout="NCHW16c")
    exact = evaluate("nn.conv2d", [phases.reshape(1, 64, 3, 3).astype(np.float64), w.astype(np.float64)],
                     padding=(1, 1, 1, 1))
    assert np.abs(result[:, 0].transpose(0, 3, 1, 2) - exact).max() <= 2e-6 * np.abs(exact).max()


X, D, S = (1, 4, 6, 5, 16), (32, 1, 3, 2, 16, 16, 4), (16, 64)
TYPES = ["float32", "int8", "float32"]


@pytest.mark.parametrize("shapes, attrs, message", [
    (((1, 4, 6, 5, 8), D, S), {}, r"image \(1, 4, 6, 5, 8\) must be static but for its batch, in blocks of 16"),
    (((1, 4, Var("h", "int64"), 5, 16), D, S), {}, "must be static but for its batch"),
    ((X, (16, 1, 3, 2, 16, 16, 4), S), {}, r"digits \(16, .* must be \(32, 1, 3, 2, 16, 16, 4\) for tile=2"),
    ((X, D, (16, 48)), {}, r"scales \(16, 48\) must be \(16, 64\) for tile=2, out_channels=50 and image \(1, 4, 6, 5"),
    (((1, 2052, 6, 5, 16), (32, 513, 3, 2, 16, 16, 4), S), {}, "of 32832 terms; sums of more than 32768 may overflow"),
    ((X, D, S), {"tile": 7}, "tile=7 must be one of 2, 3, 4, 5, 6"),
    ((X, D, S), {"kernel": 7}, "kernel=7 must be one of 3, 4, 5"),
    ((X, D, S), {"stride": 2}, r"digits .* must be \(32, 4, 3, 2, 16, 16, 4\)"),
    ((X, D, S), {"padding": (3, 0, 0, 0)}, "padding .* must be 4 integers .* of 0 to 2"),
    ((X, D, S), {"data_layout": "NCHW8c"}, "data_layout 'NCHW8c' does not fit input"),
])
def test_what_does_not_fit_is_refused(shapes, attrs, message):
    attrs = {"tile": 2, "out_channels": 50, "data_layout": "NCHW16c", **attrs}
    with pytest.raises(InferError, match="nn.conv2d_winograd_digits: .*" + message):
        call_of("nn.conv2d_winograd_digits", shapes, attrs, TYPES)


def test_other_dtypes_are_refused():
    with pytest.raises(InferError, match=r"image \(1, 4, 6, 5, 16\) must be float32, not float64"):
        call_of("nn.conv2d_winograd_digits", (X, D, S), {"tile": 2, "out_channels": 50, "data_layout": "NCHW16c"},
                ["float64", "int8", "float32"])
