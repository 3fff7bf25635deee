"""1x1 convolutions in groups, of channels that lie anywhere, by pairs."""
from __future__ import annotations

from . import pair_tiles
from .blocks import find_block, inline_all, iter_vars, only_output, static_extent
from .pair_products import (INVERSE, LARGEST, LESS, OWN, ROWS, SCALE, STAGES, SUMS, divide_in, in_row_lanes, join_rows,
                            multiply, read_square, reduce_across, side_by_side)
from .registers import steps
from .threads import parallel_nest

POINTS = "pairs_points"


def gathered_pairs(sch, cpu):
    """nn.conv2d_gathered_pairs with what is fused to it.

        for block of points (parallel):
            for points in the lanes of vectors: for channels of a square: turned = x
            for group:
                for points in the lanes of vectors: largest;  scale
                for points in the lanes of vectors: inverse;  for terms: rows = turned * inverse
                for points in the lanes of vectors: own;  less
                for panel, tile of points:
                    acc = 0;  for t: for point: acc += (x0 + y1) (x1 + y0);  for point: acc += x2 y2;  epilogue(acc)

    All channels are turned first, as a group's may lie in any block of them: a term of it is then a row that is read.
    """
    if find_block(sch, lambda block: block.name_hint == POINTS) is None:
        return False
    inline_all(sch, keep={*STAGES, POINTS})
    epilogue = only_output(sch)
    if epilogue is None:
        return False
    sums = sch.get(sch.get_block(SUMS))
    groups, third = (iter_vars(sums, kind)[at].dom.extent.value for kind, at in (("spatial", 1), ("reduce", 0)))
    channels = iter_vars(sch.get(sch.get_block(POINTS)), "spatial")[-1].dom.extent.value
    join_rows(sch, epilogue, POINTS, 2)
    n, block, *points, lane = sch.get_loops(epilogue)
    group, panel = sch.split(block, [groups, None])
    plan = pair_tiles.choose(cpu, [static_extent(sch, p) for p in points], third, static_extent(sch, panel),
                             kept=channels)
    side_by_side(sch, cpu, (POINTS, ROWS))
    at = multiply(sch, cpu, plan, [n], points, [group, panel], lane)
    divide_in(sch, group, plan.group)
    sch.compute_at(sch.get_block(POINTS), at, preserve_unit_loops=True)
    sch.set_scope(sch.get_block(POINTS), 0, "local")
    _in_vectors(sch, cpu, plan.group)
    parallel_nest(sch, cpu, [n, at], steps(sums))
    return True


def _in_vectors(sch, cpu, size):
    """The stages with a point in each lane."""
    for name in (SCALE, INVERSE, LESS):
        in_row_lanes(sch, cpu, sch.get_loops(sch.get_block(name))[-1])
    for name in (LARGEST, OWN):
        reduce_across(sch, cpu, sch.get_block(name))
    *_, point, term = sch.get_loops(sch.get_block(ROWS))
    sch.reorder(term, point)
    in_row_lanes(sch, cpu, point)
    *_, point, channel = sch.get_loops(sch.get_block(POINTS))
    some, point = sch.split(point, [None, size])
    channel, square = sch.split(channel, [None, cpu.lanes])
    sch.reorder(some, channel, square, point)
    read_square(sch, cpu, square, point)
