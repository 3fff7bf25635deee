"""1x1 convolutions in groups, of channels that lie anywhere, by pairs."""
from __future__ import annotations

from . import pair_tiles
from .blocks import find_block, inline_all, iter_vars, operand_loads, static_extent
from .pair_products import (INVERSE, LARGEST, LESS, OWN, ROWS, SCALE, STAGES, SUMS, divide_in, follow, in_a_row,
                            in_row_lanes, join_points, multiply, read_square, reduce_across, side_by_side)
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
    outputs = sch.get_output_blocks("root")
    if len(outputs) != 1:
        return False
    sums, epilogue = sch.get(sch.get_block(SUMS)), outputs[0]
    groups, third = (iter_vars(sums, kind)[at].dom.extent.value for kind, at in (("spatial", 1), ("reduce", 0)))
    channels = iter_vars(sch.get(sch.get_block(POINTS)), "spatial")[-1].dom.extent.value
    _join(sch, epilogue)
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


def _join(sch, epilogue):
    """One dimension of the rows and columns of an image, and of those of the results, where they follow one another."""
    points, sums = map(sch.get_block, (POINTS, SUMS))
    _, y, x, _ = iter_vars(sch.get(points), "spatial")
    width = x.dom.extent.value
    if not all(in_a_row(load, y.var, x.var, width) for load in operand_loads(sch.get(points))):
        return
    join_points(sch, points, 1, width)
    for name in STAGES[1:]:
        join_points(sch, sch.get_block(name), 2, width)
    if follow(sch.get(epilogue), width):
        sch.transform_block_layout(epilogue, lambda n, c, y, x, o: (n, c, y * width + x, o))
        sch.transform_block_layout(sums, lambda n, g, y, c, x, *rest: (n, g, c, y * width + x, *rest))
        sch.transform_layout(sums, ("write", 0), lambda n, g, y, c, x, o: (n, g, c, y * width + x, o))


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
