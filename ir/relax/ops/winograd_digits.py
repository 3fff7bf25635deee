"""nn.conv2d_winograd_digits: nn.conv2d_winograd whose products are made in fixed point, as those of matmul_digits.

V is scaled as winograd_planes.py says, and so is cut into digits on the spot. What is not finite makes NaN of the row
of tiles.

Columns are those of the transformed kernel's planes, cut into digits when a model is compiled. Data is blocked,
[N, IB, H, W, 16] ("NCHW16c"). Digits have the panels of all planes one after the other, [panel * planes + plane, step,
3, 2, 16, 16, 4]; scales are [planes, columns].
"""
from __future__ import annotations

import numpy as np

from ... import te
from ...op import REQUIRED, register
from ..expr import TensorStructInfo
from .common import check_dtypes, need_blocks, need_rank
from .matmul_digits import (COLUMNS, LANES, TERMS, check_terms, cut_rows, digit_sums, digits_shape, inverse_of,
                            join_columns, largest_of, scales_of, split_columns)
from .winograd import KERNEL, evaluate, infer_tiles, transformed_input, transformed_product
from .winograd_planes import check_planes, limits, plane_inverses, plane_matrices


def split_planes(u, tile, kernel=KERNEL):
    """(digits, scales) of a transformed kernel U [OB, planes, IB, 16, 16] of nn.conv2d_winograd, for V over its
    bounds."""
    planes = plane_matrices(u)
    planes = np.pad(planes, ((0, 0), (0, -planes.shape[1] % TERMS), (0, 0)))
    digits, scales = map(np.stack, zip(*map(split_columns, planes)))
    digits = np.ascontiguousarray(digits.swapaxes(0, 1)).reshape(-1, *digits.shape[2:])
    return digits, scales * limits(tile, kernel).astype(np.float32)


def join_planes(digits, scales, in_blocks):
    """The U, float64, that digits and scales stand for."""
    planes, columns = scales.shape
    parts = digits.reshape(-1, planes, *digits.shape[1:])
    joined = np.stack([join_columns(parts[:, p], scales[p]) for p in range(planes)])
    u = joined[:, :in_blocks * LANES].reshape(planes, in_blocks, LANES, columns // LANES, LANES)
    return u.transpose(3, 0, 1, 2, 4)


def _infer(call):
    x, digits, scales = need_rank(call, 0, 5), need_rank(call, 1, 7), need_rank(call, 2, 2)
    check_dtypes(call, image=(x, "float32"), digits=(digits, "int8"), scales=(scales, "float32"))
    need_blocks(call, x, LANES)
    out_blocks, planes, in_blocks, *sizes = infer_tiles(call, x)
    expected = digits_shape(-(-out_blocks * LANES // COLUMNS) * planes, -(-in_blocks.value * LANES // TERMS))
    check_planes(call, x, "split_planes", digits=(digits, expected), scales=(scales, (planes, out_blocks * LANES)))
    check_terms(call, digits)
    return TensorStructInfo((x.shape[0], out_blocks, *sizes, LANES), "float32")


def _lower(args, attrs, out):
    """The stages of nn.conv2d_winograd, and those of digits: scales [n, ty, u], inverses [n, ty, u, v], numbers and
    digits [n, u, v, ...]."""
    x, digits, scales = args
    image, data = transformed_input(x, attrs, out)
    batch, (size, _, in_blocks, down, along, lanes) = data.shape[0], map(int, data.shape[1:])
    planes, steps = size ** 2, int(digits.shape[1])

    ib, point, c = axes = [te.reduce_axis((0, extent), "k") for extent in (in_blocks, image.shape[4], lanes)]
    scale = scales_of(largest_of(
        (batch, down, size), lambda n, ty, u: image[n, ib.var, ty, u, point.var, c.var], axes))
    inverse = plane_inverses(scale, inverse_of, attrs, "digits_inverse")

    def element(i, point, k):
        (n, u, v, ty), (tx,), (block, c) = i, point, k
        return data[n, u, v, block, ty, tx, c]

    left = cut_rows(element, lambda n, u, v, ty: inverse[n, ty, u, v], (batch, size, size, down), (along,),
                    (in_blocks, lanes), steps)
    sums = digit_sums(left, digits, (batch, size, size), int(digits.shape[0]) // planes, down * along,
                      place=lambda outer, panel: panel * planes + outer[1] * size + outer[2])
    product = te.compute(
        (batch, size, size, int(out.shape[1]), down, along, lanes),
        lambda n, u, v, ob, ty, tx, o: sums[n, u, v, ob // 2, ty * along + tx, ob % 2, o]
        * scales[u * size + v, ob * lanes + o] * scale[n, ty, u], name="winograd_product")
    return transformed_product(product, attrs, out, "conv2d_winograd_digits")


def _evaluate(args, attrs):
    x, digits, scales = args
    u = join_planes(digits, scales, x.shape[1] * attrs["stride"] ** 2)
    u = u / limits(attrs["tile"], attrs["kernel"])[:, :, None, None]
    return evaluate([x, u], {**attrs, "groups": 1})


register("nn.conv2d_winograd_digits", _infer, _lower, _evaluate, "anchor", (3, 3), tile=REQUIRED, kernel=KERNEL,
         stride=1, padding=(0, 0, 0, 0), out_channels=REQUIRED, data_layout=REQUIRED)
