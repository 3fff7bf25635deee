"""The arithmetic "compressed": products of rows and constant columns whose weights are of 20 bits, eight in five words.

For products that wait for their weights. A weight is an integer of 20 bits times a scale, which BLOCK terms of a column
share, so that a few large weights do not make all others coarse. The bits of eight terms follow one another, from the
highest of the first of five words on, each of 32 bits (and of dtype float32). Term n is the 32 bits from bit 20 n on,
as an integer with a sign (tir.fixed): with the first bits of the next term below its own, up to the end of a word where
its own bits end in it. Weights are the nearest that what is below leaves, off by half of the 20th bit at most.

words [P, K / 8, panel / lanes, 5, lanes] hold columns in P panels, as a tile of sums reads them one after the other;
scales are [P, ceil(K / BLOCK), panel]; columns beyond N are zero. Scales come after the sum of a group, of rows
that are divided by DIVISOR before: they would otherwise be infinite from 1e28 on, and are now from 1e35, or 0 below
1e-31.
"""
from __future__ import annotations

import numpy as np

from ... import te
from ...expr import Select, const
from ...tir import intrin
from .row import LANES, ONLY_RELAXED, U, Arithmetic, Operand, of_elements

FACTOR = 24  # of its bound

ROWS = "matmul_rows"  # the stage of rows that are divided
TERMS, WORDS = 8, 5  # weights of a group along K, and the words that they lie in
BLOCK = 64  # terms of a column that share a scale
OFF = 5e-6  # at most, of what errors of weights add to a column to what its weights are
DIVISOR = 2.0 ** 24  # of rows; scales have it as a factor
_BITS, _WORD = 20, 32
LEAST, MOST = 2.0 ** -40, 2.0 ** 120  # of the largest weight, so that neither scales nor sums leave float32's range
_UNIT = 1 << _WORD - _BITS  # the last bit of a weight as an integer of 32 bits
_MOST = 2 ** 31 - 2 * _UNIT  # of these integers


def fits(w):
    """Whether weights [K, N] may be stored so: whole groups of finite numbers, the largest within LEAST and MOST, none
    of which stand out so far from those of their block that the others would be lost beside it."""
    if len(w) % TERMS or w.dtype != np.float32:
        return False
    w = np.abs(w)
    most = w.max(initial=0)
    if most and not LEAST < most < MOST:
        return False
    w = w / (most or 1)
    starts = np.arange(0, len(w), BLOCK)
    largest = np.square(np.maximum.reduceat(w, starts, axis=0))
    terms = np.diff(starts, append=len(w))[:, None]
    # An error is evenly distributed over one unit of the last bit, whose square is 12 times its variance.
    errors = (terms * largest).sum(axis=0) * (2 * _UNIT / 2 ** _WORD) ** 2 / 12
    rest = np.square(w).sum(axis=0) - largest.sum(axis=0)
    return bool(errors.max(initial=0) <= OFF ** 2 * rest.max(initial=0))


def pack_columns(w, panel, lanes):
    """(words, scales) of weights [K, N], in panels of so many columns, in vectors of `lanes`."""
    panels = np.pad(w, ((0, 0), (0, -w.shape[1] % panel))).reshape(len(w), -1, panel).swapaxes(0, 1)
    parts = [_pack_panel(p.astype(np.float64), lanes) for p in panels]
    return tuple(map(np.stack, zip(*parts)))


def _pack_panel(w, lanes):
    """The words and scales of one panel [K, columns]."""
    depth, columns = w.shape
    largest = np.maximum.reduceat(np.abs(w), np.arange(0, depth, BLOCK), axis=0)
    scales = (largest / _MOST * DIVISOR).astype(np.float32)
    inverse = DIVISOR / np.where(scales, scales, 1).astype(np.float64)
    wanted = np.rint(w * inverse.repeat(BLOCK, axis=0)[:depth]).astype(np.int64)
    groups = wanted.reshape(depth // TERMS, TERMS, columns // lanes, lanes)
    words = np.zeros((WORDS, *groups[:, 0].shape), np.int64)
    for n in reversed(range(TERMS)):  # since what follows a weight counts
        word, bit, _ = _place(n)
        digits = np.rint((groups[:, n] - _from_bit(words, n)) / _UNIT).astype(np.int64)
        digits = np.clip(digits, -1 << _BITS - 1, (1 << _BITS - 1) - 1) & (1 << _BITS) - 1
        above = _WORD - bit - _BITS  # bits that follow in the word, or lie in the next one
        words[word] |= digits << above if above >= 0 else digits >> -above
        if above < 0:
            words[word + 1] |= digits << _WORD + above & 0xffffffff
    return np.moveaxis(words, 0, 2).astype(np.uint32).view(np.float32), scales


def _from_bit(words, n):
    """The bits that packed words contribute to weight n, those below its own."""
    word, bit, crosses = _place(n)
    following = words[word + 1] >> _WORD - bit if crosses else 0
    return ((words[word] << bit & 0xffffffff) | following) & _UNIT - 1


def _place(n):
    """(the word of a group that weight n begins in, at which bit of it, whether it ends in the next word); n: a number
    or an expression."""
    word, bit = n * _BITS // _WORD, n * _BITS % _WORD
    return word, bit, bit > _WORD - _BITS


def unpack_columns(words, scales):
    """The weights [K, P * panel] that words and scales stand for."""
    panels, groups, vectors, _, lanes = words.shape
    scales = (scales / np.float32(DIVISOR)).repeat(BLOCK // TERMS, axis=1)[:, :groups].reshape(
        panels, groups, vectors, lanes)
    zero, fixed, parts = np.zeros_like(scales), intrin.BIT_INTRINSICS["fixed"].numpy, []
    for n in range(TERMS):
        word, bit, crosses = _place(n)
        parts.append(scales * fixed(words[..., word, :], words[..., word + 1, :] if crosses else zero, bit))
    return np.stack(parts, axis=2).transpose(1, 2, 0, 3, 4).reshape(groups * TERMS, -1)


def shapes(depth, columns, given):
    """Panels and vectors are of any width."""
    lanes, panel = given[0][4], given[0][2] * given[0][4]
    panels = -(-columns // panel)
    return ((panels, depth // TERMS if depth % TERMS == 0 else 0, panel // lanes, WORDS, lanes),
            (panels, -(-depth // BLOCK), panel))


# ---------------------------------------------------------------- stages

def prepare(rows, operands, scales):
    """The stage ROWS."""
    return te.compute((*rows.extents, rows.depth), lambda *i: rows.term(i[:-1], i[-1]) * const(1 / DIVISOR, "float32"),
                      name=ROWS)


def accumulate(made, rows, operands, place, planes):
    """The stages matmul_groups, sums of groups, and matmul_packed, theirs times their scales [..., row, panel, column].
    """
    words, scales = operands
    k, n = te.reduce_axis((0, words.shape[1]), "k"), te.reduce_axis((0, TERMS), "n")
    panels, panel, lanes = int(scales.shape[0]), int(scales.shape[2]), int(words.shape[4])

    def element(*i):
        *at, outer, g, column = i
        first, bit, crosses = _place(n.var)

        def read(word):
            return words[outer, g, column // lanes, word, column % lanes]

        second = Select(crosses, read(intrin.min(first + 1, WORDS - 1)), const(0.0, "float32"))
        return te.sum(made[(*at, g * TERMS + n.var)] * intrin.fixed(read(first), second, bit), n)

    sums = te.compute((*rows.extents, panels, words.shape[1], panel), element, name="matmul_groups")
    return te.compute((*rows.extents, panels, panel), lambda *i: te.sum(
        sums[(*i[:-1], k.var, i[-1])] * scales[i[-2], k.var // (BLOCK // TERMS), i[-1]], k), name="matmul_packed")


def finish(made, rows, operands, sums, at, column, own):
    panel, (block, lane) = int(operands[1].shape[2]), column
    n = block * LANES + lane
    return sums[(*at, n // panel, n % panel)]


def limit(x, w):
    """Weights are off by half of the last of 20 bits of the largest one of their block."""
    starts = np.arange(0, len(w), BLOCK)
    largest = np.maximum.reduceat(np.abs(w), starts, axis=0)
    sums = np.add.reduceat(np.abs(x), starts, axis=1)
    return FACTOR * U * sums @ largest + of_elements(x, w)


COMPRESSED = Arithmetic(
    "compressed",
    f"{FACTOR} u times the sum of |x| times the largest |w| of its {BLOCK} terms of a column, beside fma's",
    limit, ONLY_RELAXED, operands=(Operand("words", 5, suffix=""), Operand("scales", 3)), shapes=shapes, packs=fits,
    pack=pack_columns, unpack=lambda operands, depth: unpack_columns(*operands),
    prepare=prepare, accumulate=accumulate, finish=finish)
