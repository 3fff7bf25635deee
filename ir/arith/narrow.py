"""Conditions without some of their variables: what is left implies the condition for all values of those."""
from __future__ import annotations

from ..expr import (EQ, GE, GT, LE, LT, NE, Add, And, Div, FloorDiv, IntImm, Mul, Not, Or, Sub, Var, const, free_vars,
                    logical_and, logical_or)
from .analyzer import Analyzer

_GROWS = {Add: (1, 1), Sub: (1, -1)}  # whether a sum grows with its operands


def narrow_predicate_expression(expr, ranges):
    """A condition free of the Vars of `ranges` {Var: Range} that holds only where `expr` does for every value of them.

    Comparisons of sums, products and quotients by constants keep what they say; of others nothing is known, so that
    they count as False."""
    return _Narrower(ranges).condition(expr, False)


class _Unknown(Exception):
    """The end of an expression is not known."""


class _Narrower:
    def __init__(self, ranges):
        an = Analyzer()
        self.ends = {v: (an.simplify(r.min), an.simplify(r.min + r.extent - 1)) for v, r in ranges.items()}

    def condition(self, e, weaker):
        """A condition that implies `e`; with `weaker`, one that `e` implies."""
        if isinstance(e, (And, Or)):
            return type(e)(self.condition(e.a, weaker), self.condition(e.b, weaker))
        if isinstance(e, Not):
            inner = self.condition(e.a, not weaker)
            return const(not inner.value) if isinstance(inner, IntImm) else Not(inner)
        if isinstance(e, EQ):
            return logical_and(self.condition(LE(e.a, e.b), weaker), self.condition(LE(e.b, e.a), weaker))
        if isinstance(e, NE):
            return logical_or(self.condition(LT(e.a, e.b), weaker), self.condition(LT(e.b, e.a), weaker))
        try:
            if isinstance(e, (LT, LE, GT, GE)):
                left_least = isinstance(e, (LT, LE)) == weaker
                return type(e)(self.end(e.a, not left_least), self.end(e.b, left_least))
            return self.end(e, weaker)
        except _Unknown:
            return const(weaker)

    def end(self, e, greatest):
        """The least or greatest value of `e` while the variables run; raises _Unknown."""
        kind = type(e)
        if kind is IntImm:
            return e
        if kind is Var:
            return self.ends[e][greatest] if e in self.ends else e
        if kind in _GROWS:
            return kind(*(self.end(part, greatest == (sign > 0)) for part, sign in zip((e.a, e.b), _GROWS[kind])))
        if kind in (Mul, FloorDiv, Div):
            for part, factor in ((e.a, e.b), (e.b, e.a)):
                if isinstance(factor, IntImm) and (kind is Mul or factor is e.b and factor.value):
                    moved = self.end(part, greatest == (factor.value >= 0))
                    return kind(moved, factor) if factor is e.b else kind(factor, moved)
        if kind is Mul and set(self.ends).isdisjoint(free_vars(e)):
            return e
        raise _Unknown
