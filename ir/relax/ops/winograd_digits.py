"""nn.conv2d_winograd_digits: nn.conv2d_winograd whose products are made in fixed point, as those of matmul_digits.

The tiles of a plane are rows of a product. Those of a row of tiles, of all planes (u, .), share a scale: that of the
image's rows once transformed, B^T d. What the second transform makes of them, V, is within the `bounds` of its columns,
and so is cut into digits on the spot. What is not finite makes NaN of the row of tiles.

Columns are those of the transformed kernel's planes, cut into digits when a model is compiled. Data is blocked,
[N, IB, H, W, 16] ("NCHW16c"). Digits have the panels of all planes one after the other, [panel * planes + plane, step,
3, 2, 16, 16, 4]; scales are [planes, columns].
"""
from __future__ import annotations

import numpy as np

from ... import te
from ...expr import is_const_int
from ...op import REQUIRED, register
from ...tir import intrin
from ..expr import TensorStructInfo
from .common import fail, need_rank, same_dim, shape_text
from .matmul_digits import (COLUMNS, LANES, MOST_TERMS, TERMS, check_dtypes, check_terms, cut_rows, digit_sums,
                            digits_shape, inverse_of, join_columns, scales_of, split_columns)
from .winograd import KERNEL, chosen, evaluate, infer_tiles, matrices, transformed_input, transformed_product


def bounds(tile, kernel=KERNEL):
    """How large d B may be, for each of its columns, where |d| is at most 1."""
    return tuple(float(sum(map(abs, row))) for row in matrices(tile, kernel)[2])


def split_planes(u, tile, kernel=KERNEL):
    """(digits, scales) of a transformed kernel U [OB, planes, IB, 16, 16] of nn.conv2d_winograd, for V over its
    bounds."""
    out_blocks, planes, in_blocks, inner, lanes = u.shape
    planes_of = u.transpose(1, 2, 3, 0, 4).reshape(planes, in_blocks * inner, out_blocks * lanes)
    planes_of = np.pad(planes_of, ((0, 0), (0, -planes_of.shape[1] % TERMS), (0, 0)))
    digits, scales = map(np.stack, zip(*map(split_columns, planes_of)))
    digits = np.ascontiguousarray(digits.swapaxes(0, 1)).reshape(-1, *digits.shape[2:])
    return digits, scales * _of_planes(bounds(tile, kernel)).astype(np.float32)


def _of_planes(columns):
    """Numbers of v as those of planes (u, v), [planes, 1]."""
    return np.tile(columns, len(columns))[:, None]


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
    if not all(map(is_const_int, x.shape[1:])) or x.shape[4].value != LANES:
        fail(call, f"image {shape_text(x)} must be static but for its batch, in blocks of {LANES} channels (dim 4)")
    out_blocks, planes, in_blocks, *sizes = infer_tiles(call, x)
    expected = (digits_shape(-(-out_blocks * LANES // COLUMNS) * planes, -(-in_blocks.value * LANES // TERMS)),
                (planes, out_blocks * LANES))
    for name, given, shape in zip(("digits", "scales"), (digits, scales), expected):
        if len(given.shape) != len(shape) or not all(map(same_dim, given.shape, shape)):
            fail(call, f"{name} {shape_text(given)} must be {shape} for tile={call.attrs['tile']}, "
                       f"out_channels={call.attrs['out_channels']} and image {shape_text(x)}: those of split_planes")
    check_terms(call, digits)
    return TensorStructInfo((x.shape[0], out_blocks, *sizes, LANES), "float32")


def _lower(args, attrs, out):
    """The stages of nn.conv2d_winograd, and those of digits: scales [n, ty, u], inverses [n, ty, u, v], numbers and
    digits [n, u, v, ...]."""
    x, digits, scales = args
    image, data = transformed_input(x, attrs, out)
    batch, (size, _, in_blocks, down, along, lanes) = data.shape[0], map(int, data.shape[1:])
    planes, steps = size ** 2, int(digits.shape[1])

    def reduced(combine, name):
        ib, point, c = axes = [te.reduce_axis((0, extent), "k") for extent in (in_blocks, image.shape[4], lanes)]
        return te.compute((batch, down, size), lambda n, ty, u: combine(
            intrin.abs(image[n, ib.var, ty, u, point.var, c.var]), axes), name=name)

    scale = scales_of(reduced, MOST_TERMS * int(image.shape[4]))
    inverse = te.compute((batch, down, size, size), lambda n, ty, u, v: chosen(v, [
        inverse_of(scale[n, ty, u], bound) for bound in bounds(attrs["tile"], attrs["kernel"])]),
        name="digits_inverse")

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
    limits = _of_planes(bounds(attrs["tile"], attrs["kernel"]))[:, :, None, None]
    return evaluate([x, u / limits], {**attrs, "groups": 1})


register("nn.conv2d_winograd_digits", _infer, _lower, _evaluate, "anchor", (3, 3), tile=REQUIRED, kernel=KERNEL,
         stride=1, padding=(0, 0, 0, 0), out_channels=REQUIRED, data_layout=REQUIRED)
