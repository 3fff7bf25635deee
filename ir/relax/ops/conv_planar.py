"""nn.conv2d of plain images of integers, as processors without vectors compute it: packed weights, and the stages.

| kernel_layout | weights                                 | of                                                    |
|---------------|-----------------------------------------|-------------------------------------------------------|
| OH3w2o4k      | [OB, KH, ceil(3 I / 4), 2] of words     | four terms of a row of the kernel, of 3 columns       |
| OH3w2o        | [OB, KH, 3 I, 2] of bytes               | a term of a row of the kernel                         |
| OH3w2o16k     | [OB, KH, ceil(3 I / 16), 2, 16] of bytes | 16 terms of a row of the kernel                      |
| CH3w2p+1      | [C, KH, 2] of words                     | a row of a depthwise kernel: its outer columns as a   |
|               |                                         | pair of 16 bits, and the middle one                   |

Activations are NCHW, inputs are padded before. The stage conv2d_rows copies what a tile of points reads: the channels
of a point lie in a row there, and so do the points of a row, all terms that a row of the kernel meets. So many output
channels as the layout says, 2 here, are side by side: OB blocks of them, zero beyond the true ones, of which
out_channels tells. Words are multiplied by an attribute `arithmetic` of relax/arithmetic/dot_product.py. Images may be
of int16, but for 16 terms; words of weights are made for them.

A depthwise convolution reads words of four columns of its input: with stride 1 two neighbours in a row of results share
one. Its input has more columns than it needs, 1 here, so that the last word of a row ends in it.
"""
from __future__ import annotations

import re

import numpy as np

from ... import te
from ...dtype import DataType
from ...expr import const, is_const_int
from ...tir import intrin
from ...tir.intrinsics import ALL_DOTS, DOTS, PAIR_DOTS
from ...tir.intrinsics import ALL_TAPS, PAIR_TAPS
from ..arithmetic.dot_product import BY_PAIRS, WORD, multiplied, word
from ..expr import TensorStructInfo
from .common import as_dim, fail, need_rank, same_dim, shape_text, te_shape
from .layout import blocks_of
from .window import check_window_attrs, output_sizes

ROWS, SUMS, TAPS = "conv2d_rows", "conv2d_of_rows", "conv2d_of_taps"  # stages
ROW = 16  # bytes that are multiplied at a time, where they are
COLUMNS = 3  # of a depthwise kernel that is words
BYTES = frozenset(dtype for dtypes in DOTS.values() for dtype in dtypes)
ROWS_OF = frozenset(rows for rows, _ in ALL_DOTS.values())
_LAYOUT = re.compile(r"OH(\d+)w(\d+)o(?:(4|16)k)?$")
_DEPTHWISE = re.compile(rf"CH{COLUMNS}w2p\+(\d+)$")


def is_planar(attrs):
    """Whether a call's attributes have a layout of the table above."""
    return form_of(attrs) is not None or more_of(attrs) is not None


def more_of(attrs):
    """Columns that the input of a depthwise convolution of words has besides; None for other layouts."""
    layout = _DEPTHWISE.match(attrs["kernel_layout"])
    return layout and int(layout[1])


def columns_more(width, stride):
    """Columns that words ask for beyond so many of an input."""
    shared = sharing(stride)
    last = ((width - COLUMNS) // stride // shared) * shared * stride
    return max(last + WORD - width, 0)


def sharing(stride):
    """How many results in a row share a word."""
    return (WORD - COLUMNS) // stride + 1


def form_of(attrs):
    """(columns of the kernel, output channels side by side, terms that follow one another: 1, 4 of a word or 16) of a
    call's attributes; None for other layouts."""
    layout = _LAYOUT.match(attrs["kernel_layout"])
    return layout and (int(layout[1]), int(layout[2]), int(layout[3] or 1))


def pack(w, lanes, terms, pairs=False):
    """[O, I, KH, KW] of bytes -> [OB, KH, KW * I, lanes], [OB, KH, ceil(KW * I / 4), lanes] of words, or
    [OB, KH, ceil(KW * I / 16), lanes, 16]. pairs: whether words meet pairs of 16 bits."""
    outputs, inputs, *kernel = w.shape
    w = np.pad(w, ((0, -outputs % lanes), (0, 0), (0, 0), (0, 0)))
    w = w.reshape(-1, lanes, inputs, *kernel).transpose(0, 3, 4, 2, 1).reshape(-1, kernel[0], kernel[1] * inputs, lanes)
    if terms == 1:
        return np.ascontiguousarray(w)
    w = np.pad(w, ((0, 0), (0, 0), (0, -w.shape[2] % terms), (0, 0)))
    w = w.reshape(*w.shape[:2], -1, terms, lanes).swapaxes(-1, -2)
    w = np.ascontiguousarray(w[..., BY_PAIRS] if pairs else w)
    return w.view("<i4")[..., 0].astype(np.int32) if terms == WORD else w


def unpack(w, channels, inputs, columns, terms, dtype=None, pairs=False):
    """The inverse of pack, of so many channels; dtype: of the bytes of words, None where there are none."""
    if terms == WORD:
        w = w.astype("<i4")[..., None].view(np.dtype(dtype))
        w = w[..., BY_PAIRS] if pairs else w
    if terms > 1:
        w = w.swapaxes(-1, -2)
        w = w.reshape(*w.shape[:2], -1, w.shape[-1])
    w = w[:, :, :columns * inputs].reshape(*w.shape[:2], columns, inputs, -1)
    return w.transpose(0, 4, 3, 1, 2).reshape(-1, inputs, w.shape[1], columns)[:channels]


def pack_depthwise(w):
    """[C, 1, KH, 3] of bytes -> [C, KH, 2] of words."""
    sides = np.ascontiguousarray(w[:, 0, :, ::2].astype("<i2")).view("<i4")[..., 0]
    return np.stack([sides, w[:, 0, :, 1]], axis=-1).astype(np.int32)


def unpack_depthwise(w, dtype):
    """The inverse of pack_depthwise, of weights of a dtype."""
    sides = np.ascontiguousarray(w[..., 0]).astype("<i4")[..., None].view("<i2")
    return np.stack([sides[..., 0], w[..., 1], sides[..., 1]], axis=-1)[:, None].astype(dtype)


def _infer_depthwise(call):
    x, w = need_rank(call, 0, 4), need_rank(call, 1, 3)
    layout, more = call.attrs["kernel_layout"], more_of(call.attrs)
    check_window_attrs(call, 2)
    if not all(map(is_const_int, (*x.shape[1:], *w.shape))):
        fail(call, f"input {shape_text(x)} and weight {shape_text(w)} must have static dimensions")
    channels, width = x.shape[1].value, x.shape[3].value - more
    if not {channels} == {w.shape[0].value, call.attrs["groups"], call.attrs["out_channels"]}:
        fail(call, f"kernel_layout {layout!r} is for as many groups={call.attrs['groups']} and out_channels="
                   f"{call.attrs['out_channels']} as {shape_text(x)} and {shape_text(w)} have channels")
    if any(call.attrs["padding"]) or tuple(call.attrs["dilation"]) != (1, 1) or (
            more < columns_more(width, call.attrs["strides"][1])):
        fail(call, f"kernel_layout {layout!r} is for windows without padding and dilation whose words end in the input")
    if x.dtype != ALL_DOTS[call.attrs["arithmetic"]][0] or w.dtype != "int32":
        fail(call, f"input {shape_text(x)} must be of bytes and {shape_text(w)} of words, not {x.dtype} and {w.dtype}")
    sizes = output_sizes(call, (x.shape[2], as_dim(width)), (w.shape[1].value, COLUMNS))
    return TensorStructInfo((*x.shape[:2], *sizes), DataType("int32"))


def _lower_depthwise(x, w, attrs, out):
    kh, (down, along) = te.reduce_axis((0, int(w.shape[1])), "kh"), attrs["strides"]
    shared, taps = sharing(along), getattr(intrin, ALL_TAPS[str(x.dtype)])

    def element(n, c, y, x_):
        first = x_ // shared * (shared * along)

        def own(at):
            return x[n, c, y * down + kh.var, first + at]

        sides, middle, at = w[c, kh.var, 0], w[c, kh.var, 1], x_ % shared
        if str(x.dtype) in PAIR_TAPS:
            return te.sum(taps(intrin.pair(own(0), own(1)), intrin.pair(own(2), own(3)), 0, sides, middle, at), kh)
        return te.sum(taps(word(own, 0), sides, 0, middle, at), kh)

    return te.compute(te_shape(out), element, name=TAPS, attrs={"shared": shared})


def infer(call):
    if more_of(call.attrs) is not None:
        return _infer_depthwise(call)
    columns, lanes, together = form_of(call.attrs)
    words = together == WORD
    x, w = need_rank(call, 0, 4), need_rank(call, 1, 5 if together == ROW else 4)
    channels, layout = call.attrs["out_channels"], call.attrs["kernel_layout"]
    check_window_attrs(call, 2)
    if (call.attrs["data_layout"], call.attrs["out_layout"] or "NCHW", call.attrs["groups"]) != ("NCHW", "NCHW", 1):
        fail(call, f"kernel_layout {layout!r} is for one group and plain images")
    if any(call.attrs["padding"]) or tuple(call.attrs["dilation"]) != (1, 1):
        fail(call, f"kernel_layout {layout!r} is for windows without padding and dilation")
    if not all(map(is_const_int, (*x.shape[1:], *w.shape))):
        fail(call, f"input {shape_text(x)} and weight {shape_text(w)} must have static dimensions")
    terms = columns * x.shape[1].value
    expected = (blocks_of(channels or 1, lanes), w.shape[1], -(-terms // together), lanes, *(ROW,) * (together == ROW))
    if channels is None or not all(map(same_dim, w.shape, expected)):
        fail(call, f"packed weight {shape_text(w)} does not hold out_channels={channels} of input {shape_text(x)} as "
                   f"kernel_layout {layout!r} has them")
    left = (rows_of(call.attrs["arithmetic"]) if words else BYTES if together == ROW else ROWS_OF)
    if x.dtype not in left or (w.dtype != "int32" if words else w.dtype not in BYTES):
        fail(call, f"input {shape_text(x)} and weight {shape_text(w)} must be of bytes, or the input of int16, and of "
                   f"words as kernel_layout {layout!r} has them, not {x.dtype} and {w.dtype}")
    sizes = output_sizes(call, x.shape[2:], (w.shape[1].value, columns))
    return TensorStructInfo((x.shape[0], channels, *sizes), DataType("int32"))


def rows_of(arithmetic):
    """The dtypes of inputs that words of an arithmetic multiply: pairs are of bytes that are widened, too."""
    return frozenset({ALL_DOTS[arithmetic][0], *(BYTES if arithmetic in PAIR_DOTS else ())})


def lower(x, w, attrs, out):
    if more_of(attrs) is not None:
        return _lower_depthwise(x, w, attrs, out)
    columns, lanes, together = form_of(attrs)
    shape, (down, along) = te_shape(out), attrs["strides"]
    inputs, width = int(x.shape[1]), int(x.shape[3])
    more = -(-(-columns * inputs % together) // inputs)  # points that the last terms of a row read besides
    kh, k, t = te.reduce_axis((0, int(w.shape[1])), "kh"), te.reduce_axis((0, int(w.shape[2])), "k"), (
        te.reduce_axis((0, ROW), "t"))

    dtype = ALL_DOTS[attrs["arithmetic"]][0] if together == WORD else x.dtype

    def term(n, y, f):
        value = x[n, f % inputs, y, f // inputs]
        value = value if value.dtype == dtype else value.astype(dtype)
        return value if not more else intrin.if_then_else(f < width * inputs, value, const(0, dtype))

    rows = te.compute((x.shape[0], x.shape[2], (width + more) * inputs), term, name=ROWS)

    def element(n, oo, y, x_, oi):
        row, first, at = y * down + kh.var, x_ * (along * inputs), (oo, kh.var, k.var, oi)
        if together == ROW:
            value, weight = rows[n, row, first + k.var * ROW + t.var], w[(*at, t.var)]
            return te.sum(value.astype("int32") * weight.astype("int32"), [kh, k, t])
        weight = w[at]
        if together == WORD:
            return te.sum(multiplied(attrs["arithmetic"], lambda at: rows[n, row, first + at], k.var, weight), [kh, k])
        return te.sum(rows[n, row, first + k.var].astype("int32") * weight.astype("int32"), [kh, k])

    sums = te.compute((shape[0], w.shape[0], *shape[2:], lanes), element, name=SUMS)
    return te.compute(shape, lambda n, c, y, x_: sums[n, c // lanes, y, x_, c % lanes], name="conv2d")


def evaluate(plain, x, w, attrs):
    """The reference, by that of the plain form."""
    if (more := more_of(attrs)) is not None:
        w = unpack_depthwise(w, ALL_DOTS[attrs["arithmetic"]][1])
        x = x[..., :x.shape[3] - more]
        return plain([x, w], {**attrs, "kernel_layout": "OIHW", "out_dtype": "int32"})
    columns, _, terms = form_of(attrs)
    dtype = ALL_DOTS[attrs["arithmetic"]][1] if terms == WORD else None
    w = unpack(w, attrs["out_channels"], x.shape[1], columns, terms, dtype, attrs["arithmetic"] in PAIR_DOTS)
    return plain([x, w], {**attrs, "kernel_layout": "OIHW", "out_dtype": "int32"})
