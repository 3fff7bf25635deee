"""pair_scales, pair_columns, pair_offsets: the columns of an activation [K, N], packed for matmul_pairs.

What pack_columns makes of a constant when a model is compiled, these make of a matrix when it runs, but that columns
are divided by their largest magnitude, as rows are. A column with a number that is not finite makes NaN.
"""
from __future__ import annotations

import numpy as np

from ... import te
from ...expr import const, is_const_int
from ...op import register
from ...tir import intrin
from ..expr import TensorStructInfo
from .column_digits import need_matrix, need_scales
from .common import check_dtypes, fail, need_rank, same_dim, shape_text
from .matmul_pairs import (LANES, PARTS, TINY, inverse_of, offsets_of, panels_of, scales_of, sign_of, third,
                           with_sign)


def _infer_scales(call):
    return TensorStructInfo(_matrix(call).shape[1:], "float32")


def _infer_columns(call):
    w = _matrix(call)
    need_scales(call, w)
    depth, columns = (d.value for d in w.shape)
    return TensorStructInfo((columns // LANES, third(depth), PARTS, LANES), "float32")


def _infer_offsets(call):
    columns, scales = need_rank(call, 0, 4), need_rank(call, 1, 1)
    check_dtypes(call, columns=(columns, "float32"), scales=(scales, "float32"))
    static = all(map(is_const_int, (*columns.shape, *scales.shape)))
    if not static or not same_dim(columns.shape[0] * columns.shape[3], scales.shape[0]):
        fail(call, f"columns {shape_text(columns)} must be static, in panels of as many as there are scales "
                   f"{shape_text(scales)}")
    return TensorStructInfo(scales.shape, "float32")


def _matrix(call):
    w = need_matrix(call)
    if w.shape[1].value % LANES or not all(d.value for d in w.shape):
        fail(call, f"matrix {shape_text(w)} must have terms, and columns in whole panels of {LANES}")
    return w


def _lower_scales(args, attrs, out):
    w, = args
    k = te.reduce_axis((0, w.shape[0]), "k")
    return scales_of(te.compute(w.shape[1:], lambda n: te.max(intrin.abs(w[k.var, n]), k), name="pairs_largest"))


def _lower_columns(args, attrs, out):
    w, scales = args
    depth, parts = int(w.shape[0]), int(out.shape[1])
    inverse = te.compute(scales.shape, lambda n: inverse_of(scales[n]), name="pairs_inverse")

    def element(panel, t, part, j):
        n, term = panel * LANES + j, part * parts + t
        value = w[term, n] * with_sign(inverse[n], t, parts, where=part == 0)
        return value if depth == PARTS * parts else intrin.if_then_else(term < depth, value, const(0.0, "float32"))

    return te.compute((out.shape[0], parts, PARTS, LANES), element, name="pair_columns")


def _lower_offsets(args, attrs, out):
    columns, scales = args
    t = te.reduce_axis((0, columns.shape[1]), "t")
    own = te.compute(scales.shape, lambda n: te.sum(
        columns[n // LANES, t.var, 0, n % LANES] * columns[n // LANES, t.var, 1, n % LANES], t), name="pairs_own")
    return te.compute(scales.shape, lambda n: -own[n] * scales[n], name="pair_offsets")


# ---------------------------------------------------------------- reference

def _scales(args, attrs):
    largest = np.abs(args[0]).max(axis=0)
    return np.where(largest < TINY, np.float32(0), largest)


def _columns(args, attrs):
    w, scales = args
    return panels_of(w * (np.float32(1) / np.maximum(scales, np.float32(TINY))) * sign_of(len(w))[:, None])


register("pair_scales", _infer_scales, _lower_scales, _scales, "anchor", (1, 1))
register("pair_columns", _infer_columns, _lower_columns, _columns, "anchor", (2, 2))
register("pair_offsets", _infer_offsets, _lower_offsets, lambda args, attrs: offsets_of(*args), "anchor", (2, 2))
