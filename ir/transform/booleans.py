"""Conditions of several parts: each part under what the others say, and all as a conjunction of disjunctions."""
from __future__ import annotations

from functools import reduce
from itertools import product

from ..expr import And, Div, FloorDiv, FloorMod, IntImm, Mod, Not, Or, const
from ..node import Mutator, collect, structural_equal
from ..tir.stmt import BufferLoad

MOST_GROUPS = 64  # a condition that has more disjunctions stays as it is written


class Booleans(Mutator):
    """Rewrites the outermost conjunctions and disjunctions of expressions.

    analyzer: knows what holds there. as_ands_of_ors: (a and b) or c becomes (a or c) and (b or c), and parts
    that others imply go, wherever these stand. by_branches: b of `a and b` is simplified where a holds, a where b does;
    those of `a or b` where the other one does not. A part that may fail where others do not guard it, as a division or
    an access may, stays behind these.
    """

    def __init__(self, analyzer, as_ands_of_ors=False, by_branches=False):
        self.analyzer, self.as_ands_of_ors, self.by_branches = analyzer, as_ands_of_ors, by_branches

    def visit_And(self, e):
        e = self._branches(e) if self.by_branches else e
        return self._ands_of_ors(e) if self.as_ands_of_ors else e

    visit_Or = visit_And

    # ------------------------------------------------------------ branches

    def _branches(self, e):
        if not isinstance(e, (And, Or)):
            return self.analyzer.simplify(e)
        b = self._where(e, e.a, e.b)
        fails = _may_fail(e.a) or _may_fail(b)  # a is evaluated before b is
        a = self._branches(e.a) if fails else self._where(e, b, e.a)
        return self.analyzer.simplify(type(e)(a, b))

    def _where(self, e, other, side):
        """A side of a condition, where it decides: the other one holds in a conjunction, does not in a disjunction."""
        with self.analyzer.constraint_scope(other if isinstance(e, And) else Not(other)):
            return self._branches(side)

    # ------------------------------------------------------------ ands of ors

    def _ands_of_ors(self, e):
        groups = None if _may_fail(e) else _groups(e)
        if groups is None:
            return e
        groups = self._across([self._within(map(self.analyzer.simplify, g)) for g in groups])
        ors = [reduce(Or, g) if g else const(False) for g in groups]
        return reduce(And, ors) if ors else const(True)

    def _within(self, group):
        """A disjunction of which no two parts are one: the later one stands for both."""
        out = []
        for part in group:
            known = list(out)
            for before in known:
                both = self._one(Or, before, part)
                if both is not None:
                    out.remove(before)
                    part = both
            out.append(part)
        return [const(True)] if any(_is(p, 1) for p in out) else [p for p in out if not _is(p, 0)]

    def _across(self, groups):
        """Disjunctions of which no two are one: where they differ in one part only, the later one says what both do."""
        out = []
        for group in groups:
            if any(_is(p, 1) for p in group):
                continue
            known = list(out)
            for before in known:
                if all(_has(group, p) for p in before):  # before implies it
                    group = None
                    break
                if all(_has(before, p) for p in group):
                    out.remove(before)
                    continue
                joined = self._joined(before, group)
                if joined is not None:
                    out.remove(before)
                    group = joined
            if group is not None:
                out.append(group)
        return out

    def _joined(self, a, b):
        """The disjunction that says what a and b do; None where that takes both."""
        (x, *more), (y, *others) = ([p for p in g if not _has(h, p)] or [None] for g, h in ((a, b), (b, a)))
        both = None if more or others or x is None or y is None else self._one(And, x, y)
        return None if both is None else self._within([both if p is y else p for p in b])

    def _one(self, kind, a, b):
        """`a and b` or `a or b` as one expression; None where it stays two."""
        if structural_equal(a, b):
            return b
        made = self.analyzer.simplify(kind(a, b))
        if not isinstance(made, (And, Or)):
            return made
        if self._implies(a, b):
            return a if kind is And else b
        return None if not self._implies(b, a) else b if kind is And else a

    def _implies(self, a, b):
        with self.analyzer.constraint_scope(a):
            return self.analyzer.can_prove(b)


def _may_fail(e):
    """Whether evaluating a condition may go wrong where one before it does not hold."""
    indices = (i for load in collect(e, BufferLoad) for i in load.indices)
    return may_divide_by_zero(e) or not all(isinstance(i, IntImm) for i in indices)


def may_divide_by_zero(e):
    """Whether an expression divides by something that is not known to be another number than 0."""
    divisors = (n.b for n in collect(e, (Div, Mod, FloorDiv, FloorMod)))
    return any(not isinstance(d, IntImm) or d.value == 0 for d in divisors)


def _is(e, value):
    return isinstance(e, IntImm) and e.value == value


def _has(group, part):
    return any(structural_equal(p, part) for p in group)


def _groups(e):
    """[[parts, one of which holds], all of which hold] of a condition; None for one that has too many."""
    if isinstance(e, Not) and isinstance(e.a, (And, Or)):
        other = Or if isinstance(e.a, And) else And
        return _groups(other(Not(e.a.a), Not(e.a.b)))
    if not isinstance(e, (And, Or)):
        return [[e]]
    a, b = _groups(e.a), _groups(e.b)
    if a is None or b is None or (len(a) * len(b) if isinstance(e, Or) else len(a) + len(b)) > MOST_GROUPS:
        return None
    return a + b if isinstance(e, And) else [[*x, *y] for x, y in product(a, b)]
