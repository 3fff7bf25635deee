"""Windows in blocked layout, depthwise convolutions and pools: a tile of points in registers, one step for each vector
that is loaded."""
from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from ...arith import Analyzer
from ...expr import Call, IntImm, Select, is_const_int
from ...node import collect
from .. import plan as plans
from ..blocks import uses
from ..plan import Kernel, Match, Plan, Tile, shared
from . import conv_tiles, tiles
from .blocked_convolution import shape_of, tile
from .blocks import innermost, iter_vars, operand_loads, static_extent, vectorizes
from .registers import anchored, ranks
from .threads import parallel_nest
from .tiles import Window

HELD = "held"  # the algorithm whose registers hold data, beside sums


def windows(sch, target):
    """A reduction over the windows of each channel in blocked layout, of any size, stride and dilation:

        for channels, rows, columns:  acc = 0;  for kh, kw: for points: acc += x * w;  epilogue(acc)
    """
    found = anchored(sch, lambda block: _fits(block, target)) if target.lanes > 1 else None
    if found is None:
        return None
    reduction, epilogue = sch.get_block(found[0]), found[1]
    loops = sch.get_loops(epilogue)
    if len(loops) != 5 or not vectorizes(sch.get(epilogue), sch.get(epilogue).iter_vars[-1].var):
        return None
    # One point has one chain of sums, which wait for each other: vectors of several channels then share a tile.
    point = all(is_const_int(sch.get(loop).extent, 1) for loop in loops[2:4])
    groups = 1 if point else static_extent(sch, loops[1])
    kernel = windows_of(sch, target, reduction, epilogue, groups)
    return Match(kernel, partial(_apply, sch, reduction, epilogue, kernel))


def _apply(sch, reduction, epilogue, kernel, plan, target):
    loops, by_rows = tile_windows(sch, target, reduction, epilogue, kernel, plan)
    parallel_nest(sch, target, loops, kernel.conv.work, by_rows)


def _fits(block, target):
    """Whatever the windows read has a vector of channels innermost."""
    if block.init is None or ranks(block) != (5, 2):
        return False
    lane = iter_vars(block, "spatial")[-1]
    return (vectorizes(block, lane.var) and is_const_int(lane.dom.extent, target.lanes)
            and all(innermost(load) is lane.var for load in operand_loads(block)))


@dataclass(frozen=True)
class Windows(Kernel):
    """A reduction over windows: conv, the Shape of it as a convolution; row: the Window of a row, None where loads are
    not shared; weights: whether there are some. band: so many rows at a time, not all.

    Where registers have room for what a tile sees in a row of the window, and for that row of weights, these are loaded
    once for all its columns, not by each FMA.
    """

    conv: conv_tiles.Shape
    row: Window | None = None
    weights: bool = False
    band: int | None = None

    rule = "windows"

    def candidates(self, target):
        """The best tile of FMAs that load each theirs, and those that hold their data."""
        shape, row = self.conv, self.row
        yield plans.choose(shape, target).replace(rule=self.rule, threads="")
        if not row:
            return
        most = min(target.registers, target.accumulators or target.registers)
        fitting = (Tile(1, r, c) for c in range(1, min(shape.width, most) + 1)
                   for r in range(1, min(shape.height, most // c) + 1)
                   if r * c + self._loads(r, c, True) + 1 < target.registers)
        for tile_ in sorted(fitting, key=lambda t: t.rows):
            yield Plan(self.rule, HELD, tile=tile_, block=shape.height)

    def cost(self, plan, target):
        if not self.row:
            return 0
        start, turns, held = target.cost("windows.start"), self.conv.steps // self.row.taps, plan.algorithm == HELD
        return sum(count * (start + turns * self.row.cycles(target, r * c, self._loads(r, c, held)))
                   for r, c, count in tiles.grid(self.conv.height, self.conv.width, plan.tile))

    def complete(self, plan, target):
        if self.band:
            rows = plan.tile.rows if self.band % plan.tile.rows == 0 else 1
            plan = plan.replace(tile=plan.tile.replace(rows=rows), block=self.band)
        return plan.replace(threads=plan.threads or shared(target, self.conv.work, "bands, channels and rows"))

    def _loads(self, rows, columns, held):
        taps = self.row.taps
        return rows * (self.row.seen(columns) if held else columns * taps) + taps * self.weights


def windows_of(sch, target, reduction, epilogue, groups, band=None):
    """The Windows of a kernel, from its blocks. band: as in Windows."""
    block = sch.get(reduction)
    row = _row(block)
    return Windows(shape_of(sch, target, reduction, epilogue, groups), row,
                   row is not None and len(operand_loads(block)) > 1, band)


def tile_windows(sch, target, reduction, epilogue, kernel, plan):
    """blocked_convolution.tile by a plan for Windows."""
    held = [load.buffer for load in operand_loads(sch.get(reduction))] if plan.algorithm == HELD else ()
    return tile(sch, target, reduction, epilogue, kernel.conv, plan, held=held)


def _row(block):
    """The Window of a row; None where loads are not shared, or made under a condition."""
    kw = iter_vars(block, "reduce")[1]
    _, _, y, x, _ = iter_vars(block, "spatial")
    data = [load for load in operand_loads(block) if uses(load.indices, {y.var, x.var})]
    choices = collect(block.body, Select) or [c for c in collect(block.body, Call) if c.op == "tir.if_then_else"]
    if len(data) != 1 or choices or not isinstance(kw.dom.extent, IntImm) or kw.dom.extent.value < 2:
        return None
    moves = [Analyzer().step(data[0].indices[3], v) for v in (x.var, kw.var)]
    return None if None in moves else Window(kw.dom.extent.value, *moves)
