"""Squares of elements, whose cache lines stay while all of them are used: loops of a copy that reads across memory."""
from __future__ import annotations

from ...tir.hints import TRANSPOSE
from .blocks import vectorizes
from .tiles import FLOAT


def square_of(target):
    """The side of a square: a cache line of floats."""
    return target.cost("line_bytes") // FLOAT


def in_squares(sch, target, block, u, v):
    """(outer loop of u, outer loop of v, [inner loops]) of two loops that run through an operand across and along its
    rows, not in order yet. Inner ones run through squares of a cache line of floats; where there are vectors, through
    squares of these, which are turned in registers."""
    square = square_of(target)
    if target.lanes == 1 or not vectorizes(sch.get(block)):
        (uo, ui), (vo, vi) = (sch.split(loop, [None, square]) for loop in (u, v))
        return uo, vo, [ui, vi]
    (uo, *um, ui), (vo, *vm, vi) = (
        sch.split(loop, [None, *([square // target.lanes] if target.lanes < square else []),
                         target.lanes]) for loop in (u, v))
    sch.unroll(ui)
    sch.annotate(ui, TRANSPOSE, 1)
    sch.vectorize(vi)
    return uo, vo, [*um, *vm, ui, vi]
