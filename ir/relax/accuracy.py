"""How near results are to exact ones: what each accuracy promises, and which arithmetics keep that.

An arithmetic is how a product or a convolution is made of machine operations. Each is a row: its error bound, as text
and as a function, and the accuracies that admit it. Passes ask `admits` before they choose one; nothing else decides.

u = 2^-24 is the unit roundoff of float32. Bounds leave out what is below the least normal number of float32.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from .ops import matmul_short
from .ops.winograd import matrices
from .ops.winograd_rows import taps_of

FLOAT32, STRICT, RELAXED = ACCURACIES = ("float32", "strict", "relaxed")
U = 2.0 ** -24
TERMS = 256  # of a block of a long sum: errors of float32 sums of 4096 terms are then about those of 272
CHAIN = 384  # terms that are added up in one go at most; more make blocks (transform/split_sums.py)
_SUMS = f"(min(K, {CHAIN}) + K / {TERMS} + 2) u |x| |w|"
PROMISES = {
    FLOAT32: f"each element of a product within {_SUMS} for K terms, whatever their sizes; by Winograd's algorithm "
             "within 1e-5 of the output channel's largest magnitude",
    STRICT: f"each element of a product and of a convolution within {_SUMS} for K terms, one multiply-add for each, "
            "added up in blocks",
    RELAXED: "products in fixed point, by pairs and with weights of 20 bits, which are as near as float32 for "
             "numbers of similar size: bounds are of the largest numbers of rows and columns",
}


@dataclass(frozen=True)
class Arithmetic:
    """bound: the text of |y - y*| <= ...; limit: the same as a function of float64 arrays, x [M, K] and w [K, N] ->
    [M, N] of products, tiles of inputs [T, C, rows, columns] and w [O, C, KH, KW] -> [T, O] of Winograd's; keeps: the
    accuracies that admit it."""

    name: str
    bound: str
    limit: Callable
    keeps: frozenset

    def __str__(self):
        return f"{self.name}: |y - y*| <= {self.bound}"


def admits(accuracy, arithmetics):
    """Whether results made by all of these arithmetics keep what an accuracy promises."""
    return all(accuracy in a.keeps for a in arithmetics)


# ---------------------------------------------------------------- products

def growth_of_sums(terms):
    """c of |y - y*| <= c u |x| |w| for sums of so many terms in blocks: as many roundings as a term goes through, and
    that of its product where that is one of its own."""
    return min(terms, CHAIN) + terms / TERMS + 2


def _of_elements(x, w):
    return growth_of_sums(len(w)) * U * (np.abs(x) @ np.abs(w))


def _of_largest(factor):
    def limit(x, w):
        return factor * U * len(w) * np.outer(np.abs(x).max(axis=1, initial=0), np.abs(w).max(axis=0, initial=0))
    return limit


def _of_blocks(x, w):
    """Weights are off by half of the last of 20 bits of the largest one of their block."""
    starts = np.arange(0, len(w), matmul_short.BLOCK)
    largest = np.maximum.reduceat(np.abs(w), starts, axis=0)
    sums = np.add.reduceat(np.abs(x), starts, axis=1)
    return SHORT_FACTOR * U * sums @ largest + _of_elements(x, w)


PAIRS_FACTOR, DIGITS_FACTOR, SHORT_FACTOR = 8, 8, 24
_EVERY, _RELAXED = frozenset(ACCURACIES), frozenset({RELAXED})

FMA = Arithmetic("fma", f"{_SUMS}, for K terms", _of_elements, _EVERY)
PAIRS = Arithmetic("pairs", f"{PAIRS_FACTOR} u K max|x| max|w|, of a row and a column of K terms",
                   _of_largest(PAIRS_FACTOR), _RELAXED)
DIGITS = Arithmetic("digits", f"{DIGITS_FACTOR} u K max|x| max|w|, of a row and a column of K terms",
                    _of_largest(DIGITS_FACTOR), _RELAXED)
SHORT = Arithmetic("short", f"{SHORT_FACTOR} u times the sum of |x| times the largest |w| of its "
                   f"{matmul_short.BLOCK} terms of a column, beside fma's", _of_blocks, _RELAXED)


# ---------------------------------------------------------------- Winograd

@lru_cache(maxsize=None)
def growth(tile, kernel, axes=2):
    """How much larger than the results the terms may be that F(tile, kernel) adds up along so many axes."""
    a_t, g, b_t = (np.abs(np.array(m, np.float64)) for m in matrices(tile, kernel))
    return float((a_t @ (g * b_t.sum(axis=1, keepdims=True))).max()) ** axes


# Growth up to which results of up to 512 channels of any scale, whose terms do not cancel more than independent ones
# do, are within 1e-5 of the channel's largest magnitude (tests/accuracy/test_products.py): they are within 6e-6 where it
# is 205, and up to 2e-5 and 4e-5 where it is 1,593 and 1,565, that of the next larger tiles.
MOST_GROWTH = 256


@lru_cache(maxsize=None)
def winograd(tile, kernel, axes=2):
    """The Arithmetic of F(tile x tile, kernel x kernel), or along one axis."""
    factor = growth(tile, kernel, axes)

    def limit(x, w):
        largest, sums = np.abs(x).max(axis=(2, 3)), np.abs(w).sum(axis=(2, 3))
        return factor * growth_of_sums(w.shape[1]) * U * (largest @ sums.T)

    text = (f"{factor:.3g} (min(C, {CHAIN}) + C / {TERMS} + 2) u times, summed over C channels, the largest |x| of a tile's inputs and the "
            "sum of |w|")
    keeps = {RELAXED, FLOAT32} if factor <= MOST_GROWTH else {RELAXED}
    name = f"winograd F({tile}x{tile}, {kernel}x{kernel})" if axes == 2 else f"winograd F({tile}, {kernel})"
    return Arithmetic(name, text, limit, frozenset(keeps))


# ---------------------------------------------------------------- operators

def _planes(call):
    return winograd(call.attrs["tile"], call.attrs["kernel"])


def _rows(call):
    return winograd(call.attrs["tile"], taps_of(call.attrs["kernel"], call.attrs["strides"]), 1)


_OPERATORS = {
    "matmul_pairs": (PAIRS,), "nn.conv2d_pairs": (PAIRS,),
    "matmul_digits": (DIGITS,), "nn.conv2d_digits": (DIGITS,), "matmul_short": (SHORT,),
    "nn.conv2d_winograd": (_planes,), "nn.conv2d_winograd_rows": (_rows,),
    "nn.conv2d_winograd_pairs": (_planes, PAIRS), "nn.conv2d_winograd_digits": (_planes, DIGITS),
}


def arithmetics_of(call):
    """What a call of a graph operator is made by; () of multiply-adds alone."""
    return tuple(a if isinstance(a, Arithmetic) else a(call) for a in _OPERATORS.get(call.op, ()))


def check_accuracy(accuracy):
    """Raise ValueError unless it is one of ACCURACIES."""
    if accuracy not in ACCURACIES:
        raise ValueError(f"accuracy must be one of {', '.join(ACCURACIES)}, not {accuracy!r}")
