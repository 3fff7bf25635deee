"""Windows in blocked layout, depthwise convolutions and pools: a tile of points in registers, one step for each vector
that is loaded."""
from __future__ import annotations

from dataclasses import replace

from ...arith import Analyzer
from ...expr import Call, IntImm, Select, is_const_int
from ...node import collect
from ..blocks import uses
from . import conv_tiles, tiles
from .blocked_convolution import shape_of, tile
from .blocks import innermost, iter_vars, operand_loads, static_extent, vectorizes
from .conv_tiles import Plan
from .registers import anchored, ranks, steps
from .threads import parallel_nest
from .tiles import Window


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
    loops, by_rows = tile_windows(sch, cpu, reduction, epilogue, shape_of(sch, reduction, epilogue, groups))
    parallel_nest(sch, cpu, loops, steps(sch.get(reduction)), by_rows)
    return True


def _fits(block, cpu):
    """Whatever the windows read has a vector of channels innermost."""
    if block.init is None or ranks(block) != (5, 2):
        return False
    lane = iter_vars(block, "spatial")[-1]
    return (vectorizes(block, lane.var) and is_const_int(lane.dom.extent, cpu.lanes)
            and all(innermost(load) is lane.var for load in operand_loads(block)))


def tile_windows(sch, cpu, reduction, epilogue, shape, band=None):
    """blocked_convolution.tile; where registers have room for what a tile sees in a row of the window, and for that row
    of weights, these are loaded once for all its columns, not by each multiply-add. band: so many rows at a time, not
    all."""
    row = _row(sch.get(reduction))
    held = [load.buffer for load in operand_loads(sch.get(reduction))] if row else []
    found = choose(cpu, shape, row, len(held) > 1) if row else None

    def plan(cpu, shape):
        whole = found or conv_tiles.choose(cpu, shape)
        rows = whole.rows if band is None or band % whole.rows == 0 else 1
        return replace(whole, rows=rows, band=band or whole.band)

    return tile(sch, cpu, reduction, epilogue, shape, plan, held=held if found else ())


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


def choose(cpu, shape, row, weights):
    """The Plan of a tile that holds its data; None where multiply-adds that load each theirs are as fast."""
    def cycles(plan, held):
        start = cpu.cost("windows.start")
        return sum(count * (start + shape.steps // row.taps * row.cycles(cpu, r * c, loads(r, c, held)))
                   for r, c, count in tiles.grid(shape.height, shape.width, plan))

    def loads(rows, columns, held):
        return rows * (row.seen(columns) if held else columns * row.taps) + row.taps * weights

    most = min(cpu.registers, cpu.accumulators or cpu.registers)
    plans = [Plan(1, r, c, shape.height) for c in range(1, min(shape.width, most) + 1)
             for r in range(1, min(shape.height, most // c) + 1) if r * c + loads(r, c, True) + 1 < cpu.registers]
    best = min(plans, key=lambda p: (cycles(p, True), p.rows), default=None)
    return best if best and cycles(best, True) < cycles(conv_tiles.choose(cpu, shape), False) else None
