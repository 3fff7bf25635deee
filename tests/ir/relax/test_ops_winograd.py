"""nn.conv2d_winograd: its matrices, transformed weights, and results against the plain convolution."""
import numpy as np
import pytest
from ops_nn_check import array, call_of, check, evaluate

from ingot.ir.expr import Var
from ingot.ir.op import InferError
from ingot.ir.relax.ops.winograd import KERNELS, TILES, matrices, tiles_of, transform_weights

LANES = 2


def blocked(x, lanes):
    """[N, C, H, W] -> [N, ceil(C / lanes), H, W, lanes]."""
    n, channels, height, width = x.shape
    count = -(-channels // lanes)
    full = np.zeros((n, count * lanes, height, width), x.dtype)
    full[:, :channels] = x
    return np.ascontiguousarray(full.reshape(n, count, lanes, height, width).transpose(0, 1, 3, 4, 2))


@pytest.mark.parametrize("tile, size", [(tile, size) for size in KERNELS for tile in tiles_of(size)])
def test_matrices_make_a_correlation_of_products(tile, size):
    a_t, g, b_t = (np.array(m, np.float64) for m in matrices(tile, size))
    data, kernel = array((tile + size - 1,), 0, "float64"), array((size,), 1, "float64")
    np.testing.assert_allclose(a_t @ ((g @ kernel) * (b_t @ data)), np.correlate(data, kernel, "valid"), rtol=1e-12)


def test_the_known_matrices():
    """Tiles of 2 have the matrices of Lavin and Gray, up to the signs of rows; tiles of 4 the points 0, 3/4, -3/4, 3/2,
    -3/2."""
    assert np.array_equal(np.abs(np.array(matrices(2)[2], int)), np.abs([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0],
                                                                         [0, 1, 0, -1]]))
    assert [abs(float(c)) for c in matrices(4)[2][0]] == [81 / 64, 0, 45 / 16, 0, 1, 0]
    points = np.array([0, 0.75, -0.75, 1.5, -1.5])
    assert [[float(c) for c in row] for row in matrices(4)[0]] == [
        [*points ** n, float(n == 3)] for n in range(4)]


@pytest.mark.parametrize("tile, size, padding", [
    (2, (5, 4), (1, 1, 1, 1)), (2, (4, 7), (0, 0, 0, 0)), (4, (4, 8), (1, 1, 1, 1)), (4, (9, 3), (1, 0, 2, 1)),
    (6, (7, 6), (1, 1, 1, 1)), (6, (3, 3), (0, 0, 0, 0)), (3, (7, 4), (1, 1, 1, 1)), (5, (6, 9), (0, 2, 1, 0))])
def test_results_are_those_of_the_convolution(tile, size, padding):
    x, w = array((2, 3, *size)), array((5, 3, 3, 3), 1)
    attrs = dict(tile=tile, padding=padding, out_channels=5, data_layout=f"NCHW{LANES}c")
    _, result = check("nn.conv2d_winograd", [blocked(x, LANES), transform_weights(w, tile, LANES)], 2e-4, **attrs)
    expected = evaluate("nn.conv2d", [x, w], padding=padding)
    np.testing.assert_allclose(result, blocked(expected, LANES), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("tile, kernel, size, padding", [
    (3, 4, (5, 4), (2, 1, 3, 2)), (5, 4, (9, 6), (0, 0, 0, 0)), (2, 5, (6, 3), (2, 4, 1, 2)),
    (4, 5, (5, 9), (0, 0, 2, 1))])
@pytest.mark.parametrize("channels", [3, 7])
def test_other_kernels_and_blocks_in_part(tile, kernel, size, padding, channels):
    """Weights for fewer channels than the input's block has: what lies in the others is not looked at."""
    x, w = array((2, channels, *size)), array((5, channels, kernel, kernel), 1)
    lanes = 4
    data = blocked(x, lanes)
    u = transform_weights(w, tile, lanes)
    if channels < lanes:
        u, data[..., channels:] = u[:, :, :, :channels].copy(), 1000
    attrs = dict(tile=tile, kernel=kernel, padding=padding, out_channels=5, data_layout=f"NCHW{lanes}c")
    _, result = check("nn.conv2d_winograd", [data, u], 2e-3, **attrs)
    expected = evaluate("nn.conv2d", [x, w], padding=padding)
    np.testing.assert_allclose(result, blocked(expected, lanes), rtol=1e-4, atol=5e-4)


@pytest.mark.parametrize("groups, channels, outputs", [(2, 8, 4), (3, 6, 12)])
def test_groups(groups, channels, outputs):
    """Groups have one block or several of input and of output channels."""
    x, w = array((2, channels, 5, 6)), array((outputs, channels // groups, 3, 3), 1)
    attrs = dict(tile=4, padding=(1, 0, 1, 2), groups=groups, out_channels=outputs, data_layout=f"NCHW{LANES}c")
    _, result = check("nn.conv2d_winograd", [blocked(x, LANES), transform_weights(w, 4, LANES)], 2e-4, **attrs)
    expected = evaluate("nn.conv2d", [x, w], padding=(1, 0, 1, 2), groups=groups)
    np.testing.assert_allclose(result, blocked(expected, LANES), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("stride, tile, size, padding, groups", [
    (2, 2, (7, 6), (1, 0, 1, 2), 1), (2, 4, (8, 9), (0, 0, 0, 0), 2), (3, 2, (10, 11), (1, 2, 0, 1), 1)])
def test_strides(stride, tile, size, padding, groups):
    """A convolution over the phases of the input, each of whole blocks: those of a block lie one after the other."""
    x = array((2, 2 * LANES, *size))
    phases = np.zeros((2, 2 * stride ** 2, LANES, *(-(-s // stride) for s in size)), np.float32)
    for k, (block, i, j) in enumerate(np.ndindex(2, stride, stride)):
        part = x[:, block * LANES:(block + 1) * LANES, i::stride, j::stride]
        phases[:, k, :, :part.shape[2], :part.shape[3]] = part
    phases = phases.reshape(2, -1, *phases.shape[3:])
    w = array((4, phases.shape[1] // groups, 3, 3), 1)
    attrs = dict(tile=tile, stride=stride, padding=padding, groups=groups, out_channels=4, data_layout=f"NCHW{LANES}c")
    _, result = check("nn.conv2d_winograd", [blocked(x, LANES), transform_weights(w, tile, LANES)], 5e-4, **attrs)
    expected = evaluate("nn.conv2d", [phases, w], padding=padding, groups=groups)
    np.testing.assert_allclose(result, blocked(expected, LANES), rtol=1e-4, atol=2e-4)


@pytest.mark.parametrize("tile", TILES)
def test_transformed_weights_are_rounded_once(tile):
    w = array((3, 4, 3, 3))
    exact = transform_weights(w.astype(np.float64), tile, LANES)
    mine = transform_weights(w, tile, LANES)
    assert mine.dtype == np.float32 and mine.shape == (2, (tile + 2) ** 2, 2, LANES, LANES)
    assert np.array_equal(mine, exact.astype(np.float32))
    assert not mine[1, :, :, :, 1].any(), "channels that are not there"


U = (2, 36, 3, 4, 4)


@pytest.mark.parametrize("shapes, attrs, message", [
    (((1, 3, 8, 8, 4), U), {"tile": 7}, "tile=7 must be one of 2, 3, 4, 5, 6"),
    (((1, 3, 8, 8, 4), U), {"kernel": 4, "tile": 6}, "tile=6 must be one of 2, 3, 4, 5"),
    (((1, 3, 8, 8, 4), U), {"kernel": 6}, "kernel=6 must be one of 3, 4, 5"),
    (((1, 3, 8, 8, 4), (2, 36, 3, 5, 4)), {}, r"weight \(2, 36, 3, 5, 4\) must be \(2, 36, 3, 4, 4\) for tile=4"),
    (((1, 3, 8, 8, 4), U), {"data_layout": "NCHW8c"}, r"data_layout 'NCHW8c' does not fit input \(1, 3, 8, 8, 4\)"),
    (((1, 3, 8, 8, 4), U), {"padding": (3, 1, 1, 1)}, "padding .* must be 4 integers .* of 0 to 2"),
    (((1, 3, 8, 8, 4), U), {"out_channels": 0}, "out_channels=0 must be at least 1"),
    (((1, 3, 8, 8, 4), U), {"out_channels": 9}, r"weight \(2, 36, 3, 4, 4\) must be \(3, 36, 3, 4, 4\) for tile=4"),
    (((1, 3, 8, 8, 4), U), {"tile": 2}, r"must be \(2, 16, 3, 4, 4\) for tile=2"),
    (((1, 4, 8, 8, 4), U), {"groups": 2}, r"groups=2 must be of whole blocks of 4 channels, .* out_channels=7"),
    (((1, 3, 8, 8, 4), U), {"groups": 2, "out_channels": 8}, "groups=2 must be of whole blocks of 4 channels"),
    (((1, 4, 8, 8, 4), U), {"groups": 2, "out_channels": 8}, r"must be \(2, 36, 2, 4, 4\) for tile=4"),
    (((1, 3, 8, 8, 4), U), {"groups": 0}, "groups=0 must be at least 1"),
    (((1, 3, 8, 8, 4), U), {"stride": 0}, "stride=0 must be at least 1"),
    (((1, 3, 8, 8, 4), U), {"stride": 2}, r"must be \(2, 36, 12, 4, 4\) for tile=4"),
    (((1, 3, 4, 8, 4), (2, 36, 12, 4, 4)), {"stride": 2}, "the 3x3 window does not fit input"),
    (((1, 3, 8, 4), U), {}, "argument 0 must have 5 dimensions"),
    (((1, 3, 8, Var("w", "int64"), 4), U), {}, "static height and width .*: pin w .* or keep nn.conv2d"),
    (((1, 3, 2, 8, 4), U), {}, "the 3x3 window does not fit input"),
])
def test_errors(shapes, attrs, message):
    attrs = {"tile": 4, "out_channels": 7, "data_layout": "NCHW4c", **attrs}
    with pytest.raises(InferError, match="nn.conv2d_winograd: .*" + message):
        call_of("nn.conv2d_winograd", shapes, attrs)


def test_only_floats():
    with pytest.raises(InferError, match="takes a floating-point tensor"):
        call_of("nn.conv2d_winograd", [(1, 3, 8, 8, 4), U], dict(tile=4, out_channels=7, data_layout="NCHW4c"), "int32")


# ---------------------------------------------------------------- accuracy

# The contract: errors of no more than this share of the output's largest magnitude, against float64.
CONTRACT = 1e-4


def adversarial(kind, channels, size, rng, kernel=3):
    """Data and weights whose transforms cancel: large means, alternating signs, few large values."""
    x, w = rng.standard_normal((1, channels, size, size)), rng.standard_normal((16, channels, kernel, kernel))
    if kind == "mean":
        x, w = x + 100, np.abs(w)
    elif kind == "signs":
        signs = (-1.0) ** np.add.outer(np.arange(size), np.arange(size))
        x, w = np.abs(x) * signs, np.abs(w) * signs[:kernel, :kernel]
    elif kind == "outliers":
        x[rng.random(x.shape) < 0.01] *= 1000
    return x.astype(np.float32), w.astype(np.float32)


@pytest.mark.parametrize("kind", ["normal", "mean", "signs", "outliers"])
@pytest.mark.parametrize("tile, kernel", [(tile, kernel) for kernel in KERNELS for tile in tiles_of(kernel)])
def test_accuracy_contract(tile, kernel, kind):
    """On data as it comes, and on data made to be hard."""
    for channels in (4, 64, 512):
        x, w = adversarial(kind, channels, 20, np.random.default_rng(channels), kernel)
        attrs = dict(tile=tile, kernel=kernel, padding=(1, 1, 1, 1), out_channels=16, data_layout="NCHW16c")
        mine = evaluate("nn.conv2d_winograd", [blocked(x, 16), transform_weights(w, tile, 16)], **attrs)
        exact = evaluate("nn.conv2d", [x.astype(np.float64), w.astype(np.float64)], padding=(1, 1, 1, 1))
        error = np.abs(mine - blocked(exact, 16)).max() / np.abs(exact).max()
        assert error <= CONTRACT, (channels, error)
