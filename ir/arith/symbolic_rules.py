"""Floor division and remainder by a divisor that is not a constant, such as a symbolic dimension.

Long division of polynomials gives num = quotient * den + rest; then floor(num / den) = quotient + floor(rest / den)
for any nonzero den, and the last part goes when 0 <= rest < den is proved.
"""
from __future__ import annotations

from math import gcd

from .linear import DIV, ZERO, Linear, combine, constant, factors, scaled, shifted

MOST_STEPS = 8


def divide_symbolic(an, num, den, dtype, kind, divide):
    """num // den (kind DIV) or num mod den (kind MOD) in normal form, den not a constant.

    divide(an, num, den, dtype, kind) is called for the smaller divisions that remain.
    """
    if all(k < 0 for k in (*den.terms.values(), den.const or -1)):  # floor(x / -y) = floor(-x / y)
        part = divide(an, scaled(num, -1), scaled(den, -1), dtype, kind)
        return part if kind == DIV else scaled(part, -1)
    quotient, rest = long_division(an, num, den)
    part = None
    for rule in REST_RULES:
        part = rule(an, rest, den, dtype, kind, divide)
        if part is not None:
            break
    else:
        part = an.canonical.division(kind, rest, den, dtype)
    return an.canonical.add(quotient, part) if kind == DIV else part


def rest_within(an, rest, den, dtype, kind, divide):
    """x // den = 0 and x % den = x for 0 <= x < den"""
    if rest.terms or rest.const:
        if not within(an, rest, den):
            return None
    return ZERO if kind == DIV else rest


def rest_shares_factor(an, rest, den, dtype, kind, divide):
    """(f * x) // (f * y) = x // y and (f * x) % (f * y) = f * (x % y)"""
    common = common_factor(an, rest, den)
    if common is None:
        return None
    factor, small, by = common
    part = divide(an, small, by, dtype, kind)
    return part if kind == DIV else an.canonical.multiply(part, factor)


def rest_drops_inner(an, rest, den, dtype, kind, divide):
    """(g * x + y) // (g * d) = x // d and (g * x + y) % (g * d) = g * (x % d) + y for 0 <= y < g and d > 0"""
    for g in _divisors(an, den):
        terms, inner, outer = rest.terms, ZERO, ZERO
        for atom, k in terms.items():
            q = _quotient_term(an.canonical, atom, k, *next(iter(g.terms.items())))
            if q is None:
                inner = combine(inner, Linear({atom: k}, 0))
            else:
                outer = combine(outer, q)
        inner = shifted(inner, rest.const)
        by = long_division(an, den, g)[0]
        if outer.terms and within(an, inner, g) and _positive(an, by, rest):
            part = divide(an, outer, by, dtype, kind)
            return part if kind == DIV else an.canonical.add(inner, an.canonical.multiply(part, g))
    return None


REST_RULES = (rest_within, rest_shares_factor, rest_drops_inner)


def within(an, rest, den):
    """Whether 0 <= rest < den is proved."""
    return an.nonnegative(rest) and an.nonnegative(shifted(combine(den, rest, -1), -1))


def long_division(an, num, den):
    """(quotient, rest) with num = quotient * den + rest; quotient is 0 unless it makes the rest shorter."""
    canonical = an.canonical
    lead = max(den.terms, key=lambda a: len(factors(a)))
    quotient, rest = ZERO, num
    for _ in range(MOST_STEPS):
        term = next((t for t in (_quotient_term(canonical, a, k, lead, den.terms[lead])
                                 for a, k in rest.terms.items()) if t is not None), None)
        if term is None:
            break
        quotient = canonical.add(quotient, term)
        rest = canonical.add(rest, canonical.multiply(term, den), -1)
    if len(den.terms) == 1 and den.const == 0 or len(rest.terms) < len(num.terms) or within(an, rest, den):
        return quotient, rest
    return ZERO, num


def _quotient_term(canonical, atom, k, lead, lead_k):
    """k * atom / (lead_k * lead) as a Linear, None when it does not divide."""
    if k % lead_k:
        return None
    left = list(factors(atom))
    for f in factors(lead):
        if f not in left:
            return None
        left.remove(f)
    return Linear({canonical.product(tuple(left)): k // lead_k}, 0) if left else constant(k // lead_k)


def _positive(an, form, where):
    """Whether form > 0 is proved wherever the form `where` is computed."""
    with an.ranges_occupied(where):
        return an.nonnegative(shifted(form, -1))


def common_factor(an, num, den):
    """(factor, num / factor, den / factor) for a factor common to every term of both, None without one."""
    g = gcd(num.const, den.const, *num.terms.values(), *den.terms.values())
    shared = None
    if num.const == 0 and den.const == 0:
        for atom in (*num.terms, *den.terms):
            shared = _meet(shared, factors(atom))
            if not shared:
                break
    if g == 1 and not shared:
        return None
    factor = Linear({an.canonical.product(tuple(shared)): g}, 0) if shared else constant(g)
    return factor, _over(an, num, shared or [], g), _over(an, den, shared or [], g)


def _meet(shared, parts):
    if shared is None:
        return list(parts)
    left, out = list(parts), []
    for f in shared:
        if f in left:
            left.remove(f)
            out.append(f)
    return out


def _over(an, form, shared, g):
    """form / (g * product of shared), which divides it."""
    total = constant(form.const // g)
    for atom, k in form.terms.items():
        left = list(factors(atom))
        for f in shared:
            left.remove(f)
        part = Linear({an.canonical.product(tuple(left)): k // g}, 0) if left else constant(k // g)
        total = combine(total, part)
    return total


def _divisors(an, den):
    """Candidate divisors g of a one-term den: the term without its coefficient, and each single factor."""
    if len(den.terms) != 1 or den.const:
        return
    (atom, k), = den.terms.items()
    if k != 1:
        yield Linear({atom: 1}, 0)
    if len(factors(atom)) > 1:
        for f in factors(atom):
            yield Linear({f: 1}, 0)
