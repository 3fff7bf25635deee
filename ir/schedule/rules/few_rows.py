"""Products of few rows: what takes time is reading the other operand, once and in the order of memory."""
from __future__ import annotations

from math import prod

from ...expr import is_const_int
from ...tir.hints import PREFETCH
from .blocks import innermost, iter_vars, operand_loads, static_extent, vectorizes
from .operands import in_panels, makes_dots, sizes, wide_operand
from .registers import in_registers, reduce_lanes, steps, turn_of
from .threads import parallel_nest

VECTORS = 4  # of several rows, where memory passes beside multiply-adds, that meet terms of the other at a time


def stream(sch, cpu, plan, anchor, epilogue):
    """Add a few rows of the operand at a time to sums in the first cache, in chunks of columns:

        for chunk of columns (parallel):  sums = 0;  for few of k: for columns: for rows: sums += a * b;  epilogue(sums)
    """
    if plan.parts > 1:
        _stream_parts(sch, cpu, plan.parts, anchor, epilogue)
        return
    block = sch.get_block(anchor)
    work = steps(sch.get(block))
    *batch, m, n = sch.get_loops(epilogue)
    no, nv, nl = sch.split(n, [None, plan.turn // cpu.lanes, cpu.lanes])
    sch.reorder(*batch, no, m, nv, nl)
    sch.vectorize(nl)
    sch.compute_at(block, no, preserve_unit_loops=True)
    sch.set_scope(block, 0, "local")
    _add_up(sch, cpu, block, *sch.get_loops(block)[-3:])
    parallel_nest(sch, cpu, [*batch, no], work)


def _stream_parts(sch, cpu, parts, anchor, epilogue):
    """Sums of a part of the terms stay in the first cache of the thread that makes them:

        for part of k (parallel):  sums = 0;  for few of k: for columns: for rows: sums += a * b
        for columns:  epilogue(sums of all parts)
    """
    block = sch.get_block(anchor)
    work = steps(sch.get(block))
    some, _ = sch.split(sch.get_loops(block)[-1], [parts, None])
    part = sch.rfactor(some, 0)
    sch.set_scope(part, 0, "global")
    *outer, m, n, some, k = sch.get_loops(part)
    sch.reorder(some, *outer, m, n, k)
    _add_up(sch, cpu, part, m, n, k)
    nv, nl = sch.split(sch.get_loops(epilogue)[-1], [None, cpu.lanes])
    sch.compute_at(block, nv, preserve_unit_loops=True)
    sch.set_scope(block, 0, "local")
    turn, *_, lane = sch.get_loops(block)[-3:]
    in_registers(sch, (turn,), lane)
    sch.vectorize(nl)
    sch.decompose_reduction(block, turn)
    parallel_nest(sch, cpu, [some], work)


def _add_up(sch, cpu, block, m, n, k):
    """Sums of rows and columns, some terms at a time. More rows have more elements than registers hold in all lanes,
    which compilers keep on the stack: squares of terms and vectors meet each. What comes next is asked for meanwhile;
    for few rows, only if it is in memory: it would delay a third cache.

    Sums of one turn lie side by side. Rows of a page would let each load wait for the store before, of a row whose
    place in its page is the same: up to four times as long, as the operand's place and the stack's have it."""
    least = cpu.cost("stream.few_rows")
    few, streams = static_extent(sch, m) <= least, cpu.cost("stream.beside") > 0
    squares = streams and not few and static_extent(sch, n) % (VECTORS * cpu.lanes) == 0
    nv, *vectors, nl = sch.split(n, [None, *[VECTORS] * squares, cpu.lanes])
    ko, ki = sch.split(k, [None, least if squares or streams and few else cpu.cost("stream.rows")])
    sch.reorder(ko, nv, m, ki, *vectors, nl)
    in_registers(sch, (m, ki, *vectors), nl)
    in_panels(sch, block, prod(static_extent(sch, loop) for loop in (*vectors, nl)))
    operand = wide_operand(sch.get(block)).buffer
    if streams and (squares or not _is_near(cpu, operand)):
        sch.annotate(nv, PREFETCH, [operand.name])
    sch.decompose_reduction(block, ko)


def _is_near(cpu, buffer):
    return all(map(is_const_int, buffer.shape)) and 4 * prod(d.value for d in buffer.shape) <= cpu.l3_bytes


def makes_dot_products(sch, cpu, anchor):
    """Whether `dots` is for a product."""
    block = sch.get(sch.get_block(anchor))
    (k,), (rows, depth, columns) = iter_vars(block, "reduce"), sizes(block)
    return (vectorizes(block) and all(innermost(load) is k.var for load in operand_loads(block))
            and bool(rows and columns) and makes_dots(cpu, rows, depth))


def dots(sch, anchor, epilogue, plan, cpu):
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
