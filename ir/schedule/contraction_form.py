"""Sums of products as matrix products: which iterators of a block are rows, columns, terms and batches."""
from __future__ import annotations

from dataclasses import dataclass

from ..expr import Add, Cast, FloorDiv, FloorMod, IntImm, Mul, PrimExpr, Var, cast, const, is_const_int
from ..node import Node, collect
from ..tir.stmt import BufferLoad
from .blocks import uses
from .combiner import combiner_of


@dataclass(frozen=True)
class Axis:
    """An iterator of a block, or a part of one: the quotient ("high") or the remainder ("low") by `divisor`."""

    var: Var
    extent: PrimExpr
    part: str = ""
    divisor: int = 0

    @property
    def is_static(self):
        return isinstance(self.extent, IntImm)

    def of(self, value):
        """The axis' value where its iterator has `value`."""
        if not self.part:
            return value
        return value // self.divisor if self.part == "high" else value % self.divisor


@dataclass(frozen=True)
class Form:
    """sum over depth of left[batch, rows, depth] * right[batch, depth, columns].

    left, right: the factors, in the iterators of the block. Each of the sides is a tuple of axes, the outermost first,
    of which only the first may have a symbolic extent.
    """

    left: PrimExpr
    right: PrimExpr
    batch: tuple
    rows: tuple
    columns: tuple
    depth: tuple

    @property
    def axes(self):
        return (*self.batch, *self.rows, *self.columns, *self.depth)


def contraction_form(block):
    """(Form, "") of a reduction block that is a sum of products of two factors; else (None, the reason).

    Columns are the side that the result's last dimension belongs to. A channel that one factor knows by its group alone
    is two axes: the group, which is a batch, and the channel within it.
    """
    if block.init is None:
        return None, "it is no reduction"
    combiner, why = combiner_of(block)
    if combiner is None:
        return None, why
    if combiner.operation is not Add or len(combiner.terms) != 1:
        return None, "it is no sum"
    factors = _factors(combiner.terms[0])
    if factors is None:
        return None, f"its term {combiner.terms[0]} is no product of two factors that are read"
    terms = [iv for iv in block.iter_vars if iv.iter_type == "reduce"]
    if not terms or any(not uses(f, {iv.var}) for f in factors for iv in terms if not is_const_int(iv.dom.extent, 1)):
        return None, "one of its factors does not depend on every term"
    if any(not is_const_int(iv.dom.min, 0) for iv in block.iter_vars):
        return None, "an iterator does not begin at 0"
    depth = tuple(Axis(iv.var, iv.dom.extent) for iv in terms)
    if any(not axis.is_static for axis in depth[1:]):
        return None, "the terms have several symbolic extents"
    return _sides(block, factors, depth), ""


def _factors(term):
    """The two factors of a product, each of which reads memory; None for other terms."""
    if isinstance(term, Cast) and isinstance(term.value, Mul):
        return None  # the product is rounded, or wraps, in the narrower type
    if not isinstance(term, Mul) or not all(collect(f, BufferLoad) for f in (term.a, term.b)):
        return None
    return term.a, term.b


def _sides(block, factors, depth):
    batch, sides = [], ([], [])
    for iv in block.iter_vars:
        if iv.iter_type != "spatial":
            continue
        used = [uses(f, {iv.var}) for f in factors]
        axis = Axis(iv.var, iv.dom.extent)
        if is_const_int(iv.dom.extent, 1) or used[0] == used[1]:
            group = _group(iv, factors) if all(used) else None
            if group is None:
                batch.append(axis)
                continue
            side, size = group
            batch.append(Axis(iv.var, const(iv.dom.extent.value // size, iv.var.dtype), "high", size))
            sides[side].append(Axis(iv.var, const(size, iv.var.dtype), "low", size))
        else:
            sides[used.index(True)].append(axis)
    for side in sides:
        last = max((n for n, axis in enumerate(side) if not axis.is_static), default=0)
        batch += side[:last]
        del side[:last]
    order = {iv.var: n for n, iv in enumerate(block.iter_vars)}
    right = max((0, 1), key=lambda n: max((order[axis.var] for axis in sides[n]), default=-1))
    return Form(factors[1 - right], factors[right], tuple(batch), tuple(sides[1 - right]), tuple(sides[right]), depth)


def _group(iv, factors):
    """(which factor knows an iterator whole, the size of its groups) where the other one uses it by its group alone."""
    for side in (0, 1):
        size = _divisor(factors[1 - side], iv.var)
        if size and isinstance(iv.dom.extent, IntImm) and iv.dom.extent.value % size == 0 and size > 1:
            return side, size
    return None


def _divisor(value, var):
    """c where an expression uses a variable as var // c alone; 0 where it does otherwise."""
    found = set()

    def look(e):
        if isinstance(e, FloorDiv) and e.a is var and isinstance(e.b, IntImm):
            found.add(e.b.value)
        elif e is var:
            found.add(0)
        elif isinstance(e, Node):
            for name in e._fields:
                look(getattr(e, name))
        elif isinstance(e, tuple):
            for x in e:
                look(x)

    look(value)
    return found.pop() if len(found) == 1 else 0


def size_of(axes, dtype):
    """How many points axes have together."""
    size = const(1, dtype)
    for axis in axes:
        size = size * cast(axis.extent, dtype)
    return size


def joined(axes, values, dtype):
    """The number of a point of axes, counted with the last axis innermost. values: {iterator: its value}."""
    number = const(0, dtype)
    for axis in axes:
        number = number * cast(axis.extent, dtype) + cast(axis.of(values[axis.var]), dtype)
    return number


def parted(axes, number):
    """{axis: its value} for the number of a point."""
    values = {}
    for axis in reversed(axes[1:]):
        extent = cast(axis.extent, number.dtype)
        values[axis], number = FloorMod(number, extent), FloorDiv(number, extent)
    if axes:
        values[axes[0]] = number
    return values
