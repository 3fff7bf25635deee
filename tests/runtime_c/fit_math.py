"""Fits the polynomials of runtime_c/simd/math.h; run it as a script to print them.

The fit is near-minimax: least squares on Chebyshev nodes, reweighted by the error (Lawson's iteration). The
coefficients are rounded to float32 one by one, from the lowest degree, refitting the others each time.
"""
import math

import numpy as np


def chebyshev_nodes(lo, hi, count=801):
    """`count` Chebyshev nodes of the interval, none of them at its ends."""
    k = np.arange(count)
    return (lo + hi) / 2 + (hi - lo) / 2 * np.cos(math.pi * (k + 0.5) / count)


def lawson(basis, target, rounds=100):
    """Coefficients c that nearly minimize max |basis @ c - target|."""
    weight = np.ones(len(target))
    best, best_error = None, math.inf
    for _ in range(rounds):
        root = np.sqrt(weight)
        c = np.linalg.lstsq(basis * root[:, None], target * root, rcond=None)[0]
        error = np.abs(basis @ c - target)
        if error.max() < best_error:
            best, best_error = c, error.max()
        weight *= error / error.max() + 1e-3
        weight /= weight.mean()
    return best


def fit(target, factor, weight, lo, hi, degree, variable=lambda x: x):
    """Fits target(x) ~ factor(x) * q(variable(x)) on [lo, hi], the error multiplied by weight(x).

    Returns (the coefficients of q as float32 values, lowest degree first; the largest weighted error).
    """
    x = chebyshev_nodes(lo, hi)
    basis = np.stack([weight(x) * factor(x) * variable(x) ** k for k in range(degree + 1)], axis=1)
    goal = weight(x) * target(x)
    done = []
    for k in range(degree + 1):
        c = lawson(basis[:, k:], goal - basis[:, :k] @ np.array(done))
        done.append(float(np.float32(c[0])))
    return done, np.abs(basis @ np.array(done) - goal).max()


def fits():
    """name -> (coefficients, error): everything that math.h uses."""
    erf = np.vectorize(math.erf)
    erfc = np.vectorize(math.erfc)
    half_log2 = math.log(2) / 2

    def below(x):
        """Phi(-x), the part of a normal distribution below -x."""
        return erfc(x / math.sqrt(2)) / 2

    return {
        # e^x = 1 + x + x^2 q(x)
        "exp": fit(lambda x: np.exp(x) - 1 - x, np.square, lambda x: np.exp(-x), -half_log2, half_log2, 4),
        # log(1 + x) = x - x^2 / 2 + x^3 q(x)
        "log": fit(lambda x: np.log1p(x) - x + x * x / 2, lambda x: x**3, lambda x: 1 / np.abs(np.log1p(x)),
                   math.sqrt(0.5) - 1, math.sqrt(2) - 1, 7),
        # erf(x) = x + x q(x^2), below 0.92
        "erf_small": fit(lambda x: erf(x) - x, lambda x: x, lambda x: 1 / erf(x), 1e-6, 0.92, 5, np.square),
        # erf(x) = 1 - e^q(x), above; the error of q counts as far as it changes erf
        "erf_large": fit(lambda x: np.log(erfc(x)), np.ones_like, erfc, 0.92, 3.95, 6),
        # Phi(-x) = e^-q(x); the error of q counts as far as it changes Phi, and a little where that is next to nothing
        "gelu": fit(lambda x: -np.log(below(x)), np.ones_like, lambda x: below(x) + 3e-8, 0, 12.5, 10),
    }


if __name__ == "__main__":
    for name, (coefficients, error) in fits().items():
        print(f"{name}: error {error:.1e}", *(f"{c:.9g}f" for c in coefficients), sep="\n  ")
