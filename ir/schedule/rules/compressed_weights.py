"""Sums over weights that lie in fewer words than they are: where they are profitable, how a tile reads them."""
from __future__ import annotations

from ...expr import Call
from ...node import collect
from ...relax.arithmetic.compressed import ROWS, TERMS, WORDS
from ...tir.hints import EXPLICIT
from ...tir.intrinsics import BIT_INTRINSICS
from ...tir.stmt import BufferLoad
from .registers import hold, in_registers, turn_of
from .tiles import FLOAT

MULTIPLY_ADDS = TERMS + 2  # of a row and a group, with the scale's, as operands of many rows are not all in registers


def is_profitable(target, rows, depth, columns):
    """Whether a product of so many rows is faster with compressed weights: it waits for them."""
    size = FLOAT * depth * columns
    if size <= target.l1_bytes:
        return False
    resident = min(target.l3_bytes, target.cost("compressed.most_l3"))
    pace = target.cost("tile.panel_read" if size <= target.l2_bytes else
                       "l3_read" if size <= resident else "memory_read")
    read, adds = FLOAT * target.lanes / pace, target.cost("multiply_adds")
    whole = max(TERMS * rows / adds, TERMS * read)
    compressed = max(MULTIPLY_ADDS * rows / adds + target.cost("compressed.unpack"), WORDS * read)
    return compressed <= target.cost("compressed.profitable") * whole


def compressed_operand(block):
    """The buffer of compressed weights that a reduction reads; None where there is none."""
    loads = (load for call in collect(block.body, Call) if call.op.removeprefix("tir.") in BIT_INTRINSICS
             for load in collect(call, BufferLoad))
    return next((load.buffer for load in loads), None)


def groups_of(sch, block):
    """The block that adds up the groups of compressed weights that a reduction adds up; None where it has none."""
    return next((b for b in sch.get_producers(block) if compressed_operand(sch.get(b))), None)


def scaled_groups(sch, target, block, groups, k, rows, vectors, lanes):
    """The loops of a tile of sums of groups whose scale comes after them:

        for k:  divided = a / divisor
                for vectors:  words = weights;  group = 0;  for terms: for rows: group += divided * weight of words
                              for rows: sums += group * scale
    """
    sch.reorder(k, *vectors, *rows, lanes)
    in_registers(sch, (*vectors, *rows), lanes)
    sch.compute_at(groups, vectors[-1], preserve_unit_loops=True)
    divided = sch.get_block(ROWS)
    sch.compute_at(divided, k, preserve_unit_loops=True)
    sch.vectorize(sch.get_loops(divided)[-1])
    for made in (groups, divided):
        sch.set_scope(made, 0, "local")
    *_, row, panel, group, lane, terms = sch.get_loops(groups)
    sch.reorder(terms, row, panel, group, lane)
    in_registers(sch, (terms, row, panel, group), lane)
    sch.annotate(terms, EXPLICIT, 1)
    hold(sch, groups, vectors[-1], [compressed_operand(sch.get(groups))])
    sch.decompose_reduction(groups, terms)
    sch.decompose_reduction(block, k)
    turn_of(sch, target, block, (k,), several=False)
