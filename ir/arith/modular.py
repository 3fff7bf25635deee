"""Modular sets: (coeff, base) with value = coeff * k + base for some integer k; coeff 0 means the constant base."""
from __future__ import annotations

from collections import namedtuple
from math import gcd

from .linear import DIV, MAX, MIN, MOD, PRODUCT, SELECT, VAR

ModularSet = namedtuple("ModularSet", "coeff base")
ANY = ModularSet(1, 0)


def normal(coeff, base):
    """A ModularSet with coeff >= 0 and, where coeff is not 0, 0 <= base < coeff."""
    coeff = abs(coeff)
    return ModularSet(coeff, base % coeff if coeff else base)


def linear_modular(an, form):
    """The modular set of a Linear."""
    coeff, base = 0, form.const
    for atom, k in form.terms.items():
        c, b = atom_modular(an, atom)
        coeff = gcd(coeff, k * c)
        base += k * b
    return normal(coeff, base)


def atom_modular(an, atom):
    """The modular set of an atom, remembered until the analyzer learns something new."""
    rule = RULES.get(atom.kind)
    known = an.congruent.get(atom) if an.congruent else None
    if rule is None:
        return known or ANY
    found = an.modular_sets.get(atom)
    if found is None:
        found = rule(an, atom)
        if known is not None and known.coeff > found.coeff > 0:
            found = known
        an.modular_sets[atom] = found
    return found


def _of_var(an, atom):
    return an.var_modular.get(atom.expr, ANY)


def _of_product(an, atom):
    coeff, base = 0, 1
    for factor in atom.parts:
        c, b = atom_modular(an, factor)
        coeff, base = gcd(gcd(coeff * c, coeff * b), base * c), base * b
    return normal(coeff, base)


def _of_div(an, atom):
    num, den = atom.parts
    if den.terms or den.const <= 0:
        return ANY
    coeff, base = linear_modular(an, num)
    return normal(coeff // den.const, base // den.const) if coeff % den.const == 0 else ANY


def _of_mod(an, atom):
    num, den = atom.parts
    if den.terms:
        return ANY
    coeff, base = linear_modular(an, num)
    return normal(gcd(coeff, den.const), base)


def join(a, b):
    """The least modular set that holds both."""
    return normal(gcd(gcd(a.coeff, b.coeff), a.base - b.base), a.base)


def _of_choice(an, atom):
    first, *rest = (linear_modular(an, p) for p in (atom.parts[1:] if atom.kind == SELECT else atom.parts))
    for other in rest:
        first = join(first, other)
    return first


RULES = {VAR: _of_var, PRODUCT: _of_product, DIV: _of_div, MOD: _of_mod, MIN: _of_choice, MAX: _of_choice,
         SELECT: _of_choice}
