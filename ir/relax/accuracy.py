"""How near results are to exact ones: what each accuracy promises, and which arithmetics keep that.

Each arithmetic (arithmetic/) states its error bound, as text and as a function, and the accuracies that admit it; so
does each transform of Winograd's, here. Passes ask `admits` before they choose one; nothing else decides.

u = 2^-24 is the unit roundoff of float32. Bounds leave out what is below the least normal number of float32.
"""
from __future__ import annotations

from functools import lru_cache

import numpy as np

from ..pieces import everywhere
from .arithmetic import ARITHMETICS
from .arithmetic.row import (ACCURACIES, CHAIN, FLOAT32, RELAXED, STRICT, SUMS, TERMS, U, Arithmetic,  # noqa: F401
                             growth_of_sums)
from .ops.winograd import matrices

PROMISES = {
    FLOAT32: f"each element of a product within {SUMS} for K terms, whatever their sizes; by Winograd's algorithm "
             "within 1e-5 of the output channel's largest magnitude",
    STRICT: f"each element of a product and of a convolution within {SUMS} for K terms, one FMA for each, "
            "added up in blocks",
    RELAXED: "split-integer products, Winograd inner products and compressed weights, which are as near as float32 for "
             "numbers of similar size: bounds are of the largest numbers of rows and columns",
}


def admits(accuracy, arithmetics):
    """Whether results made by all of these arithmetics keep what an accuracy promises."""
    return all(accuracy in a.keeps for a in arithmetics)


def is_whole(weights):
    """Whether weights are integers of up to 16 bits, not all 0, as those of quantized layers are: nothing but chains
    of FMAs is sure to keep their sums exact. Larger floats are integers by accident: all from 2**23 on are."""
    def whole(values):
        return bool(((values == np.rint(values)) & (np.abs(values) < 2**16)).all())

    return everywhere(weights, whole) and bool(weights.any())


# ---------------------------------------------------------------- Winograd

@lru_cache(maxsize=None)
def growth(tile, kernel):
    """How much larger than the results the terms may be that F(tile x tile, kernel x kernel) adds up."""
    a_t, g, b_t = (np.abs(np.array(m, np.float64)) for m in matrices(tile, kernel))
    return float((a_t @ (g * b_t.sum(axis=1, keepdims=True))).max()) ** 2


# Growth up to which results of up to 512 channels of any scale, whose terms do not cancel more than independent ones
# do, are within 1e-5 of the channel's largest magnitude (tests/accuracy/test_products.py): they are within 6e-6 where
# it is 205, and up to 2e-5 and 4e-5 where it is 1,593 and 1,565, that of the next larger tiles.
MOST_GROWTH = 256


@lru_cache(maxsize=None)
def winograd(tile, kernel):
    """The Arithmetic of F(tile x tile, kernel x kernel)."""
    factor = growth(tile, kernel)

    def limit(x, w):
        largest, sums = np.abs(x).max(axis=(2, 3)), np.abs(w).sum(axis=(2, 3))
        return factor * growth_of_sums(w.shape[1]) * U * (largest @ sums.T)

    text = (f"{factor:.3g} (min(C, {CHAIN}) + C / {TERMS} + 2) u times, summed over C channels, the largest |x| of a "
            "tile's inputs and the sum of |w|")
    keeps = {RELAXED, FLOAT32} if factor <= MOST_GROWTH else {RELAXED}
    return Arithmetic(f"winograd F({tile}x{tile}, {kernel}x{kernel})", text, limit, frozenset(keeps))


# ---------------------------------------------------------------- operators

def arithmetics_of(call):
    """The arithmetics that compute a call of a graph operator; () for FMAs alone."""
    row = ARITHMETICS.get(call.attrs.get("arithmetic"))
    planes = (winograd(call.attrs["tile"], call.attrs["kernel"]),) if call.op == "nn.conv2d_winograd" else ()
    return *planes, *((row,) if row and row.operands else ())


def check_accuracy(accuracy):
    """Raise ValueError unless it is one of ACCURACIES."""
    if accuracy not in ACCURACIES:
        raise ValueError(f"accuracy must be one of {', '.join(ACCURACIES)}, not {accuracy!r}")
