"""Windows in blocked layout, depthwise convolutions and pools: a tile of points in registers, one step for each vector
that is loaded."""
from __future__ import annotations

from ...expr import is_const_int
from .blocked_convolution import shape_of, share_tiles
from .blocks import iter_vars, operand_loads, static_extent, vectorizes
from .registers import anchored, ranks


def windows(sch, cpu):
    """A reduction over the windows of each channel in blocked layout, of any size, stride and dilation:

        for channels, rows, columns:  acc = 0;  for kh, kw: for points: acc += x * w;  epilogue(acc)
    """
    found = anchored(sch, lambda block: _fits(block, cpu)) if cpu.lanes > 1 else None
    if found is None:
        return False
    reduction, epilogue = sch.get_block(found[0]), found[1]
    loops = sch.get_loops(epilogue)
    if len(loops) != 5 or not vectorizes(sch.get(epilogue), sch.get(epilogue).iter_vars[-1].var):
        return False
    # One point has one chain of sums, which wait for each other: vectors of several channels then share a tile.
    point = all(is_const_int(sch.get(loop).extent, 1) for loop in loops[2:4])
    groups = 1 if point else static_extent(sch, loops[1])
    share_tiles(sch, cpu, reduction, epilogue, shape_of(sch, reduction, epilogue, groups))
    return True


def _fits(block, cpu):
    """Whatever the windows read has a vector of channels innermost."""
    if block.init is None or ranks(block) != (5, 2):
        return False
    lane = iter_vars(block, "spatial")[-1]
    return (vectorizes(block, lane.var) and is_const_int(lane.dom.extent, cpu.lanes)
            and all(load.indices[-1] is lane.var for load in operand_loads(block)))
