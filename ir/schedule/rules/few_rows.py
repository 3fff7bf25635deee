"""Products of few rows whose operands both have their terms in a row: sums in the lanes of vectors."""
from __future__ import annotations

from .blocks import innermost, iter_vars, operand_loads, vectorizes
from .operands import makes_dots, sizes
from .registers import in_registers, reduce_lanes, steps, turn_of
from .threads import parallel_nest


def makes_dot_products(sch, target, anchor):
    """Whether `dots` is for a product."""
    block = sch.get(sch.get_block(anchor))
    (k,), (rows, depth, columns) = iter_vars(block, "reduce"), sizes(block)
    return (vectorizes(block) and all(innermost(load) is k.var for load in operand_loads(block))
            and bool(rows and columns) and makes_dots(target, rows, depth))


def dots(sch, anchor, epilogue, plan, target):
    """A product both of whose operands have their terms in a row, as few rows of the first one ask for:

        for tile of columns (parallel): for tile of rows: sums = 0;  for vector of k: sums += a * b;  add up lanes
    """
    block, tile = sch.get_block(anchor), plan.tile
    work, (*batch, m, n) = steps(sch.get(block)), sch.get_loops(epilogue)
    mo, mi = sch.split(m, [None, tile.rows])
    no, ni = sch.split(n, [None, tile.vectors])
    sch.reorder(*batch, no, mo, mi, ni)
    sch.compute_at(block, mo, preserve_unit_loops=True)
    sch.set_scope(block, 0, "local")
    *_, k = sch.get_loops(block)
    _, lanes = sch.split(k, [None, target.lanes])
    part = sch.rfactor(lanes, -1)
    sch.set_scope(part, 0, "local")
    *_, pm, pn, k, lane = sch.get_loops(part)
    sch.reorder(k, pm, pn, lane)
    in_registers(sch, (pm, pn), lane)
    sch.decompose_reduction(part, k)
    turn_of(sch, target, part, (k,))
    *_, sm, sn, tree = sch.get_loops(block)
    for loop in (sm, sn, mi, ni):
        sch.unroll(loop)
    reduce_lanes(sch, block, tree)
    parallel_nest(sch, target, [*batch, no], work)
