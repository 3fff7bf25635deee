"""Constant weights of 24 bits, for products that wait for memory: four of them lie in three words of 32.

Three words are float32 as they are, but for their lowest bytes: these are, from the highest byte on, the fourth number,
whose own lowest byte is 0. So three of four weights cost nothing to read, and the fourth a few operations on bits
(tir.low_bytes). The upper bytes of the three are those that make the word, with what it carries, the nearest to the
weight, so that all four are off by 2^-16 of their value at most, as if their fractions were rounded to 15 bits.

Zero and very small weights that carry a byte become LEAST, with their sign: a number that has no bits but that byte
would be denormal, and processors would take long over it.
"""
from __future__ import annotations

import numpy as np

from ...expr import Select
from ...tir import intrin

TERMS, WORDS = 4, 3  # weights of a group along K, and the words that they lie in
LEAST = np.float32(2.0 ** -80)
LARGEST = np.float32(2.0 ** 120)


def fits(w):
    """Whether weights [..., K, N] may be stored in 24 bits: groups are whole, all numbers finite, and the largest ones
    neither so large that rounding would reach infinity, nor so small that LEAST would be seen beside them."""
    most = np.abs(w).max(initial=0)
    return w.dtype == np.float32 and w.shape[-2] % TERMS == 0 and (
        most == 0 or bool(LEAST * 2.0 ** 40 < most < LARGEST))


def shorten(w, lanes):
    """Words [..., K / 4, N / lanes, 3, lanes] of weights [..., K, N] that `fits`: in the order in which they are read,
    a vector of columns after the other."""
    *outer, depth, columns = w.shape
    groups = w.reshape(*outer, depth // TERMS, TERMS, columns // lanes, lanes).swapaxes(-3, -2)
    whole, last = groups[..., :WORDS, :], groups[..., WORDS, :]
    carried = (np.ascontiguousarray(last).view(np.uint32) + np.uint32(0x80)) >> 8
    low = np.stack([carried >> 16, carried >> 8 & 0xff, carried & 0xff], axis=-2).astype(np.uint32)
    whole = np.copysign(np.maximum(np.abs(whole), LEAST), whole).view(np.uint32)
    upper = (whole - low + np.uint32(0x80)) & np.uint32(0xffffff00)
    return (upper | low).view(np.float32)


def widen(words):
    """The weights [..., K, N] that words stand for."""
    *outer, groups, vectors, _, lanes = words.shape
    parts = np.moveaxis(words, -2, 0)
    weights = np.stack([*parts, intrin.BIT_INTRINSICS["low_bytes"][1](*parts)], axis=-3)
    return weights.reshape(*outer, groups * TERMS, vectors * lanes)


def term(read, n):
    """Weight n of a group as an expression; read(word) is one of the group's words."""
    return Select(n < WORDS, read(intrin.min(n, WORDS - 1)), intrin.low_bytes(*map(read, range(WORDS))))
