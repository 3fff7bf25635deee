"""Functions of one float that need more than a line: one formula each, of te expressions and of arrays alike.

A formula is f(m, x): `m` has the functions that both kinds share, as `TE` and `ARRAYS`.
"""
from __future__ import annotations

import math
from functools import reduce
from types import SimpleNamespace

import numpy as np

from ... import tir
from ...expr import Select, const

TE = SimpleNamespace(exp=tir.exp, log=tir.log, sqrt=tir.sqrt, tan=tir.tan, tanh=tir.tanh, erf=tir.erf, abs=tir.abs,
                     floor=tir.floor, round=tir.round, where=Select, both=tir.all,
                     number=lambda x, value: const(value, x.dtype))
ARRAYS = SimpleNamespace(exp=np.exp, log=np.log, sqrt=np.sqrt, tan=np.tan, tanh=np.tanh,
                         erf=tir.INTRINSICS["erf"].numpy, abs=np.abs, floor=np.floor, round=np.rint, where=np.where,
                         both=np.logical_and, number=lambda x, value: x.dtype.type(value))


def _polynomial(m, x, coefficients):
    """By Horner's rule, the highest power first."""
    return reduce(lambda total, c: total * x + m.number(x, c), coefficients[1:], m.number(x, coefficients[0]))


def log1p(m, x):
    """log(1 + x) with all digits near 0: what 1 + x rounds off, x / ((1 + x) - 1) gives back."""
    one = m.number(x, 1)
    u = x + one
    d = u - one
    scale = m.where(u == d, one, x / d)  # 1 + x is x beyond the digits, and of infinity
    return m.where(d == m.number(x, 0), x, m.log(u) * scale)


def expm1(m, x):
    """exp(x) - 1 with all digits near 0, where tanh has them."""
    return m.tanh(x * m.number(x, 0.5)) * (m.exp(x) + m.number(x, 1))


_STEPS = 6  # by which the argument of digamma is raised to where its series is good
_SERIES = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760)  # Bernoulli's B(2k) / 2k


def digamma(m, x):
    """The logarithmic derivative of gamma: below 1/2 by reflection, then by recurrence to its asymptotic series."""
    zero, one = m.number(x, 0), m.number(x, 1)
    low = x < m.number(x, 0.5)
    y = m.where(low, one - x, x)
    steps = reduce(lambda total, k: total + one / (y + m.number(x, k)), range(1, _STEPS), one / y)
    z = y + m.number(x, _STEPS)
    s = one / (z * z)
    series = s * _polynomial(m, s, _SERIES[::-1]) + m.number(x, 0.5) / z
    upper = m.log(z) - series - steps
    turn = m.tan((x - m.round(x)) * m.number(x, math.pi))
    lower = m.where(x == zero, m.number(x, -1) / x, upper - m.number(x, math.pi) / turn)
    pole = m.both(x < zero, x == m.floor(x))
    return m.where(pole, m.number(x, math.nan), m.where(low, lower, upper))


# Giles, Approximating the erfinv function, 2010: the middle by w - 5/2, the tails by sqrt(w) - 3
_MIDDLE = (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503,
           -0.00417768164, 0.246640727, 1.50140941)
_TAILS = (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
          1.00167406, 2.83297682)

# The tails of float64, interpolated at Chebyshev's nodes: by (sqrt(w) - centre) / radius, to 2e-14
_CENTRE, _RADIUS = (6.1 + math.sqrt(5)) / 2, (6.1 - math.sqrt(5)) / 2
_TAILS_64 = (
    -2.461126055598733e-6, 5.8156489655635116e-6, 7.4941108637546463e-6, -3.2014229411806037e-5, 1.76074238137936e-5,
    3.5612458426661021e-5, -7.1434384006532051e-5, 8.8735817359660222e-5, -7.3302808561327971e-5,
    -6.9033938199862504e-5, 0.00032804606952745627, -0.00050095582035580853, 0.00037039702918940261,
    0.00012086496025484877, -0.00082150884387267713, 0.0014415984911920126, -0.0017372395069773622,
    0.0016838318231084301, -0.0014957370417953847, 0.0015125056844573267, -0.0020688910749472462,
    0.0033576235173954178, -0.0049182715712317141, 0.0032515735115563193, 1.9509933647586122, 4.0094446659776835)


def erfinv(m, x):
    """The inverse of erf: infinities at the ends, NaN outside."""
    one = m.number(x, 1)
    w = m.number(x, 0) - m.log((one - x) * (one + x))
    y = x * _polynomial(m, w - m.number(x, 2.5), _MIDDLE)
    if x.dtype == "float64":
        for _ in range(2):  # the polynomial has float32's digits; each of Newton's steps doubles them
            y = y - (m.erf(y) - x) / (m.number(x, 2 / math.sqrt(math.pi)) * m.exp(m.number(x, 0) - y * y))
        # not in the tails, where erf keeps few of the digits that tell its arguments apart
        tails = _polynomial(m, (m.sqrt(w) - m.number(x, _CENTRE)) / m.number(x, _RADIUS), _TAILS_64)
    else:
        tails = _polynomial(m, m.sqrt(w) - m.number(x, 3), _TAILS)
    y = m.where(w < m.number(x, 5), y, x * tails)
    return m.where(m.abs(x) == one, x * m.number(x, math.inf), y)


SPECIAL = {f.__name__: f for f in (log1p, expm1, digamma, erfinv)}
__all__ = ["ARRAYS", "SPECIAL", "TE"]
