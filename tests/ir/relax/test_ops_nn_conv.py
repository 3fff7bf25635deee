"""Convolutions and matrix products: the lowering, interpreted, against the numpy reference."""
import numpy as np
import pytest
from interp import run
from ops_nn_check import array, arrays, block_names, call_of, check, evaluate, lower

from ingot.ir.expr import FloorDiv, Var
from ingot.ir.node import collect
from ingot.ir.relax.ops.conv_layouts import pack_weights, unpack_weights

CONVS = {
    "plain": ((2, 3, 5, 7), (4, 3, 3, 3), {}),
    "pointwise": ((1, 5, 3, 3), (2, 5, 1, 1), {}),
    "strided, odd kernel": ((1, 2, 9, 8), (3, 2, 3, 2), dict(strides=(2, 3))),
    "dilated": ((1, 2, 9, 8), (3, 2, 3, 2), dict(dilation=(2, 3))),
    "asymmetric padding": ((1, 2, 5, 4), (3, 2, 3, 3), dict(padding=(1, 0, 2, 3), strides=(2, 1))),
    "padding at one end": ((1, 1, 5, 4), (1, 1, 3, 3), dict(padding=(0, 0, 0, 1))),
    "groups": ((1, 6, 5, 5), (4, 3, 3, 3), dict(groups=2, padding=(1, 1, 1, 1))),
    "depthwise": ((2, 5, 5, 6), (5, 1, 3, 3), dict(groups=5, padding=(1, 1, 1, 1), strides=(2, 2))),
    "depthwise, multiplier 2": ((1, 3, 5, 6), (6, 1, 3, 3), dict(groups=3)),
}


@pytest.mark.parametrize("x, w, attrs", CONVS.values(), ids=CONVS)
def test_conv2d(x, w, attrs):
    func, _ = check("nn.conv2d", arrays(x, w), **attrs)
    assert block_names(func) == (["pad_temp", "conv2d"] if "padding" in attrs else ["conv2d"])


def test_conv2d_depthwise_divides_no_index():
    func = lower(call_of("nn.conv2d", [(1, 5, 6, 6), (5, 1, 3, 3)], dict(groups=5)))
    assert not collect(func, FloorDiv)


def _pack(w, lanes):
    blocks = -(-w.shape[0] // lanes)
    full = np.zeros((blocks * lanes, *w.shape[1:]), w.dtype)
    full[:w.shape[0]] = w
    return np.ascontiguousarray(np.moveaxis(full.reshape(blocks, lanes, *w.shape[1:]), 1, -1))


@pytest.mark.parametrize("channels, lanes", [(8, 4), (5, 4), (3, 8)])
@pytest.mark.parametrize("padding", [(0, 0, 0, 0), (1, 2, 0, 1)])
def test_conv2d_packed(channels, lanes, padding):
    x, w = arrays((2, 3, 6, 5), (channels, 3, 3, 2))
    attrs = dict(strides=(2, 1), dilation=(1, 2), padding=padding)
    func, result = check("nn.conv2d", [x, _pack(w, lanes)], kernel_layout=f"OIHW{lanes}o", out_channels=channels,
                         **attrs)
    assert block_names(func) == ["pad_temp"] * any(padding) + ["conv2d_packed", "conv2d"]
    np.testing.assert_allclose(result, evaluate("nn.conv2d", [x, w], **attrs), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("channels, lanes, groups", [(8, 4, 2), (10, 4, 2), (9, 2, 3)])
def test_conv2d_packed_in_groups(channels, lanes, groups):
    x, w = arrays((1, 2 * groups, 5, 5), (channels, 2, 3, 3))
    packed = pack_weights(w, lanes, groups)
    np.testing.assert_array_equal(unpack_weights(packed, channels, groups), w)
    _, result = check("nn.conv2d", [x, packed], kernel_layout=f"OIHW{lanes}o", out_channels=channels, groups=groups)
    np.testing.assert_allclose(result, evaluate("nn.conv2d", [x, w], groups=groups), rtol=1e-5, atol=1e-5)


def test_conv1d_and_conv3d():
    check("nn.conv1d", arrays((2, 4, 9), (6, 2, 3)), strides=(2,), padding=(2, 1), dilation=(2,), groups=2)
    check("nn.conv3d", arrays((1, 2, 4, 5, 3), (3, 2, 2, 3, 1)), strides=(1, 2, 1), padding=(0, 1, 0, 1, 0, 2))


def test_conv2d_of_symbolic_height_keeps_the_variable_under_same_padding():
    n, h = Var("n", "int64"), Var("h", "int64")
    call = call_of("nn.conv2d", [(n, 3, h, 9), (4, 3, 3, 3)], dict(padding=(1, 1, 1, 1)))
    assert call.struct_info.shape[0] is n and call.struct_info.shape[2] is h
    x, w = arrays((2, 3, 6, 9), (4, 3, 3, 3))
    expected = evaluate("nn.conv2d", [x, w], padding=(1, 0, 1, 1), strides=(2, 2))
    func = lower(call_of("nn.conv2d", [(n, 3, h, 9), w.shape], dict(padding=(1, 0, 1, 1), strides=(2, 2))))
    actual = np.zeros_like(expected)
    run(func, x, w, actual)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


def test_float16_accumulates_in_float32():
    x, w = np.full((1, 1, 1, 3000), 1.0, "float16"), np.full((1, 1, 1, 3000), 1.0, "float16")
    func, result = check("nn.conv2d", [x, w], tolerance=1e-3)
    assert result.item() == 3000 and block_names(func) == ["conv2d", "conv2d_cast"]
    check("matmul", [x[0, 0], w[0, 0].T.copy()], tolerance=1e-3)


def test_conv2d_of_integers():
    check("nn.conv2d", arrays((1, 2, 4, 4), (3, 2, 3, 3), dtype="int32"), padding=(1, 1, 1, 1))


TRANSPOSED = {
    "plain": ((2, 3, 4, 5), (3, 2, 3, 3), {}),
    "strided": ((1, 3, 4, 3), (3, 2, 3, 2), dict(strides=(2, 3))),
    "padding": ((1, 2, 4, 5), (2, 2, 3, 3), dict(strides=(2, 2), padding=(1, 0, 1, 2), output_padding=(1, 1))),
    "padding beyond the kernel": ((1, 2, 4, 5), (2, 2, 1, 2), dict(strides=(2, 2), padding=(1, 1, 2, 2))),
    "dilated": ((1, 2, 3, 4), (2, 2, 3, 2), dict(dilation=(2, 3), strides=(1, 2))),
    "groups": ((1, 4, 3, 3), (4, 3, 2, 2), dict(groups=2, strides=(2, 2))),
    "depthwise": ((1, 3, 3, 3), (3, 1, 2, 2), dict(groups=3, strides=(2, 2))),
}


@pytest.mark.parametrize("x, w, attrs", TRANSPOSED.values(), ids=TRANSPOSED)
def test_conv2d_transpose(x, w, attrs):
    func, _ = check("nn.conv2d_transpose", arrays(x, w), **attrs)
    assert block_names(func) == ["pad_temp", "conv2d_transpose"]


MATMULS = {
    "2-D": ((3, 4), (4, 5)), "1-D left": ((4,), (4, 5)), "1-D right": ((3, 4), (4,)), "1-D both": ((4,), (4,)),
    "batch": ((2, 3, 4), (2, 4, 5)), "broadcast left": ((3, 4), (2, 4, 5)), "broadcast right": ((2, 3, 4), (4, 5)),
    "broadcast ones": ((2, 1, 3, 4), (1, 5, 4, 2)), "1-D against batch": ((4,), (2, 4, 5)),
    "batch against 1-D": ((2, 3, 4), (4,)), "5-D": ((1, 2, 1, 3, 4), (2, 4, 2)),
}


@pytest.mark.parametrize("a, b", MATMULS.values(), ids=MATMULS)
def test_matmul(a, b):
    axes = None
    if len(a) == 1:  # dimension 0 is then K: make it a variable in both
        axes = [0, max(len(b) - 2, 0)]
    elif len(b) == len(a) > 2 and b[0] == a[0]:
        axes = [0, 0]
    elif a[0] == 1:
        axes = [None, 0]
    func, result = check("matmul", arrays(a, b), batch_axes=axes)
    assert block_names(func) == ["matmul"]
    np.testing.assert_allclose(result, np.matmul(*arrays(a, b)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("a, size, lanes", [((3, 6), 8, 4), ((3, 6), 7, 4), ((2, 3, 6), 3, 8), ((6,), 5, 4)])
def test_matmul_packed(a, size, lanes):
    a, b = arrays(a, (6, size))
    packed = _pack(b.T, lanes)  # [blocks, K, lanes]
    axes = [0, None] if a.ndim > 1 else [None, None]
    func, result = check("matmul", [a, packed], batch_axes=axes, b_layout=f"KN{lanes}n", n_size=size)
    assert block_names(func) == ["matmul_packed", "matmul"]
    np.testing.assert_allclose(result, a @ b, rtol=1e-5, atol=1e-5)


def test_matmul_of_bytes_into_int32():
    a, b = array((3, 4), 0, "uint8"), array((4, 5), 1, "int8")
    _, result = check("matmul", [a, b], out_dtype="int32")
    np.testing.assert_array_equal(result, a.astype("int32") @ b.astype("int32"))


def test_matmul_with_symbolic_batch_rows_and_columns():
    n, t = Var("n", "int64"), Var("t", "int64")
    call = call_of("matmul", [(n, 2, t, 4), (n, 2, 4, t)], {})
    assert call.struct_info.shape[0] is n and call.struct_info.shape[2] is t and call.struct_info.shape[3] is t
    a, b = arrays((3, 2, 5, 4), (3, 2, 4, 5))
    actual = np.zeros((3, 2, 5, 5), "float32")
    run(lower(call), a, b, actual)
    np.testing.assert_allclose(actual, a @ b, rtol=1e-5, atol=1e-5)
