"""Blocked activations: layout_transform, and operators in blocked layouts against their plain forms."""
import numpy as np
import pytest
from interp import run
from ops_nn_check import array, arrays, block_names, call_of, check, evaluate, lower

from ingot.ir.expr import FloorDiv, Var
from ingot.ir.node import collect
from ingot.ir.op import InferError
from ingot.ir.relax.ops.conv_layouts import join_groups, pack_weights, unpack_weights
from ingot.ir.relax.ops.layout import pack_channels, unpack_channels

SHAPE = (2, 6, 5, 4)


@pytest.mark.parametrize("channels", [4, 6, 8, 1, 9])
def test_layout_transform_there_and_back(channels):
    x = array((2, channels, 3, 5))
    func, blocked = check("layout_transform", [x], src_layout="NCHW", dst_layout="NCHW4c")
    assert block_names(func) == ["layout_transform"] and blocked.shape == (2, -(-channels // 4), 3, 5, 4)
    for k in range(blocked.shape[1] * 4):
        np.testing.assert_array_equal(blocked[:, k // 4, :, :, k % 4], x[:, k] if k < channels else 0)
    _, again = check("layout_transform", [blocked], src_layout="NCHW4c", dst_layout="NCHW", channels=channels)
    np.testing.assert_array_equal(again, x)


def test_layout_transform_of_symbolic_sizes():
    n, h = Var("n", "int64"), Var("h", "int64")
    call = call_of("layout_transform", [(n, 6, h, 4)], dict(src_layout="NCHW", dst_layout="NCHW4c"))
    assert call.struct_info.shape[0] is n and call.struct_info.shape[2] is h
    actual = np.full((2, 2, 5, 4, 4), 7, "float32")
    run(lower(call), array(SHAPE), actual)
    np.testing.assert_array_equal(actual, pack_channels(array(SHAPE), 4))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_gather_channels(dtype):
    x = array(SHAPE)
    indices = np.array([[5, -1, 0, 0], [2, 1, -3, -1], [4, 3, 2, 1]], dtype)
    _, result = check("gather_channels", [blocked(x), indices], layout="NCHW4c")
    for k, index in enumerate(indices.ravel()):
        np.testing.assert_array_equal(result[:, k // 4, :, :, k % 4], x[:, index] if index >= 0 else 0)


@pytest.mark.parametrize("block, channels, size", [(2, 3, (6, 4)), (2, 1, (5, 7)), (3, 2, (7, 6)), (1, 4, (2, 3))])
def test_space_to_depth(block, channels, size):
    """Also where squares of points go beyond the image: there is zero."""
    x = array((2, channels, *size))
    _, result = check("space_to_depth", [x], block=block, layout="NCHW4c")
    padded = np.pad(x, ((0, 0), (0, 0), *((0, -s % block) for s in size)))
    for k in range(result.shape[1] * 4):
        c, i, j = k // block ** 2, k % block ** 2 // block, k % block
        expected = padded[:, c, i::block, j::block] if c < channels else 0
        np.testing.assert_array_equal(result[:, k // 4, :, :, k % 4], expected)


# ---------------------------------------------------------------- convolutions

WINDOWS = {
    "plain": {}, "strided": dict(strides=(2, 1)), "dilated": dict(dilation=(1, 2)),
    "padded": dict(padding=(1, 0, 2, 1), strides=(2, 2)),
}
CHANNELS = {"whole blocks": (8, 4), "neither": (6, 5), "one block": (3, 2)}


def blocked(x):
    return pack_channels(x, 4)


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
@pytest.mark.parametrize("channels, outputs", CHANNELS.values(), ids=CHANNELS)
def test_dense_convolution(channels, outputs, window):
    x, w = arrays((2, channels, 6, 7), (outputs, channels, 3, 2))
    expected = evaluate("nn.conv2d", [x, w], **window)
    func, result = check("nn.conv2d", [blocked(x), pack_weights(w, 4, inner=4)], data_layout="NCHW4c",
                         kernel_layout="OIHW4i4o", out_channels=outputs, **window)
    assert block_names(func) == ["pad_temp"] * ("padding" in window) + ["conv2d_blocked"]
    np.testing.assert_allclose(result, blocked(expected), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("channels, outputs", CHANNELS.values(), ids=CHANNELS)
def test_dense_convolution_with_input_channels_innermost(channels, outputs):
    x, w = arrays((2, channels, 6, 7), (outputs, channels, 3, 2))
    turned = pack_weights(w, 4, inner=4).swapaxes(-1, -2).copy()
    _, result = check("nn.conv2d", [blocked(x), turned], data_layout="NCHW4c", kernel_layout="OIHW4o4i",
                      out_channels=outputs, **WINDOWS["padded"])
    expected = blocked(evaluate("nn.conv2d", [x, w], **WINDOWS["padded"]))
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("channels, inner", [(6, 2), (3, 1), (2, 2)])
def test_dense_convolution_with_small_blocks_of_input_channels(channels, inner):
    x, w = arrays((1, channels, 6, 7), (5, channels, 3, 2))
    packed = pack_weights(w, 4, inner=inner)
    assert packed.shape[1] * inner == channels
    func, result = check("nn.conv2d", [blocked(x), packed], data_layout="NCHW4c", kernel_layout=f"OIHW{inner}i4o",
                         out_channels=5)
    assert block_names(func) == ["conv2d_blocked"]
    np.testing.assert_allclose(result, blocked(evaluate("nn.conv2d", [x, w])), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
@pytest.mark.parametrize("channels, outputs", [(3, 8), (1, 5)])
def test_first_layer(channels, outputs, window):
    x, w = arrays((2, channels, 6, 7), (outputs, channels, 3, 2))
    expected = evaluate("nn.conv2d", [x, w], **window)
    func, result = check("nn.conv2d", [x, pack_weights(w, 4)], out_layout="NCHW4c", kernel_layout="OIHW4o",
                         out_channels=outputs, **window)
    assert block_names(func) == ["pad_temp"] * ("padding" in window) + ["conv2d_packed"]
    np.testing.assert_allclose(result, blocked(expected), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
@pytest.mark.parametrize("channels", [8, 5])
def test_depthwise_convolution(channels, window):
    x, w = arrays((2, channels, 6, 7), (channels, 1, 3, 2))
    expected = evaluate("nn.conv2d", [x, w], groups=channels, **window)
    func, result = check("nn.conv2d", [blocked(x), pack_weights(w, 4)], data_layout="NCHW4c", kernel_layout="OIHW4o",
                         out_channels=channels, groups=channels, **window)
    assert block_names(func) == ["pad_temp"] * ("padding" in window) + ["depthwise_blocked"]
    assert not collect(func, FloorDiv)
    np.testing.assert_allclose(result, blocked(expected), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size", [1, 2, 5, 8])
def test_local_response(size):
    x = array((2, 12, 3, 2))
    attrs = dict(size=size, alpha=0.5, beta=0.75, bias=1.5)
    func, result = check("nn.lrn", [blocked(x)], layout="NCHW4c", **attrs)
    assert block_names(func) == ["lrn_squares", "lrn_sum", "lrn"]
    np.testing.assert_allclose(result, blocked(evaluate("nn.lrn", [x], **attrs)), rtol=1e-5, atol=1e-5)


def test_convolution_in_groups_of_whole_blocks():
    x, w = arrays((1, 16, 5, 5), (8, 8, 3, 3))
    expected = evaluate("nn.conv2d", [x, w], groups=2)
    _, result = check("nn.conv2d", [blocked(x), pack_weights(w, 4, 2, 4)], data_layout="NCHW4c",
                      kernel_layout="OIHW4i4o", out_channels=8, groups=2)
    np.testing.assert_allclose(result, blocked(expected), rtol=1e-5, atol=1e-5)
    _, result = check("nn.conv2d", [x, pack_weights(w, 4, 2)], out_layout="NCHW4c", kernel_layout="OIHW4o",
                      out_channels=8, groups=2)
    np.testing.assert_allclose(result, blocked(expected), rtol=1e-5, atol=1e-5)


def test_weights_unpack():
    w = array((8, 6, 3, 2))
    np.testing.assert_array_equal(unpack_weights(pack_weights(w, 4, 2, 4), 8, 2, 4)[:, :6], w)


def test_groups_that_are_joined():
    x, w = arrays((1, 12, 5, 5), (8, 3, 2, 2))
    joined = join_groups(w, 4, 2)
    assert joined.shape == (8, 6, 2, 2) and np.count_nonzero(joined) == w.size
    np.testing.assert_allclose(evaluate("nn.conv2d", [x, joined], groups=2), evaluate("nn.conv2d", [x, w], groups=4),
                               rtol=1e-5, atol=1e-5)


def test_float16_convolution_accumulates_in_float32():
    x, w = np.ones((1, 1, 1, 600, 4), "float16"), np.ones((1, 1, 1, 600, 4, 4), "float16")
    func, result = check("nn.conv2d", [x, w], 1e-3, data_layout="NCHW4c", kernel_layout="OIHW4i4o", out_channels=4)
    assert (result == 2400).all() and block_names(func) == ["conv2d_blocked", "conv2d_blocked_cast"]


# ---------------------------------------------------------------- pools, means, resizing

POOLS = [dict(pool_size=(3, 2), strides=(2, 1)), dict(pool_size=(3, 3), strides=(2, 2), padding=(1, 1, 1, 1)),
         dict(pool_size=(2, 2), strides=(2, 2), ceil_mode=True), dict(pool_size=(2, 2), dilation=(2, 1))]


@pytest.mark.parametrize("name, attrs", [
    *((f"nn.{kind}_pool2d", attrs) for kind in ("max", "avg") for attrs in POOLS),
    ("nn.avg_pool2d", dict(pool_size=(3, 3), padding=(1, 1, 1, 1), count_include_pad=True)),
    *((f"nn.adaptive_{kind}_pool2d", dict(output_size=size)) for kind in ("max", "avg") for size in ((2, 3), (1, 1))),
    ("image.resize2d", dict(size=(8, 3), method="linear")),
    ("image.resize2d", dict(size=(10, 8), method="nearest_neighbor")),
])
def test_windows_and_resizing(name, attrs):
    x = array((2, 6, 5, 7))
    _, result = check(name, [blocked(x)], layout="NCHW4c", **attrs)
    np.testing.assert_allclose(unpack_channels(result, 6), evaluate(name, [x], **attrs), rtol=1e-5, atol=1e-5)


# ---------------------------------------------------------------- errors

X, Y = (1, 3, 8, 8), (1, 2, 8, 8, 4)
DENSE = dict(data_layout="NCHW4c", kernel_layout="OIHW4i4o", out_channels=5)
DEPTHWISE = dict(data_layout="NCHW4c", kernel_layout="OIHW4o", out_channels=8, groups=8)


@pytest.mark.parametrize("name, shapes, attrs, message", [
    ("layout_transform", [X], dict(src_layout="NHWC", dst_layout="NCHW4c"),
     r"src_layout 'NHWC' must be NCHW or NCHW\{n\}c, such as NCHW16c"),
    ("layout_transform", [X], dict(src_layout="NCHW", dst_layout="NCHW"),
     r"src_layout 'NCHW' and dst_layout 'NCHW' must be one NCHW and one NCHW\{n\}c"),
    ("layout_transform", [(1, 3, 8)], dict(src_layout="NCHW", dst_layout="NCHW4c"), "must have 4 dimensions"),
    ("layout_transform", [(1, Var("c", "int64"), 8, 8)], dict(src_layout="NCHW", dst_layout="NCHW4c"),
     r"the channels of input \(1, c, 8, 8\) \(dim 1\) must be static; pin c"),
    ("layout_transform", [Y], dict(src_layout="NCHW8c", dst_layout="NCHW"),
     r"argument 0 of shape \(1, 2, 8, 8, 4\) is not blocked by 8: its dim 4 must be 8"),
    ("layout_transform", [Y], dict(src_layout="NCHW4c", dst_layout="NCHW", channels=9),
     r"channels=9 does not fit input \(1, 2, 8, 8, 4\) of layout NCHW4c"),
    ("space_to_depth", [X], dict(block=2, layout="NCHW"), "layout 'NCHW' must be blocked, such as NCHW16c"),
    ("space_to_depth", [X], dict(block=0, layout="NCHW4c"), "block=0 must be at least 1"),
    ("space_to_depth", [(1, 3, Var("h", "int64"), 8)], dict(block=2, layout="NCHW4c"),
     r"input \(1, 3, h, 8\) must have static channels, height and width"),
    ("gather_channels", [X, (1, 4)], dict(layout="NCHW"), "must be blocked; take"),
    ("gather_channels", [Y, (1, 3)], dict(layout="NCHW4c"), "indices .* must be an integer tensor|takes an integer"),
    ("nn.conv2d", [Y, (2, 2, 3, 3, 4, 4)], dict(DENSE, out_layout="NCHW"),
     "data_layout 'NCHW4c' and out_layout 'NCHW' must be equal, or data_layout NCHW"),
    ("nn.conv2d", [X, (5, 3, 3, 3)], dict(out_layout="NCHW4c"),
     "kernel_layout 'OIHW' must be OIHW4o with data_layout 'NCHW' and out_layout 'NCHW4c'"),
    ("nn.conv2d", [Y, (2, 2, 3, 3, 4, 4)], dict(DENSE, kernel_layout="OIHW4i8o"),
     "kernel_layout 'OIHW4i8o' must be OIHW4i4o or OIHW4o with data_layout 'NCHW4c'"),
    ("nn.conv2d", [Y, (2, 2, 3, 3, 4, 8)], dict(DENSE, kernel_layout="OIHW8o4i"), "must be OIHW4o4i or OIHW4o"),
    ("nn.conv2d", [Y, (2, 2, 3, 3, 4, 8)], dict(DENSE, kernel_layout="OIHW4o4i"), r"in a block \(dim 5\)"),
    ("nn.conv2d", [Y, (2, 3, 3, 3, 4, 4)], DENSE,
     r"input \(1, 2, 8, 8, 4\) has 2 blocks of 4 channels \(dim 1\), but weight .* takes 3"),
    ("nn.conv2d", [Y, (2, 2, 3, 3, 3, 4)], dict(DENSE, kernel_layout="OIHW3i4o"),
     "kernel_layout 'OIHW3i4o' must be OIHW4i4o or OIHW4o"),
    ("nn.conv2d", [Y, (2, 2, 3, 3, 8, 4)], DENSE, r"must have 4 input channels in a block \(dim 4\)"),
    ("nn.conv2d", [Y, (3, 2, 3, 3, 4, 4)], DENSE, r"in blocks of 4: dim 0 must be 2 and dim 5 must be 4"),
    ("nn.conv2d", [Y, (4, 1, 3, 3, 4, 4)], dict(DENSE, out_channels=12, groups=2),
     "groups of 6 output channels are no whole blocks of 4: a convolution of such groups has plain layouts"),
    ("nn.conv2d", [Y, (2, 1, 3, 3, 4)], dict(DEPTHWISE, groups=4),
     "is for depthwise convolutions: groups=4 must be out_channels=8"),
    ("nn.max_pool2d", [Y], dict(pool_size=(2, 2), layout="NHWC"), "layout 'NHWC' must be NCHW or"),
    ("nn.lrn", [Y], dict(size=10, layout="NCHW4c"), "size 10 reaches beyond the next block of 4 channels: use a plain"),
    ("nn.lrn", [X], dict(size=3, layout="NCHW4c"), "must have 5 dimensions"),
    ("nn.adaptive_avg_pool2d", [Y], dict(output_size=(2, 2), layout="NCHW"), "must have 4 dimensions"),
])
def test_errors(name, shapes, attrs, message):
    with pytest.raises(InferError, match=message):
        call_of(name, shapes, attrs)
