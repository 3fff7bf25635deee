"""The arithmetics of words, "dot_u8s8", "dot_s8u8", "dot_s8s8" and "dot_u8u8": products of rows and constant columns of
8-bit integers, with a sign (s8) or without (u8), whose sums in int32 are exact; "dot_s16s8", of rows of 16-bit
integers; and "dot_s16s16", of rows and columns of these, two a word.

Four terms of a row, which lie in a row in memory, are a word of 32 bits, and so are four of a column: the products of
these, and a sum in int32, are added up at a time. "dot_bf16" is the same of two bfloat16 a word, whose products are
exact in float32 and whose sums are rounded. Columns are words [P, ceil(K / 4), panel] in P panels, as a tile of sums
reads them; what fills up the last word or panel is zero. Rows are of whole words. Columns that a run makes
(relax/ops/words.py) are words [..., P, ceil(K / 4), panel]: matrices of a batch. For products of matrices (Arm's SMMLA
and BFMMLA) an even number of words is in pairs, [P, words / 2, 2 panel]: the two words of a column lie side by side.

Four terms of 16 bits are two pairs. Their words have the bytes that meet them in another order: those of the first pair
are bytes 0 and 2, as processors take them apart.
"""
from __future__ import annotations

import numpy as np

from ... import te
from ...dtype import DataType
from ...expr import Call, const
from ...tir import intrin
from ...tir.intrinsics import ALL_DOTS, DOTS, HALF_DOTS, PAIR_DOTS, SHORT_DOTS
from .row import EVERY, FLOAT32, LANES, RELAXED, U, Arithmetic, Operand, growth_of_sums

WORD = 4  # bytes of a word
BY_PAIRS = (0, 2, 1, 3)  # the term that each byte of a word is, where rows are pairs


def name_of(rows, columns, dots=DOTS):
    """The name of the row of `dots` for rows and columns of these dtypes; None where there is none."""
    return next((name for name, dtypes in dots.items() if dtypes == (str(rows), str(columns))), None)


def words_of(w, panel, pairs=False):
    """The words [P, ceil(K / terms), panel] of columns w [K, N] of bytes or halves, or those in pairs."""
    (depth, columns), terms = w.shape, WORD // w.dtype.itemsize
    w = w.view(f"u{w.dtype.itemsize}")  # the bits
    w = np.pad(w, ((0, -depth % terms), (0, -columns % panel))).reshape(-1, terms, -(-columns // panel), panel)
    words = np.ascontiguousarray(w.transpose(2, 0, 3, 1)).view("<i4")[..., 0].astype(np.int32)
    if pairs:
        words = words.reshape(len(words), -1, 2, panel).swapaxes(2, 3).reshape(len(words), -1, 2 * panel)
    return np.ascontiguousarray(words)


def in_pairs(words, depth, terms=WORD):
    """Whether words of so many terms, an array or a tensor, are in pairs, for columns of `depth` terms."""
    return 2 * int(words.shape[-2]) == -(-depth // terms)


def _one_by_one(words, depth, terms):
    """Words that may be in pairs as such that are not."""
    if not in_pairs(words, depth, terms):
        return words
    panels, count, size = words.shape
    return words.reshape(panels, count, size // 2, 2).swapaxes(2, 3).reshape(panels, 2 * count, size // 2)


def bytes_of(words, dtype):
    """The columns [..., K, P * panel] that words stand for, of whole words and panels."""
    *batch, panels, count, panel = words.shape
    dtype = DataType(dtype).numpy
    parts = words.astype("<i4")[..., None].view(f"u{dtype.itemsize}").view(dtype)
    parts = np.moveaxis(parts, (-3, -1), (-4, -3))
    return parts.reshape(*batch, count * parts.shape[-3], panels * panel)


def word(element, k, terms=WORD):
    """The k-th word of so many numbers element(n): bytes, or two of 16 bits."""
    return (intrin.word if terms == WORD else intrin.pair)(*(element(k * terms + n) for n in range(terms)))


def multiplied(name, element, k, column):
    """The products of the numbers element(n) that meet the k-th word of a column, and those of it."""
    dot = getattr(intrin, name)
    if name in HALF_DOTS:
        bits = (Call(DataType("uint16"), "tir.reinterpret", (element(2 * k + n),)) for n in range(2))
        return dot(intrin.pair(*bits), column, const(0, "float32"))
    if name not in PAIR_DOTS:
        return dot(word(element, k, 2 if name in SHORT_DOTS else WORD), column, 0)
    first, second = (intrin.pair(element(k * WORD + n), element(k * WORD + n + 1)) for n in (0, 2))
    return dot(first, second, 0, column)


def by_pairs(w):
    """The terms [K, N] of columns, and zeros up to whole words, in the order that pairs meet them, or back again."""
    w = np.pad(w, ((0, -len(w) % WORD), (0, 0)))
    return w.reshape(-1, WORD, w.shape[1])[:, BY_PAIRS].reshape(w.shape)


def _shapes(terms):
    def shapes(depth, columns, given):
        """Panels are of any width; words may be in pairs."""
        (*_, count, size), words = given[0], -(-depth // terms)
        panel = size // 2 if 2 * count == words else size
        return ((-(-columns // panel), count if 2 * count == words else words, size),)
    return shapes


def _row(name, dtypes, terms, result, order=lambda w: w, **fields):
    """order: of the terms of columns, and back again."""
    def accumulate(made, rows, operands, place, planes):
        words, outer = operands[0], len(rows.outer)
        pairs, panel_size = in_pairs(words, rows.depth, terms), words.shape[-1]
        k = te.reduce_axis((0, -(-rows.depth // terms)), "k")

        def element(*i):
            *at, panel, column = i
            where = place(tuple(at[:outer]), panel)
            where = where if isinstance(where, tuple) else (where,)
            index = (k.var // 2, column * 2 + k.var % 2) if pairs else (k.var, column)
            return te.sum(multiplied(name, lambda n: rows.term(tuple(at), n), k.var, words[(*where, *index)]), k)

        return te.compute((*rows.extents, words.shape[-3], panel_size // 2 if pairs else panel_size), element,
                          name=f"{name}_packed")

    def finish(made, rows, operands, sums, at, column, own):
        panel = int(operands[0].shape[-1]) // (1 + in_pairs(operands[0], rows.depth, terms))
        n = column[0] * LANES + column[1]
        return sums[(*at, n // panel, n % panel)]

    return Arithmetic(
        name, operands=(Operand("words", 3, "int32", ""),), rows=dtypes[0], result=result, shapes=_shapes(terms),
        block=terms, pack=lambda w, panel, pairs=False: (words_of(order(w), panel, pairs),),
        unpack=lambda operands, depth: order(bytes_of(_one_by_one(operands[0], depth, terms), dtypes[1]).astype(
            np.float64)),
        prepare=lambda rows, operands, scales: None, accumulate=accumulate, finish=finish, **fields)


def _of_integers(name, dtypes):
    largest, most = [max(-int(np.iinfo(d).min), int(np.iinfo(d).max)) for d in dtypes], 2 ** 31 - 1
    if dtypes[0] != "int16":  # that sums of 16 bits fit is known of the weights (ops/qnn.py)
        most //= largest[0] * largest[1]
    order = {"order": by_pairs} if name in PAIR_DOTS else {}
    return _row(name, dtypes, 2 if name in SHORT_DOTS else WORD, "int32", **order, bound="0, of integers", keeps=EVERY,
                limit=lambda x, w: np.zeros((len(x), w.shape[1])), most=most)


# ---------------------------------------------------------------- halves

HALVES = "2 (min(W, 384) + W / 256 + 3) u |x| |w|, for W = ceil(K / 2) words"


def _of_words(x, w):
    """The bound HALVES: an instruction adds both products of a word, and then that to a sum, each rounded to a unit in
    the last place (BFDOT and BFMMLA, to odd), or adds one after the other, each rounded to half of one (VDPBF16PS)."""
    return 2 * (growth_of_sums(-(-len(w) // 2)) + 1) * U * (np.abs(x) @ np.abs(w))


def _of_halves(name, dtypes):
    return _row(name, dtypes, 2, "float32", bound=HALVES, limit=_of_words, keeps=frozenset({FLOAT32, RELAXED}),
                needs=lambda target: name in target.half_dots)


DOT_PRODUCTS = (*(_of_integers(name, dtypes) for name, dtypes in {**ALL_DOTS, **SHORT_DOTS}.items()),
                *(_of_halves(name, dtypes) for name, dtypes in HALF_DOTS.items()))
