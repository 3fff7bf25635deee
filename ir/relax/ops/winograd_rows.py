"""nn.conv2d_winograd_rows: convolutions of plain images, of any stride, by Winograd's algorithm along one axis.

F(m, r) as in winograd.py makes m rows of results at a time from a = m + r - 1 rows. A kernel of KH rows and stride s is
s kernels of r = ceil(KH / s) rows and stride 1, each over every s-th row of the image, whose products are added: per
channel and column of the kernel a * s products make m results, instead of KH * m. Few input channels, as those of first
layers, leave the second axis little to save: the transforms of results are as many as products then.

The image is plain, [N, I, H, W], and padded; the kernel arrives transformed, U [OB, a, I, s, KW, o]; results are
blocked, [N, OB, rows, columns, o].
"""
from __future__ import annotations

import numpy as np

from ... import te
from ...expr import is_const_int
from ...op import REQUIRED, register
from ..expr import TensorStructInfo
from .common import dim_text, fail, need_dtype, need_rank, need_same_dtype, same_dim, shape_text, te_shape
from .precision import widen_array
from .winograd import chosen, matrices, paired_sums, sums, tiles_of


def taps_of(kernel, strides):
    """r: the rows of each of the kernels of stride 1."""
    return -(-kernel[0] // strides[0])


def input_size(tile, kernel, strides, size):
    """(H, W) that the image must at least have, padding included, for `size` rows and columns of results."""
    rows, taps = -(-size[0] // tile) * tile, taps_of(kernel, strides)
    return (rows + taps - 1) * strides[0], (size[1] - 1) * strides[1] + kernel[1]


def transform_rows(w, tile, stride):
    """Weights [OB, I, KH, KW, o] -> U [OB, a, I, s, KW, o] in their dtype, computed in float64."""
    (blocks, channels, rows, columns, lanes), dtype = w.shape, w.dtype
    taps = taps_of((rows,), (stride,))
    w = np.pad(w, ((0, 0), (0, 0), (0, taps * stride - rows), (0, 0), (0, 0))).astype(np.float64)
    g = np.array(matrices(tile, taps)[1], np.float64)
    u = np.einsum("ur,birpko->buipko", g, w.reshape(blocks, channels, taps, stride, columns, lanes))
    return np.ascontiguousarray(u.astype(dtype))


# ---------------------------------------------------------------- struct info

def _infer(call):
    x, u = need_rank(call, 0, 4), need_rank(call, 1, 6)
    dtype, channels = need_same_dtype(call, (x, u)), call.attrs["out_channels"]
    need_dtype(call, x, "float")
    tile, kernel, strides, size = (call.attrs[k] for k in ("tile", "kernel", "strides", "size"))
    for name, pair in (("kernel", kernel), ("strides", strides), ("size", size)):
        if len(pair) != 2 or min(pair) < 1:
            fail(call, f"{name} {tuple(pair)} must be 2 integers of at least 1, for rows and columns")
    taps, lanes = taps_of(kernel, strides), u.shape[5]
    if tile not in tiles_of(taps):
        fail(call, f"tile={tile} must be one of {', '.join(map(str, tiles_of(taps))) or 'none'} for {kernel[0]} rows "
                   f"of the kernel and a stride of {strides[0]}")
    if channels < 1:
        fail(call, f"out_channels={channels} must be at least 1")
    if not is_const_int(lanes):
        fail(call, f"weight {shape_text(u)} must have a static block of output channels (dim 5), not {dim_text(lanes)}")
    blocks = -(-channels // lanes.value)
    expected = (blocks, tile + taps - 1, x.shape[1], strides[0], kernel[1], lanes)
    if not all(same_dim(a, b) for a, b in zip(u.shape, expected)):
        fail(call, f"weight {shape_text(u)} must be {shape_text(expected)} for tile={tile}, out_channels={channels} "
                   f"and input {shape_text(x)}: blocks of output channels, planes, input channels, rows of a step, "
                   "columns")
    needed = input_size(tile, kernel, strides, size)
    if not all(is_const_int(d) and d.value >= n for d, n in zip(x.shape[2:], needed)):
        fail(call, f"input {shape_text(x)} must have at least {needed[0]} rows and {needed[1]} columns (dims 2 and 3), "
                   f"padding included, for {size[0]}x{size[1]} results of {kernel[0]}x{kernel[1]} kernels in tiles of "
                   f"{tile} rows: pad it, or keep nn.conv2d")
    return TensorStructInfo((x.shape[0], blocks, *size, lanes), dtype)


# ---------------------------------------------------------------- lowering

def _lower(args, attrs, out):
    """winograd_rows [n, i, ty, u, p, x], the transform of every p-th row of a step, and winograd_product [n, u, v = 1,
    ob, ty, x, o], the sum over channels and over what of the kernel is not transformed; then the results."""
    x, w = args
    m, (_, kw), (stride, step) = attrs["tile"], attrs["kernel"], attrs["strides"]
    batch, blocks, height, width, lanes = te_shape(out)
    side, (a_t, _, b_t) = w.shape[1].value, matrices(m, taps_of(attrs["kernel"], attrs["strides"]))
    tiles = -(-height // m)
    rows = te.compute(
        (batch, x.shape[1], tiles, side, stride, x.shape[3]),
        lambda n, i, ty, u, p, c: chosen(u, sums(b_t, [x[n, i, (ty * m + k) * stride + p, c] for k in range(side)])),
        name="winograd_rows")
    i, p, k = (te.reduce_axis((0, extent), name) for extent, name in ((x.shape[1], "ic"), (stride, "p"), (kw, "kw")))
    product = te.compute(
        (batch, side, 1, blocks, tiles, width, lanes),
        lambda n, u, v, ob, ty, c, o: te.sum(
            rows[n, i.var, ty, u, p.var, c * step + k.var] * w[ob, u, i.var, p.var, k.var, o], [i, p, k]),
        name="winograd_product")
    return te.compute(
        (batch, blocks, height, width, lanes),
        lambda n, ob, y, c, o: chosen(y % m, paired_sums(a_t, [product[n, u, 0, ob, y // m, c, o]
                                                               for u in range(side)])),
        name="conv2d_winograd_rows")


# ---------------------------------------------------------------- reference

def _evaluate(args, attrs):
    """The definition, over all tiles at once."""
    x, u = map(widen_array, args)
    m, (_, kw), (stride, step), (height, width) = (attrs[k] for k in ("tile", "kernel", "strides", "size"))
    a_t, _, b_t = (np.array(rows, x.dtype) for rows in matrices(m, taps_of(attrs["kernel"], attrs["strides"])))
    rows, columns = input_size(m, attrs["kernel"], attrs["strides"], (height, width))
    x = x[:, :, :rows, :columns].reshape(*x.shape[:2], -1, stride, columns)
    windows = np.lib.stride_tricks.sliding_window_view(x, len(b_t), 2)[:, :, ::m]  # n i t p x k
    windows = np.lib.stride_tricks.sliding_window_view(windows, kw, 4)[:, :, :, :, ::step]  # n i t p x k c
    data = np.einsum("uk,nitpxkc->unitpxc", b_t, windows, optimize=True)
    products = np.einsum("unitpxc,buipco->unbtxo", data, u, optimize=True)
    y = np.einsum("yu,unbtxo->nbtyxo", a_t, products, optimize=True)
    y = y.reshape(*y.shape[:2], -1, width, u.shape[5])[:, :, :height]
    return np.ascontiguousarray(y).astype(args[0].dtype, copy=False)


register("nn.conv2d_winograd_rows", _infer, _lower, _evaluate, "anchor", (2, 2), tile=REQUIRED, kernel=REQUIRED,
         strides=REQUIRED, size=REQUIRED, out_channels=REQUIRED)
