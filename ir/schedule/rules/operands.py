"""Operands of products: which of them are copied to panels before, which are read as they lie, and how they are copied.

A product may come with stages that compute an operand, element by element: a permutation of axes, say. Where an operand
is copied anyway, such a stage is the copy; else it is inlined, and the product reads what the stage reads.
"""
from __future__ import annotations

from ...expr import IntImm
from ...node import collect
from ...tir.index_map import IndexMap
from ...tir.stmt import BufferLoad
from ..blocks import uses
from .blocks import blocks, innermost, iter_vars, operand_loads, place_of, vectorizes
from .registers import PACKED
from .roles import PREPARED
from .threads import COST_OF_LOOP, parallel_nest
from .transpose import in_squares, square_of


# ---------------------------------------------------------------- what is profitable

def packs_columns(target, rows, depth, columns, across):
    """Whether a second operand of so many rows (depth) and columns is copied to panels: it is read often enough, and
    not in L1 anyway, or lies across: its columns are rows in memory. Panels have no part of a vector. A size of 0 is
    one that only a run knows: where the rows are such, what lies across would be copied anyway."""
    often = rows >= target.cost("copy.rows") or not rows and across
    return all((often, depth, columns)) and columns % target.lanes == 0 and (
        across or 4 * depth * columns > target.l1_bytes)


def packs_rows(target, rows, depth):
    """Whether a first operand that lies across is copied to panels: L1 does not hold it beside columns."""
    return 4 * rows * depth > target.l1_bytes // 2


def makes_dots(target, rows, depth):
    """Whether the sums of a product, both of whose operands have their terms in a row, are made in the lanes of
    vectors: rows are few, and a vector is filled several times."""
    return rows < target.cost("copy.rows") and depth >= 2 * target.lanes


# ---------------------------------------------------------------- stages

def wide_operand(block):
    """The load of the operand that is read in vectors: the last spatial variable runs along it."""
    *_, column = iter_vars(block, "spatial")
    return next(load for load in operand_loads(block) if uses(load.indices, {column.var}))


def tall_operand(block):
    """The load of the other operand, which may be of the same buffer."""
    *_, column = iter_vars(block, "spatial")
    return next(load for load in operand_loads(block) if not uses(load.indices, {column.var}))


def stage_of(sch, load):
    """The name of the block that computes an operand, element by element; None for a parameter or a sum."""
    return next((b.name_hint for b in blocks(sch) if b.init is None and b.writes[0].buffer is load.buffer), None)


def lies_across(sch, stage):
    """Whether a stage reads memory across its last variable: along the one before it."""
    block = sch.get(sch.get_block(stage))
    *_, first, last = (iv.var for iv in block.iter_vars)
    return any(innermost(load) is first and uses(load.indices[:-1], {last})
               for load in collect(block.body, BufferLoad))


def stages(sch, anchor):
    """The blocks that compute what a product reads, as it reads it."""
    return {stage_of(sch, load) for load in operand_loads(sch.get(sch.get_block(anchor)))} - {None}


def choose_copies(sch, target, anchor):
    """(whether the second operand is copied to panels, the stage that computes it, the stage of the first operand, if
    that is copied), None where there is no such stage. Other stages are inlined, but for rows that an arithmetic
    prepared."""
    block = sch.get(sch.get_block(anchor))
    rows, depth, columns = sizes(block)
    (k,), load, other = iter_vars(block, "reduce"), wide_operand(block), tall_operand(block)
    wide, tall = stage_of(sch, load), stage_of(sch, other)
    copied = not anchor.endswith(PACKED) and load.indices[-2] is k.var and (
        packs_columns(target, rows, depth, columns, wide is not None and lies_across(sch, wide)))
    if wide and not copied:
        sch.compute_inline(sch.get_block(wide))
    if tall and not (depth and rows and lies_across(sch, tall) and packs_rows(target, rows, depth)):
        if not tall.endswith(PREPARED):
            sch.compute_inline(sch.get_block(tall))
        tall = None
    return copied, wide, tall


def sizes(block):
    """(rows, depth, columns) of a product; of a packed one the columns are those of a panel. 0 for symbolic ones."""
    *_, row, column = iter_vars(block, "spatial")
    if block.name_hint.endswith(PACKED):
        *_, row, _, column = iter_vars(block, "spatial")
    (k,) = iter_vars(block, "reduce")
    return [iv.dom.extent.value if isinstance(iv.dom.extent, IntImm) else 0 for iv in (row, k, column)]


def term_count(sch, anchor):
    """How many terms every sum of a product has."""
    _, depth, _ = sizes(sch.get(sch.get_block(anchor)))
    return depth or 1 << 10


# ---------------------------------------------------------------- copies

def columns_copy(sch, anchor, stage):
    """The block that copies a row-major operand [..., k, n]: `stage`, which computes it; None for a parameter."""
    if stage is not None:
        return sch.get_block(stage)
    block = sch.get(sch.get_block(anchor))
    return sch.cache_read(sch.get_block(anchor), place_of(block, wide_operand(block).buffer), "global")


def pack_columns(sch, target, copy, vectors, at=None):
    """Lay what a block copies out in panels [..., n / tile, k, tile], so that a tile's columns are one piece of memory,
    without a page and a few cache lines a row. at: a loop in whose iterations the panels are copied that each of them
    reads; None: all panels before."""
    panel, buffer = vectors * target.lanes, sch.get(copy).writes[0].buffer
    across = lies_across(sch, sch.get(copy).name_hint)
    if at is not None:
        sch.compute_at(copy, at, preserve_unit_loops=True)
    in_panels(sch, copy, panel)
    *batch, k, n = sch.get_loops(copy)
    if across:
        ko, no, inner = in_squares(sch, target, copy, k, n)
        sch.reorder(no, ko, *inner)
        outer = [*batch, no]
    else:
        no, nv, nl = sch.split(n, [None, vectors, target.lanes])
        sch.reorder(k, no, nv, nl)  # rows lie in pages, columns of one panel in as many as there are rows
        outer = [*batch, k]
        if vectorizes(sch.get(copy)):
            sch.vectorize(nl)
    if at is None:
        parallel_nest(sch, target, outer, COST_OF_LOOP * buffer.shape[-2].value * buffer.shape[-1].value)


def in_panels(sch, block, columns):
    """Lay what a block writes, [..., m, n], out in panels [..., n / columns, m, columns]."""
    sch.transform_layout(block, ("write", 0), IndexMap.from_func(
        lambda *i: (*i[:-2], i[-1] // columns, i[-2], i[-1] % columns), len(sch.get(block).writes[0].buffer.shape)))


def pack_rows(sch, target, stage, rows):
    """Copy an operand that lies across, [..., m, k], to panels [..., m / rows, k, rows]: the rows of a tile, for one
    term after the other."""
    copy = sch.get_block(stage)
    buffer = sch.get(copy).writes[0].buffer
    whole = buffer.shape[-2].value % rows == 0
    sch.transform_layout(copy, ("write", 0), IndexMap.from_func(
        lambda *i: (*i[:-2], i[-2] // rows, i[-1], i[-2] % rows), len(buffer.shape)), None if whole else 0.0)
    *batch, m, k = sch.get_loops(copy)
    mo, mi = sch.split(m, [None, rows])
    ko, ki = sch.split(k, [None, square_of(target)])
    sch.reorder(*batch, ko, mo, ki, mi)
    sch.vectorize(mi)
    parallel_nest(sch, target, [*batch, ko], COST_OF_LOOP * buffer.shape[-2].value * buffer.shape[-1].value)
