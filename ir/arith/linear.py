"""The normal form of integer expressions: a polynomial with integer coefficients over opaque *atoms*.

`Linear(terms, const)` means sum(coefficient * atom) + const. An atom is anything arithmetic does not open: a
variable, a product of atoms, a floor division or remainder, a minimum or maximum, a Select, any other expression.
Atoms are interned by the analyzer that makes them, so one value is one object and terms meet by identity.

Terms keep the order of first use, and printing follows it: nothing depends on hashing order, so results are the
same in every process.
"""
from __future__ import annotations

from ..expr import Add, Cast, IntImm, Mul, Sub

VAR, PRODUCT, DIV, MOD, MIN, MAX, SELECT, OPAQUE = range(8)


class Atom:
    """One indivisible value.

    `parts` by kind: PRODUCT the factor atoms, DIV and MOD (numerator, divisor), MIN and MAX the operands, SELECT
    (condition, true, false) with expressions for conditions and Linears for values. `vars` are its free variables;
    `loaded` says whether its value depends on what a buffer holds, which may be any number.
    """

    __slots__ = ("kind", "expr", "dtype", "parts", "vars", "serial", "loaded")

    def __init__(self, kind, expr, dtype, parts, free, serial, loaded=False):
        self.kind, self.expr, self.dtype = kind, expr, dtype
        self.parts, self.vars, self.serial, self.loaded = parts, free, serial, loaded

    def __repr__(self):
        return f"Atom({self.expr!r})"


class Linear:
    """sum(terms[atom] * atom) + const; no coefficient is zero. Never changed after it is built."""

    __slots__ = ("terms", "const", "_key")

    def __init__(self, terms, const):
        self.terms, self.const, self._key = terms, const, None

    @property
    def key(self):
        """A hashable value equal for equal forms, whatever the order of their terms."""
        if self._key is None:
            self._key = (frozenset(self.terms.items()), self.const)
        return self._key

    @property
    def vars(self):
        return frozenset().union(*(a.vars for a in self.terms)) if self.terms else frozenset()

    def __repr__(self):
        return f"Linear({self.terms!r}, {self.const})"


ZERO, ONE = Linear({}, 0), Linear({}, 1)


def constant(value):
    return Linear({}, value)


def accumulate(terms, other, scale):
    """terms += scale * other.terms, in place."""
    for atom, k in other.items():
        total = terms.get(atom, 0) + k * scale
        if total:
            terms[atom] = total
        else:
            terms.pop(atom, None)


def combine(a, b, scale=1):
    """a + scale * b, without the rules that join divisions and remainders."""
    if not b.terms:
        return Linear(a.terms, a.const + scale * b.const) if b.const else a
    terms = dict(a.terms)
    accumulate(terms, b.terms, scale)
    return Linear(terms, a.const + scale * b.const)


def scaled(a, factor):
    """factor * a."""
    if factor == 1:
        return a
    if factor == 0:
        return ZERO
    return Linear({atom: k * factor for atom, k in a.terms.items()}, a.const * factor)


def shifted(a, offset):
    """a + offset for an integer offset."""
    return Linear(a.terms, a.const + offset) if offset else a


def single_atom(a):
    """The atom when `a` is exactly one atom, else None."""
    if len(a.terms) == 1 and a.const == 0:
        (atom, k), = a.terms.items()
        return atom if k == 1 else None
    return None


def factors(atom):
    """The atoms whose product `atom` is."""
    return atom.parts if atom.kind == PRODUCT else (atom,)


# ---------------------------------------------------------------- back to expressions

_IMMEDIATES = {}


class DoesNotFit(Exception):
    """A coefficient of the normal form is not a value of the expression's dtype."""


def immediate(dtype, value):
    """IntImm(dtype, value); small ones are shared. Raises DoesNotFit."""
    found = _IMMEDIATES.get((dtype, value))
    if found is None:
        if not dtype.min_value() <= value <= dtype.max_value():
            raise DoesNotFit
        found = IntImm(dtype, value)
        if -1024 <= value <= 65536:
            _IMMEDIATES[dtype, value] = found
    return found


def render(form, dtype):
    """The expression of `form` in `dtype`: positive term first, then the others in order, the constant last."""
    terms, const = form.terms, form.const
    if not terms:
        return immediate(dtype, const)
    lead = next((atom for atom, k in terms.items() if k > 0), None)
    if lead is not None:
        out = _term(lead, terms[lead], dtype)
    elif const > 0:
        out, const = immediate(dtype, const), 0
    else:
        lead = next(iter(terms))
        k = terms[lead]
        out = Sub(immediate(dtype, 0), _term(lead, 1, dtype)) if k == -1 else _term(lead, k, dtype)
    for atom, k in terms.items():
        if atom is not lead:
            out = Add(out, _term(atom, k, dtype)) if k > 0 else Sub(out, _term(atom, -k, dtype))
    if const > 0:
        return Add(out, immediate(dtype, const))
    return Sub(out, immediate(dtype, -const)) if const < 0 else out


def _term(atom, k, dtype):
    if atom.dtype is dtype:
        e = atom.expr
    elif atom.kind == PRODUCT:
        e = product_expr(atom.parts, dtype)
    else:
        e = Cast(dtype, atom.expr)
    return e if k == 1 else Mul(e, immediate(dtype, k))


def product_expr(parts, dtype):
    """The product of atoms, computed in `dtype`: widened before it is multiplied, never after."""
    out = None
    for p in parts:
        e = p.expr if p.dtype is dtype else Cast(dtype, p.expr)
        out = e if out is None else Mul(out, e)
    return out
