"""Constant bounds: the least and greatest value an integer expression can take, by interval arithmetic.

Inside, an unbounded side is -inf or inf (floats that only ever compare and add). `Analyzer.interval` answers with None
there, `Analyzer.const_int_bound` with the limits that TVM's users know.
"""
from __future__ import annotations

import itertools
from collections import namedtuple
from math import prod

from .linear import DIV, MAX, MIN, MOD, PRODUCT, SELECT, VAR, factors

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


def public_bound(lo, hi, dtype):
    """The bounds as a ConstIntBound: what is not known of a type below 64 bits is the type's own limit."""
    limits = ConstIntBound.NEG_INF, ConstIntBound.POS_INF
    if (dtype.is_int or dtype.is_bool) and dtype.bits < 64:
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
    return found if found is not None else _of_dtype(an, atom)


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


def _of_div(an, atom):
    lo, hi = linear_bound(an, atom.parts[0])
    dlo, dhi = linear_bound(an, atom.parts[1])
    if dlo <= 0:
        if dhi >= 0:
            return EVERYTHING
        lo, hi, dlo, dhi = -hi, -lo, -dhi, -dlo
    dhi = max(dlo, dhi)
    corners = [floor_quotient(x, d) for x in (lo, hi) for d in (dlo, dhi)]
    return min(corners), max(corners)


def _of_mod(an, atom):
    lo, hi = linear_bound(an, atom.parts[0])
    dlo, dhi = linear_bound(an, atom.parts[1])
    if dlo > 0:
        return 0, (min(hi, dhi - 1) if lo >= 0 else dhi - 1)
    if dhi < 0:
        return (max(lo, dlo + 1) if hi <= 0 else dlo + 1), 0
    return EVERYTHING


def _of_min(an, atom):
    pairs = [linear_bound(an, p) for p in atom.parts]
    return min(p[0] for p in pairs), min(p[1] for p in pairs)


def _of_max(an, atom):
    pairs = [linear_bound(an, p) for p in atom.parts]
    return max(p[0] for p in pairs), max(p[1] for p in pairs)


def _of_select(an, atom):
    a, b = (linear_bound(an, p) for p in atom.parts[1:])
    return min(a[0], b[0]), max(a[1], b[1])


RULES = {VAR: _of_var, PRODUCT: _of_product, DIV: _of_div, MOD: _of_mod, MIN: _of_min, MAX: _of_max,
          SELECT: _of_select}
