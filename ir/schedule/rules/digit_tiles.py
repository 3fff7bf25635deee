"""Sums of products of 8-bit digits, and the micro-kernel that makes them on units for tiles of integers (AMX)."""
from __future__ import annotations

import re
from math import prod

from ... import te
from ...expr import Var
from ...relax.arithmetic.digits import (COLUMNS, SLICES, LANES, MOST_ROWS, MOST_TERMS, TERMS, digit_of, digit_sums,
                                         even_rows)
from ...tir.buffer import decl_buffer
from ...tir.intrin import call_extern
from ..primitives.sample import divisors
from ..te_intrin import decl_tensor_intrin
from ..tensor_intrin import TensorIntrin
from .blocks import SYMBOLIC
from .tiles import FLOAT, busy

# ---------------------------------------------------------------- what pays

UNITS = COLUMNS, LANES  # columns that rows meet at a time: a panel or half of one, a tile's
LEAST_ROWS = 4  # of an image; of fewer, reading the columns takes the time
FEW = 5  # rows of which the micro-kernel reads columns as fast as they come, at three bytes for four of floats
# Cycles, of a core that does two FMAs of 16 lanes in each: of the unit for a tile and step of 64 terms, with
# its loads; for a tile's sums, which leave the unit, are joined and scaled; for a call of the micro-kernel, which sets
# the unit up; for a scale; for 16 terms that are looked at for it and cut into digits.
STEP, TILE, CALL, ROW, SPLIT = 330, 250, 300, 30, 6
WORTH = 2 / 3  # of the time of FMAs
FASTER = 4  # FMAs by digits, than those that threads' shares of loops are counted in
PASSED = 0.5  # cycles of a byte of digits or results that comes from another core


def worth(target, rows, depth, columns):
    """Whether a product of a constant is predicted to be clearly faster by digits than by FMAs: of few rows
    where L2 does not hold the columns."""
    rows = even_rows(rows)
    if not target.integer_tiles or depth % TERMS or not fits((rows, 1), depth, columns, least=1):
        return False
    if rows <= FEW:
        return FLOAT * depth * columns > target.l2_bytes
    return cycles((rows, 1), depth, columns) < WORTH * rows * depth * columns / 32


def fits(points, depth, columns, least=LEAST_ROWS):
    """Whether digits are for a product whose rows are so many rows of points in a row."""
    return (prod(points) >= least and depth <= MOST_TERMS and columns >= COLUMNS
            and row_blocks(prod(points), points[1]) > 0)


def cycles(points, depth, columns, block=None, unit=None):
    """The estimated time of a product that fits, whose rows meet units of columns in blocks: the unit that is least."""
    if unit is None:
        return min(cycles(points, depth, columns, block, unit) for unit in UNITS)
    rows = prod(points)
    block = block or row_blocks(rows, points[1])
    calls, steps = rows // block * -(-columns // unit), -(-depth // TERMS)
    return (calls * (CALL + -(-block // 16) * (STEP * steps + TILE) * unit // COLUMNS)
            + points[0] * ROW + rows * steps * (TERMS // LANES) * SPLIT)


def choose_unit(target, points, depth, columns, block=None):
    """The columns that blocks of rows meet at a time: those that take least, where threads share all of them if there
    is one block, or none."""
    rows = prod(points)
    alone = (target.parallel and rows * depth * columns >= FASTER * target.cost("threads.least_work")
             and (block or row_blocks(rows, points[1])) == rows)
    return min(UNITS, key=lambda unit: cycles(points, depth, columns, block, unit) * (
        busy(-(-columns // unit)) if alone else 1))


def shared_rows(points, depth, columns):
    """How many rows of an image's points two threads meet a panel with at a time, so that each keeps its own rows of
    the image from kernel to kernel; all where there is nothing to gain over sharing panels."""
    height, width = points

    def time(rows):
        blocks = height * width // rows
        if blocks > 1:
            return cycles(points, depth, columns, rows) * busy(blocks) / 2
        passed = PASSED * rows * (SLICES * depth + FLOAT * columns) / 2
        return passed + min(cycles(points, depth, columns, rows, unit) * busy(-(-columns // unit)) / 2
                            for unit in UNITS)

    return min((n * width for n in divisors(height) if n * width <= MOST_ROWS), key=time)


def row_blocks(rows, multiple=1):
    """How many rows meet a panel at a time: all, or a part of them that divides them and is a multiple of a number; 0
    where there is none, or rows are SYMBOLIC."""
    if rows <= MOST_ROWS:
        return rows
    fitting = divisors(rows // multiple) if rows < SYMBOLIC else ()
    return max((n * multiple for n in fitting if MOST_ROWS // 4 <= n * multiple <= MOST_ROWS), default=0)


# ---------------------------------------------------------------- the micro-kernel

# The strides of a panel, in bytes: of a step, a digit, a tile's columns, four terms, a column, a term.
PANEL = SLICES * COLUMNS * TERMS, COLUMNS * TERMS, LANES * TERMS, 4 * LANES, 4, 1


def digit_tiles(rows, columns, steps):
    """The name of the TensorIntrin that makes the sums of so many rows and a panel's columns, all or half of them."""
    return f"digit_tiles.{rows}x{columns}x{steps}"


def _declare(rows, columns, steps):
    left = te.placeholder((steps, rows, SLICES, TERMS), "int8", name="left")
    right = _columns(1, columns, steps)
    sums = digit_sums(left, right, (), 1, rows)
    step, panel = Var("step", "int32"), Var("panel", "int32")
    buffers = {
        left: decl_buffer(left.shape, left.dtype, "left", offset_factor=1, strides=[step, SLICES * TERMS, TERMS, 1]),
        right: decl_buffer(right.shape, right.dtype, "right", offset_factor=1,
                           strides=[panel, *PANEL]),
        sums: decl_buffer(sums.shape, sums.dtype, "sums", offset_factor=1)}

    def call(ins, outs):
        a, b = ins
        return call_extern("int32", "ingot_tiles_product", outs[0].access_ptr("w"), a.access_ptr("r"),
                           b.access_ptr("r"), rows, columns, steps, step, panel)

    intrin = decl_tensor_intrin(sums.op, call, name="digit_tiles", binds=buffers)
    return intrin.description("body"), intrin.implementation("body")


TensorIntrin.family(r"digit_tiles\.(\d+)x(\d+)x(\d+)", _declare)


def digit_tiles_of(count, rows, columns, steps):
    """The name of the TensorIntrin that does so for `count` panels that follow one another, each with rows of its own.
    """
    return f"digit_tiles.{count}x{rows}x{columns}x{steps}"


def _declare_several(count, rows, columns, steps):
    left = te.placeholder((count, steps, rows, SLICES, TERMS), "int8", name="left")
    right = _columns(count, columns, steps)
    sums = digit_sums(left, right, (count,), 1, rows, place=lambda outer, panel: outer[0])
    step, panel, following, apart = (Var(name, "int32") for name in ("step", "panel", "following", "apart"))
    buffers = {
        left: decl_buffer(left.shape, left.dtype, "left", offset_factor=1,
                          strides=[following, step, SLICES * TERMS, TERMS, 1]),
        right: decl_buffer(right.shape, right.dtype, "right", offset_factor=1, strides=[panel, *PANEL]),
        sums: decl_buffer(sums.shape, sums.dtype, "sums", offset_factor=1,
                          strides=[apart, rows * columns, columns, LANES, 1])}

    def call(ins, outs):
        a, b = ins
        return call_extern("int32", "ingot_tiles_products", outs[0].access_ptr("w"), a.access_ptr("r"),
                           b.access_ptr("r"), rows, columns, steps, step, panel, count, following, apart)

    intrin = decl_tensor_intrin(sums.op, call, name="digit_tiles_of", binds=buffers)
    return intrin.description("body"), intrin.implementation("body")


def _columns(count, columns, steps):
    """So many columns of each of some panels."""
    return te.placeholder((count, steps, SLICES, columns // LANES, TERMS // 4, LANES, 4), "int8", name="right")


TensorIntrin.family(r"digit_tiles\.(\d+)x(\d+)x(\d+)x(\d+)", _declare_several)

DIGITS_OF_TERMS = "digit_tiles.digits"  # of 64 of a row, which lie one after the other


def _declare_digits():
    fixed = te.placeholder((TERMS // LANES, LANES), "float32", name="fixed")
    digits = te.compute((SLICES, TERMS), lambda d, at: digit_of(fixed[at % 4, at // 4], d), name="digits")
    buffers = {fixed: decl_buffer(fixed.shape, fixed.dtype, "fixed", offset_factor=1),
               digits: decl_buffer(digits.shape, digits.dtype, "digits", offset_factor=1, strides=[TERMS, 1])}

    def call(ins, outs):
        return call_extern("int32", "ingot_tiles_digits", outs[0].access_ptr("w"), ins[0].access_ptr("r"), TERMS)

    intrin = decl_tensor_intrin(digits.op, call, name="digits", binds=buffers)
    return intrin.description("body"), intrin.implementation("body")


TensorIntrin.family(re.escape(DIGITS_OF_TERMS), _declare_digits)
