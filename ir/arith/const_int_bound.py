"""Constant bounds: the least and greatest value an integer expression can take, by interval arithmetic.

Inside, an unbounded side is -inf or inf (floats that only ever compare and add). `Analyzer.interval` answers with None
there, `Analyzer.const_int_bound` with the limits that TVM's users know.
"""
from __future__ import annotations

import itertools
from collections import namedtuple
from math import ceil, log2, prod

from ..expr import Call, Cast, Div, FloatImm, FloorDiv, FloorMod, Let, Mod, substitute
from .linear import DIV, MAX, MIN, MOD, OPAQUE, PRODUCT, SELECT, VAR, factors

INF = float("inf")
MOST_AT_CORNERS = 4  # atoms, of whose ends all combinations are looked at
EVERYTHING = (-INF, INF)
Interval = namedtuple("Interval", "min_value max_value")


class ConstIntBound(namedtuple("ConstIntBound", "min_value max_value")):
    """min_value <= value <= max_value, both inclusive; NEG_INF and POS_INF stand for no bound."""

    __slots__ = ()
    POS_INF = (1 << 63) - 1
    NEG_INF = -POS_INF


def open_interval(lo, hi):
    """The bounds with None where there is none."""
    return Interval(None if lo == -INF else lo, None if hi == INF else hi)


def public_bound(lo, hi, dtype, open_ended=False):
    """The bounds as a ConstIntBound: what is not known of a type below 64 bits is the type's own limit, unless it is
    said to be without one."""
    limits = ConstIntBound.NEG_INF, ConstIntBound.POS_INF
    if (dtype.is_int or dtype.is_bool) and dtype.bits < 64 and not open_ended:
        limits = dtype.min_value(), dtype.max_value()
    return ConstIntBound(limits[0] if lo == -INF else lo, limits[1] if hi == INF else hi)


def private_bound(bound):
    """(lo, hi) of a ConstIntBound, its infinities as -inf and inf."""
    return (-INF if bound.min_value <= ConstIntBound.NEG_INF else bound.min_value,
            INF if bound.max_value >= ConstIntBound.POS_INF else bound.max_value)


def linear_bound(an, form):
    """(lo, hi) of a Linear."""
    lo = hi = form.const
    known, products = an.bounds, False
    for atom, k in form.terms.items():
        products = products or atom.kind == PRODUCT
        pair = known.get(atom)
        if pair is None:
            pair = atom_bound(an, atom)
        if k > 0:
            lo += k * pair[0]
            hi += k * pair[1]
        else:
            lo += k * pair[1]
            hi += k * pair[0]
    if products and len(form.terms) > 1:
        found = _at_corners(an, form)
        if found is not None:
            return max(lo, found[0]), min(hi, found[1])
    return lo, hi


def _at_corners(an, form):
    """The bounds of a sum of products of a few bounded atoms, each of which is in no product twice: it is linear in
    each of them, so that its least and greatest values are where all are at one of their ends. x + y * (7 - 2 * x) is
    within [0, 7] for x in [0, 7] and y in [0, 1], though the sum of its terms' bounds is not. None for other sums."""
    products = [factors(atom) for atom in form.terms]
    atoms = list(dict.fromkeys(atom for parts in products for atom in parts))
    ends = [atom_bound(an, atom) for atom in atoms]
    if len(atoms) > MOST_AT_CORNERS or any(len(set(parts)) < len(parts) for parts in products) or any(
            INF in (-lo, hi) for lo, hi in ends):
        return None
    values = []
    for corner in itertools.product(*ends):
        at = dict(zip(atoms, corner))
        values.append(form.const + sum(k * prod(at[part] for part in parts)
                                       for parts, k in zip(products, form.terms.values())))
    return min(values), max(values)


def atom_bound(an, atom):
    """(lo, hi) of an atom, remembered until the analyzer learns something new."""
    pair = an.bounds.get(atom)
    if pair is None:
        lo, hi = RULES.get(atom.kind, _of_dtype)(an, atom)
        refined = an.refined.get(atom)
        if refined is not None:
            lo, hi = max(lo, refined[0]), min(hi, refined[1])  # they cross where the facts contradict each other
        pair = an.bounds[atom] = (lo, hi)
    return pair


def _of_dtype(an, atom):
    """Index types count as unbounded integers, but what buffers hold; narrower ones cannot leave their range."""
    dtype = atom.dtype
    if dtype.is_bool:
        return 0, 1
    if dtype.is_int and (dtype.bits < 32 or dtype.code == "uint" or atom.loaded):
        return dtype.min_value(), dtype.max_value()
    return EVERYTHING


def _of_var(an, atom):
    found = an.var_bounds.get(atom.expr)
    if found is None:
        found = _of_dtype(an, atom)
        if atom.expr.is_size:
            found = max(found[0], 0), found[1]
    return found


def _times(x, y):
    return 0 if x == 0 or y == 0 else x * y


def _of_product(an, atom):
    lo, hi = 1, 1
    seen = None
    for factor in atom.parts:
        a, b = atom_bound(an, factor)
        corners = (_times(lo, a), _times(lo, b), _times(hi, a), _times(hi, b))
        lo, hi = min(corners), max(corners)
        if factor is seen and len(atom.parts) == 2:  # a square
            lo = max(lo, 0)
        seen = factor
    return lo, hi


def floor_quotient(x, d):
    """x // d where either may be infinite and d is positive."""
    if x in (INF, -INF):
        return x
    if d == INF:
        return 0 if x >= 0 else -1
    return x // d


def _divisors(dlo, dhi):
    """The ranges of divisors of one sign, negated where negative: no divisor is 0."""
    if dlo < 0:
        yield True, max(1, -dhi), -dlo
    if dhi > 0:
        yield False, max(1, dlo), dhi


def _quotients(x, d, quotient):
    """The least and greatest quotient of intervals; `quotient` divides by a positive number that may be infinite."""
    corners = []
    for negated, low, high in _divisors(*d):
        lo, hi = (-x[1], -x[0]) if negated else x
        corners += [quotient(n, m) for n in (lo, hi) for m in (low, max(low, high))]
    return (min(corners), max(corners)) if corners else EVERYTHING


def _of_div(an, atom):
    return _quotients(linear_bound(an, atom.parts[0]), linear_bound(an, atom.parts[1]), floor_quotient)


def _of_mod(an, atom):
    return _remainders(linear_bound(an, atom.parts[0]), linear_bound(an, atom.parts[1]))


def _remainders(x, d):
    """The least and greatest remainder of floor division, whose sign is the divisor's."""
    ends = []
    for negated, low, high in _divisors(*d):
        lo, hi = (-x[1], -x[0]) if negated else x
        most = min(hi, high - 1) if lo >= 0 else high - 1
        ends += [0, -most if negated else most]
    return (min(ends), max(ends)) if ends else EVERYTHING


def _of_min(an, atom):
    pairs = [linear_bound(an, p) for p in atom.parts]
    return min(p[0] for p in pairs), min(p[1] for p in pairs)


def _of_max(an, atom):
    pairs = [linear_bound(an, p) for p in atom.parts]
    return max(p[0] for p in pairs), max(p[1] for p in pairs)


def _of_select(an, atom):
    a, b = (linear_bound(an, p) for p in atom.parts[1:])
    return min(a[0], b[0]), max(a[1], b[1])


# ---------------------------------------------------------------- what arithmetic does not open

def _truncated(x, d):
    """x / d rounded toward 0, where either may be infinite and d is positive."""
    return floor_quotient(x, d) if x >= 0 else -floor_quotient(-x, d)


def _truncated_remainders(x, d):
    """The least and greatest remainder of truncating division, whose sign is the numerator's."""
    most = max((high - 1 for _, _, high in _divisors(*d)), default=INF)
    return max(-most, x[0]) if x[0] < 0 else 0, min(most, x[1]) if x[1] > 0 else 0


def _shifted_right(x, n):
    if n[0] < 0:
        return EVERYTHING
    ends = [e if abs(e) == INF else e >> min(int(min(k, 64)), 64) for e in x for k in n]
    return min(ends), max(ends)


def _shifted_left(x, n):
    """x << n of an x that is not negative."""
    if x[0] < 0 or n[0] < 0:
        return EVERYTHING
    return x[0] << min(n[0], 64), INF if INF in (x[1], n[1]) else x[1] << min(n[1], 64)


def _bits_of_both(x, y):
    """x & y: a number that is not negative has no bits that the other lacks."""
    tops = [high for low, high in (x, y) if low >= 0]
    return (0, min(tops)) if tops else EVERYTHING


_PAIRS = {FloorDiv: lambda x, d: _quotients(x, d, floor_quotient), FloorMod: _remainders,
          Div: lambda x, d: _quotients(x, d, _truncated), Mod: _truncated_remainders,
          "tir.shift_right": _shifted_right, "tir.shift_left": _shifted_left, "tir.bitwise_and": _bits_of_both}
EXACT_FLOAT = {"float16": 1 << 11, "bfloat16": 1 << 8, "float32": 1 << 24, "float64": 1 << 53}


def _of_opaque(an, atom):
    """The bounds of an expression from those of its operands; at most those of its type."""
    least, greatest = _of_dtype(an, atom)
    e, found = atom.expr, None
    pair = _PAIRS.get(e.op if type(e) is Call else type(e))
    if pair is not None and e.dtype.is_int and e.dtype.lanes == 1:
        found = pair(*(_inner(an, part) for part in (e.args if type(e) is Call else (e.a, e.b))))
    elif type(e) is Cast and e.dtype.is_int and e.dtype.lanes == 1:
        found = _of_cast(an, e)
    elif type(e) is Call and e.op == "tir.vscale":
        found = 1, greatest
    elif type(e) is Let and e.dtype.is_int and not atom.loaded:
        found = _inner(an, substitute(e.body, {e.var: e.value}))
    if found is None or found[0] < least or found[1] > greatest:  # it may wrap around
        return least, greatest
    return found


def _inner(an, e):
    return linear_bound(an, an.form(e))


def _of_cast(an, e):
    """The bounds of an integer that came through a cast: also through a float that holds it exactly, or as the ceiling
    of its logarithm."""
    inner = e.value
    if type(inner) is Call and inner.op == "tir.ceil":
        return _of_ceil_log2(an, inner.args[0])
    if inner.dtype.is_float and type(inner) is Cast and inner.value.dtype.is_int:
        low, high = _inner(an, inner.value)
        most = EXACT_FLOAT.get(inner.dtype, 0)
        return (low, high) if -most <= low and high <= most else None
    low, high = _inner(an, inner) if inner.dtype.is_int else EVERYTHING
    fits = (abs(end) == INF or e.dtype.holds(end) for end in (low, high))  # sizes do; bits of unsigned numbers may not
    return (low, high) if all(fits) else None


def _of_ceil_log2(an, e):
    """The bounds of ceil(log2(x)) of a float64 that is an integer: with that many bits the logarithm is near enough."""
    number = e.args[0] if type(e) is Call and e.op == "tir.log2" and e.dtype == "float64" else None
    if type(number) is FloatImm and 0 < number.value < INF:
        return (ceil(log2(number.value)),) * 2
    if type(number) is not Cast or not number.value.dtype.is_int:
        return None
    low, high = _inner(an, number.value)
    return ((low - 1).bit_length(), (high - 1).bit_length()) if 1 <= low <= high <= 1 << 31 else None


RULES = {VAR: _of_var, PRODUCT: _of_product, DIV: _of_div, MOD: _of_mod, MIN: _of_min, MAX: _of_max,
          SELECT: _of_select, OPAQUE: _of_opaque}
