"""Transposing copies and elementwise kernels: squares of elements whose cache lines stay while all of them are used."""
from __future__ import annotations

from ...expr import IntImm
from ...node import collect
from ...tir.stmt import BufferLoad
from ...transform.squares import TURNED
from ..blocks import uses
from .blocks import blocks, inline_all, vectorizes
from .threads import parallel_outer

SQUARE = 16  # elements: a cache line of floats


def transpose(sch, cpu):
    """An elementwise kernel that runs through an operand across its rows, in squares:

        for rows u / 16: for columns v / 16: for u in square: for v in square: y[..., u, ..., v] = x[..., v, ..., u]
    """
    inline_all(sch)
    outputs = sch.get_output_blocks("root")
    if len(blocks(sch)) != 1 or len(outputs) != 1:
        return False
    block, loops = sch.get(outputs[0]), sch.get_loops(outputs[0])
    across = _across(block)
    if across is None or len(loops) != len(block.iter_vars):
        return False
    uo, vo, inner = in_squares(sch, cpu, outputs[0], loops[across], loops[-1])
    outer = [*loops[:across], uo, *loops[across + 1:-1], vo]
    sch.reorder(*outer, *inner)
    parallel_outer(sch, cpu, outer)
    return True


def in_squares(sch, cpu, block, u, v):
    """(outer loop of u, outer loop of v, [inner loops]) of two loops that run through an operand across and along its
    rows, not in order yet. Inner ones run through squares of a cache line of floats; where there are vectors, through
    squares of these, which are turned in registers."""
    if cpu.lanes == 1 or not vectorizes(sch.get(block)):
        (uo, ui), (vo, vi) = (sch.split(loop, [None, SQUARE]) for loop in (u, v))
        return uo, vo, [ui, vi]
    (uo, *um, ui), (vo, *vm, vi) = (
        sch.split(loop, [None, *([SQUARE // cpu.lanes] if cpu.lanes < SQUARE else []), cpu.lanes]) for loop in (u, v))
    sch.unroll(ui)
    sch.annotate(ui, TURNED, 1)
    sch.vectorize(vi)
    return uo, vo, [*um, *vm, ui, vi]


def _across(block):
    """Which iteration variable runs along the rows of an operand that the last one runs across; None where no squares
    can be made of the two, or memory is not written row by row."""
    variables = [iv.var for iv in block.iter_vars]
    if block.init is not None or len(variables) < 2 or block.writes[0].region[-1].min is not variables[-1]:
        return None
    for load in collect(block.body, BufferLoad):
        for n, iv in enumerate(block.iter_vars[:-1]):
            if (load.indices[-1] is iv.var and uses(load.indices[:-1], {variables[-1]})
                    and _is_long(iv) and _is_long(block.iter_vars[-1])):
                return n
    return None


def _is_long(iv):
    return isinstance(iv.dom.extent, IntImm) and iv.dom.extent.value >= SQUARE
