"""column_scales, column_digits: the columns of an activation [K, N] in fixed point, for matmul_digits.

What split_columns makes of a constant when a model is compiled, these make of a matrix when it runs, in panels that are
read as they are written. A column with a number that is not finite has the scale NaN.
"""
from __future__ import annotations

import numpy as np

from ... import te
from ...expr import const, is_const_int
from ...op import register
from ...tir import intrin
from ..expr import TensorStructInfo
from .common import check_dtypes, fail, need_rank, same_dim, shape_text
from .matmul_digits import (COLUMNS, EVEN, LANES, MOST_TERMS, TERMS, digit_of, digits_shape, inverses_of, largest_of,
                            scales_of, split_columns)


def _infer_scales(call):
    w = _columns(call)
    return TensorStructInfo(w.shape[1:], "float32")


def _infer_digits(call):
    w = _columns(call)
    need_scales(call, w)
    panels, steps = -(-w.shape[1].value // COLUMNS), w.shape[0].value // TERMS
    return TensorStructInfo(digits_shape(panels, steps), "int8")


def need_matrix(call):
    """The first operand, a float32 matrix of static shape."""
    w = need_rank(call, 0, 2)
    check_dtypes(call, matrix=(w, "float32"))
    if not all(map(is_const_int, w.shape)):
        fail(call, f"matrix {shape_text(w)} must be static")
    return w


def need_scales(call, w):
    """Refuse a second operand that is not a float32 scale for each column of a matrix."""
    scales = need_rank(call, 1, 1)
    check_dtypes(call, scales=(scales, "float32"))
    if not same_dim(w.shape[1], scales.shape[0]):
        fail(call, f"scales {shape_text(scales)} must be of as many columns as the matrix {shape_text(w)}")


def _columns(call):
    w = need_matrix(call)
    if w.shape[0].value % TERMS or not 0 < w.shape[0].value <= MOST_TERMS or not w.shape[1].value:
        fail(call, f"matrix {shape_text(w)} must have columns of whole steps of {TERMS} terms, {MOST_TERMS} at most")
    return w


def _lower_scales(args, attrs, out):
    w, = args
    k = te.reduce_axis((0, w.shape[0]), "k")
    return scales_of(largest_of(w.shape[1:], lambda n: w[k.var, n], [k]))


def _lower_digits(args, attrs, out):
    w, scales = args
    inverse = inverses_of(scales)
    panels, steps, columns = int(out.shape[0]), int(out.shape[1]), int(w.shape[1])
    zero = const(float(EVEN), "float32")

    def fixed_point(step, panel, half, t, q, j):
        n = panel * COLUMNS + half * LANES + j
        value = w[step * TERMS + q * LANES + t, n] * inverse[n] + zero
        return value if columns % COLUMNS == 0 else intrin.if_then_else(n < columns, value, zero)

    fixed = te.compute((steps, panels, 2, LANES, 4, LANES), fixed_point, name="digits_fixed")
    return te.compute(digits_shape(panels, steps), lambda panel, step, d, half, t, j, q: digit_of(
        fixed[step, panel, half, t, q, j], d), name="column_digits")


register("column_scales", _infer_scales, _lower_scales, lambda args, attrs: _split(*args)[1], "anchor", (1, 1))
register("column_digits", _infer_digits, _lower_digits, lambda args, attrs: _split(args[0])[0], "anchor", (2, 2))


def _split(w):
    """The reference: of columns that are finite the digits of split_columns."""
    finite = np.isfinite(w).all(axis=0)
    digits, scales = split_columns(np.where(finite, w, 0))
    return digits, np.where(finite, scales, np.float32("nan"))
