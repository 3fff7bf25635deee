"""nn.conv2d_winograd_pairs: nn.conv2d_winograd whose products are made by pairs, as those of matmul_pairs.

V is divided by its scales and bounds (winograd_planes.py). What is not finite makes NaN of the row of tiles.

Columns are those of the transformed kernel's planes, [OB, planes, T, 3, 16]; scales and offsets are [planes, columns].
Data is blocked, [N, IB, H, W, 16] ("NCHW16c").
"""
from __future__ import annotations

import numpy as np

from ... import te
from ...op import REQUIRED, register
from ...tir import intrin
from ..expr import TensorStructInfo
from .common import check_dtypes, need_blocks, need_rank
from .matmul_pairs import (BLOCK, LANES, PARTS, divided_rows, inverse_of, pack_columns, pair_sums, padded, scales_of,
                           third, unpack_columns)
from .winograd import KERNEL, evaluate, infer_tiles, transformed_input, transformed_product
from .winograd_planes import check_planes, limits, plane_inverses, plane_matrices


def pack_planes(u, tile, kernel=KERNEL):
    """(columns, scales, offsets) of a transformed kernel U [OB, planes, IB, 16, 16] of nn.conv2d_winograd, for V over
    its bounds."""
    columns, scales, offsets = map(np.stack, zip(*map(pack_columns, plane_matrices(u))))
    most = limits(tile, kernel).astype(np.float32)
    return np.ascontiguousarray(columns.swapaxes(0, 1)), scales * most, offsets * most


def _infer(call):
    x, columns, scales, offsets = (need_rank(call, n, rank) for n, rank in enumerate((5, 5, 2, 2)))
    check_dtypes(call, image=(x, "float32"), columns=(columns, "float32"), scales=(scales, "float32"),
                 offsets=(offsets, "float32"))
    need_blocks(call, x, LANES)
    out_blocks, planes, in_blocks, *sizes = infer_tiles(call, x)
    expected, own = (out_blocks, planes, third(in_blocks.value * LANES), PARTS, LANES), (planes, out_blocks * LANES)
    check_planes(call, x, "pack_planes", columns=(columns, expected), scales=(scales, own), offsets=(offsets, own))
    return TensorStructInfo((x.shape[0], out_blocks, *sizes, LANES), "float32")


def _lower(args, attrs, out):
    """The stages of nn.conv2d_winograd, and those of pairs: scales [n, ty, u], inverses [n, ty, u, v], rows
    [n, u, v, ty, tx, ...] and sums [n, u, v, ty, ob, tx, o]."""
    x, columns, scales, offsets = args
    image, data = transformed_input(x, attrs, out)
    batch, (size, _, in_blocks, down, along, lanes) = data.shape[0], map(int, data.shape[1:])
    axes = ib, point, c = [te.reduce_axis((0, extent), "k") for extent in (in_blocks, int(image.shape[4]), lanes)]
    largest = te.compute((batch, down, size), lambda n, ty, u: te.max(
        intrin.abs(image[n, ib.var, ty, u, point.var, c.var]), axes), name="pairs_largest")
    scale = scales_of(largest)
    inverse = plane_inverses(scale, inverse_of, attrs, "pairs_inverse")

    def term(row, at):
        n, u, v, ty, tx = row
        return data[n, u, v, at // BLOCK, ty, tx, at % BLOCK]

    rows, less = divided_rows(term, lambda n, u, v, ty, tx: inverse[n, ty, u, v], (batch, size, size, down, along),
                              in_blocks, int(columns.shape[-3]), padded(in_blocks * BLOCK))
    sums = pair_sums(rows, columns, place=lambda outer, panel: (panel, outer[1] * size + outer[2]))
    product = te.compute(
        (batch, size, size, int(out.shape[1]), down, along, lanes),
        lambda n, u, v, ob, ty, tx, o: ((sums[n, u, v, ty, ob, tx, o] + less[n, u, v, ty, tx])
                                        * scales[u * size + v, ob * lanes + o] + offsets[u * size + v, ob * lanes + o])
        * scale[n, ty, u], name="winograd_product")
    return transformed_product(product, attrs, out, "conv2d_winograd_pairs")


def _evaluate(args, attrs):
    x, columns, scales, _ = args
    out_blocks, planes = columns.shape[:2]
    depth = x.shape[1] * attrs["stride"] ** 2 * LANES
    u = np.stack([unpack_columns(columns[:, plane], scales[plane], depth) for plane in range(planes)])
    u = u.reshape(planes, depth // BLOCK, BLOCK, out_blocks, LANES).transpose(3, 0, 1, 2, 4)
    u = u / limits(attrs["tile"], attrs["kernel"])[:, :, None, None]
    return evaluate([x, u], {**attrs, "groups": 1})


register("nn.conv2d_winograd_pairs", _infer, _lower, _evaluate, "anchor", (4, 4), tile=REQUIRED, kernel=KERNEL,
         stride=1, padding=(0, 0, 0, 0), out_channels=REQUIRED, data_layout=REQUIRED)
