"""The arithmetic "inner_product": products of rows and constant columns of which a third of the FMAs are additions.

    (x0 + y1) (x1 + y0) = x0 y0 + x1 y1 + x0 x1 + y0 y1

is two terms of a sum by one FMA and two additions, and what belongs to the row alone, x0 x1, and to the column
alone, y0 y1, is added up once for all columns and rows (Winograd 1968, "A new algorithm for inner product"). Where
processors have units for additions beside those for FMAs (the cost adds_beside), of three terms two are such a
pair and one is an FMA: two FMAs and two additions at once, where three FMAs would be.

Rounding: an addition of numbers of very different size loses the low bits of the smaller one, so rows are divided by
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
from ...expr import Select, const, logical_and
from ...tir import intrin
from .row import LANES, ONLY_RELAXED, Arithmetic, Operand, Scales, Scaling, of_largest

FACTOR = 8  # of its bound
PARTS = 3  # of the terms: both halves of pairs, and those by themselves
BLOCK = 16  # terms in a row of one sign
TINY = 2e-38  # smaller largest magnitudes, whose inverse would be infinite, are 0


def third(depth):
    """T of so many terms."""
    return -(-depth // PARTS)


def padded(depth):
    """The capacity of a row in terms: all three thirds, in whole blocks."""
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
    """The w [K, N], float64, that packed columns and scales stand for, of no more terms than they have."""
    depth = min(depth, PARTS * columns.shape[1])
    signed = columns.transpose(2, 1, 0, 3).reshape(-1, columns.shape[0] * LANES)[:depth, :len(scales)]
    return signed.astype(np.float64) * scales * sign_of(depth)[:, None]


def shapes(depth, columns, given):
    """Terms need not fill their last block: packed columns are of as many thirds as they have themselves."""
    parts, least, most = given[0][1], third(depth - BLOCK + 1), third(depth)
    return (-(-columns // LANES), parts if least <= parts <= most else most, PARTS, LANES), (columns,), (columns,)


# ---------------------------------------------------------------- stages

def largest_of(shape, element, axes):
    """The stage inner_product_largest of the largest magnitude of element(*i) over reduce axes."""
    return te.compute(shape, lambda *i: te.max(intrin.abs(element(*i)), axes), name="inner_product_largest")


def scales_of(largest):
    """The stage of what rows are divided by, of that of their largest magnitudes."""
    tiny, zero = const(TINY, "float32"), const(0.0, "float32")
    return te.compute(largest.shape, lambda *i: Select(largest[i] < tiny, zero, largest[i]), name="inner_product_scale")


def inverse_of(scale, bound=1):
    """The factor for numbers of at most `bound` times the magnitude that `scale` stands for."""
    return const(1 / bound, "float32") / intrin.max(scale, const(TINY, "float32"))


class Divided:
    """The stages of rows: `data`, divided by their `scales`; `less`, what is added to sums for what rows add by
    themselves."""

    def __init__(self, scales, data, less):
        self.scales, self.data, self.less = scales, data, less


def prepare(rows, operands, scales):
    """Stages of rows by themselves: inner_product_largest, inner_product_scale, inner_product_inverse,
    inner_product_transposed, the terms once more, which a schedule may lay out with rows next to one another, and those
    of _divided. Rows that have scales are divided in vectors of terms, and are filled up to whole ones."""
    parts, depth = int(operands[0].shape[-3]), rows.depth
    if scales is not None:
        return Divided(scales, *_divided(rows.term, scales.inverse, rows.extents, depth, parts, padded(depth)))
    turned = te.compute((*rows.extents, depth), lambda *i: rows.term(i[:-1], i[-1]), name="inner_product_transposed")
    k = te.reduce_axis((0, depth), "k")
    scale = scales_of(largest_of(rows.extents, lambda *i: rows.term(i, k.var), k))
    inverse = te.compute(rows.extents, lambda *i: inverse_of(scale[i]), name="inner_product_inverse")
    own = Scales(lambda at: scale[at], lambda at: inverse[at])
    return Divided(own, *_divided(lambda at, k: turned[(*at, k)], own.inverse, rows.extents, depth, parts,
                                  max(PARTS * parts, depth)))


def _divided(term, inverse, rows, depth, parts, width):
    """(rows of term(at, k) times inverse(at), with the signs of terms, filled up with zeros [row, width]; what is to be
    added to sums of each for what it adds by itself [row]), of so many terms in a third. Stages: inner_product_rows,
    inner_product_own, inner_product_less."""
    def divided(*i):
        *at, k = i
        value, factor = term(tuple(at), k), inverse(tuple(at))
        if width > depth:
            value = intrin.if_then_else(k // BLOCK < depth // BLOCK, value, const(0.0, "float32"))
        return value * with_sign(factor, k, parts)

    data = te.compute((*rows, width), divided, name="inner_product_rows")
    t = te.reduce_axis((0, parts), "t")
    own = te.compute(rows, lambda *i: te.sum(data[(*i, t.var)] * data[(*i, t.var + parts)], t),
                     name="inner_product_own")
    return data, te.compute(rows, lambda *i: -own[i], name="inner_product_less")


def accumulate(made, rows, operands, place, planes):
    """The stage inner_product_sums [..., panel, row, 16]. Its attribute "image": rows are points of one."""
    data, columns = made.data, operands[0]
    *outer, count, _ = data.shape
    parts = int(columns.shape[-3])
    t, by = te.reduce_axis((0, parts), "t"), te.reduce_axis((0, 2), "by")

    def element(*i):
        *outer, panel, m, j = i
        at = place(outer, panel)
        x = [data[(*outer, m, t.var + part * parts)] for part in range(PARTS)]
        y = [columns[at, t.var, part, j] for part in range(PARTS)]
        return te.sum(Select(by.var == 0, (x[0] + y[1]) * (x[1] + y[0]), x[2] * y[2]), [t, by])

    return te.compute((*outer, int(columns.shape[0]) // planes, count, LANES), element, name="inner_product_sums",
                      attrs={"image": 1} if rows.points and planes == 1 else None)


def finish(made, rows, operands, sums, at, column, own):
    """The sums, corrected and scaled."""
    (*outer, m), (block, lane) = at, column
    return ((sums[(*outer, block, m, lane)] + made.less[at]) * own(operands[1]) + own(operands[2])) * (
        made.scales.scale(at))


INNER_PRODUCT = Arithmetic(
    "inner_product", f"{FACTOR} u K max|x| max|w|, of a row and a column of K terms", of_largest(FACTOR), ONLY_RELAXED,
    needs=lambda target: target.cost("adds_beside") > 0 and target.lanes == LANES,
    operands=(Operand("columns", 4), Operand("scales", 1), Operand("offsets", 1)), shapes=shapes, block=BLOCK,
    pack=pack_columns, unpack=lambda operands, depth: unpack_columns(*operands[:2], depth),
    scaling=Scaling(largest_of, scales_of, inverse_of, by_line=False),
    prepare=prepare, accumulate=accumulate, finish=finish)
