"""A depthwise convolution and the 1x1 convolution that alone reads it, as one kernel: a row of the one stays in the
first cache until the other has read it."""
from __future__ import annotations

from dataclasses import replace
from functools import partial

from ...expr import is_const_int
from ..plan import Match, Stages
from .blocked_convolution import shape_of, tile
from .blocks import find_block, iter_vars, static_extent
from .registers import anchored, ranks
from .threads import parallel_nest
from .windows import tile_windows, windows_of

DEPTHWISE, POINTWISE = "depthwise_blocked", "conv2d_blocked"


def pays(cpu, middle, rows, weights):
    """Whether it is faster to take row by row of what a depthwise convolution hands on, `middle` bytes in `rows` rows,
    than to store all of it and read it again: each row then reads all weights of the 1x1 convolution, `weights` bytes.
    What stays in the second cache costs nothing: its loads and stores hide behind multiply-adds.
    """
    apart = 2 * middle / cpu.cost("far_read") if middle > cpu.l2_bytes else 0
    fused = rows * weights / cpu.cost("l2_read") if weights + middle // rows > cpu.l1_bytes else 0
    return fused < apart


def depthwise_pointwise(sch, cpu):
    """Both convolutions in blocked layout, the first of any size and stride, with what is between and after them:

        for rows:
            for channels, columns:  acc = 0;  for kh, kw: for points: acc += x * w;  middle = epilogue(acc)
            for channels, columns:  acc = 0;  for ic, ii: for points: for vectors: acc += broadcast(middle) * w;  ...
    """
    if not has_parts(sch, cpu):
        return None
    depthwise, conv = sch.get_block(DEPTHWISE), sch.get_block(POINTWISE)
    read = [sch.get(block).name_hint for block in sch.get_producers(conv)]
    if len(read) != 1:
        return None
    last, = read
    found = anchored(sch, lambda block: is_part(block, POINTWISE), keep={DEPTHWISE, last})
    if found is None:
        return None
    epilogue = found[1]
    middle = sch.cache_write(depthwise, 0, "local") if last == DEPTHWISE else sch.get_block(last)
    shape = shape_of(sch, cpu, conv, epilogue, 1)
    own = windows_of(sch, cpu, depthwise, middle, static_extent(sch, sch.get_loops(middle)[-4]))
    own = replace(own, conv=replace(own.conv, height=1, work=0))
    kernel = Stages("depthwise_pointwise", (replace(shape, height=1, work=0), own), shape.work, "rows")
    return Match(kernel, partial(_apply, sch, depthwise, middle, conv, epilogue, shape, own))


def _apply(sch, depthwise, middle, conv, epilogue, shape, own, plan, cpu):
    rows, windows = plan.stages
    (n, band, *_), _ = tile(sch, cpu, conv, epilogue, shape, rows)
    sch.compute_at(middle, band, preserve_unit_loops=True)
    tile_windows(sch, cpu, depthwise, middle, own, windows)
    parallel_nest(sch, cpu, [n, band], shape.work)


def has_parts(sch, cpu):
    """Whether there are both convolutions, with channels in vectors."""
    return cpu.lanes > 1 and all(find_block(sch, lambda b, n=name: is_part(b, n)) for name in (DEPTHWISE, POINTWISE))


def is_part(block, name):
    """Whether a block is the depthwise convolution or the 1x1 convolution, by its name."""
    if block.name_hint != name or block.init is None:
        return False
    pointwise = all(is_const_int(iv.dom.extent, 1) for iv in iter_vars(block, "reduce")[1:3])
    return ranks(block) == (5, 2) if name == DEPTHWISE else ranks(block) == (5, 4) and pointwise
