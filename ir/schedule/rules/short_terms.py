"""Sums over constant weights of 24 bits (ops/short_floats.py): where they pay, and how a tile of registers reads them."""
from __future__ import annotations

from dataclasses import replace

from ...expr import Call
from ...node import collect
from ...relax.ops.short_floats import TERMS, WORDS
from ...transform.unroll import EXPLICIT
from .registers import hold, in_registers, turn_of
from .tiles import NEAR_BYTES

FLOAT = 4
SECOND_BYTES, MEMORY_BYTES = 28, 6  # a cycle, that a core reads from its second cache, and from memory
WIDEN = 2.4  # cycles, to make the fourth weight of a group
WORTH = 0.95  # of the time of whole weights
REGISTERS = 2  # of those that operands have, for the words of a group beside one vector


def worth(cpu, rows, depth, columns):
    """Whether a product of so many rows is faster with weights of 24 bits: it waits for them."""
    size = FLOAT * depth * columns
    if not cpu.short_weights or size <= cpu.l1_bytes:
        return False
    pace = SECOND_BYTES if size <= cpu.l2_bytes else NEAR_BYTES if size <= cpu.l3_bytes else MEMORY_BYTES
    multiply, read = TERMS * rows / cpu.multiply_adds, FLOAT * cpu.lanes / pace
    return max(multiply + WIDEN, WORDS * read) <= WORTH * max(multiply, TERMS * read)


def short_cpu(cpu):
    """The cpu as tiles see it whose weights are of 24 bits."""
    return replace(cpu, by_element=False, registers=cpu.registers - REGISTERS)


def short_operand(block):
    """The buffer of weights of 24 bits that a reduction reads; None where there is none."""
    carried = next((call for call in collect(block.body, Call) if call.op == "tir.low_bytes"), None)
    return carried.args[0].buffer if carried is not None else None


def short_terms(sch, cpu, block, k, rows, vectors, lanes):
    """The loops of a tile of sums: each word is loaded once, to a register, for its own weight and the fourth.

        for k: for vectors:  words = weights;  for terms of a group: for rows: sums += broadcast(a) * weight of words

    The loops over rows and vectors are unrolled; the sums start before k.
    """
    k, terms = sch.split(k, [None, TERMS])
    sch.reorder(k, *vectors, terms, *rows, lanes)
    in_registers(sch, (*vectors, terms, *rows), lanes)
    sch.annotate(terms, EXPLICIT, 1)
    hold(sch, block, vectors[-1], [short_operand(sch.get(block))])
    sch.decompose_reduction(block, k)
    # Registers hold the four elements that all vectors take, and a turn is long enough.
    turn_of(sch, replace(cpu, embeds_broadcast=False, small_tile=0), block, (k,))
