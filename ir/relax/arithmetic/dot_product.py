"""The arithmetics "dot_u8s8", "dot_s8u8", "dot_s8s8" and "dot_u8u8": products of rows and constant columns of 8-bit
integers, with a sign (s8) or without (u8), whose sums in int32 are exact.

Four terms of a row, which lie in a row in memory, are a word of 32 bits, and so are four of a column: the products of
these, and a sum in int32, are added up at a time. Columns are words [P, ceil(K / 4), panel] in P panels, as a tile of
sums reads them; what fills up the last word or panel is zero. Rows are of whole words.
"""
from __future__ import annotations

import numpy as np

from ... import te
from ...tir import intrin
from ...tir.intrinsics import DOTS
from .row import EVERY, LANES, Arithmetic, Operand

WORD = 4  # terms of a word


def name_of(rows, columns):
    """The name of the row for rows and columns of these dtypes; None where there is none."""
    return next((name for name, dtypes in DOTS.items() if dtypes == (str(rows), str(columns))), None)


def words_of(w, panel):
    """The words [P, ceil(K / 4), panel] of columns w [K, N] of bytes."""
    depth, columns = w.shape
    w = np.pad(w, ((0, -depth % WORD), (0, -columns % panel))).reshape(-1, WORD, -(-columns // panel), panel)
    return np.ascontiguousarray(w.transpose(2, 0, 3, 1)).view("<i4")[..., 0].astype(np.int32)


def bytes_of(words, dtype):
    """The columns [K, P * panel] that words stand for, of whole words and panels."""
    parts = words.astype("<i4")[..., None].view(np.dtype(dtype))
    return parts.transpose(1, 3, 0, 2).reshape(words.shape[1] * WORD, -1)


def word(element, k):
    """The k-th word of numbers element(n)."""
    return intrin.word(*(element(k * WORD + n) for n in range(WORD)))


def _shapes(depth, columns, given):
    """Panels are of any width."""
    panel = given[0][2]
    return ((-(-columns // panel), -(-depth // WORD), panel),)


def _finish(made, rows, operands, sums, at, column, own):
    panel, (block, lane) = int(operands[0].shape[2]), column
    n = block * LANES + lane
    return sums[(*at, n // panel, n % panel)]


def _row(name, dtypes):
    dot, (left, right) = getattr(intrin, name), dtypes
    largest = [max(-int(np.iinfo(d).min), int(np.iinfo(d).max)) for d in dtypes]

    def accumulate(made, rows, operands, place, planes):
        words, k = operands[0], te.reduce_axis((0, operands[0].shape[1]), "k")

        def element(*i):
            *at, panel, column = i
            own = word(lambda n: rows.term(tuple(at), n), k.var)
            return te.sum(dot(own, words[panel, k.var, column], 0), k)

        return te.compute((*rows.extents, words.shape[0], words.shape[2]), element, name=f"{name}_packed")

    return Arithmetic(
        name, "0, of integers", lambda x, w: np.zeros((len(x), w.shape[1])), EVERY,
        operands=(Operand("words", 3, "int32", ""),), rows=left, result="int32", shapes=_shapes, block=WORD,
        most=(2 ** 31 - 1) // (largest[0] * largest[1]), pack=lambda w, panel: (words_of(w, panel),),
        unpack=lambda operands, depth: bytes_of(operands[0], right).astype(np.float64),
        prepare=lambda rows, operands, scales: None, accumulate=accumulate, finish=_finish)


DOT_PRODUCTS = tuple(_row(name, dtypes) for name, dtypes in DOTS.items())
