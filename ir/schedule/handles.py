"""Handles: what primitives take and give instead of statements and numbers, and arithmetic on sampled numbers."""
from __future__ import annotations

import operator
from enum import Enum

from ..expr import Var
from ..node import node

OPERATIONS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod}


class RV:
    """A handle of a schedule, equal only to itself. What it stands for is asked with Schedule.get."""

    __slots__ = ("__weakref__",)
    prefix = "v"

    def same_as(self, other):
        """Whether both are one handle."""
        return self is other


class BlockRV(RV):
    """A block; it follows the block through renaming."""

    __slots__ = ()
    prefix = "b"


class LoopRV(RV):
    """A loop. A primitive that replaces the loop ends the handle."""

    __slots__ = ()
    prefix = "l"


def _operator(op, swapped=False):
    def method(self, other):
        if not isinstance(other, (int, ExprRV)) or isinstance(other, bool):
            return NotImplemented
        return DerivedRV(op, other, self) if swapped else DerivedRV(op, self, other)
    return method


class ExprRV(RV):
    """A number that was sampled. +, -, *, // and % with ints and other such numbers give numbers again; with
    expressions, as in the function of an index map, they give expressions of a SampledVar."""

    __slots__ = ()

    def __prim_expr__(self):
        return SampledVar("sampled", handle=self)

    __add__, __radd__ = _operator("+"), _operator("+", True)
    __sub__, __rsub__ = _operator("-"), _operator("-", True)
    __mul__, __rmul__ = _operator("*"), _operator("*", True)
    __floordiv__, __rfloordiv__ = _operator("//"), _operator("//", True)
    __mod__, __rmod__ = _operator("%"), _operator("%", True)


class DerivedRV(ExprRV):
    """a op b of numbers, at least one of which was sampled."""

    __slots__ = ("op", "a", "b")

    def __init__(self, op, a, b):
        self.op, self.a, self.b = op, a, b
        if op not in OPERATIONS:
            raise ValueError(f"unknown operation {op!r}; known: {' '.join(OPERATIONS)}")

    def value(self, number_of):
        """The number, given that of each sampled one. Raises ZeroDivisionError."""
        a, b = (x if isinstance(x, int) else x.value(number_of) if isinstance(x, DerivedRV) else number_of(x)
                for x in (self.a, self.b))
        return OPERATIONS[self.op](a, b)


@node
class SampledVar(Var):
    """What stands for a sampled number in an expression, until a primitive puts the number there."""

    handle: ExprRV = None


SampledVar._visit = Var._visit  # visitors see a variable


class Mark(Enum):
    """The value of a LoopRV of sample_compute_location that is no loop; compute_at accepts it."""

    ROOT = "root"
    INLINE = "inline"


HANDLE_TYPES = {rv.prefix: rv for rv in (BlockRV, LoopRV, ExprRV)}


def handles_in(value):
    """The handles in an argument value, those that numbers derive from instead of these."""
    if isinstance(value, DerivedRV):
        return handles_in((value.a, value.b))
    if isinstance(value, RV):
        return [value]
    return [h for v in value for h in handles_in(v)] if isinstance(value, tuple) else []


def map_handles(value, change):
    """An argument value with each handle h in it replaced by change(h)."""
    if isinstance(value, DerivedRV):
        return DerivedRV(value.op, map_handles(value.a, change), map_handles(value.b, change))
    if isinstance(value, (RV, Var)):  # a Var may stand for a number in instructions that a script makes
        return change(value)
    return tuple(map_handles(v, change) for v in value) if isinstance(value, tuple) else value
