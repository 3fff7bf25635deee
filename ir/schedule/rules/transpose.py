"""Transposing copies and elementwise kernels: squares of elements whose cache lines stay while all of them are used."""
from __future__ import annotations

from functools import partial
from math import prod

from ...expr import FloorMod, IntImm
from ...node import collect, structural_equal
from ...tir.hints import TRANSPOSE
from ...tir.stmt import BufferLoad, BufferStore
from ..blocks import uses
from ..plan import Fixed, Match
from .blocks import blocks, inline_all, innermost, only_output, vectorizes
from .threads import parallel_outer
from .tiles import FLOAT


def transpose(sch, cpu):
    """An elementwise kernel that runs through an operand across its rows, in squares:

        for rows u / 16: for columns v / 16: for u in square: for v in square: y[..., u, ..., v] = x[..., v, ..., u]
    """
    inline_all(sch)
    output = only_output(sch)
    if len(blocks(sch)) != 1 or output is None:
        return None
    block, loops = sch.get(output), sch.get_loops(output)
    found = _across(cpu, block) if len(loops) == len(block.iter_vars) else None
    return None if found is None else Match(Fixed("transpose"), partial(_apply, sch, output, loops, found))


def _apply(sch, output, loops, found, plan, cpu):
    u, v = (sch.fuse(*loops[run]) if run.stop - run.start > 1 else loops[run.start] for run in found)
    uo, vo, inner = in_squares(sch, cpu, output, u, v)
    outer = [*loops[:found[0].start], uo, *loops[found[0].stop:found[1].start], vo]
    sch.reorder(*outer, *inner)
    parallel_outer(sch, cpu, outer)


def square_of(cpu):
    """The side of a square: a cache line of floats."""
    return cpu.cost("line_bytes") // FLOAT


def in_squares(sch, cpu, block, u, v):
    """(outer loop of u, outer loop of v, [inner loops]) of two loops that run through an operand across and along its
    rows, not in order yet. Inner ones run through squares of a cache line of floats; where there are vectors, through
    squares of these, which are turned in registers."""
    square = square_of(cpu)
    if cpu.lanes == 1 or not vectorizes(sch.get(block)):
        (uo, ui), (vo, vi) = (sch.split(loop, [None, square]) for loop in (u, v))
        return uo, vo, [ui, vi]
    (uo, *um, ui), (vo, *vm, vi) = (
        sch.split(loop, [None, *([square // cpu.lanes] if cpu.lanes < square else []), cpu.lanes]) for loop in (u, v))
    sch.unroll(ui)
    sch.annotate(ui, TRANSPOSE, 1)
    sch.vectorize(vi)
    return uo, vo, [*um, *vm, ui, vi]


def _across(cpu, block):
    """The iteration variables, as two slices, that run along the rows, or through blocks of them, of an operand, and
    those, the last ones, that run across; None where no squares can be made of them, or memory is not written row by
    row."""
    variables, written = [iv.var for iv in block.iter_vars], block.writes[0].region
    if block.init is not None or len(variables) < 2 or not written or written[-1].min is not variables[-1]:
        return None
    for load in collect(block.body, BufferLoad):
        for n, var in enumerate(variables[:-1]):
            if _along(innermost(load), var) and uses(load.indices[:-1], {variables[-1]}):
                last = len(variables) - 1
                runs = slice(_first(block, n, 0), n + 1), slice(_first(block, last, n + 1), last + 1)
                if all(_is_long(cpu, block.iter_vars[run]) for run in runs):
                    return runs
    return None


def _along(index, var):
    """Whether an index is a variable, or, as that of blocked channels, its remainder by the size of a block."""
    return index is var or isinstance(index, FloorMod) and index.a is var and isinstance(index.b, IntImm)


def _first(block, last, least):
    """The first of the iteration variables up to `last` that together are one dimension of all that they index."""
    while last > least and all(_adjoin(access, *block.iter_vars[last - 1:last + 1])
                               for access in collect(block.body, (BufferLoad, BufferStore))):
        last -= 1
    return last


def _adjoin(access, outer, inner):
    """Whether two variables index whole rows of a buffer, one after the other, or none of it."""
    used = [n for n, index in enumerate(access.indices) if uses(index, {outer.var, inner.var})]
    if len(used) != 2:
        return not used
    n, m = used
    return (m == n + 1 and access.indices[n] is outer.var and access.indices[m] is inner.var
            and not access.buffer.strides and structural_equal(access.buffer.shape[m], inner.dom.extent))


def _is_long(cpu, run):
    extents = [iv.dom.extent for iv in run]
    return all(isinstance(e, IntImm) for e in extents) and prod(e.value for e in extents) >= square_of(cpu)
