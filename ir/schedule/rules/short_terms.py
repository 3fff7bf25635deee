"""Sums over weights four of which lie in three words (ops/short_weights.py): where they pay, how a tile reads them."""
from __future__ import annotations

from dataclasses import replace

from ...expr import Call
from ...node import collect
from ...relax.ops.short_weights import TERMS, WORDS
from ...tir.intrin import BIT_INTRINSICS
from ...tir.stmt import BufferLoad
from ...transform.unroll import EXPLICIT
from .registers import hold, in_registers, turn_of
from .tiles import FLOAT, NEAR_BYTES, SECOND_BYTES

MOST_NEAR = 8 << 20  # bytes of weights that a third cache may still hold after the rest of a network
# Cycles that it takes to make the four weights of a group, of vectors, of words.
FIXED, FLOATS = 8.4, 2.2
WORTH = 0.95  # of the time of whole weights
REGISTERS = 2  # of those that operands have, for the words of a group beside one vector


def worth(cpu, rows, depth, columns, cycles):
    """Whether a product of so many rows is faster with short weights, which take so many cycles: it waits for them."""
    size = FLOAT * depth * columns
    if not cpu.short_weights or size <= cpu.l1_bytes:
        return False
    near = min(cpu.l3_bytes, MOST_NEAR)
    pace = SECOND_BYTES if size <= cpu.l2_bytes else NEAR_BYTES if size <= near else cpu.memory_bytes
    multiply, read = TERMS * rows / cpu.multiply_adds, FLOAT * cpu.lanes / pace
    return max(multiply + cycles, WORDS * read) <= WORTH * max(multiply, TERMS * read)


def short_cpu(cpu):
    """The cpu as tiles of short weights see it."""
    return replace(cpu, by_element=False, registers=cpu.registers - REGISTERS)


def short_operand(block):
    """The buffer of short weights that a reduction reads; None where there is none."""
    loads = (load for call in collect(block.body, Call) if call.op.removeprefix("tir.") in BIT_INTRINSICS
             for load in collect(call, BufferLoad))
    return next((load.buffer for load in loads), None)


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
