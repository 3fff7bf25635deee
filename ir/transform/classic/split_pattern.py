"""RenormalizeSplitPattern: quotients and remainders of a loop's parts in one form, which simplifies further."""
from __future__ import annotations

from math import gcd

from ...expr import GE, GT, LE, LT, Add, Broadcast, FloorDiv, FloorMod, IntImm, Mul, Not, const
from ...node import Mutator

_FLIPPED = {LT: LE, LE: LT, GT: GE, GE: GT}  # !(a < b)  ->  b <= a, with the operands exchanged


def renormalize_split_pattern(func):
    """Ensures of integers, with constants c > 0, that
    - x % (a * c) // c is x // c % a;
    - (x * (a * c) + y) // (b * c) is (x * a + y // c) // b;
    - a bound is one of a quotient: x < c is x // c < 1, and c <= x is 1 <= x // c, where x is a sum or a product."""
    return func.replace(body=_Renormalize().visit(func.body))


class _Renormalize(Mutator):
    def visit_FloorDiv(self, e):
        a, b = self.visit(e.a), self.visit(e.b)
        c = _constant(b)
        if c is None or c <= 0:
            return e if a is e.a and b is e.b else a // b
        if isinstance(a, FloorMod) and (of := _constant(a.b)) and of > 0 and of % c == 0:
            return self._quotient(a.a, c) % _whole(of // c, a)
        return self._quotient(a, c, e if a is e.a and b is e.b else None)

    def _quotient(self, a, c, same=None):
        """a // c. same: the node that this is where nothing changes it."""
        if isinstance(a, FloorMod) and (of := _constant(a.b)) and of > 0 and of % c == 0:
            return self._quotient(a.a, c) % _whole(of // c, a)
        first, *rest = _terms(a)
        factor = _constant(first.b) if isinstance(first, Mul) else None
        common = gcd(factor, c) if rest and factor and factor > 0 else 1
        if common == 1:
            return a // _whole(c, a) if same is None else same
        inner = first.a * _whole(factor // common, a) + self._quotient(_sum(rest), common)
        return inner if c == common else self._quotient(inner, c // common)

    def _bound(self, e):
        a, b = self.visit(e.a), self.visit(e.b)
        same = e if a is e.a and b is e.b else e.replace(a=a, b=b)
        if not a.dtype.is_int:
            return same
        for side, other, kinds in ((a, b, (LT, GE)), (b, a, (LE, GT))):
            limit = _constant(other)
            if isinstance(e, kinds) and limit is not None and limit > 1 and isinstance(side, (Add, Mul)):
                number, one = self._quotient(side, limit), _whole(1, side)
                return e.replace(a=number, b=one) if side is a else e.replace(a=one, b=number)
        return same

    visit_LT = visit_LE = visit_GT = visit_GE = _bound

    def visit_Not(self, e):
        a = self.visit(e.a)
        if isinstance(a, Not):
            return a.a
        if type(a) in _FLIPPED and a.a.dtype.is_int:
            return _FLIPPED[type(a)](a.b, a.a)
        return e if a is e.a else Not(a)


def _terms(e):
    """The terms of a sum, in order."""
    return [*_terms(e.a), e.b] if isinstance(e, Add) else [e]


def _sum(terms):
    total, *rest = terms
    for term in rest:
        total = total + term
    return total


def _constant(e):
    """The number that an integer, or each lane of one, is; None where that is not constant."""
    e = e.value if isinstance(e, Broadcast) else e
    return e.value if isinstance(e, IntImm) else None


def _whole(number, like):
    """A number as an operand of an expression, in each of its lanes."""
    value = const(number, like.dtype.element)
    return value if like.dtype.lanes == 1 else Broadcast(value, like.dtype.lanes)


__all__ = ["renormalize_split_pattern"]
