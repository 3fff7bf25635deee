"""Convolutions of bytes by single numbers: a tile of sums, some channels of some points, in the registers of a
processor without vectors."""
from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from ...relax.ops.conv_planar import ROWS, SUMS
from ...tir.hints import DOT_ROW, UNROLL
from ..plan import Kernel, Match, Plan, Tile, shared
from ..primitives.sample import divisors
from . import tiles
from .blocks import iter_vars, static_extent
from .registers import anchored, steps
from .threads import parallel_nest

LOADED = {True: 3, False: 1}  # instructions to load a word and take its bytes apart, or to load a number
MULTIPLIED = 2  # those that add the products of a word to a sum, or multiply and add a number
TURN = 4  # those of an iteration besides
MOST_TERMS = 4  # words of an iteration, which a compiler is not left to unroll
FEW_TERMS, MANY_REGISTERS = 2, 16  # numbers of one where there are more registers; else one
COPIED = 4  # channels of a point that are copied in one go


@dataclass(frozen=True)
class ByteTiles(Kernel):
    """A convolution of height x width points, of so many channels side by side and so many inputs; words: whether its
    terms are. terms: of a sum. work: FMAs."""

    height: int
    width: int
    channels: int
    inputs: int
    words: bool
    terms: int
    work: int = 0

    rule = "byte_tiles"

    def candidates(self, target):
        most = max(target.integers.accumulators // self.channels, 1)
        for rows in range(1, min(most, self.height) + 1):
            for columns in range(1, min(most // rows, self.width) + 1):
                yield Plan(self.rule, tile=Tile(1, rows, columns, self.channels))

    def cost(self, plan, target):
        """Instructions of the loops over terms."""
        return sum(count * (LOADED[self.words] * (self.channels + r * c) + MULTIPLIED * self.channels * r * c + TURN)
                   for r, c, count in tiles.grid(self.height, self.width, plan.tile)) * self.terms

    def complete(self, plan, target):
        return plan.replace(threads=plan.threads or shared(target, self.work, "rows"))


def byte_tiles(sch, target):
    """A convolution whose input is copied to rows of channels:

        for rows of points:  rows = x
            for channels, points:  acc = 0;  for kh, kw, ic: for points: for channels: acc += rows * w;  epilogue(acc)
    """
    found = anchored(sch, lambda block: block.name_hint == SUMS, keep={ROWS}) if target.integers else None
    if found is None or len(sch.get_loops(found[1])) != 4:
        return None
    block = sch.get(sch.get_block(SUMS))
    *_, y, x, lanes = (iv.dom.extent.value for iv in iter_vars(block, "spatial"))
    kernel = ByteTiles(y, x, lanes, _inputs(sch), _of_words(block), steps(block) // (y * x * lanes), steps(block))
    return Match(kernel, partial(_apply, sch, found[1], kernel))


def _inputs(sch):
    """The channels of the image that is copied."""
    return sch.get(sch.get_block(ROWS)).reads[0].buffer.shape[1].value


def _of_words(block):
    return any(region.buffer.dtype == "int32" for region in block.reads if region.buffer is not block.writes[0].buffer)


def _apply(sch, epilogue, kernel, plan, target):
    tile = plan.tile
    n, c, y, x = sch.get_loops(epilogue)
    co, ci = sch.split(c, [None, kernel.channels])
    yo, yi = sch.split(y, [None, tile.rows])
    xo, xi = sch.split(x, [None, tile.columns])
    sch.reorder(n, yo, co, xo, yi, xi, ci)
    sums, rows = sch.get_block(SUMS), sch.get_block(ROWS)
    sch.compute_at(sums, xo, preserve_unit_loops=True)
    sch.set_scope(sums, 0, "local")
    _copy(sch, rows, yo, kernel.inputs)
    for loop in (yi, xi, ci):
        sch.unroll(loop)
    nn, oo, ty, tx, oi, kh, k, *row = sch.get_loops(sums)[-len(sch.get(sums).iter_vars):]
    sch.reorder(kh, k, nn, oo, ty, tx, oi, *row)
    for t in row:
        sch.annotate(t, DOT_ROW, 1)
    most = 1 if row else MOST_TERMS if kernel.words else FEW_TERMS if target.integers.registers > MANY_REGISTERS else 1
    terms = max(d for d in divisors(static_extent(sch, k)) if d <= most)
    run, term = sch.split(k, [None, terms])
    for loop in (term, ty, tx, oi):
        sch.unroll(loop)
    sch.decompose_reduction(sums, kh)
    sch.annotate(run, UNROLL, 1)
    parallel_nest(sch, target, [n, yo], kernel.work)


def _copy(sch, rows, at, inputs):
    """The rows that an iteration reads, some channels at a time."""
    sch.compute_at(rows, at, preserve_unit_loops=True)
    sch.set_scope(rows, 0, "local")
    *_, y, f = sch.get_loops(rows)
    if inputs > 1:
        x, k, own = sch.split(f, [None, inputs // COPIED, COPIED] if inputs % COPIED == 0 else [None, 1, inputs])
        sch.reorder(y, k, x, own)
        sch.unroll(own)
