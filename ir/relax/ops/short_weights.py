"""Constant weights four of which lie in three words of 32 bits, for products that wait for them.

Of the words [..., K / 4, N / lanes, 3, lanes] of weights [..., K, N], which follow one another as they are read, the
three of a group are three weights, and what else they carry is the fourth. There are two forms:

fixed   The lower 23 bits of a word are those of a number in [-1/2, 1/2), to which columns are scaled; the upper ones,
        9, 9 and 5, are those of the fourth (tir.fraction, tir.high_bits). As near as float32 is to the largest weight
        of a column, and two or three operations each.
floats  Words are float32 as they are, but for their lowest bytes: these are, from the highest on, the fourth number,
        whose own lowest byte is 0 (tir.low_bytes). The upper bytes are those that make the word, with what it carries,
        the nearest to the weight, so that all four are off by 2^-16 of their value at most. Three of four cost nothing.
"""
from __future__ import annotations

import numpy as np

from ...expr import Select
from ...tir import intrin

TERMS, WORDS = 4, 3  # weights of a group along K, and the words that they lie in
# Very small floats, zero too, that carry a byte become LEAST: a number that has no bits but that byte would be
# denormal, and processors would take long over it.
LEAST = np.float32(2.0 ** -80)
LARGEST = np.float32(2.0 ** 120)  # rounding does not reach infinity
_BITS = 23  # of fixed point

_fraction, _high_bits, _low_bytes = (intrin.BIT_INTRINSICS[name][1] for name in ("fraction", "high_bits", "low_bytes"))


def fits(w):
    """Whether weights [..., K, N] may be stored so: groups are whole, all numbers finite, and the largest ones neither
    so large nor so small that floats would be at the end of their range."""
    most = np.abs(w).max(initial=0)
    return w.dtype == np.float32 and w.shape[-2] % TERMS == 0 and (
        most == 0 or bool(LEAST * 2.0 ** 40 < most < LARGEST))


def _grouped(w, lanes):
    """(the first three weights [..., K / 4, N / lanes, 3, lanes], the fourth ones [..., K / 4, N / lanes, lanes])."""
    *outer, depth, columns = w.shape
    groups = w.reshape(*outer, depth // TERMS, TERMS, columns // lanes, lanes).swapaxes(-3, -2)
    return groups[..., :WORDS, :], np.ascontiguousarray(groups[..., WORDS, :])


def _ungrouped(first, last):
    """The weights of parts [3, ...] and the fourth ones."""
    *outer, groups, vectors, lanes = last.shape
    return np.stack([*first, last], axis=-3).reshape(*outer, groups * TERMS, vectors * lanes)


def _term(n, first, last):
    """Weight n of a group as an expression, of the three, or the fourth."""
    return Select(n < WORDS, first(intrin.min(n, WORDS - 1)), last)


# ---------------------------------------------------------------- floats

def float_words(w, lanes):
    """The words of weights that `fits`."""
    whole, last = _grouped(w, lanes)
    carried = (last.view(np.uint32) + np.uint32(0x80)) >> 8
    low = np.stack([carried >> 16, carried >> 8 & 0xff, carried & 0xff], axis=-2).astype(np.uint32)
    whole = np.copysign(np.maximum(np.abs(whole), LEAST), whole).view(np.uint32)
    upper = (whole - low + np.uint32(0x80)) & np.uint32(0xffffff00)
    return (upper | low).view(np.float32)


def of_float_words(words):
    """The weights [..., K, N] that words stand for."""
    parts = np.moveaxis(words, -2, 0)
    return _ungrouped(parts, _low_bytes(*parts))


def float_term(read, n):
    """Weight n of a group as an expression; read(word) is one of its words."""
    return _term(n, read, intrin.low_bytes(*map(read, range(WORDS))))


# ---------------------------------------------------------------- fixed point

def scales_of(w):
    """Powers of two [N] by which the columns of weights [K, N] are divided, to be of fixed point."""
    _, exponents = np.frexp(np.abs(w).max(axis=0, initial=0))
    return np.ldexp(np.float32(1), exponents + 1).astype(np.float32)


def fixed_words(w, lanes):
    """The words of weights in [-1/2, 1/2)."""
    most = 2 ** _BITS
    fixed = np.clip(np.rint((w.astype(np.float64) + 0.5) * most), 0, most - 1).astype(np.uint32)
    whole, last = _grouped(fixed, lanes)
    high = np.stack([last >> 14, last >> 5 & 0x1ff, (last & 0x1f) << 4], axis=-2)
    return (high << _BITS | whole).view(np.float32)


def of_fixed_words(words):
    """The weights [..., K, N] that words stand for."""
    parts = np.moveaxis(words, -2, 0)
    return _ungrouped(_fraction(parts), _fraction(_high_bits(*parts)))


def fixed_term(read, n):
    """Weight n of a group as an expression; read(word) is one of its words."""
    return _term(n, lambda word: intrin.fraction(read(word)),
                 intrin.fraction(intrin.high_bits(*map(read, range(WORDS)))))
