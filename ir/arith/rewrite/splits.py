"""Sums of parts of numbers: what canonical_simplify makes of integer arithmetic, and how it writes it.

A Split is (index % upper) // lower * scale, a Sum adds Splits and a constant. Both are values of their index type,
taken not to overflow. Split parts of one index meet again: x // 4 * 4 + x % 4 is x.
"""
from __future__ import annotations

from dataclasses import dataclass, replace

from ...expr import Add, Cast, Div, FloorDiv, FloorMod, Mod, Mul, PrimExpr, Sub, binary, const
from ..linear import immediate
from ..simplify import same

INF = float("inf")


@dataclass(frozen=True, eq=False)
class Split:
    """(index % upper) // lower * scale. No remainder is taken where `upper` is INF; else `lower` divides it.

    toward_zero says which of the two divisions is meant. A scale of 0 keeps the place of what cancelled.
    """

    index: PrimExpr
    lower: int = 1
    upper: int | float = INF
    scale: int = 1
    toward_zero: bool = True

    @property
    def dtype(self):
        return self.index.dtype

    @property
    def is_whole(self):
        """Whether nothing is divided, so that both divisions are one."""
        return self.lower == 1 and self.upper == INF

    def expr(self, sign=1):
        """The expression of sign times the Split; raises DoesNotFit."""
        e = self.parts()[-1] if self.scale else const(0, self.dtype)
        return e if sign * self.scale in (0, 1) else Mul(e, immediate(self.dtype, sign * self.scale))

    def parts(self):
        """[the index, its remainder, the quotient of that], those that are."""
        found = [self.index]
        if self.upper != INF:
            found.append((Mod if self.toward_zero else FloorMod)(self.index, immediate(self.dtype, self.upper)))
        if self.lower != 1:
            found.append((Div if self.toward_zero else FloorDiv)(found[-1], immediate(self.dtype, self.lower)))
        return found

    def times(self, factor):
        return replace(self, scale=self.scale * factor)

    def rounds_like(self, other):
        return self.toward_zero == other.toward_zero or self.is_whole


@dataclass(frozen=True, eq=False)
class Sum:
    """The sum of Splits and a constant. Splits of one index stand together, those of greater `lower` first."""

    args: tuple
    base: int
    dtype: object

    def expr(self):
        """Positive terms by falling scale, what the constant adds, the negative terms, what the constant takes away.

        Raises DoesNotFit."""
        out, terms = None, [s for s in written(merged(self.args)) if s.scale]
        positive = self.base > 0 or self.base and self.base == self.dtype.min_value()  # -base is no number of the type
        for s in terms:
            out = _plus(out, s.expr()) if s.scale > 0 else out
        if positive:
            out = _plus(out, immediate(self.dtype, self.base))
        for s in terms:
            if s.scale < 0:
                out = Sub(const(0, self.dtype) if out is None else out, s.expr(-1))
        if out is None:
            return immediate(self.dtype, self.base)
        return out if positive or not self.base else Sub(out, immediate(self.dtype, -self.base))

    def plus(self, other, scale=1):
        """self + scale * other, of a Sum, a Split or an int."""
        if isinstance(other, int):
            return replace(self, base=self.base + scale * other)
        if isinstance(other, Split):
            return replace(self, args=_inserted(self.args, other.times(scale)))
        out = self
        for s in other.args:
            out = out.plus(s, scale)
        return out.plus(other.base, scale)

    def times(self, factor):
        return Sum(tuple(s.times(factor) for s in self.args), self.base * factor, self.dtype)

    def over(self, divisor):
        """The quotient by an int that divides every term."""
        return Sum(tuple(replace(s, scale=s.scale // divisor) for s in self.args), self.base // divisor, self.dtype)

    def parted(self, divisor):
        """(what an int divides, the rest) as Sums."""
        whole = Sum(tuple(s for s in self.args if s.scale % divisor == 0), self.base * (self.base % divisor == 0),
                    self.dtype)
        rest = tuple(s for s in self.args if s.scale % divisor)
        return whole, Sum(rest, self.base - whole.base, self.dtype)


def _plus(a, b):
    return b if a is None else binary(Add, a, b)


def _inserted(args, new):
    """`args` with one Split more, in its place or added to one of the same parts."""
    if not new.scale:
        return args
    start = next((i for i, s in enumerate(args) if same(s.index, new.index)), len(args))
    for i in range(start, len(args)):
        s = args[i]
        if not same(s.index, new.index) or new.lower > s.lower:
            return (*args[:i], new, *args[i:])
        if (new.lower, new.upper) == (s.lower, s.upper) and new.rounds_like(s):
            return (*args[:i], replace(s, scale=s.scale + new.scale), *args[i + 1:])
    return (*args, new)


def written(args):
    """Splits in the order in which they are written."""
    return sorted(args, key=lambda s: (-s.scale, -s.lower, -s.upper, s.toward_zero))


def merged(args):
    """Splits of which those that are parts of one number are joined."""
    args = list(args)
    for i, s in enumerate(args):
        for j in range(i + 1, len(args)) if s.scale else ():
            other = args[j]
            if not same(s.index, other.index) or s.upper < other.lower:
                break
            if (s.lower, s.upper) == (other.lower, other.upper) and s.rounds_like(other):
                args[i], args[j] = s.times(0), replace(other, scale=s.scale + other.scale)
                break
            if _continues(s, other):
                args[i], args[j] = s.times(0), replace(other, upper=s.upper)
                break
    return args


def _continues(high, low):
    """Whether high + low = (x % u) // c, for high = (x % u) // (c * s) * s and low = x % (c * s) // c, but for a factor.

    Rounded down that holds for positive s, and where c divides nothing."""
    if not low.scale or high.lower != low.upper or high.scale % low.scale or not high.rounds_like(low):
        return False
    factor = high.scale // low.scale
    if high.lower != factor * low.lower:
        return False
    return high.toward_zero or factor > 0 or abs(low.lower) == 1


def pushed(value, dtype, largest):
    """A Split or Sum cast to another index type term by term, None where a step on the way may not fit it.

    largest(expr) is the greatest magnitude of an expression, INF where it is not known."""
    terms, base = (value.args, value.base) if isinstance(value, Sum) else ((value,), 0)
    if dtype.bits < value.dtype.bits:
        parts = [s.parts() for s in terms]
        total = sum(abs(s.scale) * largest(p[-1]) for s, p in zip(terms, parts) if s.scale) + abs(base)
        if max((total, *(largest(e) for p in parts for e in p))) > dtype.max_value():
            return None
    inside = tuple(replace(s, index=Cast(dtype, s.index)) for s in terms)
    return Sum(inside, base, dtype) if isinstance(value, Sum) else inside[0]
