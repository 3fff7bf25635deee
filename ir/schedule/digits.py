"""Digits: do index expressions tell iterations apart, and do they fill a box without gaps?

After splits and fusions an index is a sum of coefficient * digit, where a digit is (base // low) % size of a loop
variable or of such a sum. Two questions are answered, both in the safe direction:

  recovered   which loop variables are determined by the values of some indices (each known up to a box)
  dense_box   the box that the indices run through, when they take every point of it

Forms are the analyzer's Linears, so that equal values meet whatever way they were written.
"""
from __future__ import annotations

from dataclasses import dataclass

from ..arith.floor_rules import floordiv, floormod
from ..arith.int_set import limits_of
from ..arith.linear import DIV, MOD, ONE, PRODUCT, VAR, ZERO, Linear, render, scaled, shifted, single_atom
from ..arith.relax import relax
from ..expr import Range, as_expr


@dataclass(frozen=True)
class Digit:
    """(base // low) % modulus of a nonnegative base; modulus None: no remainder is taken."""

    base: Linear
    low: Linear
    modulus: Linear = None


class Digits:
    """The two questions for the iterations of some loops. ranges: {loop Var: Range}, outermost first."""

    def __init__(self, analyzer, ranges):
        self.an = analyzer.copy()
        for var, extent in ranges.items():
            self.an.bind(var, extent)
        self.ranges = ranges
        self.free = frozenset(ranges)
        self._limits = limits_of(self.an, ranges)

    def _form(self, e):
        return self.an.canonical.linear(as_expr(e))

    # ------------------------------------------------------------ questions

    def recovered(self, values):
        """The Vars that (value, box) pairs determine.

        Of each value only an interval of `box` points that starts at it is known to be touched: two iterations are
        told apart when their intervals are disjoint.
        """
        seen, found = {}, set()
        work = [(self._form(value), self._form(box)) for value, box in values]
        while work:
            form, box = work.pop()
            if form.vars.isdisjoint(self.free):
                continue
            terms = self._terms(form)
            if terms is None or not self._apart(terms, box):
                continue
            for _, digit, _ in terms:
                digits = seen.setdefault(digit.base.key, [])
                complete = self._complete(digits)
                digits.append(digit)
                if complete or not self._complete(digits):
                    continue
                atom = single_atom(digit.base)
                if atom is not None and atom.kind == VAR:
                    found.add(atom.expr)
                else:
                    work.append((digit.base, ONE))
        return found

    def dense_box(self, values):
        """A Range per value, when the values together take every point of that box; or None."""
        box, by_base = [], {}
        for value in values:
            form = self._form(value)
            terms = self._terms(form)
            if terms is None:
                return None
            reach, least = ONE, form
            for coefficient, digit, atom in terms:
                size = self._size(digit)
                if size is None or not self._same(coefficient, reach):
                    return None
                reach = self._times(reach, size)
                least = self._add(least, self._times(coefficient, Linear({atom: 1}, 0)), -1)
                by_base.setdefault(digit.base.key, []).append(digit)
            if not least.vars.isdisjoint(self.free):
                return None
            box.append(Range(render(least, value.dtype), render(reach, value.dtype)))
        return box if all(self._independent(digits) for digits in by_base.values()) else None

    # ------------------------------------------------------------ taking a form apart

    def _terms(self, form):
        """[(coefficient, Digit, atom)] of the terms with free variables, smallest coefficient first; or None."""
        out = []
        for atom, k in form.terms.items():
            if atom.vars.isdisjoint(self.free):
                continue
            coefficient, degree = ONE, 0
            if atom.kind == PRODUCT:
                inside = [a for a in atom.parts if not a.vars.isdisjoint(self.free)]
                if len(inside) != 1:
                    return None
                rest = [a for a in atom.parts if a is not inside[0]]
                for a in rest:
                    coefficient = self._times(coefficient, Linear({a: 1}, 0))
                atom, degree = inside[0], len(rest)
            digit = self._digit(atom)
            if digit is None or k <= 0:
                return None
            out.append((degree, k, scaled(coefficient, k), digit, atom))
        out.sort(key=lambda t: t[:2])
        return [t[2:] for t in out]

    def _digit(self, atom):
        if atom.kind == VAR:
            return Digit(Linear({atom: 1}, 0), ONE)
        if atom.kind not in (DIV, MOD) or not atom.parts[1].vars.isdisjoint(self.free):
            return None
        number, divisor = atom.parts
        if not self.an.nonnegative(number) or not self.an.nonnegative(shifted(divisor, -1)):
            return None
        inner = single_atom(number)
        if atom.kind == MOD:
            if inner is not None and inner.kind == DIV:
                return self._if_nonnegative(Digit(inner.parts[0], inner.parts[1], divisor))
            return Digit(number, ONE, divisor)
        if inner is not None and inner.kind == MOD:
            quotient = self._quotient(inner.parts[1], divisor)
            if quotient is not None:
                return self._if_nonnegative(Digit(inner.parts[0], divisor, quotient))
        return Digit(number, divisor)

    def _if_nonnegative(self, digit):
        return digit if self.an.nonnegative(digit.base) else None

    # ------------------------------------------------------------ properties of digits

    def _count(self, base):
        """A number N with 0 <= base < N, as a Linear in outer variables; None when unknown."""
        greatest = relax(self.an, base, True, self._limits)
        return None if greatest is None else shifted(greatest, 1)

    def _size(self, digit):
        """How many values a digit has at most; None when unknown."""
        if digit.modulus is not None:
            return digit.modulus
        count = self._count(digit.base)
        if count is None or self._same(digit.low, ONE):
            return count
        return shifted(floordiv(self.an, shifted(count, -1), digit.low, _dtype(digit.base)), 1)

    def _apart(self, terms, box):
        """Whether the sum determines each digit: no coefficient is within reach of the smaller terms."""
        reach = box
        for i, (coefficient, digit, _) in enumerate(terms):
            if not self.an.nonnegative(self._add(coefficient, reach, -1)):
                return False
            if i + 1 < len(terms):
                size = self._size(digit)
                if size is None:
                    return False
                reach = self._add(reach, self._times(coefficient, shifted(size, -1)))
        return True

    def _complete(self, digits):
        """Whether digits of one base determine it: they follow each other from 1 to the base's end."""
        if not digits:
            return False
        reached = ONE
        for _ in digits:
            step = next((d for d in digits if self._same(d.low, reached)), None)
            if step is None:
                return False
            if step.modulus is None:
                return True
            reached = self._times(step.low, step.modulus)
            count = self._count(step.base)
            if count is not None and self.an.nonnegative(self._add(reached, count, -1)):
                return True
        return False

    def _independent(self, digits):
        """Whether digits of one loop variable take every combination of their values."""
        atom = single_atom(digits[0].base)
        if atom is None or atom.kind != VAR or not _starts_at_zero(self.ranges[atom.expr]):
            return False
        count = self._count(digits[0].base)
        if count is None:
            return False
        spans = [(d.low, self._times(d.low, d.modulus) if d.modulus is not None else count) for d in digits]
        divides = all(self._quotient(count, end) is not None and self._quotient(end, low) is not None
                      for low, end in spans)
        disjoint = all(a is b or self._at_most(a[1], b[0]) or self._at_most(b[1], a[0])
                       for i, a in enumerate(spans) for b in spans[i + 1:])
        return divides and disjoint

    # ------------------------------------------------------------ arithmetic on forms

    def _add(self, a, b, scale=1):
        return self.an.canonical.add(a, b, scale)

    def _times(self, a, b):
        return self.an.canonical.multiply(a, b)

    def _same(self, a, b):
        return a.key == b.key or self._add(a, b, -1).key == ZERO.key

    def _at_most(self, a, b):
        return self.an.nonnegative(self._add(b, a, -1))

    def _quotient(self, a, b):
        """a / b when b divides a, else None."""
        if not a.terms and not b.terms:
            return Linear({}, a.const // b.const) if a.const % b.const == 0 else None
        if self._same(b, ONE):
            return a
        if self._same(a, b):
            return ONE
        dtype = _dtype(a if a.terms else b)
        return floordiv(self.an, a, b, dtype) if floormod(self.an, a, b, dtype).key == ZERO.key else None


def _dtype(form):
    return next(iter(form.terms)).dtype


def _starts_at_zero(extent):
    return getattr(extent.min, "value", None) == 0


__all__ = ["Digit", "Digits"]
