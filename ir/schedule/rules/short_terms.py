"""Sums over weights that lie in fewer words than they are: where they pay, how a tile reads them."""
from __future__ import annotations

from dataclasses import dataclass

from ...expr import Call
from ...node import collect
from ...relax.ops import matmul_short, short_weights
from ...tir.hints import EXPLICIT
from ...tir.intrinsics import BIT_INTRINSICS
from ...tir.stmt import BufferLoad
from .registers import hold, in_registers, turn_of
from .tiles import FLOAT

MOST_NEAR = 8 << 20  # bytes of weights that a third cache may still hold after the rest of a network
WORTH = 0.95  # of the time of whole weights
REGISTERS = 2  # of those that operands have, for the words of a group beside one vector


@dataclass(frozen=True)
class Form:
    """So many terms of a group lie in so many words; of vectors, it takes so many cycles to make them, and each row so
    many multiply-adds."""

    terms: int
    words: int
    cycles: float
    multiply_adds: int


# Groups have a scale of their own, and operands of many rows are not all in registers.
FIXED = Form(matmul_short.TERMS, matmul_short.WORDS, 12, matmul_short.TERMS + 2)
FLOATS = Form(short_weights.TERMS, short_weights.WORDS, 2.2, short_weights.TERMS)


def worth(cpu, rows, depth, columns, form):
    """Whether a product of so many rows is faster with short weights of a form: it waits for them."""
    size = FLOAT * depth * columns
    if size <= cpu.l1_bytes:
        return False
    near = min(cpu.l3_bytes, MOST_NEAR)
    pace = cpu.cost("tile.panel_read" if size <= cpu.l2_bytes else "l3_read" if size <= near else "memory_read")
    read, adds = FLOAT * cpu.lanes / pace, cpu.cost("multiply_adds")
    whole = max(form.terms * rows / adds, form.terms * read)
    return max(form.multiply_adds * rows / adds + form.cycles, form.words * read) <= WORTH * whole


def short_cpu(cpu):
    """The cpu as tiles of short weights see it."""
    return cpu.without("by_element").sparing(REGISTERS)


def short_operand(block):
    """The buffer of short weights that a reduction reads; None where there is none."""
    loads = (load for call in collect(block.body, Call) if call.op.removeprefix("tir.") in BIT_INTRINSICS
             for load in collect(call, BufferLoad))
    return next((load.buffer for load in loads), None)


def groups_of(sch, block):
    """The block that adds up the groups of short weights that a reduction adds up; None where it has none."""
    return next((b for b in sch.get_producers(block) if short_operand(sch.get(b))), None)


def short_terms(sch, cpu, block, k, rows, vectors, lanes):
    """The loops of a tile of sums: each word is loaded once, to a register, for its own weight and the fourth.

        for k: for vectors:  words = weights;  for terms of a group: for rows: sums += broadcast(a) * weight of words

    The loops over rows and vectors are unrolled; the sums start before k.
    """
    k, terms = sch.split(k, [None, FLOATS.terms])
    sch.reorder(k, *vectors, terms, *rows, lanes)
    in_registers(sch, (*vectors, terms, *rows), lanes)
    sch.annotate(terms, EXPLICIT, 1)
    hold(sch, block, vectors[-1], [short_operand(sch.get(block))])
    sch.decompose_reduction(block, k)
    _turn_of(sch, cpu, block, k)


def scaled_groups(sch, cpu, block, groups, k, rows, vectors, lanes):
    """The loops of a tile of sums of groups whose scale comes after them:

        for k:  divided = a / divisor
                for vectors:  words = weights;  group = 0;  for terms: for rows: group += divided * weight of words
                              for rows: sums += group * scale
    """
    sch.reorder(k, *vectors, *rows, lanes)
    in_registers(sch, (*vectors, *rows), lanes)
    sch.compute_at(groups, vectors[-1], preserve_unit_loops=True)
    divided = sch.get_block(matmul_short.ROWS)
    sch.compute_at(divided, k, preserve_unit_loops=True)
    sch.vectorize(sch.get_loops(divided)[-1])
    for made in (groups, divided):
        sch.set_scope(made, 0, "local")
    *_, row, panel, group, lane, terms = sch.get_loops(groups)
    sch.reorder(terms, row, panel, group, lane)
    in_registers(sch, (terms, row, panel, group), lane)
    sch.annotate(terms, EXPLICIT, 1)
    hold(sch, groups, vectors[-1], [short_operand(sch.get(groups))])
    sch.decompose_reduction(groups, terms)
    sch.decompose_reduction(block, k)
    _turn_of(sch, cpu, block, k)


def _turn_of(sch, cpu, block, k):
    """Registers hold the elements that all vectors take, and a turn is long enough."""
    turn_of(sch, cpu, block, (k,), several=False)
