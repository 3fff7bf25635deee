"""The arithmetic "split_integer": products of rows and constant columns in fixed point, as sums of products of 8-bit
integers.

Each row of the first operand, and each column of the second, is a scale times numbers of three slices of -128 to 127:
d0 + d1 / 256 + d2 / 65536, which keeps 23 bits below the largest magnitude. Products of slices that weigh less than
1 / 65536 are left out. Sums of the others are exact, so that the result is about as near as that of floats, measured by
the largest magnitudes of row and column (Ozaki's scheme: Ootomo, Ozaki and Yokota 2024, for integer matrix units). A
row with a number that is not finite makes NaN.

The second operand arrives as slices [ceil(N / 32), K / 64, 3, 2, 16, 16, 4], of columns (n / 32, n / 16 % 2, n % 16)
and terms (k / 64, k % 16, k / 16 % 4), and scales [N]. Units for tiles of integers (AMX) read four terms of a column
together; those 16 apart are the same lane of four vectors, so that cutting rows into slices moves nothing across lanes.
"""
from __future__ import annotations

import operator
from functools import reduce
from math import prod

import numpy as np

from ... import te
from ...costs import BASE
from ...expr import Select, cast, const, logical_and
from ...tir import intrin
from .row import LANES, ONLY_RELAXED, Arithmetic, Operand, Scales, Scaling, of_largest

FACTOR = 8  # of its bound

SLICES, TERMS, COLUMNS = 3, 64, 32  # slices of a number; terms of a tile; columns of a panel, of two tiles
MOST_TERMS = 1 << 15  # whose sums of three products of slices 32 bits hold
SOME = 16 * COLUMNS  # that are cut into slices at a time: numbers of 64 bits of all would need much memory
MOST_ROWS, ODD, RESIDENT, PART = (BASE[f"split_integer.{name}"].value for name in (
    "block_rows", "odd_rows", "resident", "part"))
LARGEST = 8355000  # what the largest magnitude of a row becomes: at most 0x7F7F7F, whose slices are all 127
EVEN = 0x808080  # what fixed numbers have added: slices of 0 to 255 instead of -128 to 127
TINY = 4e-32  # stands for smaller largest magnitudes, whose inverse would be infinite: these have fewer slices
_UNIT = 65536 / LARGEST  # the scale of a largest magnitude of 1
_MOST = const(np.finfo(np.float32).max, "float32")


def split_columns(w):
    """(slices int8, scales float32) of the columns of w [K, N], filled up with zeros to whole steps of terms. Columns
    that fill the last panel are zero, and have no scales."""
    w = np.pad(w, ((0, -len(w) % TERMS), (0, 0)))
    parts = [_split_some(w[:, n:n + SOME]) for n in range(0, w.shape[1], SOME)]
    return tuple(map(np.concatenate, zip(*parts)))


def _split_some(w):
    depth, columns = w.shape
    w = np.pad(w, ((0, 0), (0, -columns % COLUMNS)))
    largest = np.maximum(np.abs(w).max(axis=0).astype(np.float64), TINY)
    fixed = np.rint(w * (LARGEST / largest)).astype(np.int32) + EVEN
    slices = np.stack([((fixed >> shift & 255) - 128).astype(np.int8) for shift in (16, 8, 0)])
    slices = slices.reshape(SLICES, depth // TERMS, 4, LANES, -1, 2, LANES)
    return (np.ascontiguousarray(slices.transpose(4, 1, 0, 5, 3, 6, 2)),
            (largest * _UNIT).astype(np.float32)[:columns])


def join_columns(slices, scales):
    """The columns [K, N], float64, that slices and scales stand for."""
    weights = 256.0 ** -np.arange(SLICES)
    numbers = np.tensordot(slices.astype(np.float64), weights, ((2,), (0,)))  # panel, step, half, term, column, block
    return numbers.transpose(1, 5, 3, 0, 2, 4).reshape(slices.shape[1] * TERMS, -1)[:, :len(scales)] * scales


def shapes(depth, columns, given=None):
    return (-(-columns // COLUMNS), -(-depth // TERMS), SLICES, 2, TERMS // 4, LANES, 4), (columns,)


def even_rows(rows):
    """How many rows are cut into slices: of an odd number of many the last one twice, so that they have equal parts."""
    return rows + 1 if isinstance(rows, int) and rows > ODD and rows % 2 else rows


def parts_of_terms(rows, steps):
    """The number of equal parts of the steps in which rows and columns meet, so that slices of rows are RESIDENT; 1
    where parts would be of less than PART steps."""
    block = min(rows, MOST_ROWS) if isinstance(rows, int) else 1
    return next((n for n in range(1, steps // PART + 1)
                 if steps % n == 0 and block * (steps // n) * TERMS * SLICES <= RESIDENT), 1)


# ---------------------------------------------------------------- stages

def prepare(rows, operands, scales):
    """(slices [..., step, row, slice, 64] of rows, their Scales, how many parts the steps are in). Stages of rows by
    themselves: split_integer_largest, split_integer_scale, split_integer_inverse; of all: split_integer_fixed,
    split_integer_rows."""
    steps, lines, parts, element = int(operands[0].shape[1]), rows.lines, 1, rows.element
    if not rows.points:
        lines = even_rows(lines)
        parts = parts_of_terms(lines, steps)

        def element(at, k):
            *outer, m = at
            return rows.element((*outer, m if lines is rows.lines else intrin.min(m, rows.lines - 1)), k)

    shape = (*rows.outer, lines)
    if scales is None:
        first, along, rest = ([te.reduce_axis((0, size), "k") for size in sizes]
                              for sizes in (rows.terms[:1], rows.points, rows.terms[1:]))  # in the order of memory
        point, k = (tuple(axis.var for axis in axes) for axes in (along, first + rest))
        scale = scales_of(largest_of(shape, lambda *i: element((*i, *point), k), first + along + rest))
        inverse = te.compute(shape, lambda *i: inverse_of(scale[i]), name="split_integer_inverse")
        scales = Scales(lambda at: scale[at[:len(shape)]], lambda at: inverse[at[:len(shape)]])
    return _cut(element, scales.inverse, shape, rows, steps), scales, parts


def _cut(element, inverse, shape, rows, steps):
    """The stage split_integer_rows, of lines of a shape, and before it split_integer_fixed."""
    blocks, terms = steps * (TERMS // LANES), rows.terms

    def fixed_point(*i):
        *at, block, lane = i
        k = (block * LANES + lane,) if len(terms) == 1 else (block, lane)
        value = element(tuple(at), k)
        if blocks * LANES > rows.depth:
            value = intrin.if_then_else(k[0] < terms[0], value, const(0.0, "float32"))
        return value * inverse(tuple(at)) + const(float(EVEN), "float32")

    fixed = te.compute((*shape, *rows.points, blocks, LANES), fixed_point, name="split_integer_fixed")

    def one_slice(*i):
        *outer, step, m, d, at = i
        point = (m,) if not rows.points else (m // rows.points[0], m % rows.points[0])
        return slice_of(fixed[(*outer, *point, step * (TERMS // LANES) + at % 4, at // 4)], d)

    return te.compute((*shape[:-1], steps, shape[-1] * prod(rows.points), SLICES, TERMS), one_slice,
                      name="split_integer_rows")


def accumulate(made, rows, operands, place, planes):
    slices, _, parts = made
    panels = int(operands[0].shape[0]) // planes
    return slice_sums(slices, operands[0], rows.outer, panels, slices.shape[-3], parts, place)


def finish(made, rows, operands, sums, at, column, own):
    """Sums of all parts, scaled."""
    _, scales, parts = made
    outer, (line, *point), (block, lane) = at[:len(rows.outer)], at[len(rows.outer):], column
    m = line * rows.points[0] + point[0] if point else line
    places = [(*outer, part) for part in range(parts)] if parts > 1 else [outer]
    total = reduce(operator.add, (sums[(*place, block // 2, m, block % 2, lane)] for place in places))
    return total * own(operands[1]) * scales.scale(at)


_greatest = te.comm_reducer(intrin.greater, lambda dtype: const(0, dtype), name="greatest")


def largest_of(shape, element, axes):
    """The stage split_integer_largest of the largest magnitude of element(*i) over reduce axes; NaN where one is."""
    return te.compute(shape, lambda *i: _greatest(intrin.abs(element(*i)), axes), name="split_integer_largest")


def scales_of(largest):
    """The stage of scales of largest magnitudes; NaN of those that are not finite."""
    return te.compute(largest.shape, lambda *i: Select(
        largest[i] <= _MOST, intrin.max(largest[i], const(TINY, "float32")) * const(_UNIT, "float32"),
        const(float("nan"), "float32")), name="split_integer_scale")


def inverse_of(scale, bound=1):
    """The factor for numbers of at most `bound` times the magnitude that `scale` stands for; 0 where it is not
    finite."""
    return Select(scale <= _MOST, const(65536.0 / bound, "float32") / scale, const(0.0, "float32"))


def slice_of(fixed, d):
    """Slice d of a fixed number, EVEN and rounded to an integer; any where it is none."""
    known = logical_and(fixed >= const(0.0, "float32"), fixed <= const(2.0 * EVEN, "float32"))
    even = cast(Select(known, intrin.round(fixed), const(0.0, "float32")), "int32")
    return cast(intrin.bitwise_and(intrin.shift_right(even, 16 - 8 * d), 255) - 128, "int8")


def slice_sums(left, right, batch, panels, rows, parts=1, place=lambda outer, panel: panel):
    """The stage split_integer_sums [..., part, panel, row, 2, 16] of slices of rows [..., step, row, slice, term] and
    of columns [panel, step, slice, 2, term / 4, 16, 4], or 1 of a half of each panel; without a dimension of parts
    where all steps are one. place: of the indices of a batch and a panel's, where that panel lies."""
    size = left.shape[-4] // parts
    axes = [te.reduce_axis((0, extent), name) for extent, name in ((size, "step"), (TERMS // 4, "kq"), (4, "kz"))]
    step, kq, kz = (axis.var for axis in axes)

    def element(*i):
        *outer, panel, m, h, j = i
        panel = place(outer, panel)
        outer, at = (outer[:-1], outer[-1] * size + step) if parts > 1 else (outer, step)
        a = [cast(left[(*outer, at, m, d, kq * 4 + kz)], "int32") for d in range(SLICES)]
        b = [cast(right[panel, at, d, h, kq, j, kz], "int32") for d in range(SLICES)]
        fixed = a[0] * b[0] * 65536 + (a[0] * b[1] + a[1] * b[0]) * 256 + (a[0] * b[2] + a[1] * b[1] + a[2] * b[0])
        return te.sum(cast(fixed, "float32") * const(1 / 65536, "float32"), axes)

    outer = (*batch, parts) if parts > 1 else batch
    return te.compute((*outer, panels, rows, int(right.shape[3]), LANES), element, name="split_integer_sums")


SPLIT_INTEGER = Arithmetic(
    "split_integer", f"{FACTOR} u K max|x| max|w|, of a row and a column of K terms", of_largest(FACTOR), ONLY_RELAXED,
    needs=lambda target: target.integer_tiles and target.lanes == LANES, pace="split_integer.pace",
    operands=(Operand("slices", 7, "int8"), Operand("scales", 1)), shapes=shapes, most=MOST_TERMS,
    pack=split_columns, unpack=lambda operands, depth: join_columns(*operands)[:depth],
    scaling=Scaling(largest_of, scales_of, inverse_of, by_line=True),
    prepare=prepare, accumulate=accumulate, finish=finish)
