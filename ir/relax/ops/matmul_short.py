"""matmul_short: products of float32 rows and constant columns whose weights are of 20 bits, eight in five words.

For products that wait for their weights. A weight is an integer of 20 bits times a scale, which BLOCK terms of a column
share, so that a few large weights do not make all others coarse. The bits of eight terms follow one another, from the
highest of the first of five words on, each of 32 bits (and of dtype float32). Term n is the 32 bits from bit 20 n on, as
an integer with a sign (tir.fixed): with the first bits of the next term below its own, up to the end of a word where its
own bits end in it. Weights are the nearest that what is below leaves, off by half of the 20th bit at most.

words [P, K / 8, panel / lanes, 5, lanes] hold columns in P panels, as a tile of sums reads them one after the other;
scales are [P, ceil(K / BLOCK), panel]; columns beyond n_size are zero. Scales come after the sum of a group, of rows
that are divided by DIVISOR before: they would otherwise be infinite from 1e28 on, and are now from 1e35, or 0 below
1e-31.
"""
from __future__ import annotations

import numpy as np

from ... import te
from ...expr import Select, const, is_const_int
from ...op import register
from ...tir import intrin
from ..expr import TensorStructInfo
from .common import check_dtypes, dim_text, fail, need_rank, same_dim, shape_text, te_shape, tensor
from .conv_layouts import pack_weights

ROWS = "matmul_rows"  # the stage of rows that are divided
TERMS, WORDS = 8, 5  # weights of a group along K, and the words that they lie in
BLOCK = 64  # terms of a column that share a scale
OFF = 5e-6  # at most, of what errors of weights add to a column to what its weights are
DIVISOR = 2.0 ** 24  # of rows; scales have it as a factor
_BITS, _WORD = 20, 32
LEAST, MOST = 2.0 ** -40, 2.0 ** 120  # of the largest weight, so that neither scales nor sums leave float32's range
_UNIT = 1 << _WORD - _BITS  # the last digit of a weight as an integer of 32 bits
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
    # An error is evenly distributed over one digit, whose square is 12 times its variance.
    errors = (terms * largest).sum(axis=0) * (2 * _UNIT / 2 ** _WORD) ** 2 / 12
    rest = np.square(w).sum(axis=0) - largest.sum(axis=0)
    return bool(errors.max(initial=0) <= OFF ** 2 * rest.max(initial=0))


def pack_columns(w, panel, lanes):
    """(words, scales) of weights [K, N], in panels of so many columns, in vectors of `lanes`."""
    panels = pack_weights(w.T, panel, 1)
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
    """What the words so far add to weight n: the bits below its own."""
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
    zero, fixed, parts = np.zeros_like(scales), intrin.BIT_INTRINSICS["fixed"][1], []
    for n in range(TERMS):
        word, bit, crosses = _place(n)
        parts.append(scales * fixed(words[..., word, :], words[..., word + 1, :] if crosses else zero, bit))
    return np.stack(parts, axis=2).transpose(1, 2, 0, 3, 4).reshape(groups * TERMS, -1)


# ---------------------------------------------------------------- struct info

def _infer(call):
    a, words, scales = tensor(call, 0), need_rank(call, 1, 5), need_rank(call, 2, 3)
    check_dtypes(call, rows=(a, "float32"), words=(words, "float32"), scales=(scales, "float32"))
    size = call.attrs["n_size"]
    if a.ndim < 2 or size is None:
        fail(call, f"takes rows of at least 2 dimensions, not {shape_text(a)}, and attribute n_size")
    if not all(map(is_const_int, (*words.shape, *scales.shape))):
        fail(call, f"words {shape_text(words)} and scales {shape_text(scales)} must be static")
    panels, groups, vectors, count, lanes = (d.value for d in words.shape)
    panel, depth = vectors * lanes, groups * TERMS
    fit = count == WORDS and same_dim(a.shape[-1], depth) and 0 <= panels * panel - size < panel
    if not fit or not all(map(same_dim, scales.shape, (panels, -(-depth // BLOCK), panel))):
        fail(call, f"words {shape_text(words)} and scales {shape_text(scales)} do not hold {dim_text(a.shape[-1])} terms "
                   f"of {size} columns: they must be (panels, {dim_text(a.shape[-1])} / {TERMS}, panel / lanes, {WORDS}, "
                   f"lanes) and (panels, terms / {BLOCK}, panel)")
    return TensorStructInfo((*a.shape[:-1], size), "float32")


# ---------------------------------------------------------------- lowering

def _lower(args, attrs, out):
    a, words, scales = args
    k, n, shape = te.reduce_axis((0, words.shape[1]), "k"), te.reduce_axis((0, TERMS), "n"), te_shape(out)
    panels, panel, lanes = int(scales.shape[0]), int(scales.shape[2]), int(words.shape[4])

    def element(*i):
        *rows, outer, g, column = i
        first, bit, crosses = _place(n.var)

        def read(word):
            return words[outer, g, column // lanes, word, column % lanes]

        second = Select(crosses, read(intrin.min(first + 1, WORDS - 1)), const(0.0, "float32"))
        return te.sum(small[(*rows, g * TERMS + n.var)] * intrin.fixed(read(first), second, bit), n)

    small = te.compute(te_shape(a.shape), lambda *i: a[i] * const(1 / DIVISOR, "float32"), name=ROWS)
    sums = te.compute((*shape[:-1], panels, words.shape[1], panel), element, name="matmul_groups")
    packed = te.compute((*shape[:-1], panels, panel), lambda *i: te.sum(
        sums[(*i[:-1], k.var, i[-1])] * scales[i[-2], k.var // (BLOCK // TERMS), i[-1]], k), name="matmul_packed")
    return te.compute(shape, lambda *i: packed[i[:-1] + (i[-1] // panel, i[-1] % panel)], name="matmul")


# ---------------------------------------------------------------- reference

def _evaluate(args, attrs):
    a, words, scales = args
    return np.matmul(a, unpack_columns(words, scales)[:, :attrs["n_size"]])


register("matmul_short", _infer, _lower, _evaluate, "anchor", (3, 3), n_size=None)
