"""Comparisons of a product with a multiple of the sum of its factors, by the factors' bounds."""
from __future__ import annotations

from ...expr import LE, LT
from ..analyzer import Extension
from ..const_int_bound import INF, atom_bound
from ..linear import PRODUCT


def decides_product(an, e):
    """True where k * x * y < m * (x + y), or <=, holds by the bounds of x and y; None where that is not known.

    x * y / (x + y) grows with both x and y, which are positive, and is less than either."""
    if not an.enabled_extensions & Extension.ComparisonOfProductAndSum or type(e) not in (LT, LE):
        return None
    gap = an.canonical.add(an.canonical.linear(e.b), an.canonical.linear(e.a), -1)
    products = [(atom, -k) for atom, k in gap.terms.items() if atom.kind == PRODUCT and len(atom.parts) == 2 and k < 0]
    if len(products) != 1 or gap.const or len(gap.terms) != 3:
        return None
    (atom, k), = products
    x, y = atom.parts
    m = gap.terms.get(x)
    if x is y or not m or gap.terms.get(y) != m or m < 0:
        return None
    (low, x_most), (other_low, y_most) = atom_bound(an, x), atom_bound(an, y)
    if low <= 0 or other_low <= 0:
        return None
    if INF in (x_most, y_most):
        return True if min(x_most, y_most) < INF and k * min(x_most, y_most) <= m else None
    return True if k * x_most * y_most < m * (x_most + y_most) else None
