"""Modular sets: (coeff, base) with value = coeff * k + base for some integer k; coeff 0 means the constant base."""
from __future__ import annotations

from collections import namedtuple
from math import gcd, lcm

from ..expr import Call, IntImm, Let, Mod, substitute
from .linear import DIV, MAX, MIN, MOD, OPAQUE, PRODUCT, SELECT, VAR

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
    found = an.modular_sets.get(atom)
    if found is None:
        found, known = RULES[atom.kind](an, atom), an.congruent.get(atom) if an.congruent else None
        if known is not None and found.coeff:
            found = meet(found, known)
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


def meet(a, b):
    """The modular set of the numbers in both, of which neither is a constant; the first where there are none."""
    shared = gcd(a.coeff, b.coeff)
    if (b.base - a.base) % shared:
        return a
    whole = lcm(a.coeff, b.coeff)
    turns = (b.base - a.base) // shared * pow(a.coeff // shared, -1, b.coeff // shared)
    return normal(whole, a.base + a.coeff * turns)


def _of_choice(an, atom):
    first, *rest = (linear_modular(an, p) for p in (atom.parts[1:] if atom.kind == SELECT else atom.parts))
    for other in rest:
        first = join(first, other)
    return first


def _of_opaque(an, atom):
    """Of remainders that truncate, of the lowest bits, of shifts, and through Lets."""
    e = atom.expr
    if type(e) is Let and not atom.loaded:
        return linear_modular(an, an.form(substitute(e.body, {e.var: e.value})))
    a, b = e.args if type(e) is Call and len(e.args) == 2 else (e.a, e.b) if type(e) is Mod else (None, None)
    if not isinstance(b, IntImm) or not e.dtype.is_int:
        return ANY
    coeff, base = linear_modular(an, an.form(a))
    if type(e) is Mod:  # x - b * trunc(x / b)
        return normal(gcd(coeff, b.value), base)
    if e.op == "tir.shift_right" and 0 <= b.value < 63 and coeff % (1 << b.value) == 0:
        return normal(coeff >> b.value, base >> b.value)
    if e.op == "tir.shift_left" and 0 <= b.value < 63:
        return normal(coeff << b.value, base << b.value)
    if e.op == "tir.bitwise_and" and b.value > 0 and b.value & b.value + 1 == 0:
        return normal(gcd(coeff, b.value + 1), base)
    return ANY


RULES = {VAR: _of_var, PRODUCT: _of_product, DIV: _of_div, MOD: _of_mod, MIN: _of_choice, MAX: _of_choice,
         SELECT: _of_choice, OPAQUE: _of_opaque}
