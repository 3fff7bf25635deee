"""matmul_pairs: products of float32 rows and constant columns of which a third of the multiply-adds are additions.

    (x0 + y1) (x1 + y0) = x0 y0 + x1 y1 + x0 x1 + y0 y1

is two terms of a sum by one multiply-add and two additions, and what belongs to the row alone, x0 x1, and to the column
alone, y0 y1, is added up once for all columns and rows (Winograd 1968, "A new algorithm for inner product"). Where
processors have units for additions beside those for multiply-adds (CpuModel.adders), of three terms two are such a pair
and one is a multiply-add: two multiply-adds and two additions at once, where three multiply-adds would be.

Rounding: an addition of numbers of very different size loses the digits of the smaller one, so rows are divided by
their largest magnitude, columns by a power of two near theirs. What rows and columns add by themselves would become
large where all terms have one sign, so terms of some blocks change theirs in row and column alike: those of the first
half of a pair alone (`sign_of`), which leaves x0 y0 and changes x0 x1. The result is about as near to the exact one as
a sum of products is, measured by the largest numbers of row and column. A row with a number that is not finite makes
NaN.

K terms are thirds [0, T), [T, 2T), [2T, K), T = ceil(K / 3): term t of the first two is a pair, that of the last is by
itself. Columns are packed in panels [ceil(N / 16), T, 3, 16], whose last third is filled up with zeros. Rows are of
whole blocks of terms; what fills up the last one, beyond the columns' three thirds, counts as 0.
"""
from __future__ import annotations

import numpy as np

from ... import te
from ...expr import Select, const, is_const_int, logical_and
from ...op import register
from ...tir import intrin
from ..expr import TensorStructInfo
from .common import check_dtypes, dim_text, fail, need_rank, same_dim, shape_text, te_shape, tensor

PARTS = 3  # of the terms: both halves of pairs, and those by themselves
LANES = 16
BLOCK = 16  # terms in a row of one sign
TINY = 2e-38  # smaller largest magnitudes, whose inverse would be infinite, are 0


def third(depth):
    """T of so many terms."""
    return -(-depth // PARTS)


def padded(depth):
    """The terms that a row has room for: all three thirds, in whole blocks."""
    return -(-PARTS * third(depth) // BLOCK) * BLOCK


def sign_of(depth):
    """The sign that each of the terms has: of whole blocks of the first third, every other one is negative."""
    block = np.arange(depth) // BLOCK
    return np.where((block % 2 == 1) & (block < third(depth) // BLOCK), np.float32(-1), np.float32(1))


def with_sign(factor, term, parts):
    """A factor with the sign of a term (sign_of), of so many terms in a third."""
    if parts < 2 * BLOCK:
        return factor
    negative = logical_and(term // BLOCK % 2 == 1, term // BLOCK < parts // BLOCK)
    return Select(negative, -factor, factor)


def pack_columns(w):
    """(columns [ceil(N / 16), T, 3, 16], scales [N], offsets [N]) of w [K, N]. offsets: what columns add by themselves.
    """
    _, exponents = np.frexp(np.abs(w).max(axis=0, initial=TINY))
    scales = np.ldexp(np.float32(1), np.maximum(exponents, -120)).astype(np.float32)
    packed = _panels((w / scales * sign_of(len(w))[:, None]).astype(np.float32))
    own = (packed[:, :, 0].astype(np.float64) * packed[:, :, 1]).sum(axis=1).reshape(-1)[:len(scales)]
    return packed, scales, (-own * scales).astype(np.float32)


def _panels(w):
    """w [K, N] as panels of thirds of its terms, filled up with zeros."""
    depth, columns = w.shape
    parts = third(depth)
    w = np.pad(w, ((0, PARTS * parts - depth), (0, -columns % LANES))).reshape(PARTS, parts, -1, LANES)
    return np.ascontiguousarray(w.transpose(2, 1, 0, 3))


def unpack_columns(columns, scales, depth):
    """The w [K, N], float64, that packed columns and scales stand for."""
    signed = columns.transpose(2, 1, 0, 3).reshape(-1, columns.shape[0] * LANES)[:depth, :len(scales)]
    return signed.astype(np.float64) * scales * sign_of(depth)[:, None]


# ---------------------------------------------------------------- struct info

def _infer(call):
    a, columns, scales, offsets = tensor(call, 0), need_rank(call, 1, 4), need_rank(call, 2, 1), need_rank(call, 3, 1)
    check_dtypes(call, rows=(a, "float32"), columns=(columns, "float32"), scales=(scales, "float32"),
                 offsets=(offsets, "float32"))
    if a.ndim < 2 or not is_const_int(a.shape[-1]):
        fail(call, f"takes rows of at least 2 dimensions, the last one static, got {shape_text(a)}")
    if a.shape[-1].value % BLOCK:
        fail(call, f"rows {shape_text(a)} must be of whole blocks of {BLOCK} terms, filled up with zeros")
    count = check_columns(call, a.shape[-1].value, columns, scales, offsets)
    return TensorStructInfo((*a.shape[:-1], count), "float32")


def check_columns(call, depth, columns, scales, offsets):
    """How many columns these are, once their shapes fit one another and so many terms, whose last block they may not
    fill."""
    if not all(map(is_const_int, (*columns.shape, *scales.shape))):
        fail(call, f"columns {shape_text(columns)} and scales {shape_text(scales)} must be static")
    count = scales.shape[0].value
    parts, least, most = columns.shape[1].value, third(depth - BLOCK + 1), third(depth)
    expected = (-(-count // LANES), parts if least <= parts <= most else most, PARTS, LANES)
    if not all(map(same_dim, columns.shape, expected)):
        fail(call, f"columns {shape_text(columns)} must be {expected} for {dim_text(scales.shape[0])} scales and "
                   f"{depth} terms: panels, thirds of the terms, their parts, and a panel's columns")
    if not same_dim(offsets.shape[0], count):
        fail(call, f"offsets {shape_text(offsets)} must be as many as scales {shape_text(scales)}")
    return count


# ---------------------------------------------------------------- lowering

def _lower(args, attrs, out):
    a, columns, scales, offsets = args
    *batch, rows, _ = shape = te_shape(out)

    def element(row, block, lane):
        return a[(*row, block * BLOCK + lane)]

    row = pair_rows(element, (*batch, rows), int(a.shape[-1]) // BLOCK, int(columns.shape[1]))
    sums = pair_sums(row.data, columns)
    return te.compute(shape, lambda *i: row.result(sums[(*i[:-2], i[-1] // LANES, i[-2], i[-1] % LANES)], i[:-1],
                                                   scales[i[-1]], offsets[i[-1]]), name="matmul_pairs")


class PairRows:
    """The stages of rows: `scale` [row], their divisors; `data` and `less` of divided_rows."""

    def __init__(self, scale, data, less):
        self.scale, self.data, self.less = scale, data, less

    def result(self, total, row, scale, offset):
        """A product of a sum of pair_sums, of a row's indices, and of a column's scale and offset."""
        return ((total + self.less[row]) * scale + offset) * self.scale[row]


def pair_rows(element, rows, blocks, parts):
    """The PairRows of element(indices of a row, block, term in it), of so many terms in a third. Stages: pairs_largest,
    pairs_scale, pairs_inverse, pairs_turned, the elements once more, which a schedule may lay out with rows next to one
    another, and those of divided_rows."""
    def at(row, term):
        return element(row, term // BLOCK, term % BLOCK)

    depth = blocks * BLOCK
    turned = te.compute((*rows, depth), lambda *i: at(i[:-1], i[-1]), name="pairs_turned")
    k = te.reduce_axis((0, depth), "k")
    largest = te.compute(rows, lambda *i: te.max(intrin.abs(at(i, k.var)), k), name="pairs_largest")
    scale = scales_of(largest)
    inverse = te.compute(rows, lambda *i: inverse_of(scale[i]), name="pairs_inverse")
    return PairRows(scale, *divided_rows(lambda row, term: turned[(*row, term)], lambda *i: inverse[i], rows, blocks,
                                         parts, max(PARTS * parts, depth)))


def scales_of(largest):
    """The stage of what rows are divided by, of that of their largest magnitudes."""
    tiny, zero = const(TINY, "float32"), const(0.0, "float32")
    return te.compute(largest.shape, lambda *i: Select(largest[i] < tiny, zero, largest[i]), name="pairs_scale")


def inverse_of(scale, bound=1):
    """What numbers are multiplied with that are at most `bound` times those a scale is of."""
    return const(1 / bound, "float32") / intrin.max(scale, const(TINY, "float32"))


def divided_rows(term, inverse, rows, blocks, parts, room):
    """(rows of term(row, at) times inverse(*row), with the signs of terms, filled up with zeros [row, room]; what is to
    be added to sums of each for what it adds by itself [row]), of so many terms in a third. Stages: pairs_rows,
    pairs_own, pairs_less."""
    def divided(*i):
        *row, at = i
        value, factor = term(row, at), inverse(*row)
        if room > blocks * BLOCK:
            value = intrin.if_then_else(at // BLOCK < blocks, value, const(0.0, "float32"))
        return value * with_sign(factor, at, parts)

    data = te.compute((*rows, room), divided, name="pairs_rows")
    t = te.reduce_axis((0, parts), "t")
    own = te.compute(rows, lambda *i: te.sum(data[(*i, t.var)] * data[(*i, t.var + parts)], t), name="pairs_own")
    return data, te.compute(rows, lambda *i: -own[i], name="pairs_less")


def pair_sums(rows, columns, axis=0, place=lambda outer, panel: (panel,), attrs=None):
    """The stage pairs_sums [..., panel, row, 16] of rows (of divided_rows) and packed columns. axis: their
    dimension of panels; place: of the indices of a batch and a panel's, where that panel lies. attrs: what schedules
    are told, "image": rows are points of one."""
    *outer, count, _ = rows.shape
    parts = int(columns.shape[-3])
    t, by = te.reduce_axis((0, parts), "t"), te.reduce_axis((0, 2), "by")

    def element(*i):
        *outer, panel, m, j = i
        x = [rows[(*outer, m, t.var + part * parts)] for part in range(PARTS)]
        y = [columns[(*place(outer, panel), t.var, part, j)] for part in range(PARTS)]
        return te.sum(Select(by.var == 0, (x[0] + y[1]) * (x[1] + y[0]), x[2] * y[2]), [t, by])

    return te.compute((*outer, int(columns.shape[axis]), count, LANES), element, name="pairs_sums", attrs=attrs)


# ---------------------------------------------------------------- reference

def evaluate(args, attrs):
    """The reference: numpy arrays -> the product of rows and of what packed columns stand for."""
    a, columns, scales, _ = args
    depth, finite = min(a.shape[-1], PARTS * columns.shape[1]), np.isfinite(a).all(axis=-1, keepdims=True)
    result = np.where(finite, a, 0)[..., :depth].astype(np.float64) @ unpack_columns(columns, scales, depth)
    return np.where(finite, result, np.nan).astype(np.float32)


register("matmul_pairs", _infer, _lower, evaluate, "anchor", (4, 4))
