"""Rules for floor division and remainder on normal forms.

Every rule is an identity of integers with x = d * floor(x / d) + mod(x, d); a divisor is taken to be nonzero. DIV_RULES
and MOD_RULES hold for a constant divisor c > 0 and are tried in order: a rule gives the result, or None where it has
nothing to say. What no rule knows stays a division.
"""
from __future__ import annotations

from math import gcd

from ..expr import Div, IntImm, Mod
from .const_int_bound import linear_bound
from .linear import DIV, MOD, OPAQUE, ZERO, Linear, accumulate, combine, constant, scaled, shifted
from .symbolic_rules import divide_symbolic

MOST_JOINS = 16


def floordiv(an, num, den, dtype):
    """floor(num / den) in normal form."""
    return _divide(an, num, den, dtype, DIV)


def floormod(an, num, den, dtype):
    """num - den * floor(num / den) in normal form."""
    return _divide(an, num, den, dtype, MOD)


def _divide(an, num, den, dtype, kind):
    key = (kind, dtype, num.key, den.key)
    found = an.divisions.get(key)
    if found is None:
        if den.terms:
            found = divide_symbolic(an, num, den, dtype, kind, _divide)
        else:
            found = _divide_constant(an, num, den, dtype, kind)
        if not (den.terms and an.level):  # proofs inside proofs are weaker: keep only what full ones gave
            an.divisions[key] = found
    return found


def _divide_constant(an, num, den, dtype, kind):
    c = den.const
    if c < 0:
        num, den = scaled(num, -1), constant(-c)
        return floordiv(an, num, den, dtype) if kind == DIV else scaled(floormod(an, num, den, dtype), -1)
    for rule in (DIV_RULES if kind == DIV else MOD_RULES) if c else ():
        found = rule(an, num, c, dtype)
        if found is not None:
            return found
    return an.canonical.division(kind, num, den, dtype)


def div_by_one(an, num, c, dtype):
    """x // 1 = x"""
    return num if c == 1 else None


def div_of_constant(an, num, c, dtype):
    return None if num.terms else constant(num.const // c)


def div_takes_multiples(an, num, c, dtype):
    """(c * x + y) // c = x + y // c; after it no coefficient is a multiple of c, and 0 <= constant < c."""
    whole = {a: k // c for a, k in num.terms.items() if k % c == 0}
    if not whole and 0 <= num.const < c:
        return None
    offset, inner = divmod(num.const, c)
    rest = {a: k for a, k in num.terms.items() if k % c} if whole else num.terms
    quotient = floordiv(an, Linear(rest, inner), constant(c), dtype)
    return an.canonical.add(Linear(whole, offset), quotient) if whole else shifted(quotient, offset)


def div_within_block(an, num, c, dtype):
    """x // c = q where the bounds of x lie in [q * c, q * c + c)"""
    q = _block(an, num, c)
    return None if q is None else constant(q)


def div_drops_inner(an, num, c, dtype):
    """(g * x + y) // (g * d) = x // d for 0 <= y < g"""
    found = _common_part(an, num, c)
    return found and floordiv(an, found[1], constant(c // found[0]), dtype)


def div_merges_nested(an, num, c, dtype):
    """(x // d + r) // c = (x + r * d) // (d * c)"""
    atom = _lone(num)
    if atom is None or atom.kind != DIV or not _positive_constant(atom.parts[1]):
        return None
    d = atom.parts[1].const
    if d * c > dtype.max_value():
        return None
    return floordiv(an, shifted(atom.parts[0], num.const * d), constant(d * c), dtype)


def div_of_remainder(an, num, c, dtype):
    """(x % (c * m)) // c = x // c % m"""
    atom = _lone(num)
    if num.const or atom is None or atom.kind != MOD or not _positive_constant(atom.parts[1]):
        return None
    m = atom.parts[1].const
    if m % c:
        return None
    return floormod(an, floordiv(an, atom.parts[0], constant(c), dtype), constant(m // c), dtype)


DIV_RULES = (div_by_one, div_of_constant, div_takes_multiples, div_within_block, div_drops_inner, div_merges_nested,
             div_of_remainder)


def mod_by_one(an, num, c, dtype):
    """x % 1 = 0"""
    return ZERO if c == 1 else None


def mod_reduces_coefficients(an, num, c, dtype):
    """(k * x + r) % c with multiples of c taken from k and r; coefficients keep their sign."""
    terms = {a: k if -c < k < c else k % c if k > 0 else -(-k % c) for a, k in num.terms.items() if k % c}
    if not terms:
        return constant(num.const % c)
    if 0 <= num.const < c and len(terms) == len(num.terms) and all(k == num.terms[a] for a, k in terms.items()):
        return None
    return floormod(an, Linear(terms, num.const % c), constant(c), dtype)


def mod_within_block(an, num, c, dtype):
    """x % c = x - q * c where the bounds of x lie in [q * c, q * c + c)"""
    q = _block(an, num, c)
    return None if q is None else shifted(num, -c * q)


def mod_keeps_inner(an, num, c, dtype):
    """(g * x + y) % (g * d) = g * (x % d) + y for 0 <= y < g"""
    found = _common_part(an, num, c)
    if found is None:
        return None
    g, outer, inner = found
    return an.canonical.add(scaled(floormod(an, outer, constant(c // g), dtype), g), inner)


def mod_opens_remainder(an, num, c, dtype):
    """(k * (x % m) + y) % c = (k * x + y) % c where c divides k * m"""
    for atom, k in num.terms.items():
        if atom.kind == MOD and not atom.parts[1].terms and (k * atom.parts[1].const) % c == 0:
            terms, inner = dict(num.terms), atom.parts[0]
            del terms[atom]
            accumulate(terms, inner.terms, k)
            opened = an.canonical.joined(terms, num.const + k * inner.const)
            return floormod(an, opened, constant(c), dtype)
    return None


def mod_joins_parts(an, num, c, dtype):
    """(k * (x % d) + j * (x // d) + y) % c = (k * x + y) % c where c divides k * d - j: what mod_reduces_coefficients
    left of k * x"""
    for atom, k in num.terms.items():
        if atom.kind != MOD or not _positive_constant(atom.parts[1]):
            continue
        d = atom.parts[1].const
        for whole, quotient in _quotients(an, num, atom, d, dtype):
            terms = dict(num.terms)
            del terms[atom]
            accumulate(terms, quotient.terms, -k * d)
            if all(terms.get(a, 0) % c == 0 for a in quotient.terms):
                accumulate(terms, whole.terms, k)
                joined = an.canonical.joined(terms, num.const + k * (whole.const - d * quotient.const))
                return floormod(an, joined, constant(c), dtype)
    return None


def _quotients(an, num, atom, d, dtype):
    """(y, y // d) for each y whose remainder by d is that of a MOD atom and whose quotient is among the terms of num:
    what it is of itself, or differs from that by multiples of d."""
    x = atom.parts[0]
    quotient = floordiv(an, x, constant(d), dtype)
    if quotient.terms and all(a in num.terms for a in quotient.terms):
        yield x, quotient
    for other in num.terms:
        if other.kind == DIV and other.parts[1].key == atom.parts[1].key and other not in quotient.terms:
            gap = combine(other.parts[0], x, -1)
            if all(n % d == 0 for n in (*gap.terms.values(), gap.const)):
                yield other.parts[0], Linear({other: 1}, 0)


def mod_of_known_set(an, num, c, dtype):
    """x % c = b % c for x = coeff * k + b where c divides coeff"""
    coeff, base = an.linear_modular(num)
    return None if coeff % c else constant(base % c)


MOD_RULES = (mod_by_one, mod_reduces_coefficients, mod_within_block, mod_keeps_inner, mod_opens_remainder,
             mod_joins_parts, mod_of_known_set)


def _positive_constant(form):
    return not form.terms and form.const > 0


def _lone(form):
    """The atom of a form that is one atom plus a constant."""
    if len(form.terms) == 1:
        (atom, k), = form.terms.items()
        return atom if k == 1 else None
    return None


def _block(an, form, c):
    """The quotient by c when the bounds prove it is one constant, else None."""
    lo, hi = linear_bound(an, form)
    if type(lo) is int and type(hi) is int and lo // c == hi // c:
        return lo // c
    return None


def _common_part(an, rest, c):
    """(g, outer, inner) with rest = g * outer + inner, 0 <= inner < g, g > 1 a divisor of c; None without one."""
    terms = rest.terms
    for g in sorted({gcd(k, c) for k in terms.values()}, reverse=True):
        if g == 1:
            break
        inner = Linear({a: k for a, k in terms.items() if k % g}, rest.const % g)
        q = _block(an, inner, g) if inner.terms else 0
        if q is not None:
            outer = Linear({a: k // g for a, k in terms.items() if k % g == 0}, rest.const // g + q)
            return g, outer, shifted(inner, -g * q)
    return None


# ---------------------------------------------------------------- sums of divisions and remainders

def join_divisions(an, terms, const):
    """The Linear of a sum after joining parts of one division, by the rules of JOIN_RULES."""
    form = Linear(terms, const)
    for _ in range(MOST_JOINS):
        for atom in form.terms:
            better = _joined(an, form, atom) if atom.kind in JOIN_RULES else None
            if better is not None:
                form = better
                break
        else:
            break
    return form


def _joined(an, form, atom):
    for rule in JOIN_RULES[atom.kind]:
        found = rule(an, form, atom)
        if found is not None:
            return found
    return None


def join_parts(an, form, atom):
    """k * (x % d) + k * d * (x // d) = k * x"""
    num, den = atom.parts
    k = form.terms[atom]
    whole = an.canonical.multiply(den, floordiv(an, num, den, atom.dtype))
    return _exchange(form, ((atom, k),), (whole, -k), (num, k)) if _holds(form.terms, whole, k) else None


def join_reduced_parts(an, form, atom):
    """k * (x % d) + k * d * (y // d) = k * y, where the remainder was made of y by mod_reduces_coefficients"""
    num, den = atom.parts
    k = form.terms[atom]
    if den.terms or not den.const:
        return None
    for other, scale in form.terms.items():
        if other.kind == DIV and other.parts[1].key == den.key and scale == k * den.const:
            gap = an.canonical.add(other.parts[0], num, -1)
            if all(n % den.const == 0 for n in (*gap.terms.values(), gap.const)):
                return _exchange(form, ((atom, k), (other, scale)), (other.parts[0], k))
    return None


def join_remainders(an, form, atom):
    """k * (x % d) + k * d * (y // d % m) = k * (y % (d * m)), where y is x but for multiples of d"""
    num, den = atom.parts
    k = form.terms[atom]
    if not _positive_constant(den):
        return None
    for other, scale in form.terms.items():
        whole = _lone(other.parts[0]) if other.kind == MOD and scale == k * den.const else None
        if whole is None or whole.kind != DIV or other.parts[0].const or whole.parts[1].key != den.key or not (
                _positive_constant(other.parts[1])):
            continue
        gap = combine(whole.parts[0], num, -1)
        size = den.const * other.parts[1].const
        if size <= atom.dtype.max_value() and all(n % den.const == 0 for n in (*gap.terms.values(), gap.const)):
            rest = floormod(an, whole.parts[0], constant(size), atom.dtype)
            return _exchange(form, ((atom, k), (other, scale)), (rest, k))
    return None


def join_to_quotient(an, form, atom):
    """k * x - k * (x % d) = k * d * (x // d)"""
    num, den = atom.parts
    k = form.terms[atom]
    if not _holds(form.terms, num, -k):
        return None
    whole = an.canonical.multiply(den, floordiv(an, num, den, atom.dtype))
    return _exchange(form, ((atom, k),), (num, k), (whole, -k))


def join_to_remainder(an, form, atom):
    """k * x - k * d * (x // d) = k * (x % d)"""
    num, den = atom.parts
    if den.terms or den.const == 0 or form.terms[atom] % den.const:
        return None
    k = -form.terms[atom] // den.const
    if not _holds(form.terms, num, k):
        return None
    return _exchange(form, ((atom, -k * den.const),), (num, -k), (floormod(an, num, den, atom.dtype), k))


def join_truncated(an, form, atom):
    """k * (x mod d) + k * d * (x / d) = k * x"""
    if type(atom.expr) is not Mod or not isinstance(atom.expr.b, IntImm) or atom.loaded:
        return None
    k, d = form.terms[atom], atom.expr.b.value
    number = an.canonical.linear(atom.expr.a)
    for other, scale in form.terms.items():
        e = other.expr
        if type(e) is Div and scale == k * d and isinstance(e.b, IntImm) and e.b.value == d and (
                an.canonical.linear(e.a).key == number.key):
            rest = Linear({a: c for a, c in form.terms.items() if a is not atom and a is not other}, form.const)
            return an.canonical.add(rest, number, k)
    return None


JOIN_RULES = {MOD: (join_parts, join_reduced_parts, join_remainders, join_to_quotient), DIV: (join_to_remainder,),
              OPAQUE: (join_truncated,)}


def _holds(terms, part, factor):
    """Whether factor * part is among the terms, exactly."""
    return bool(part.terms) and all(terms.get(a) == k * factor for a, k in part.terms.items())


def _exchange(form, removed, *added):
    """form without the removed (atom, coefficient) pairs, plus scale * part for each of `added` in their place."""
    gone, terms, const = {atom for atom, _ in removed}, {}, form.const
    for atom, k in form.terms.items():
        if atom in gone:
            for part, scale in added:
                accumulate(terms, part.terms, scale)
                const += scale * part.const
            added = ()
        else:
            accumulate(terms, {atom: k}, 1)
    return Linear(terms, const)
