"""matmul_digits: products of float32 rows and constant columns in fixed point, as sums of products of 8-bit integers.

Each row of the first operand, and each column of the second, is a scale times numbers of three digits of -128 to 127:
d0 + d1 / 256 + d2 / 65536, which keeps 23 bits below the largest magnitude. Products of digits that weigh less than
1 / 65536 are left out. Sums of the others are exact, so that the result is about as near as that of floats, measured by
the largest magnitudes of row and column (Ozaki's scheme: Ootomo, Ozaki and Yokota 2024, for integer matrix units). A
row with a number that is not finite makes NaN.

The second operand arrives as digits [ceil(N / 32), K / 64, 3, 2, 16, 16, 4], of columns (n / 32, n / 16 % 2, n % 16)
and terms (k / 64, k % 16, k / 16 % 4), and scales [N]. Units for tiles of integers (AMX) read four terms of a column
together; those 16 apart are the same lane of four vectors, so that cutting rows into digits moves nothing across lanes.
"""
from __future__ import annotations

import operator
from functools import reduce
from math import prod

import numpy as np

from ... import te
from ...expr import Select, cast, const, is_const_int, logical_and
from ...op import register
from ...tir import intrin
from ..expr import TensorStructInfo
from .common import check_dtypes, dim_text, fail, need_rank, same_dim, shape_text, te_shape, tensor

# Digits of a number, and a tile's terms, columns of a panel, and columns of one of its two tiles.
DIGITS, TERMS, COLUMNS, LANES = 3, 64, 32, 16
MOST_TERMS = 1 << 15  # whose sums of three products of digits 32 bits hold
SOME = 16 * COLUMNS  # that are cut into digits at a time: numbers of 64 bits of all would need much memory
MOST_ROWS = 512  # that meet a panel at a time, whose sums with it the second cache holds beside it
ODD = 96  # rows, from which on one more costs little
NEAR = 1 << 20  # bytes of digits of rows that stay there while panels pass: half of it
PART = 8  # steps, of which products take ten times as long as their sums, which each part of the terms has
LARGEST = 8355000  # what the largest magnitude of a row becomes: at most 0x7F7F7F, whose digits are all 127
EVEN = 0x808080  # what fixed numbers have added: digits of 0 to 255 instead of -128 to 127
TINY = 4e-32  # stands for smaller largest magnitudes, whose inverse would be infinite: these have fewer digits
_UNIT = 65536 / LARGEST  # the scale of a largest magnitude of 1
_MOST = const(np.finfo(np.float32).max, "float32")


def split_columns(w):
    """(digits int8, scales float32) of the columns of w [K, N], K a multiple of 64. Columns that fill the last panel
    are zero, and have no scales."""
    parts = [_split_some(w[:, n:n + SOME]) for n in range(0, w.shape[1], SOME)]
    return tuple(map(np.concatenate, zip(*parts)))


def _split_some(w):
    depth, columns = w.shape
    w = np.pad(w, ((0, 0), (0, -columns % COLUMNS)))
    largest = np.maximum(np.abs(w).max(axis=0).astype(np.float64), TINY)
    fixed = np.rint(w * (LARGEST / largest)).astype(np.int32) + EVEN
    digits = np.stack([((fixed >> shift & 255) - 128).astype(np.int8) for shift in (16, 8, 0)])
    digits = digits.reshape(DIGITS, depth // TERMS, 4, LANES, -1, 2, LANES)
    return (np.ascontiguousarray(digits.transpose(4, 1, 0, 5, 3, 6, 2)),
            (largest * _UNIT).astype(np.float32)[:columns])


def join_columns(digits, scales):
    """The columns [K, N], float64, that digits and scales stand for."""
    weights = 256.0 ** -np.arange(DIGITS)
    numbers = np.tensordot(digits.astype(np.float64), weights, ((2,), (0,)))  # panel, step, half, term, column, block
    return numbers.transpose(1, 5, 3, 0, 2, 4).reshape(digits.shape[1] * TERMS, -1)[:, :len(scales)] * scales


# ---------------------------------------------------------------- struct info

def _infer(call):
    a, digits, scales = tensor(call, 0), need_rank(call, 1, 7), need_rank(call, 2, 1)
    check_dtypes(call, rows=(a, "float32"), digits=(digits, "int8"), scales=(scales, "float32"))
    if a.ndim < 2 or not is_const_int(a.shape[-1]):
        fail(call, f"takes rows of at least 2 dimensions, the last one static, got {shape_text(a)}")
    columns = check_columns(call, digits, scales)
    depth = digits.shape[1].value * TERMS
    if a.shape[-1].value != depth:
        fail(call, f"rows {shape_text(a)} have {dim_text(a.shape[-1])} terms, digits {shape_text(digits)} are of "
                   f"{depth}")
    return TensorStructInfo((*a.shape[:-1], columns), "float32")


def digits_shape(panels, steps):
    """The shape of the digits of so many panels of columns and steps of terms."""
    return (panels, steps, DIGITS, 2, TERMS // 4, LANES, 4)


def check_columns(call, digits, scales):
    """How many columns digits and scales are of, once their shapes fit one another."""
    if not all(map(is_const_int, (*digits.shape, *scales.shape))):
        fail(call, f"digits {shape_text(digits)} and scales {shape_text(scales)} must be static")
    expected = digits_shape(*digits.shape[:2])
    if not all(map(same_dim, digits.shape, expected)):
        fail(call, f"digits {shape_text(digits)} must be {shape_text(expected)}: panels of {COLUMNS} columns, steps of "
                   f"{TERMS} terms, digits, and the tiles' columns and terms")
    check_terms(call, digits)
    panels, columns = digits.shape[0].value, scales.shape[0].value
    if -(-columns // COLUMNS) != panels:
        fail(call, f"scales {shape_text(scales)} must be of as many columns as digits {shape_text(digits)}, whose "
                   f"panels of {COLUMNS} have {panels * COLUMNS} of them or up to {COLUMNS - 1} less")
    return columns


def check_terms(call, digits):
    """Refuse digits [panels, steps, ...] of so many terms that sums of 32 bits may overflow."""
    terms = digits.shape[1].value * TERMS
    if terms > MOST_TERMS:
        fail(call, f"digits {shape_text(digits)} are of {terms} terms; sums of more than {MOST_TERMS} may overflow")


# ---------------------------------------------------------------- lowering

def _lower(args, attrs, out):
    a, digits, scales = args
    *batch, rows, columns = te_shape(out)
    steps = int(digits.shape[1])
    even = even_rows(rows)

    def term(i, point, k):
        *outer, m = i
        return a[(*outer, m if even is rows else intrin.min(m, rows - 1), *k)]

    left, scale = row_digits(term, (*batch, even), (), (a.shape[-1],), steps)
    parts = parts_of_terms(even, steps)
    sums = digit_sums(left, digits, batch, int(digits.shape[0]), even, parts)

    def element(*i):
        *outer, m, n = i
        at = n // COLUMNS, m, n % COLUMNS // LANES, n % LANES
        places = [(*outer, part) for part in range(parts)] if parts > 1 else [outer]
        total = reduce(operator.add, (sums[(*place, *at)] for place in places))
        return total * scales[n] * scale[(*outer, m)]

    return te.compute((*batch, rows, columns), element, name="matmul_digits")


def even_rows(rows):
    """How many rows are cut into digits: of an odd number of many the last one twice, so that they have equal parts."""
    return rows + 1 if isinstance(rows, int) and rows > ODD and rows % 2 else rows


def parts_of_terms(rows, steps):
    """The number of equal parts of the steps in which rows and columns meet, so that digits of rows are NEAR; 1 where
    parts would be of less than PART steps."""
    block = min(rows, MOST_ROWS) if isinstance(rows, int) else 1
    return next((n for n in range(1, steps // PART + 1)
                 if steps % n == 0 and block * (steps // n) * TERMS * DIGITS <= NEAR), 1)


def row_digits(element, rows, points, terms, steps):
    """(digits [..., step, row, digit, 64], scales [..., row]) of the rows of element(indices of a row, of a point in
    it, of a term).

    points: the extents of a row's points, each of which is a row of the product; () where a row is one. terms: theirs,
    one or those of blocks and of the 16 in each. Stages: digits_largest, digits_scale, digits_inverse, digits_fixed,
    digits_rows.
    """
    first, along, rest = ([te.reduce_axis((0, size), "k") for size in sizes]
                          for sizes in (terms[:1], points, terms[1:]))  # in the order of memory
    point, k = ([axis.var for axis in axes] for axes in (along, first + rest))
    scale = scales_of(largest_of(rows, lambda *i: element(i, point, k), first + along + rest))
    inverse = inverses_of(scale)
    return cut_rows(element, lambda *row: inverse[row], rows, points, terms, steps), scale


def cut_rows(element, inverse, rows, points, terms, steps):
    """The digits of row_digits, for inverse(*indices of a row) of its scale. Stages: digits_fixed, digits_rows."""
    blocks = steps * (TERMS // LANES)

    def fixed_point(*i):
        row, point, (block, lane) = i[:len(rows)], i[len(rows):-2], i[-2:]
        k = [block * LANES + lane] if len(terms) == 1 else [block, lane]
        value = element(row, point, k)
        if blocks * LANES > prod(terms):
            value = intrin.if_then_else(k[0] < terms[0], value, const(0.0, "float32"))
        return value * inverse(*row) + const(float(EVEN), "float32")

    fixed = te.compute((*rows, *points, blocks, LANES), fixed_point, name="digits_fixed")

    def digit(*i):
        *outer, step, m, d, at = i
        point = (m,) if not points else (m // points[0], m % points[0])
        return digit_of(fixed[(*outer, *point, step * (TERMS // LANES) + at % 4, at // 4)], d)

    return te.compute((*rows[:-1], steps, rows[-1] * prod(points), DIGITS, TERMS), digit, name="digits_rows")


_greatest = te.comm_reducer(intrin.greater, lambda dtype: const(0, dtype), name="greatest")


def largest_of(shape, element, axes):
    """The stage digits_largest of the largest magnitude of element(*i) over reduce axes; NaN where one is."""
    return te.compute(shape, lambda *i: _greatest(intrin.abs(element(*i)), axes), name="digits_largest")


def scales_of(largest):
    """The stage of scales of largest magnitudes; NaN of those that are not finite."""
    return te.compute(largest.shape, lambda *i: Select(
        largest[i] <= _MOST, intrin.max(largest[i], const(TINY, "float32")) * const(_UNIT, "float32"),
        const(float("nan"), "float32")), name="digits_scale")


def inverses_of(scale):
    """The stage of what numbers are multiplied with."""
    return te.compute(scale.shape, lambda *i: inverse_of(scale[i]), name="digits_inverse")


def inverse_of(scale, bound=1):
    """What numbers are multiplied with that are at most `bound` times those a scale is of; 0 where it is not finite."""
    return Select(scale <= _MOST, const(65536.0 / bound, "float32") / scale, const(0.0, "float32"))


def digit_of(fixed, d):
    """Digit d of a fixed number, EVEN and rounded to an integer; any where it is none."""
    known = logical_and(fixed >= const(0.0, "float32"), fixed <= const(2.0 * EVEN, "float32"))
    even = cast(Select(known, intrin.round(fixed), const(0.0, "float32")), "int32")
    return cast(intrin.bitwise_and(intrin.shift_right(even, 16 - 8 * d), 255) - 128, "int8")


def digit_sums(left, right, batch, panels, rows, parts=1, place=lambda outer, panel: panel):
    """The stage digits_sums [..., part, panel, row, 2, 16] of digits of rows [..., step, row, digit, term] and of
    columns [panel, step, digit, 2, term / 4, 16, 4], or 1 of a half of each panel; without a dimension of parts where
    all steps are one. place: of the indices of a batch and a panel's, where that panel lies."""
    size = left.shape[-4] // parts
    axes = [te.reduce_axis((0, extent), name) for extent, name in ((size, "step"), (TERMS // 4, "kq"), (4, "kz"))]
    step, kq, kz = (axis.var for axis in axes)

    def element(*i):
        *outer, panel, m, h, j = i
        panel = place(outer, panel)
        outer, at = (outer[:-1], outer[-1] * size + step) if parts > 1 else (outer, step)
        a = [cast(left[(*outer, at, m, d, kq * 4 + kz)], "int32") for d in range(DIGITS)]
        b = [cast(right[panel, at, d, h, kq, j, kz], "int32") for d in range(DIGITS)]
        fixed = a[0] * b[0] * 65536 + (a[0] * b[1] + a[1] * b[0]) * 256 + (a[0] * b[2] + a[1] * b[1] + a[2] * b[0])
        return te.sum(cast(fixed, "float32") * const(1 / 65536, "float32"), axes)

    outer = (*batch, parts) if parts > 1 else batch
    return te.compute((*outer, panels, rows, int(right.shape[3]), LANES), element, name="digits_sums")


# ---------------------------------------------------------------- reference

def evaluate(args, attrs):
    """The reference: numpy arrays -> the product of rows and of what digits and scales stand for."""
    a, digits, scales = args
    finite = np.isfinite(a).all(axis=-1, keepdims=True)
    result = np.where(finite, a, 0).astype(np.float64) @ join_columns(digits, scales)
    return np.where(finite, result, np.nan).astype(np.float32)


register("matmul_digits", _infer, _lower, evaluate, "anchor", (3, 3))
