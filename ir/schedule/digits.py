"""Digits: do index expressions tell the iterations of loops apart?

After splits and fusions an index is a sum of coefficient * digit, where a digit is (base // low) % size of a loop
variable or of such a sum. Unlike an affine binding (arith.iter_map), which must be one to one onto a box, an index may
leave gaps here, touch an interval instead of a point, or say nothing about some loops: what counts is which loop
variables its value determines. Forms are the analyzer's Linears, so that equal values meet however they were written.
"""
from __future__ import annotations

from dataclasses import dataclass

from ..arith.canonical import INDEX_TYPES
from ..arith.const_int_bound import linear_bound
from ..arith.floor_rules import floordiv, floormod
from ..arith.int_set import limits_of
from ..arith.linear import DIV, MOD, ONE, OPAQUE, PRODUCT, VAR, ZERO, Linear, scaled, shifted, single_atom
from ..arith.relax import relax
from ..expr import Cast, as_expr


@dataclass(frozen=True)
class Digit:
    """(base // low) % modulus of a nonnegative base; modulus None: no remainder is taken."""

    base: Linear
    low: Linear
    modulus: Linear = None


class Digits:
    """The mixed-radix digits of loop iterations that values determine. ranges: {loop Var: Range}, outermost first."""

    def __init__(self, analyzer, ranges):
        self.an = analyzer.copy()
        for var, extent in ranges.items():
            self.an.bind(var, extent, allow_override=True)
        self.free = frozenset(ranges)
        self._limits = limits_of(self.an, ranges)

    def _form(self, e):
        """The Linear of an expression, seen through casts that cannot change the value."""
        form = self.an.canonical.linear(as_expr(e))
        for atom, k in form.terms.items():
            if atom.kind == OPAQUE and isinstance(atom.expr, Cast) and atom.expr.value.dtype in INDEX_TYPES:
                inner = self._form(atom.expr.value)
                low, high = linear_bound(self.an, inner)
                if atom.dtype.min_value() <= low and (
                        high <= atom.dtype.max_value() or self._is_within(inner, atom.dtype.max_value())):
                    form = self._add(self._add(form, Linear({atom: k}, 0), -1), scaled(inner, k))
        return form

    def _is_within(self, form, most):
        """Whether a quotient of loop variables is proved to be at most a number, where its bounds are symbolic."""
        atom = single_atom(form)
        if atom is None or atom.kind != DIV or not atom.parts[1].vars.isdisjoint(self.free):
            return False
        greatest = relax(self.an, atom.parts[0], True, self._limits)
        return greatest is not None and self.an.nonnegative(self._add(scaled(atom.parts[1], most), greatest, -1))

    def recovered(self, values):
        """The Vars that (value, box) pairs determine.

        Of each value only an interval of `box` points that starts at it is known to be touched: two iterations are
        told apart when their intervals are disjoint.
        """
        digits, bases, found = [], {}, set()  # bases: {key: Linear, None once it is determined}
        work = [(self._form(value), self._form(box)) for value, box in values]
        while work:
            form, box = work.pop()
            if form.vars.isdisjoint(self.free):
                continue
            terms = self._terms(form)
            if terms is None or not self._apart(terms, box):
                terms = self._joined(form)
                if terms is None or not self._apart(terms, box):
                    continue
            digits += [digit for _, digit in terms]
            for _, digit in terms:
                bases.setdefault(digit.base.key, digit.base)
            for key, base in list(bases.items()):
                if base is None or not self._complete(self._digits_of(base, digits)):
                    continue
                bases[key] = None  # it is determined
                atom = single_atom(base)
                if atom is not None and atom.kind == VAR:
                    found.add(atom.expr)
                else:
                    work.append((base, ONE))
        return found

    # ------------------------------------------------------------ taking a form apart

    def _terms(self, form):
        """[(coefficient, Digit)] of the terms with free variables, smallest coefficient first; or None."""
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
            if digit is None:
                return None
            digit, k = self._of_whole(digit), abs(k)  # what counts down tells as much apart as what counts up
            out.append((degree, k, scaled(coefficient, k), digit))
        out.sort(key=lambda t: t[:2])
        return [t[2:] for t in out]

    def _digit(self, atom):
        if atom.kind == VAR:
            return self._if_nonnegative(Digit(Linear({atom: 1}, 0), ONE))
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

    def _joined(self, form):
        """The terms of a form that is one quotient and more, as the quotient that it is."""
        quotient = self._as_quotient(form)
        return quotient and [(ONE, self._of_whole(Digit(*quotient)))]

    def _of_whole(self, digit):
        """The digit as one of the value that its base is a quotient of, as (32 * i + j // 8) % 40 is of 256 * i + j."""
        quotient = self._as_quotient(digit.base)
        if quotient is None:
            return digit
        whole, divisor = quotient
        return self._of_whole(Digit(whole, self._times(digit.low, divisor), digit.modulus))

    def _as_quotient(self, form):
        """(number, divisor) of a form that is a quotient and more: i + j // 8 is (8 * i + j) // 8. None for others."""
        quotients = [atom for atom, k in form.terms.items() if atom.kind == DIV and k == 1]
        if len(quotients) != 1 or not quotients[0].parts[1].vars.isdisjoint(self.free):
            return None
        number, divisor = quotients[0].parts
        rest = self._add(form, Linear({quotients[0]: 1}, 0), -1)
        whole = self._add(number, self._times(rest, divisor))
        return (whole, divisor) if rest.key != ZERO.key and self.an.nonnegative(whole) else None

    def _if_nonnegative(self, digit):
        return digit if self.an.nonnegative(digit.base) else None

    # ------------------------------------------------------------ properties of digits

    def _digits_of(self, base, digits):
        """The digits of a base, those of its leading variable among them, as i // 3 is (256 * i + j) // 768 where
        j < 256."""
        return [d for digit in digits for d in (self._seen_from(digit, base),) if self._is_of(d, base)]

    def _seen_from(self, digit, base):
        atom = single_atom(digit.base)
        factor = base.terms.get(atom) if atom is not None and digit.base.key != base.key else None
        if factor is None or factor < 1:
            return digit
        rest = self._add(base, digit.base, -factor)
        inside = self.an.nonnegative(rest) and self.an.nonnegative(shifted(scaled(rest, -1), factor - 1))
        return Digit(base, scaled(digit.low, factor), digit.modulus) if inside else digit

    def _is_of(self, digit, base):
        """Whether a digit is one of a base: of its own, or of one that differs by a multiple of its period, as
        (16 * i + j) % 14 is known as (2 * i + j) % 14."""
        if digit.base.key == base.key:
            return True
        if digit.modulus is None:
            return False
        difference, period = self._add(base, digit.base, -1), self._times(digit.low, digit.modulus)
        return floormod(self.an, difference, period, _dtype(base)).key == ZERO.key

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
        for i, (coefficient, digit) in enumerate(terms):
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
            step = min((d for d in digits if self._same(d.low, reached)), default=None,
                       key=lambda d: d.modulus is not None)  # what has no remainder taken says most
            if step is None:
                return False
            if step.modulus is None:
                return True
            reached = self._times(step.low, step.modulus)
            count = self._count(step.base)
            if count is not None and self.an.nonnegative(self._add(reached, count, -1)):
                return True
        return False

    # ------------------------------------------------------------ arithmetic on forms

    def _add(self, a, b, scale=1):
        return self.an.canonical.add(a, b, scale)

    def _times(self, a, b):
        return self.an.canonical.multiply(a, b)

    def _same(self, a, b):
        return a.key == b.key or self._add(a, b, -1).key == ZERO.key

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
