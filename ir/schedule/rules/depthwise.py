"""Depthwise convolutions in blocked layout: a tile of points in registers, and a multiply-add for each vector loaded."""
from __future__ import annotations

from .blocked_convolution import shape_of, tile
from .blocks import static_extent
from .registers import anchored, ranks


def depthwise(sch, cpu):
    """A depthwise convolution in blocked layout, of any kernel:

        for channels, rows, columns:  acc = 0;  for kh, kw: for points: acc += x * w;  epilogue(acc)
    """
    found = anchored(sch, lambda block: block.name_hint == "depthwise_blocked" and ranks(block) == (5, 2))
    if found is None or cpu.lanes == 1:
        return False
    conv, epilogue = sch.get_block(found[0]), found[1]
    blocks = static_extent(sch, sch.get_loops(epilogue)[1])
    tile(sch, cpu, conv, epilogue, shape_of(sch, conv, epilogue, groups=blocks))
    return True
