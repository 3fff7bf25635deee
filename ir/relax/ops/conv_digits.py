"""nn.conv2d_digits: convolutions of 1x1 in fixed point: matmul_digits whose rows are the points of a blocked image.

Data is blocked, [N, IB, H, W, 16] ("NCHW16c"), and so are results. Digits and scales are those of split_columns, of the
kernel as a matrix [input channels, output channels], whose input channels are filled up to whole steps with zeros. The
points of a row of the image share a scale; one that is not finite makes NaN of them all.
"""
from __future__ import annotations

import numpy as np

from ... import te
from ...expr import is_const_int
from ...op import register
from ..expr import TensorStructInfo
from .common import fail, need_rank, shape_text, te_shape
from .matmul_digits import LANES, TERMS, check_columns, check_dtypes, digit_sums, row_digits, split_columns
from .matmul_digits import evaluate as product
from .winograd import whole_blocks


def split_kernel(w):
    """(digits, scales) of a packed kernel [OB, IB, 1, 1, i, 16] of nn.conv2d."""
    w = whole_blocks(w)
    matrix = w[:, :, 0, 0].transpose(1, 2, 0, 3).reshape(w.shape[1] * LANES, -1)
    return split_columns(np.pad(matrix, ((0, -len(matrix) % TERMS), (0, 0))))


def _infer(call):
    x, digits, scales = need_rank(call, 0, 5), need_rank(call, 1, 7), need_rank(call, 2, 1)
    check_dtypes(call, image=(x, "float32"), digits=(digits, "int8"), scales=(scales, "float32"))
    columns, strides = check_columns(call, digits, scales), call.attrs["strides"]
    if not all(map(is_const_int, x.shape[1:])) or x.shape[4].value != LANES:
        fail(call, f"image {shape_text(x)} must be static but for its batch, in blocks of {LANES} channels (dim 4)")
    if -(-x.shape[1].value * LANES // TERMS) != digits.shape[1].value:
        fail(call, f"image {shape_text(x)} has {x.shape[1].value * LANES} channels, digits {shape_text(digits)} are of "
                   f"{digits.shape[1].value * TERMS} terms: must be the same, rounded up to {TERMS}")
    if columns % LANES:
        fail(call, f"scales {shape_text(scales)} must be of whole blocks of {LANES} channels")
    if len(strides) != 2 or min(strides) < 1:
        fail(call, f"strides {tuple(strides)} must be 2 integers of at least 1, for rows and columns")
    sizes = (-(-d.value // s) for d, s in zip(x.shape[2:4], strides))
    return TensorStructInfo((x.shape[0], columns // LANES, *sizes, LANES), "float32")


def _lower(args, attrs, out):
    x, digits, scales = args
    batch, blocks, height, width, lanes = te_shape(out)
    down, right = attrs["strides"]

    def element(i, point, k):
        (n, row), (column,), (block, c) = i, point, k
        return x[n, block, row * down, column * right, c]

    left, scale = row_digits(element, (batch, height), (width,), (int(x.shape[1]), lanes), int(digits.shape[1]))
    sums = digit_sums(left, digits, (batch,), int(digits.shape[0]), height * width)
    return te.compute((batch, blocks, height, width, lanes), lambda n, ob, y, x, o: sums[
        n, ob // 2, y * width + x, ob % 2, o] * scales[ob * lanes + o] * scale[n, y], name="conv2d_digits")


def _evaluate(args, attrs):
    x, digits, scales = args
    down, right = attrs["strides"]
    x = x[:, :, ::down, ::right]
    x = np.where(np.isfinite(x).all(axis=(1, 3, 4), keepdims=True), x, np.float32("nan"))
    n, blocks, height, width, lanes = x.shape
    rows = x.transpose(0, 2, 3, 1, 4).reshape(n, height * width, blocks * lanes)
    result = product([np.pad(rows, ((0, 0), (0, 0), (0, -rows.shape[2] % TERMS))), digits, scales], {})
    return np.ascontiguousarray(result.reshape(n, height, width, -1, lanes).transpose(0, 3, 1, 2, 4))


register("nn.conv2d_digits", _infer, _lower, _evaluate, "anchor", (3, 3), strides=(1, 1))
