"""nn.conv2d_digits: convolutions of 1x1 in fixed point: matmul_digits whose rows are the points of a blocked image.

Data is blocked, [N, IB, H, W, 16] ("NCHW16c"), and so are results. Digits and scales are those of split_columns, of the
kernel as a matrix [input channels, output channels], whose input channels are filled up to whole steps with zeros. The
points of a row of the image share a scale; one that is not finite makes NaN of them all.
"""
from __future__ import annotations

import numpy as np

from ... import te
from ...op import register
from .common import check_dtypes, fail, need_blocks, need_rank, shape_text, te_shape
from .matmul_digits import LANES, TERMS, check_columns, digit_sums, row_digits, split_columns
from .matmul_digits import evaluate as product
from .pointwise import image_of, infer_points, kernel_matrix, points_of


def split_kernel(w):
    """(digits, scales) of a packed kernel [OB, IB, 1, 1, i, 16] of nn.conv2d."""
    matrix = kernel_matrix(w)
    return split_columns(np.pad(matrix, ((0, -len(matrix) % TERMS), (0, 0))))


def _infer(call):
    x, digits, scales = need_rank(call, 0, 5), need_rank(call, 1, 7), need_rank(call, 2, 1)
    check_dtypes(call, image=(x, "float32"), digits=(digits, "int8"), scales=(scales, "float32"))
    columns = check_columns(call, digits, scales)
    need_blocks(call, x, LANES)
    if -(-x.shape[1].value * LANES // TERMS) != digits.shape[1].value:
        fail(call, f"image {shape_text(x)} has {x.shape[1].value * LANES} channels, digits {shape_text(digits)} are of "
                   f"{digits.shape[1].value * TERMS} terms: must be the same, rounded up to {TERMS}")
    return infer_points(call, x, columns, scales)


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
    rows = points_of(x, attrs["strides"])
    rows = np.where(np.isfinite(rows).all(axis=(2, 3), keepdims=True), rows, np.float32("nan"))
    padded = np.pad(rows, (*((0, 0),) * 3, (0, -rows.shape[3] % TERMS)))
    return image_of(product([padded, digits, scales], {}), LANES)


register("nn.conv2d_digits", _infer, _lower, _evaluate, "anchor", (3, 3), strides=(1, 1))
