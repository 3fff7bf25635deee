"""Depthwise convolutions of bytes on processors that compute single numbers: by words of columns, which neighbours
share, or by vectors of columns where they have these too."""
from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from ...arith import Analyzer
from ...expr import is_const_int
from ...relax.ops.conv_planar import BYTES, TAPS
from ..blocks import uses
from ..plan import Kernel, Match, Plan, Tile, shared
from . import tiles
from .blocks import find_block, iter_vars, operand_loads, static_extent, vectorizes
from .registers import anchored, in_registers, ranks, steps
from .threads import parallel_nest

CONV = "conv2d"
MOST_TERMS = 4  # rows of a kernel, which a compiler is not left to unroll


def byte_windows(sch, target):
    """A depthwise convolution of bytes whose sums single registers hold, or vectors of columns."""
    if not target.integers:
        return None
    if find_block(sch, lambda block: block.name_hint == TAPS):
        return _words(sch)
    return _columns(sch, target) if target.columns else None


# ---------------------------------------------------------------- words of columns

# Instructions of a tile of so many rows, of two results each, as gcc 12 makes them for a Cortex-M4F; more rows spill.
OF_ROWS = {1: 58, 2: 103, 3: 155}


@dataclass(frozen=True)
class Taps(Kernel):
    """A depthwise convolution of so many rows, of which so many results share a word. work: FMAs."""

    height: int
    shared: int
    work: int = 0

    rule = "byte_windows"

    def candidates(self, target):
        for rows in OF_ROWS:
            if rows <= self.height:
                yield Plan(self.rule, "words of columns", tile=Tile(1, rows, self.shared))

    def cost(self, plan, target):
        pieces = tiles.pieces(self.height, plan.tile.rows)
        return sum(count * OF_ROWS.get(rows, rows * OF_ROWS[1]) for rows, count in pieces)

    def complete(self, plan, target):
        return plan.replace(threads=plan.threads or shared(target, self.work, "channels"))


def _words(sch):
    """for channels, rows, columns:  acc = 0;  for kh: for rows, columns: acc += word of x * word of w;  epilogue(acc)
    """
    found = anchored(sch, lambda block: block.name_hint == TAPS)
    if found is None or len(sch.get_loops(found[1])) != 4:
        return None
    block = sch.get(sch.get_block(TAPS))
    height = iter_vars(block, "spatial")[2].dom.extent.value
    kernel = Taps(height, int(block.annotations["shared"]), steps(block))
    return Match(kernel, partial(_apply_taps, sch, found[1], kernel))


def _apply_taps(sch, epilogue, kernel, plan, target):
    n, c, y, x = sch.get_loops(epilogue)
    yo, yi = sch.split(y, [None, plan.tile.rows])
    xo, xi = sch.split(x, [None, kernel.shared])
    sch.reorder(n, c, yo, xo, yi, xi)
    sums = sch.get_block(TAPS)
    sch.compute_at(sums, xo, preserve_unit_loops=True)
    sch.set_scope(sums, 0, "local")
    nn, cc, ty, tx, kh = sch.get_loops(sums)[-5:]
    sch.reorder(kh, nn, cc, ty, tx)
    for loop in (yi, xi, ty, tx):
        sch.unroll(loop)
    if static_extent(sch, kh) <= MOST_TERMS:
        sch.unroll(kh)
    sch.decompose_reduction(sums, kh)
    parallel_nest(sch, target, [n, c], kernel.work)


# ---------------------------------------------------------------- vectors of columns

MOST_ROWS = 2  # of a tile: for more gcc 12 keeps places of the input on the stack, beside the weights
REQUANTIZED = 7  # instructions to scale, round and store a vector of sums


@dataclass(frozen=True)
class Columns(Kernel):
    """A depthwise convolution of height x width results by a kernel of so many taps, of which a tile's rows see
    `stride` more rows each. work: FMAs."""

    height: int
    width: int
    taps: tuple[int, int]
    stride: int
    work: int = 0

    rule = "byte_windows"

    def candidates(self, target):
        for rows in range(1, min(MOST_ROWS, self.height) + 1):
            yield Plan(self.rule, "vectors of columns", tile=Tile(1, rows))

    def cost(self, plan, target):
        return sum(count * self._instructions(rows) for rows, count in tiles.pieces(self.height, plan.tile.rows))

    def _instructions(self, rows):
        """Of a tile: a load of each vector and of each weight, products, results."""
        down, across = self.taps
        seen = (rows - 1) * self.stride + down
        return (seen * across + down * across) + rows * (down * across + REQUANTIZED)

    def complete(self, plan, target):
        return plan.replace(threads=plan.threads or shared(target, self.work, "channels"))


def _columns(sch, target):
    """for channels, rows, columns:  acc = 0;  for kh, kw: for rows: for vectors: acc += x * w;  epilogue(acc)"""
    found = anchored(sch, lambda block: _fits(block))
    if found is None or len(sch.get_loops(found[1])) != 4 or not vectorizes(sch.get(found[1])):
        return None
    block = sch.get(sch.get_block(found[0]))
    *_, y, x = (iv.dom.extent.value for iv in iter_vars(block, "spatial"))
    _, *taps = (iv.dom.extent.value for iv in iter_vars(block, "reduce"))
    kernel = Columns(y, x, tuple(taps), _stride(block), steps(block))
    return Match(kernel, partial(_apply_columns, sch, *found, kernel))


def _fits(block):
    """Whether a block sums products of bytes, of which each channel has its own."""
    if block.name_hint != CONV or ranks(block) != (4, 3) or block.init is None or not vectorizes(block):
        return False
    channel, loads = iter_vars(block, "spatial")[1].var, operand_loads(block)
    return (block.writes[0].buffer.dtype == "int32" and len(loads) == 2
            and all(load.dtype in BYTES and uses(load.indices, {channel}) for load in loads)
            and all(is_const_int(iv.dom.extent) for iv in block.iter_vars[1:])
            and is_const_int(iter_vars(block, "reduce")[0].dom.extent, 1))


def _stride(block):
    """By how many rows the input moves with those of the output."""
    row = iter_vars(block, "spatial")[2].var
    load = next(load for load in operand_loads(block) if uses(load.indices, {row}))
    return Analyzer().step(load.indices[2], row)


def _apply_columns(sch, conv, epilogue, kernel, plan, target):
    n, c, y, x = sch.get_loops(epilogue)
    yo, yi = sch.split(y, [None, plan.tile.rows])
    xo, xl = sch.split(x, [None, target.columns.lanes])
    sch.reorder(n, c, xo, yo, yi, xl)
    sums = sch.get_block(conv)
    sch.compute_at(sums, yo, preserve_unit_loops=True)
    sch.set_scope(sums, 0, "local")
    in_registers(sch, [yi], xl)
    *points, row, lane, ic, kh, kw = sch.get_loops(sums)[-7:]
    sch.reorder(ic, kh, kw, *points, row, lane)
    in_registers(sch, [kw, row], lane)
    if static_extent(sch, kh) <= MOST_TERMS:
        sch.unroll(kh)
    sch.decompose_reduction(sums, ic)
    parallel_nest(sch, target, [n, c], kernel.work)
