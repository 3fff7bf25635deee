"""Sums of products of 8-bit slices, and the micro-kernel that makes them on units for tiles of integers (AMX)."""
from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod

from ... import te
from ...expr import Var
from ...relax.arithmetic.split_integer import (COLUMNS, LANES, MOST_ROWS, MOST_TERMS, SLICES, TERMS,
                                               even_rows, slice_of, slice_sums)
from ...tir.buffer import decl_buffer
from ...tir.intrin import call_extern
from ..plan import ONE_THREAD, Kernel, Plan
from ..primitives.sample import divisors
from ..te_intrin import decl_tensor_intrin
from ..tensor_intrin import TensorIntrin
from .blocks import SYMBOLIC
from .tiles import FLOAT, busy

# ---------------------------------------------------------------- the model

UNITS = COLUMNS, LANES  # columns that rows meet at a time: a panel or half of one, a tile's
ROWS, PANELS = "rows", "panels"  # what threads share: rows, each of which cuts its own, or panels once all are cut


@dataclass(frozen=True)
class SplitIntegerProduct(Kernel):
    """A product whose M rows are lines of points, (M, 1) for those of a matrix, of an `image` or not. parts: in
    how many terms are, which then meet whole panels. work: FMAs.

    A plan's block is of rows that meet a panel at a time, its iteration of vectors of columns, a panel's or half of
    them.
    """

    points: tuple
    depth: int
    columns: int
    image: bool = False
    parts: int = 1
    work: int = 0

    rule = "contraction"

    @property
    def rows(self):
        return prod(self.points)

    def seen(self, target):
        shared = target.parallel and self.work // target.cost("split_integer.work") >= target.cost("threads.least_work")
        return target if shared else target.alone()

    def candidates(self, target):
        """Yield blocks of rows that each thread cuts itself, if it may read all columns and hold what it cuts, and
        blocks as large as they may be, with panels that threads share; of an image only where rows are one block."""
        whole = row_blocks(self.rows, self.points[1])
        if not whole:
            return
        own = [(rows, ROWS) for rows in self._lines() if rows < self.rows and self._is_own(target, rows)]
        if not target.parallel:
            ways = [(whole, ONE_THREAD)]
        elif self.image and whole < self.rows:
            ways = own or [(whole, ROWS)]
        else:
            ways = [*own, (whole, PANELS)]
        for rows, threads in ways:
            for unit in UNITS[:1] if self.parts > 1 else UNITS:
                yield Plan(self.rule, arithmetic="split_integer", block=rows, turn=unit // LANES, threads=threads)

    def cost(self, plan, target):
        """Cycles of one thread, or twice those of two that share the work and pass on what they cut."""
        unit = plan.turn * LANES
        alone = cycles(target, self.points, self.depth, self.columns, plan.block, unit)
        if not target.parallel:
            return alone
        blocks = self.rows // plan.block
        if plan.threads == ROWS:
            return alone * busy(blocks)
        passed = self.rows * (SLICES * self.depth + FLOAT * self.columns) * target.cost("split_integer.passed")
        return alone * busy(blocks * -(-self.columns // unit)) + passed

    def _lines(self):
        """Numbers of rows that are whole lines of points and divide all of them."""
        height, width = self.points
        return [n * width for n in divisors(height) if n * width <= MOST_ROWS]

    def _is_own(self, target, rows):
        """Whether L2 holds the columns that each thread then reads, or nearly does beside long rows, and a thread's
        stack the slices of its rows, half of a matrix's."""
        long = not self.image and rows >= target.cost("split_integer.long_rows")
        part = SLICES * self.depth // self.parts
        return part * self.columns <= target.l2_bytes * (2 if long else 1) and (
            self.image or part * min(self.rows // 2, MOST_ROWS) <= target.cost("split_integer.most_slices"))


def is_profitable(target, rows, depth, columns):
    """Whether a product of a constant is predicted to be clearly faster by split integers than by FMAs: of few rows
    where L2 does not hold the columns."""
    rows = even_rows(rows)
    if not target.integer_tiles or depth % TERMS or not fits((rows, 1), depth, columns):
        return False
    if rows <= target.cost("split_integer.few_rows"):
        return FLOAT * depth * columns > target.l2_bytes
    share = target.cost("split_integer.profitable")
    return cycles(target, (rows, 1), depth, columns) < share * rows * depth * columns / 32


def fits(points, depth, columns, least=1):
    """Whether split integers are for a product whose rows are so many rows of points in a row."""
    return (prod(points) >= least and depth <= MOST_TERMS and columns >= COLUMNS
            and row_blocks(prod(points), points[1]) > 0)


def cycles(target, points, depth, columns, block=None, unit=None):
    """The estimated time of a product that fits, whose rows meet units of columns in blocks: the unit that is least."""
    rows = prod(points)
    block = block or row_blocks(rows, points[1])
    if unit is None:
        return min(cycles(target, points, depth, columns, block, unit) for unit in UNITS)
    calls, steps = rows // block * -(-columns // unit), -(-depth // TERMS)
    tile = target.cost("split_integer.step") * steps + target.cost("split_integer.tile")
    return (calls * (target.cost("split_integer.call") + -(-block // 16) * tile * unit // COLUMNS)
            + points[0] * target.cost("split_integer.scale")
            + rows * steps * (TERMS // LANES) * target.cost("split_integer.cut"))


def row_blocks(rows, multiple=1):
    """How many rows meet a panel at a time: all, or a part of them that divides them and is a multiple of a number; 0
    where there is none, or rows are SYMBOLIC."""
    if rows <= MOST_ROWS:
        return rows
    fitting = divisors(rows // multiple) if rows < SYMBOLIC else ()
    return max((n * multiple for n in fitting if MOST_ROWS // 4 <= n * multiple <= MOST_ROWS), default=0)


# ---------------------------------------------------------------- the micro-kernel

# The strides of a panel, in bytes: of a step, a slice, a tile's columns, four terms, a column, a term.
PANEL = SLICES * COLUMNS * TERMS, COLUMNS * TERMS, LANES * TERMS, 4 * LANES, 4, 1


def split_integer_tiles(*sizes):
    """The name of the TensorIntrin that makes the sums of so many (rows, a panel's columns or half of them, steps); of
    (count, rows, columns, steps) those of `count` panels that follow one another, each with rows of its own."""
    return f"split_integer_tiles.{'x'.join(map(str, sizes))}"


def _declare(*sizes):
    *several, rows, columns, steps = sizes
    left = te.placeholder((*several, steps, rows, SLICES, TERMS), "int8", name="left")
    right = te.placeholder((*(several or [1]), steps, SLICES, columns // LANES, TERMS // 4, LANES, 4), "int8",
                           name="right")
    sums = slice_sums(left, right, tuple(several), 1, rows, place=lambda outer, panel: outer[0] if several else panel)
    step, panel, following, apart = (Var(name, "int32") for name in ("step", "panel", "following", "apart"))
    outer, between = ([following], [apart, rows * columns, columns, LANES, 1]) if several else ([], ())
    buffers = {
        left: decl_buffer(left.shape, left.dtype, "left", offset_factor=1,
                          strides=[*outer, step, SLICES * TERMS, TERMS, 1]),
        right: decl_buffer(right.shape, right.dtype, "right", offset_factor=1, strides=[panel, *PANEL]),
        sums: decl_buffer(sums.shape, sums.dtype, "sums", offset_factor=1, strides=between)}

    def call(ins, outs):
        a, b = ins
        name, more = ("ingot_tiles_products", [*several, following, apart]) if several else ("ingot_tiles_product", [])
        return call_extern("int32", name, outs[0].access_ptr("w"), a.access_ptr("r"), b.access_ptr("r"), rows, columns,
                           steps, step, panel, *more)

    intrin = decl_tensor_intrin(sums.op, call, name="split_integer_tiles", binds=buffers)
    return intrin.description("body"), intrin.implementation("body")


TensorIntrin.family(r"split_integer_tiles\.(\d+)x(\d+)x(\d+)", _declare)
TensorIntrin.family(r"split_integer_tiles\.(\d+)x(\d+)x(\d+)x(\d+)", _declare)

SLICES_OF_TERMS = "split_integer_tiles.slices"  # of 64 of a row, which lie one after the other


def _declare_slices():
    fixed = te.placeholder((TERMS // LANES, LANES), "float32", name="fixed")
    slices = te.compute((SLICES, TERMS), lambda d, at: slice_of(fixed[at % 4, at // 4], d), name="slices")
    buffers = {fixed: decl_buffer(fixed.shape, fixed.dtype, "fixed", offset_factor=1),
               slices: decl_buffer(slices.shape, slices.dtype, "slices", offset_factor=1, strides=[TERMS, 1])}

    def call(ins, outs):
        return call_extern("int32", "ingot_tiles_slices", outs[0].access_ptr("w"), ins[0].access_ptr("r"), TERMS)

    intrin = decl_tensor_intrin(slices.op, call, name="slices", binds=buffers)
    return intrin.description("body"), intrin.implementation("body")


TensorIntrin.family(re.escape(SLICES_OF_TERMS), _declare_slices)
