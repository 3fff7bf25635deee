"""canonical_simplify: the rules of rewrite_simplify, and integer arithmetic as sums of parts of numbers (splits.py)."""
from __future__ import annotations

from dataclasses import replace
from math import gcd

from ...expr import (LT, Add, Cast, Div, FloorDiv, FloorMod, IntImm, Mod, Mul, Sub, binary, const)
from ...upper import provides
from ..canonical import INDEX_TYPES
from ..linear import DoesNotFit, immediate
from ..simplify import same
from .reductions import simplified_reduction
from .rewriter import Rewriter, refuse_zero_divisors
from .splits import INF, Split, Sum, merged, pushed

TOWARD_ZERO = (Div, Mod)


class Canonicalizer(Rewriter):
    """A Rewriter that computes with Sums and Splits and writes them down where something else needs an expression."""

    def __init__(self, an):
        super().__init__(an)
        self.forms = {}  # expression -> the Sum, Split or expression that it is

    def _rewritten(self, e):
        try:
            if type(e) is LT and e.a.dtype in INDEX_TYPES and not self.an.acts(e) and not self.wraps(e):
                found = self._less(e)
                return super()._rewritten(e) if found is None else found
            if self._opens(e):
                found = written(self.opened(e))
                return e if same(found, e) else found
        except DoesNotFit:  # a number on the way is too great for the type
            pass
        out = super()._rewritten(e)
        return simplified_reduction(self, out) if type(out).__name__ == "Reduce" else out

    def _opens(self, e):
        """Whether arithmetic opens an expression: of numbers that may wrap around sums and products alone."""
        return type(e) in OPENED and e.dtype in INDEX_TYPES and not self.an.acts(e) and (
            type(e) in (Add, Sub, Mul) or not self.wraps(e))

    def under(self, condition, e):
        saved, self.forms = self.forms, {}
        try:
            return super().under(condition, e)
        finally:
            self.forms = saved

    def opened(self, e):
        """The Sum or Split that an expression is; one that arithmetic does not open comes back simplified."""
        found = self.forms.get(e)
        if found is None:
            found = OPENED[type(e)](self, e) if self._opens(e) else None
            if found is None:
                found = Rewriter._rewritten(self, e) if self._opens(e) else self.visit(e)
                if found is not e and self._opens(found):
                    found = self.opened(found)
            self.forms[e] = found
        return found

    # ------------------------------------------------------------ sums and products

    def added(self, e):
        out = as_sum(self.opened(e.a)).plus(_addend(self.opened(e.b)), 1 if type(e) is Add else -1)
        return self._rejoined(out)

    def _rejoined(self, value):
        """A Sum with those sums opened whose parts met again: x + y of (x + y) // 4 * 4 + (x + y) % 4."""
        if any(type(s.index) in (Add, Sub) for s in value.args):
            args = merged(value.args)
            for s in args:
                if s.scale and s.is_whole and type(s.index) in (Add, Sub) and self._opens(s.index):
                    rest = Sum(tuple(t for t in args if t is not s), value.base, value.dtype)
                    return self._rejoined(rest.plus(as_sum(self.opened(s.index)), s.scale))
        return value

    def multiplied(self, e):
        a, b = self.opened(e.a), self.opened(e.b)
        if isinstance(written(a), IntImm):
            a, b = b, a
        factor = written(b)
        if isinstance(factor, IntImm) and isinstance(written(a), IntImm):
            return immediate(e.dtype, written(a).value * factor.value)
        if isinstance(factor, IntImm):
            return (a if isinstance(a, Sum) else as_split(a)).times(factor.value)
        scale, out = 1, None
        for part in (*factors(written(a)), *factors(factor)):
            if isinstance(part, IntImm):
                scale *= part.value
            else:
                out = part if out is None else Mul(out, part)
        return out if scale == 1 else Split(out, scale=scale)

    def cast(self, e):
        if e.value.dtype not in INDEX_TYPES:
            return None
        value = self.opened(e.value)
        return pushed(value, e.dtype, self._largest) if isinstance(value, (Sum, Split)) else None

    def _largest(self, e):
        low, high = self.an.interval(e)
        return INF if None in (low, high) else max(-low, high)

    # ------------------------------------------------------------ quotients and remainders

    def divided(self, e):
        """The rules that both kinds of division and remainder begin with."""
        kind, a, b = type(e), self.opened(e.a), written(self.opened(e.b))
        number = written(a)
        if not isinstance(b, IntImm):
            return self._without_common_factors(kind, number, b)
        if isinstance(number, IntImm) and b.value:
            return binary(kind, number, b)
        if b.value <= 0:
            return kind(number, b)
        return BY_CONSTANT[kind](self, a, b.value)

    def _without_common_factors(self, kind, a, b):
        """(x * z) // (y * z) = x // y and (x * z) % (y * z) = x % y * z, rounded either way."""
        left, k = _factors_and_scale(a)
        right, n = _factors_and_scale(b)
        shared, rest = [], []
        for part in right:
            at = next((i for i, other in enumerate(left) if same(part, other)), None)
            (rest if at is None else shared).append(part)
            if at is not None:
                del left[at]
        common = gcd(k, n)
        if not shared and common == 1:
            return kind(a, b)
        out = binary(kind, _product(left, k // common, a.dtype), _product(rest, n // common, a.dtype))
        return out if kind in (Div, FloorDiv) else out * _product(shared, common, a.dtype)

    def floor_quotient(self, a, c):
        if c == 1:
            return a
        if not isinstance(a, Sum):
            return const(0, a.dtype) if self._within(written(a), c) else split_over(as_split(a), c, False)
        whole, rest = a.parted(c)
        whole, number = whole.over(c), written(rest)
        if isinstance(number, IntImm):
            return whole.plus(number.value // c)
        return whole if self._within(number, c) else whole.plus(split_over(as_split(rest), c, False))

    def trunc_quotient(self, a, c):
        if c == 1:
            return a
        if not isinstance(a, Sum):
            return const(0, a.dtype) if self._within(written(a), c) else split_over(as_split(a), c, True)
        whole, rest = a.parted(c)
        number = written(rest)
        if isinstance(number, IntImm) and not number.value:
            return whole.over(c)
        if not (self._nonnegative(written(whole)) and self._nonnegative(number)):
            return split_over(as_split(a), c, True)
        whole = whole.over(c)
        if isinstance(number, IntImm):
            return whole.plus(number.value // c)
        return whole if self._within(number, c) else whole.plus(split_over(as_split(rest), c, True))

    def floor_remainder(self, a, c):
        if not isinstance(a, Sum):
            return a if self._within(written(a), c) else self.split_modulo(as_split(a), c, False)
        _, rest = a.parted(c)
        number = written(rest)
        if isinstance(number, IntImm):
            return const(number.value % c, a.dtype)
        if self._within(number, c):
            return rest
        return self.split_modulo(as_split(replace(rest, base=rest.base % c)), c, False)

    def trunc_remainder(self, a, c):
        if not isinstance(a, Sum):
            return a if self._within(written(a), c) else self.split_modulo(as_split(a), c, True)
        whole, rest = a.parted(c)
        number = written(rest)
        if isinstance(number, IntImm) and not number.value:
            return number
        if self._nonnegative(written(whole)) and self._nonnegative(number):
            if isinstance(number, IntImm):
                return const(number.value % c, a.dtype)
            if self._within(number, c):
                return rest
            a = rest
        nearer = replace(a, base=a.base % c if a.base >= 0 else -(-a.base % c))
        if nearer.base != a.base and self._nonnegative(written(a)) and self._nonnegative(written(nearer)):
            a = nearer
        return self.split_modulo(as_split(a), c, True)

    def split_modulo(self, s, c, toward_zero):
        """The Split that is s modulo c > 0."""
        s = _rounded(s, toward_zero)
        if s.scale % c == 0:
            return s.times(0)
        if c % s.scale == 0 and (toward_zero or s.lower == 1 or s.scale > 0):
            upper = s.lower * (c // s.scale)
            if s.upper == INF:
                return replace(s, upper=upper)
            if s.upper % upper == 0 and upper != s.upper and s.lower > 0:
                inner = (Mod if toward_zero else FloorMod)(s.index, immediate(s.dtype, upper))
                inner = as_split(self.opened(inner))
                return (inner if s.lower == 1 else split_over(inner, s.lower, toward_zero)).times(s.scale)
            if upper % s.upper == 0 and 0 < s.upper <= upper:
                return s
        return Split(s.expr(), upper=c, toward_zero=toward_zero)

    def _within(self, e, c):
        """Whether 0 <= e < c is proved."""
        return self._nonnegative(e) and self.an.can_prove_less(e, c)

    def _nonnegative(self, e):
        return self.an.can_prove_greater_equal(e, 0)

    # ------------------------------------------------------------ comparisons

    def _less(self, e):
        """k * x + y < 0 as x < 0 for 0 <= y < k, and for y = z % m as x + z // k % (m / k) < 0 where k divides m."""
        gap = self.opened(Sub(e.a, e.b))
        scales = [abs(s.scale) for s in gap.args if abs(s.scale) > 1] if isinstance(gap, Sum) else ()
        k = gcd(gap.base, *scales) if scales else 0
        if k < 2:
            return None
        whole, rest = gap.parted(k)
        extra, zero = written(rest), const(0, gap.dtype)
        if self._within(extra, k):
            return self.visit(LT(written(whole.over(k)), zero))
        if len(rest.args) != 1 or rest.base:
            return None
        s, = rest.args
        lower = k * s.lower
        if s.scale != 1 or s.lower < 1 or s.upper == INF or s.upper % lower or s.upper <= 0 or (
                s.toward_zero and not self._nonnegative(s.index)):
            return None
        part = FloorMod(FloorDiv(s.index, immediate(s.dtype, lower)), immediate(s.dtype, s.upper // lower))
        return self.visit(LT(Add(written(whole.over(k)), part), zero))


def split_over(s, c, toward_zero):
    """The Split that is the quotient of s by c > 0."""
    s = _rounded(s, toward_zero)
    if s.scale % c == 0:
        return s.times(0) if not s.scale else replace(s, scale=s.scale // c)
    if c % s.scale == 0 and (toward_zero or s.lower == 1 or s.scale > 0):
        lower = s.lower * (c // s.scale)
        if s.upper == INF or s.upper % lower == 0 and (toward_zero or lower > 0):
            return replace(s, scale=1, lower=lower)
        if 0 < s.upper <= lower:
            return s.times(0)
        return Split(s.parts()[1], lower=lower, toward_zero=toward_zero)
    return Split(s.expr(), lower=c, toward_zero=toward_zero)


def _rounded(s, toward_zero):
    """`s` as one that rounds as asked."""
    if s.toward_zero == toward_zero:
        return s
    return replace(s if s.is_whole else Split(s.expr()), toward_zero=toward_zero)


def written(value):
    """The expression of a Sum, a Split or an expression; raises DoesNotFit."""
    return value.expr() if isinstance(value, (Sum, Split)) else value


def as_split(value):
    if isinstance(value, Split):
        return value
    if isinstance(value, Sum) and not value.base and len(value.args) == 1:
        return value.args[0]
    return Split(written(value))


def as_sum(value):
    if isinstance(value, Sum):
        return value
    if isinstance(value, IntImm):
        return Sum((), value.value, value.dtype)
    return Sum((as_split(value),), 0, value.dtype)


def _addend(value):
    return value.value if isinstance(value, IntImm) else value if isinstance(value, Sum) else as_split(value)


def factors(e):
    """The factors of a product, in order."""
    return (*factors(e.a), *factors(e.b)) if type(e) is Mul else (e,)


def _factors_and_scale(e):
    """([factor that is no constant], the product of those that are)."""
    scale, found = 1, []
    for part in factors(e):
        if isinstance(part, IntImm):
            scale *= part.value
        else:
            found.append(part)
    return found, scale


def _product(parts, scale, dtype):
    out = const(1, dtype)
    for part in parts:
        out = binary(Mul, out, part)
    return binary(Mul, out, immediate(dtype, scale))


BY_CONSTANT = {FloorDiv: Canonicalizer.floor_quotient, FloorMod: Canonicalizer.floor_remainder,
               Div: Canonicalizer.trunc_quotient, Mod: Canonicalizer.trunc_remainder}
OPENED = {Add: Canonicalizer.added, Sub: Canonicalizer.added, Mul: Canonicalizer.multiplied, Cast: Canonicalizer.cast,
          **dict.fromkeys(BY_CONSTANT, Canonicalizer.divided)}


@provides("canonical")
def _canonical(an, e):
    refuse_zero_divisors(e)
    return Canonicalizer(an).visit(e)
