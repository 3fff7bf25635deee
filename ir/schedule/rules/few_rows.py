"""Products of few rows whose operands both have their terms in a row: sums in the lanes of vectors."""
from __future__ import annotations

from . import tiles
from .blocks import innermost, iter_vars, operand_loads, vectorizes
from .operands import makes_dots, sizes
from .registers import in_registers, reduce_lanes, steps, turn_of
from .threads import parallel_nest

DOTS_ROWS = 4  # of a tile of dot products: all rows come from the second cache for each tile of columns


def dots(sch, cpu, anchor, epilogue):
    """A product both of whose operands have their terms in a row, as few rows of the first one ask for:

        for tile of columns (parallel): for tile of rows: sums = 0;  for vector of k: sums += a * b;  add up lanes
    """
    block = sch.get_block(anchor)
    rows, depth, columns = sizes(sch.get(block))
    if not _is_of_dots(sch.get(block)) or not rows or not columns or not makes_dots(cpu, rows, depth):
        return False
    work, (*batch, m, n) = steps(sch.get(block)), sch.get_loops(epilogue)
    tile = tiles.choose_product(cpu.without("by_element"), columns, min(rows, DOTS_ROWS))
    mo, mi = sch.split(m, [None, tile.rows])
    no, ni = sch.split(n, [None, tile.vectors])
    sch.reorder(*batch, no, mo, mi, ni)
    sch.compute_at(block, mo, preserve_unit_loops=True)
    sch.set_scope(block, 0, "local")
    *_, k = sch.get_loops(block)
    _, lanes = sch.split(k, [None, cpu.lanes])
    part = sch.rfactor(lanes, -1)
    sch.set_scope(part, 0, "local")
    *_, pm, pn, k, lane = sch.get_loops(part)
    sch.reorder(k, pm, pn, lane)
    in_registers(sch, (pm, pn), lane)
    sch.decompose_reduction(part, k)
    turn_of(sch, cpu, part, (k,))
    *_, sm, sn, tree = sch.get_loops(block)
    for loop in (sm, sn, mi, ni):
        sch.unroll(loop)
    reduce_lanes(sch, block, tree)
    parallel_nest(sch, cpu, [*batch, no], work)
    return True


def _is_of_dots(block):
    (k,) = iter_vars(block, "reduce")
    return vectorizes(block) and all(innermost(load) is k.var for load in operand_loads(block))
