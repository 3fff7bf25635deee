"""Convolutions of topi.nn in other layouts and their kin, against sums that are written from the definitions."""
import itertools

import numpy as np
import pytest
from topi_check import A, B, C, check, floats, tensors

from ingot.ir import topi
from ingot.ir.op import InferError

F32 = np.float32


def many(value, count):
    return (value,) * count if isinstance(value, int) else tuple(value)


def conv(x, w, stride=1, pads=0, dilation=1, groups=1):
    """x (N, C, spatial), w (O, I, window); pads: (before, after) of each axis, or one number."""
    count = x.ndim - 2
    stride, dilation = many(stride, count), many(dilation, count)
    pads = [(pads, pads)] * count if isinstance(pads, int) else pads
    x = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *pads])
    outs = [(n - (k - 1) * d - 1) // s + 1 for n, k, d, s in zip(x.shape[2:], w.shape[2:], dilation, stride)]
    out = np.zeros((x.shape[0], w.shape[0], *outs))
    mine, theirs = w.shape[0] // groups, w.shape[1]
    for o, tap in itertools.product(range(w.shape[0]), np.ndindex(*w.shape[2:])):
        window = tuple(slice(t * d, t * d + s * (n - 1) + 1, s) for t, d, s, n in zip(tap, dilation, stride, outs))
        channels = slice(o // mine * theirs, (o // mine + 1) * theirs)
        out[:, o] += np.einsum("nc...,c->n...", x[(slice(None), channels, *window)], w[(o, slice(None), *tap)])
    return out.astype(F32)


def transposed(x, w, stride=1, pads=0, extra=0, groups=1):
    """w (C, O / groups, window): each element adds the window, `stride` apart; pads are cut off."""
    count = x.ndim - 2
    stride, extra = many(stride, count), many(extra, count)
    sizes = [(n - 1) * s + k + e for n, s, k, e in zip(x.shape[2:], stride, w.shape[2:], extra)]
    per = x.shape[1] // groups
    out = np.zeros((x.shape[0], w.shape[1] * groups, *sizes))
    for c, tap in itertools.product(range(x.shape[1]), np.ndindex(*w.shape[2:])):
        spots = tuple(slice(t, t + s * (n - 1) + 1, s) for t, s, n in zip(tap, stride, x.shape[2:]))
        own = slice(c // per * w.shape[1], (c // per + 1) * w.shape[1])
        out[(slice(None), own, *spots)] += np.einsum("n...,o->no...", x[:, c], w[(c, slice(None), *tap)])
    cut = tuple(slice(pads, n - pads) for n in sizes)
    return out[(slice(None), slice(None), *cut)].astype(F32)


def moved(x, axes):
    return np.ascontiguousarray(x.transpose(axes))


X1, X2, X3 = floats(2, 4, 9), floats(2, 4, 6, 7), floats(1, 4, 3, 4, 5)
W1, W2, W3 = floats(6, 4, 3, seed=1), floats(6, 4, 3, 2, seed=1), floats(2, 4, 2, 3, 2, seed=1)
G1, G2 = floats(6, 2, 3, seed=2), floats(6, 2, 3, 2, seed=2)
DEPTHWISE = floats(3, 2, 4, 2, seed=3)
T1, T2, T3 = floats(4, 3, 3, seed=4), floats(4, 3, 3, 2, seed=4), floats(4, 2, 2, 3, 2, seed=4)


@pytest.mark.parametrize("name, x, w, args, expected, back", [
    ("conv1d_nwc", moved(X1, (0, 2, 1)), moved(W1, (2, 1, 0)), [2, (1, 0), 1], conv(X1, W1, 2, [(1, 0)]), (0, 2, 1)),
    ("group_conv1d_nwc", moved(X1, (0, 2, 1)), moved(G1, (2, 1, 0)), [1, "SAME", 1, 2],
     conv(X1, G1, 1, 1, groups=2), (0, 2, 1)),
    ("group_conv1d_ncw", X1, G1, [1, 0, 2, 2], conv(X1, G1, 1, 0, 2, 2), (0, 1, 2)),
    ("conv2d_nhwc", moved(X2, (0, 2, 3, 1)), moved(W2, (2, 3, 1, 0)), [(2, 1), (1, 0, 0, 2), 1],
     conv(X2, W2, (2, 1), [(1, 0), (0, 2)]), (0, 2, 3, 1)),
    ("conv2d_hwcn", moved(X2, (2, 3, 1, 0)), moved(W2, (2, 3, 1, 0)), [1, 1, (2, 1)], conv(X2, W2, 1, 1, (2, 1)),
     (2, 3, 1, 0)),
    ("group_conv2d_nhwc", moved(X2, (0, 2, 3, 1)), moved(G2, (2, 3, 1, 0)), [1, "VALID", 1, 2],
     conv(X2, G2, groups=2), (0, 2, 3, 1)),
    ("conv3d_ndhwc", moved(X3, (0, 2, 3, 4, 1)), moved(W3, (2, 3, 4, 1, 0)), [1, (0, 1, 1), 1, 1],
     conv(X3, W3, 1, [(0, 0), (1, 1), (1, 1)]), (0, 2, 3, 4, 1)),
    ("depthwise_conv2d_nhwc", moved(X2, (0, 2, 3, 1)), DEPTHWISE, [1, 1, 1],
     conv(X2, DEPTHWISE.transpose(2, 3, 0, 1).reshape(8, 1, 3, 2), 1, 1, groups=4), (0, 2, 3, 1)),
    ("conv", moved(X2, (1, 0, 2, 3)), moved(W2, (1, 0, 3, 2)), [1, 0, 1, 1, "CNHW", "IOWH"],
     conv(X2, W2), (1, 0, 2, 3)),
    ("conv1d_transpose_ncw", X1, T1, [2, 1, "float32", 1], transposed(X1, T1, 2, 1, 1)[:, :, :], (0, 1, 2)),
    ("group_conv1d_transpose_ncw", X1, T1, [3, 0, "float32", 0, 2], transposed(X1, T1, 3, groups=2), (0, 1, 2)),
    ("group_conv2d_transpose_nchw", X2, T2, [(2, 3), 0, "float32", (1, 2), 4],
     transposed(X2, T2, (2, 3), 0, (1, 2), 4), (0, 1, 2, 3)),
    ("conv3d_transpose_ncdhw", X3, T3, [2, 0, "float32", 0], transposed(X3, T3, 2), (0, 1, 2, 3, 4)),
], ids=lambda v: v if isinstance(v, str) else "")
def test_convolutions(name, x, w, args, expected, back):
    if name == "conv" and "IOWH" in args:
        args, w = [*args[:-1], "IOHW"], moved(w, (0, 1, 3, 2))
    check(f"nn.{name}", [x, w], [A, B, *args], moved(expected, back), 1e-4, symbolic=False)


def test_integers_are_summed_in_the_dtype_asked_for():
    x, w = (moved(X2, (0, 2, 3, 1)) * 40).astype(np.int8), (moved(W2, (2, 3, 1, 0)) * 40).astype(np.int8)
    expected = conv(x.transpose(0, 3, 1, 2), w.transpose(3, 2, 0, 1)).astype(np.int32)
    check("nn.conv2d_nhwc", [x, w], [A, B, 1, 0, 1, "int32"], moved(expected, (0, 2, 3, 1)), 0, symbolic=False)


def test_channels_in_blocks():
    x, w = X2.reshape(2, 2, 2, 6, 7).transpose(0, 1, 3, 4, 2), W2.reshape(2, 3, 2, 2, 3, 2).transpose(0, 2, 4, 5, 3, 1)
    expected = conv(X2, W2, 1, 1).reshape(2, 2, 3, 6, 8).transpose(0, 1, 3, 4, 2)
    check("nn.conv2d_NCHWc", [moved(x, range(5)), moved(w, range(6))], [A, B, 1, 1, 1, "NCHW2c", "NCHW3c"],
          moved(expected, range(5)), 1e-4, symbolic=False)
    check("nn.unpack_NCHWc_to_nchw", [moved(x, range(5))], [A, "float32"], X2, symbolic=False)


def test_pads():
    from ingot.topi.nn.utils import get_pad_tuple, get_pad_tuple1d
    for padding in (1, (1, 1), (1, 1, 1, 1), "SAME"):
        assert tuple(map(int, get_pad_tuple(padding, (3, 3)))) == (1, 1, 1, 1)
    assert tuple(map(int, get_pad_tuple1d("VALID", (3,)))) == (0, 0)


def test_elements_move_apart():
    expected = np.full((2, 4, 11, 7), 5, F32)
    expected[:, :, ::2] = X2
    check("nn.dilate", [X2], [A, (1, 1, 2, 1), 5.0], expected, symbolic=False)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_dilation(layout):
    f = floats(4, 3, 2, seed=5)
    padded = np.pad(X2, [(0, 0), (0, 0), (1, 1), (0, 0)])
    expected = np.full((2, 4, 3, 5), -np.inf, F32)
    for i, j in np.ndindex(3, 2):
        window = padded[:, :, i:i + 5:2, j * 2:j * 2 + 5]
        expected = np.maximum(expected, window + f[:, i, j][:, None, None])
    x, weight, args = (X2, f, (0, 1, 2, 3)) if layout == "NCHW" else (
        moved(X2, (0, 2, 3, 1)), moved(f, (1, 2, 0)), (0, 2, 3, 1))
    check(f"image.dilation2d_{layout.lower()}", [x, weight], [A, B, (2, 1), (1, 0), (1, 2)], moved(expected, args),
          symbolic=False)


@pytest.mark.parametrize("multiply", [True, False])
def test_correlation(multiply):
    other = floats(2, 4, 6, 7, seed=7)
    a, b = (np.pad(x, [(0, 0), (0, 0), (2, 2), (2, 2)]).astype(np.float64) for x in (X2, other))
    expected = np.zeros((2, 9, 6, 7))
    for q, (i, j) in itertools.product(range(9), np.ndindex(6, 7)):
        dy, dx = q // 3 - 1, q % 3 - 1
        for y, x in np.ndindex(3, 3):
            one, two = a[:, :, i + 1 + y, j + 1 + x], b[:, :, i + 1 + dy + y, j + 1 + dx + x]
            expected[:, q, i, j] += (one * two if multiply else abs(one - two)).sum(1)
    check("nn.correlation_nchw", [X2, other], [A, B, 3, 1, 1, 1, 2, multiply], (expected / 36).astype(F32), 1e-4,
          symbolic=False)


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_deformable(layout):
    """With whole offsets it reads where they say, 0 outside."""
    offset = np.random.default_rng(0).integers(-2, 3, (2, 12, 4, 6)).astype(F32)
    expected = np.zeros((2, 6, 4, 6))
    for n, o, y, x, i, j in np.ndindex(2, 6, 4, 6, 3, 2):
        dy, dx = offset[n, 2 * (i * 2 + j):2 * (i * 2 + j) + 2, y, x].astype(int)
        if 0 <= y + i + dy < 6 and 0 <= x + j + dx < 7:
            expected[n, o, y, x] += X2[n, :, y + i + dy, x + j + dx] @ W2[o, :, i, j]
    expected, turn = expected.astype(F32), (0, 2, 3, 1)
    arrays = [X2, offset, W2] if layout == "nchw" else [moved(X2, turn), moved(offset, turn), moved(W2, (2, 3, 1, 0))]
    check(f"nn.deformable_conv2d_{layout}", arrays, [A, B, C, 1, 0, 1, 1, 1, "float32"],
          expected if layout == "nchw" else moved(expected, turn), 1e-4, symbolic=False)


@pytest.mark.parametrize("call, error", [
    (lambda x, w: topi.nn.conv(x, w, 1, 0, 1, 3, "NCHW"), "do not make 3 groups"),
    (lambda x, w: topi.nn.conv(x, w, 1, 0, 1, 1, "NCW"), "layouts NCW and OIW do not fit"),
    (lambda x, w: topi.nn.conv2d_nhwc(x, w, (1, 1, 1), 0, 1), "strides has 3 numbers for 2 axes"),
    (lambda x, w: topi.nn.conv2d_hwcn(x, w, 1, "FULL", 1), "neither SAME nor VALID|do not make"),
    (lambda x, w: topi.nn.group_conv2d_transpose_nchw(x, w, 2, 0, "float32", 2, 1), "must be less than strides"),
])
def test_errors_say_what_does_not_fit(call, error):
    with pytest.raises(InferError, match=error):
        call(*tensors([X2, W2]))
