"""nn.conv2d_pairs: convolutions of 1x1 by pairs: matmul_pairs whose rows are the points of a blocked image.

Data is blocked, [N, IB, H, W, 16] ("NCHW16c"), and so are results. Columns, scales and offsets are those of
pack_columns, of the kernel as a matrix [input channels, output channels]. A point that is not finite makes NaN.
"""
from __future__ import annotations

import numpy as np

from ... import te
from ...expr import is_const_int
from ...op import register
from ..expr import TensorStructInfo
from .common import fail, need_rank, shape_text, te_shape
from .matmul_pairs import LANES, check_columns, check_dtypes, evaluate, pack_columns, pair_rows, pair_sums
from .winograd import whole_blocks


def pack_kernel(w):
    """(columns, scales, offsets) of a packed kernel [OB, IB, 1, 1, i, 16] of nn.conv2d."""
    w = whole_blocks(w)
    return pack_columns(w[:, :, 0, 0].transpose(1, 2, 0, 3).reshape(w.shape[1] * LANES, -1))


def _infer(call):
    x, columns, scales, offsets = (need_rank(call, n, rank) for n, rank in enumerate((5, 4, 1, 1)))
    check_dtypes(call, image=(x, "float32"), columns=(columns, "float32"), scales=(scales, "float32"),
                 offsets=(offsets, "float32"))
    if not all(map(is_const_int, x.shape[1:])) or x.shape[4].value != LANES:
        fail(call, f"image {shape_text(x)} must be static but for its batch, in blocks of {LANES} channels (dim 4)")
    count, strides = check_columns(call, x.shape[1].value * LANES, columns, scales, offsets), call.attrs["strides"]
    if count % LANES:
        fail(call, f"scales {shape_text(scales)} must be of whole blocks of {LANES} channels")
    if len(strides) != 2 or min(strides) < 1:
        fail(call, f"strides {tuple(strides)} must be 2 integers of at least 1, for rows and columns")
    sizes = (-(-d.value // s) for d, s in zip(x.shape[2:4], strides))
    return TensorStructInfo((x.shape[0], count // LANES, *sizes, LANES), "float32")


def _lower(args, attrs, out):
    x, columns, scales, offsets = args
    batch, blocks, height, width, lanes = te_shape(out)
    down, right = attrs["strides"]

    def element(row, block, c):
        n, y, x_ = row
        return x[n, block, y * down, x_ * right, c]

    row = pair_rows(element, (batch, height, width), int(x.shape[1]))
    sums = pair_sums(row.data, columns, image=True)
    return te.compute((batch, blocks, height, width, lanes), lambda n, ob, y, x, o: row.result(
        sums[n, y, ob, x, o], (n, y, x), scales[ob * lanes + o], offsets[ob * lanes + o]), name="conv2d_pairs")


def _evaluate(args, attrs):
    x, *columns = args
    down, right = attrs["strides"]
    x = x[:, :, ::down, ::right]
    n, blocks, height, width, lanes = x.shape
    result = evaluate([x.transpose(0, 2, 3, 1, 4).reshape(n, height, width, blocks * lanes), *columns], {})
    return np.ascontiguousarray(result.reshape(n, height, width, -1, lanes).transpose(0, 3, 1, 2, 4))


register("nn.conv2d_pairs", _infer, _lower, _evaluate, "anchor", (4, 4), strides=(1, 1))
