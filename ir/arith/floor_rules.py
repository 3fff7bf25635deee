"""Rules for floor division and remainder on normal forms.

Every rule is an identity of integers with x = d * floor(x / d) + mod(x, d); a divisor is taken to be nonzero. With a
constant divisor c > 0 the rules, in order: multiples of c leave the division; a numerator within one block of c is
constant; a factor common to all terms and c cancels; terms that stay inside one block of a divisor g of c drop out;
nested divisions merge.
"""
from __future__ import annotations

from math import gcd

from .const_int_bound import linear_bound
from .linear import DIV, MOD, ZERO, Linear, accumulate, constant, scaled, shifted
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
    if c == 0:
        return an.canonical.division(kind, num, den, dtype)
    if c < 0:
        num = scaled(num, -1)
        return _div(an, num, -c, dtype) if kind == DIV else scaled(_mod(an, num, -c, dtype), -1)
    return _div(an, num, c, dtype) if kind == DIV else _mod(an, num, c, dtype)


def _div(an, num, c, dtype):
    if c == 1:
        return num
    if not num.terms:
        return constant(num.const // c)
    whole = {a: k // c for a, k in num.terms.items() if k % c == 0}
    rest = {a: k for a, k in num.terms.items() if k % c} if whole else num.terms
    offset, inner = divmod(num.const, c)
    quotient = _div_rest(an, Linear(rest, inner), c, dtype) if rest else ZERO
    if not whole:
        return shifted(quotient, offset)
    return an.canonical.add(Linear(whole, offset), quotient)


def _mod(an, num, c, dtype):
    if c == 1:
        return ZERO
    terms = {a: k if -c < k < c else k % c if k > 0 else -(-k % c) for a, k in num.terms.items() if k % c}
    if not terms:
        return constant(num.const % c)
    return _mod_rest(an, Linear(terms, num.const % c), c, dtype)


def _div_rest(an, rest, c, dtype):
    """rest // c when no coefficient is a multiple of c and 0 <= constant < c."""
    q = _block(an, rest, c)
    if q is not None:
        return constant(q)
    found = _common_part(an, rest, c)
    if found:
        g, outer, _ = found
        return floordiv(an, outer, constant(c // g), dtype)
    if len(rest.terms) == 1:
        (atom, k), = rest.terms.items()
        if k == 1 and atom.kind == DIV and _positive_constant(atom.parts[1]):
            d = atom.parts[1].const  # floor(floor(x / d) + r) / c = floor((x + r * d) / (d * c))
            if d * c <= dtype.max_value():
                return floordiv(an, shifted(atom.parts[0], rest.const * d), constant(d * c), dtype)
        if k == 1 and atom.kind == MOD and rest.const == 0 and _positive_constant(atom.parts[1]):
            m = atom.parts[1].const
            if m % c == 0:
                return floormod(an, floordiv(an, atom.parts[0], constant(c), dtype), constant(m // c), dtype)
    return an.canonical.division(DIV, rest, constant(c), dtype)


def _mod_rest(an, rest, c, dtype):
    """rest mod c when no coefficient is a multiple of c and 0 <= constant < c."""
    q = _block(an, rest, c)
    if q is not None:
        return shifted(rest, -c * q)
    found = _common_part(an, rest, c)
    if found:
        g, outer, inner = found
        return an.canonical.add(scaled(floormod(an, outer, constant(c // g), dtype), g), inner)
    opened = _open_remainders(rest, c)
    if opened is not None:
        return floormod(an, an.canonical.joined(opened.terms, opened.const), constant(c), dtype)
    coeff, base = an.linear_modular(rest)
    if coeff % c == 0:
        return constant(base % c)
    return an.canonical.division(MOD, rest, constant(c), dtype)


def _positive_constant(form):
    return not form.terms and form.const > 0


def _block(an, form, c):
    """The quotient by c when the bounds prove it is one constant, else None."""
    lo, hi = linear_bound(an, form)
    if type(lo) is int and type(hi) is int and lo // c == hi // c:
        return lo // c
    return None


def _common_part(an, rest, c):
    """(g, outer, inner) with rest = g * outer + inner, 0 <= inner < g, g > 1 a divisor of c; None without one.

    Then rest // c = outer // (c / g) and rest mod c = g * (outer mod (c / g)) + inner.
    """
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


def _open_remainders(rest, c):
    """`rest` with k * mod(x, m) replaced by k * x wherever c divides k * m, which mod c cannot see; None if nowhere."""
    terms, const, changed = dict(rest.terms), rest.const, False
    for atom, k in rest.terms.items():
        if atom.kind == MOD and not atom.parts[1].terms and (k * atom.parts[1].const) % c == 0:
            num = atom.parts[0]
            del terms[atom]
            accumulate(terms, num.terms, k)
            const, changed = const + k * num.const, True
            break
    return Linear(terms, const) if changed else None


# ---------------------------------------------------------------- truncating division

def truncdiv(an, num, den, dtype):
    """Division that rounds toward zero as floor divisions, or None when the operands' signs are not known."""
    signs = _signs(an, num, den)
    if signs is None:
        return None
    num_sign, den_sign = signs
    return scaled(floordiv(an, scaled(num, num_sign), scaled(den, den_sign), dtype), num_sign * den_sign)


def truncmod(an, num, den, dtype):
    """The remainder of truncdiv (its sign is the numerator's), or None when signs are not known."""
    signs = _signs(an, num, den)
    if signs is None:
        return None
    num_sign, den_sign = signs
    return scaled(floormod(an, scaled(num, num_sign), scaled(den, den_sign), dtype), num_sign)


def _signs(an, num, den):
    dlo, dhi = linear_bound(an, den)
    den_sign = 1 if dlo > 0 else -1 if dhi < 0 else 0
    num_sign = 1 if an.nonnegative(num) else -1 if an.nonnegative(num, -1) else 0
    return (num_sign, den_sign) if num_sign and den_sign else None


# ---------------------------------------------------------------- sums of divisions and remainders

def join_divisions(an, terms, const):
    """The Linear of a sum after joining parts of one division, by x = d * floor(x / d) + mod(x, d)."""
    form = Linear(terms, const)
    for _ in range(MOST_JOINS):
        for atom in form.terms:
            if atom.kind == MOD or atom.kind == DIV:
                better = _join_mod(an, form, atom) if atom.kind == MOD else _join_div(an, form, atom)
                if better is not None:
                    form = better
                    break
        else:
            break
    return form


def _holds(terms, part, factor):
    """Whether factor * part is among the terms, exactly."""
    return bool(part.terms) and all(terms.get(a) == k * factor for a, k in part.terms.items())


def _join_mod(an, form, atom):
    """k*mod(x,d) + k*d*floor(x/d) -> k*x, and -k*mod(x,d) + k*x -> k*d*floor(x/d)."""
    num, den = atom.parts
    k = form.terms[atom]
    whole = an.canonical.multiply(den, floordiv(an, num, den, atom.dtype))
    if _holds(form.terms, whole, k):
        return _exchange(form, ((atom, k),), (whole, -k), (num, k))
    if _holds(form.terms, num, -k):
        return _exchange(form, ((atom, k),), (num, k), (whole, -k))
    return None


def _join_div(an, form, atom):
    """k*x - k*d*floor(x/d) -> k*mod(x,d)."""
    num, den = atom.parts
    if den.terms or den.const == 0 or form.terms[atom] % den.const:
        return None
    k = -form.terms[atom] // den.const
    if _holds(form.terms, num, k):
        return _exchange(form, ((atom, -k * den.const),), (num, -k), (floormod(an, num, den, atom.dtype), k))
    return None


def _exchange(form, removed, *added):
    """form without the removed (atom, coefficient) pairs, plus scale * part for each of `added`."""
    terms, const = dict(form.terms), form.const
    for atom, _ in removed:
        del terms[atom]
    for part, scale in added:
        accumulate(terms, part.terms, scale)
        const += scale * part.const
    return Linear(terms, const)
