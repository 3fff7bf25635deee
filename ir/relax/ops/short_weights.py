"""Constant weights of recurrent layers that wait for them: floats four of which lie in three words of 32 bits.

Of the words [..., K / 4, N / lanes, 3, lanes] of weights [..., K, N], which follow one another as they are read, the
three of a group are three weights, as they are but for their lowest bytes: these are, from the highest on, the fourth
one, whose own lowest byte is 0 (tir.low_bytes). The upper bytes are those that make the word, with what it carries, the
nearest to the weight, so that all four are off by 2^-16 of their value at most. Three of four cost nothing.
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

_low_bytes = intrin.BIT_INTRINSICS["low_bytes"].numpy


def in_range(w):
    """Whether all weights are finite, and the largest ones neither so large nor so small that floats, or what words are
    scaled by, would be at the end of their range."""
    most = np.abs(w).max(initial=0)
    return w.dtype == np.float32 and (most == 0 or bool(LEAST * 2.0 ** 40 < most < LARGEST))


def fits(w):
    """Whether weights [..., K, N] may be stored so: groups are whole, and all of them `in_range`."""
    return w.shape[-2] % TERMS == 0 and in_range(w)


def _grouped(w, lanes):
    """(the first three weights [..., K / 4, N / lanes, 3, lanes], the fourth ones [..., K / 4, N / lanes, lanes])."""
    *outer, depth, columns = w.shape
    groups = w.reshape(*outer, depth // TERMS, TERMS, columns // lanes, lanes).swapaxes(-3, -2)
    return groups[..., :WORDS, :], np.ascontiguousarray(groups[..., WORDS, :])


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
    *outer, groups, vectors, lanes = parts[0].shape
    return np.stack([*parts, _low_bytes(*parts)], axis=-3).reshape(*outer, groups * TERMS, vectors * lanes)


def float_term(read, n):
    """Weight n of a group as an expression; read(word) is one of its words."""
    return Select(n < WORDS, read(intrin.min(n, WORDS - 1)), intrin.low_bytes(*map(read, range(WORDS))))
