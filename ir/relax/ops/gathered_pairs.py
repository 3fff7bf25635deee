"""nn.conv2d_gathered_pairs: 1x1 convolutions in groups, of channels that lie anywhere, by pairs.

What nn.conv2d_gathered computes of kernels of 1x1, as products by pairs (matmul_pairs.py), one for each group. Data is
blocked, [N, IB, H, W, 16] ("NCHW16c"), and so are results, in which each group begins with a block of its own.

Columns are those of pack_columns for each group, [groups, OB / groups, T, 3, 16]; scales and offsets are [OB * 16].
places, [groups, 3 T], says which channel of the data, counted with lanes that hold none, each term of a group is; they
must lie in the data, and constant ones are checked. What fills up the last third may be any channel of the group, as
columns are zero there. A point of which a group's channels are not all finite makes NaN of the group's results.
"""
from __future__ import annotations

import numpy as np

from ... import te
from ...expr import is_const_int
from ...op import register
from ..expr import Constant
from .common import check_dtypes, fail, need_blocks, need_rank, same_dim, shape_text, te_shape
from .matmul_pairs import LANES, PARTS, pack_columns, pair_sums, scaled_rows, third
from .matmul_pairs import evaluate as product
from .pointwise import image_of, infer_points, points_of


def pack_groups(w, places):
    """(columns, scales, offsets, places) of the weights [OB, K, 1, 1, 16] and the places [groups, K, 2] of a
    nn.conv2d_gathered."""
    groups, depth, _ = places.shape
    matrices = w[:, :, 0, 0].reshape(groups, -1, depth, LANES).swapaxes(1, 2).reshape(groups, depth, -1)
    columns, scales, offsets = map(np.stack, zip(*map(pack_columns, matrices)))
    terms = ((0, 0), (0, PARTS * third(depth) - depth))
    channels = np.pad(places[..., 0] * LANES + places[..., 1], terms, "edge")
    return columns, scales.ravel(), offsets.ravel(), channels.astype(np.int32)


def _infer(call):
    x, columns, scales, offsets, places = (need_rank(call, n, rank) for n, rank in enumerate((5, 5, 1, 1, 2)))
    check_dtypes(call, image=(x, "float32"), columns=(columns, "float32"), scales=(scales, "float32"),
                 offsets=(offsets, "float32"), places=(places, "int32"))
    need_blocks(call, x, LANES)
    if not all(map(is_const_int, columns.shape)):
        fail(call, f"columns {shape_text(columns)} must be static")
    groups, panels, parts = (d.value for d in columns.shape[:3])
    count = groups * panels * LANES
    for name, operand, expected in (("columns", columns, (groups, panels, parts, PARTS, LANES)),
                                    ("scales", scales, (count,)), ("offsets", offsets, (count,)),
                                    ("places", places, (groups, PARTS * parts))):
        if not all(map(same_dim, operand.shape, expected)):
            fail(call, f"{name} {shape_text(operand)} must be {expected} for columns {shape_text(columns)}: groups, a "
                       "group's panels, thirds of their terms, their parts, and a panel's columns")
    _check_places(call, x)
    return infer_points(call, x, count, scales)


def _check_places(call, x):
    """Constant places must lie in the data."""
    places, channels = call.args[4], x.shape[1].value * LANES
    if isinstance(places, Constant) and (wrong := np.argwhere((places.data < 0) | (places.data >= channels))).size:
        group, k = map(int, wrong[0])
        fail(call, f"places[{group}, {k}] is {int(places.data[group, k])}, but input {shape_text(x)} has channels 0 to "
                   f"{channels - 1}")


def _lower(args, attrs, out):
    x, columns, scales, offsets, places = args
    batch, blocks, height, width, lanes = te_shape(out)
    (down, right), groups, panels, parts = attrs["strides"], *map(int, columns.shape[:3])
    points = te.compute((batch, height, width, int(x.shape[1]) * lanes), lambda n, y, x_, c: x[
        n, c // lanes, y * down, x_ * right, c % lanes], name="pairs_points")

    def term(row, at):
        n, group, y, x_ = row
        return points[n, y, x_, places[group, at]]

    row = scaled_rows(term, term, (batch, groups, height, width), PARTS * parts, parts)
    sums = pair_sums(row.data, columns, axis=1, place=lambda outer, panel: (outer[1], panel))
    return te.compute((batch, blocks, height, width, lanes), lambda n, ob, y, x_, o: row.result(
        sums[n, ob // panels, y, ob % panels, x_, o], (n, ob // panels, y, x_), scales[ob * lanes + o],
        offsets[ob * lanes + o]), name="conv2d_gathered_pairs")


def _evaluate(args, attrs):
    """The product of each group's channels."""
    x, columns, scales, offsets, places = args
    rows, (groups, panels) = points_of(x, attrs["strides"]), columns.shape[:2]
    own = [part.reshape(groups, panels * LANES) for part in (scales, offsets)]
    results = [product([rows[..., places[g]], columns[g], *(part[g] for part in own)], {}) for g in range(groups)]
    return image_of(np.concatenate(results, axis=-1), LANES)


register("nn.conv2d_gathered_pairs", _infer, _lower, _evaluate, "anchor", (5, 5), strides=(1, 1))
