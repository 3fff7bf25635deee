"""Rules for division that rounds toward zero, as C's, and its remainder, on normal forms.

Where the operands' signs are known it is floor division of their magnitudes. Of others these rules, identities of
integers for any signs, take apart what divides without a remainder; what they do not know stays a division.
"""
from __future__ import annotations

from ..expr import Div, IntImm, Mod
from .const_int_bound import INF, linear_bound
from .floor_rules import floordiv, floormod
from .linear import ONE, ZERO, constant, render, scaled, single_atom
from .symbolic_rules import common_factor


def truncdiv(an, num, den, dtype):
    """The Linear of num / den rounded toward zero, or None where no rule knows it."""
    return _divide(an, num, den, dtype, DIV_RULES)


def truncmod(an, num, den, dtype):
    """The Linear of what truncdiv leaves (its sign is the numerator's), or None where no rule knows it."""
    return _divide(an, num, den, dtype, MOD_RULES)


def _divide(an, num, den, dtype, rules):
    if not den.terms and not den.const:
        return None
    for rule in rules:
        found = rule(an, num, den, dtype)
        if found is not None:
            return found
    return None


def _has_negative(an, form, dtype):
    """Whether the dtype holds -form: the least number, which has none, comes from buffers only."""
    low = linear_bound(an, form)[0]
    return not an.canonical.is_loaded(form) or low > -INF and dtype.holds(-low)


def _signs(an, num, den, dtype):
    """The signs of numerator and divisor where both are known and their magnitudes are numbers of the dtype, else None.
    """
    dlo, dhi = linear_bound(an, den)
    den_sign = 1 if dlo > 0 else -1 if dhi < 0 else 0
    num_sign = 1 if an.nonnegative(num) else -1 if an.nonnegative(num, -1) else 0
    exact = all(sign > 0 or _has_negative(an, form, dtype) for sign, form in ((num_sign, num), (den_sign, den)))
    return (num_sign, den_sign) if num_sign and den_sign and exact else None


def div_of_known_signs(an, num, den, dtype):
    """x / d = s * floor(|x| / |d|), s the product of their signs"""
    signs = _signs(an, num, den, dtype)
    return signs and scaled(floordiv(an, scaled(num, signs[0]), scaled(den, signs[1]), dtype), signs[0] * signs[1])


def mod_of_known_signs(an, num, den, dtype):
    """x mod d = sign(x) * mod(|x|, |d|)"""
    signs = _signs(an, num, den, dtype)
    return signs and scaled(floormod(an, scaled(num, signs[0]), scaled(den, signs[1]), dtype), signs[0])


def _is_small(an, num, den):
    lo, hi = linear_bound(an, num)
    return not den.terms and -abs(den.const) < lo and hi < abs(den.const)


def div_of_small(an, num, den, dtype):
    """x / d = 0 for |x| < |d|"""
    return ZERO if _is_small(an, num, den) else None


def mod_of_small(an, num, den, dtype):
    """x mod d = x for |x| < |d|"""
    return num if _is_small(an, num, den) else None


def _without_common(an, num, den):
    """(factor, num / factor, den / factor); a constant divisor that divides the numerator becomes 1."""
    found = common_factor(an, num, den) if num.terms else None
    if found is not None and not found[2].terms and found[2].const < 0:
        return None
    return found


def div_drops_common(an, num, den, dtype):
    """(f * x) / (f * d) = x / d"""
    found = _without_common(an, num, den)
    if found is None:
        return None
    _, num, den = found
    return num if den.key == ONE.key else _again(an, Div, num, den, dtype)


def mod_keeps_common(an, num, den, dtype):
    """(f * x) mod (f * d) = f * (x mod d)"""
    found = _without_common(an, num, den)
    if found is None:
        return None
    factor, num, den = found
    return ZERO if den.key == ONE.key else an.canonical.multiply(_again(an, Mod, num, den, dtype), factor)


def div_merges_nested(an, num, den, dtype):
    """(x / c) / d = x / (c * d)"""
    atom = single_atom(num)
    if atom is None or type(atom.expr) is not Div or den.terms or not isinstance(atom.expr.b, IntImm):
        return None
    whole = den.const * atom.expr.b.value
    if not 0 < whole <= dtype.max_value():
        return None
    return _again(an, Div, an.canonical.linear(atom.expr.a), constant(whole), dtype)


def _again(an, build, num, den, dtype):
    return an.canonical.linear(build(render(num, dtype), render(den, dtype)))


DIV_RULES = (div_of_known_signs, div_of_small, div_drops_common, div_merges_nested)
MOD_RULES = (mod_of_known_signs, mod_of_small, mod_keeps_common)
