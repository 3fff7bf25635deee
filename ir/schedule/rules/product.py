"""Products: a tile of accumulators stays in registers over the whole reduction."""
from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ...expr import IntImm
from ...relax.arithmetic.short import ROWS as SHORT_ROWS
from ...tir.hints import PREFETCH
from ..blocks import uses
from ..handles import BlockRV
from ..primitives.sample import divisors
from . import tiles
from .blocks import SYMBOLIC, find_block, innermost, iter_vars, operand_loads, static, static_extent, vectorizes
from .few_rows import dots
from .operands import (choose_copies, columns_copy, lies_across, pack_columns, pack_rows, sizes,
                       stages, term_count, wide_operand)
from .registers import (PACKED, anchored, by_element, in_registers, lane_by_lane, ranks, steps,
                        through_memory, turn_of)
from .short_terms import groups_of, scaled_groups, short_cpu
from .threads import COST_OF_LOOP, parallel_nest

GROUP = 0.3  # of the second cache, for columns that are copied at a time
LEAST_GROUPS = 8  # that threads share
MAX_DEPTH = 1024  # terms of a sum that are added up in one go, where rows are many
LEAST_BLOCK = 4  # tiles of rows that share a panel of columns, at least, where there are many


def product(sch, cpu):
    """A product of a packed operand, or of a row-major one wide enough for vectors: accumulators of a tile live in
    registers over the whole reduction.

        for tile (parallel):  acc = 0;  for k: for rows: for vectors: acc += broadcast(a) * b;  epilogue(acc)
    """
    def fits(block):
        return _is_packed_product(block) or _is_plain_product(block, cpu)

    anchor = find_block(sch, fits) if cpu.lanes > 1 else None
    found = anchored(sch, fits, keep=stages(sch, anchor) | {SHORT_ROWS}) if anchor else None
    if found is None:
        return False
    groups = groups_of(sch, sch.get_block(anchor))
    copied, wide, tall = (False, None, None) if groups else choose_copies(sch, cpu, anchor)
    if not fits(sch.get(sch.get_block(anchor))):
        return dots(sch, cpu, *found)
    plan = _plan(sch, cpu, *found, groups)
    copy = columns_copy(sch, anchor, wide) if copied else None
    if tall:
        pack_rows(sch, cpu, tall, plan.tile.rows)
    _tile(sch, cpu, *found, plan, copy)
    return True


# ---------------------------------------------------------------- what fits

def _is_packed_product(block):
    return block.name_hint.endswith(PACKED) and ranks(block)[0] >= 3 and ranks(block)[1] == 1


def _is_plain_product(block, cpu):
    """A product whose second operand is an activation: row-major and wide enough for vectors.

    That is, the last spatial variable, the column, only runs along the innermost dimension of one operand, which does
    not depend on the row.
    """
    if block.init is None or ranks(block)[0] < 2 or ranks(block)[1] != 1 or not vectorizes(block):
        return False
    *_, row, column = iter_vars(block, "spatial")
    loads = operand_loads(block)
    wide = [load for load in loads if uses(load.indices, {column.var})]
    return (len(loads) == 2 and len(wide) == 1 and len(wide[0].indices) > 1 and innermost(wide[0]) is column.var
            and not uses(wide[0].indices, {row.var})
            and isinstance(column.dom.extent, IntImm) and column.dom.extent.value >= cpu.lanes)


# ---------------------------------------------------------------- plans

@dataclass(frozen=True)
class _Plan:
    """How a product is cut: the sums of `tile`, rows x vectors of columns, are in registers; `block` tiles of rows stay
    in the second cache while all columns pass; sums are made in `parts` turns.

    packed: columns come in panels, padded to whole ones. border: columns end within a vector. through: the epilogue
    reads the sums from memory. groups: the block that adds up groups of short weights; None for whole ones."""

    tile: tiles.Tile
    block: int
    parts: int
    packed: bool
    border: bool
    through: bool
    groups: BlockRV | None


def _plan(sch, cpu, anchor, epilogue, groups):
    *_, m, n = sch.get_loops(epilogue)
    rows, columns, depth = static_extent(sch, m), static_extent(sch, n), term_count(sch, anchor)
    packed, lanes = anchor.endswith(PACKED), cpu.lanes
    # Packed columns are padded to whole panels. Others may not be read past the last one: tiles are whole, and what is
    # less than a vector is a tile of its own, next to tiles of one vector.
    border = not packed and columns % lanes > 0
    vectors = _panel(sch, anchor) // lanes if packed else None
    cpu = short_cpu(cpu) if groups else by_element(cpu, sch.get(sch.get_block(anchor)))[0]
    tile = tiles.choose_product(cpu, 1 if border else -(-columns // lanes), rows, dividing=not packed, vectors=vectors)
    in_vectors = vectorizes(sch.get(epilogue))
    parts = 1
    if rows < SYMBOLIC and columns % (tile.vectors * lanes) == 0 and in_vectors:
        parts = _parts(cpu, rows, columns, depth)
    block = _tiles_in_block(cpu, rows, tile.rows, depth // parts)
    # Two borders, of blocks of rows and of columns, would make one copy of the loops whose sums have conditions.
    uneven = block * tile.rows < rows and rows % (block * tile.rows) > 0
    ragged = packed and columns % (tile.vectors * lanes) > 0 and uneven
    return _Plan(tile, block, parts, packed, border, through=not in_vectors or ragged, groups=groups)


def _panel(sch, anchor):
    """Columns of a panel of a packed operand."""
    return iter_vars(sch.get(sch.get_block(anchor)), "spatial")[-1].dom.extent.value


def _parts(cpu, rows, columns, depth):
    """Into how many parts of equal length the sums are cut: several where the rows of whole sums do not fit the second
    cache, so that columns would have to come again for blocks of a few rows, but all the sums do, which each part reads
    and writes."""
    if 4 * rows * depth <= _room(cpu) or rows < cpu.cost("copy.rows") or 4 * rows * columns > cpu.l2_bytes:
        return 1
    fitting = [p for p in range(2, 9) if depth % p == 0 and MAX_DEPTH // 2 <= depth // p <= MAX_DEPTH]
    return next((p for p in fitting if 4 * rows * depth // p <= _room(cpu)), (*fitting, 1)[0])


def _tiles_in_block(cpu, rows, tile_rows, depth):
    """How many tiles of rows a block has: all, if these stay in the second cache, together with two panels of columns;
    else about as many as take two thirds of that, if possible so that blocks are of equal size."""
    tiles_of_rows, most = -(-rows // tile_rows), max(_room(cpu) // (4 * depth * tile_rows), LEAST_BLOCK)
    if tiles_of_rows <= most:
        return tiles_of_rows
    best = max(most * 2 // 3, LEAST_BLOCK)
    even = [n for n in range(best // 2 + 1, most + 1) if tiles_of_rows % n == 0]
    return min(even, key=lambda n: abs(n - best), default=best)


def _group(sch, cpu, anchor, plan, copy):
    """How many panels of columns are copied at a time, to the second cache, where they meet all rows; 0 where all are
    copied before, since rows come in several blocks, or leave no room."""
    rows, depth, columns = sizes(sch.get(sch.get_block(anchor)))
    panel = plan.tile.vectors * cpu.lanes
    panels, one_block = -(-columns // panel), plan.parts == 1 and rows <= plan.block * plan.tile.rows
    if not one_block or 4 * rows * depth > cpu.l2_bytes // 2 or lies_across(sch, sch.get(copy).name_hint):
        return 0
    most = panels // LEAST_GROUPS if cpu.parallel else panels
    return max((g for g in divisors(panels) if g <= most and g * panel >= cpu.cost("stream.least_chunk")
                and 4 * g * panel * depth <= cpu.l2_bytes * GROUP), default=0)


def _room(cpu):
    """Bytes of rows that stay in the second cache."""
    return cpu.l2_bytes * 3 // 4


# ---------------------------------------------------------------- tiles

def _tile(sch, cpu, anchor, epilogue, plan, copy):
    """Cut the output into tiles, and compute the sums of each in it. Sums made in parts are added up in memory, by
    tiles too, and the epilogue runs after the last part:

        C = 0;  for part of k: for tile (parallel):  acc = 0;  for k in part: ...: acc += a * b;  C += acc

    copy: the block that copies columns to panels, if one does: before, or a group of panels at a time:

        for group (parallel):  panels = b;  for panel, rows: acc = 0;  for k: ...: acc += a * panels;  epilogue(acc)
    """
    block = sch.get_block(anchor)
    work, rows = steps(sch.get(plan.groups or block)), static_extent(sch, sch.get_loops(epilogue)[-2])
    group = _group(sch, cpu, anchor, plan, copy) if copy else 0
    if copy and not group:
        pack_columns(sch, cpu, copy, plan.tile.vectors)
    if plan.parts > 1:
        target = block
        block, *batch, m, n, turn = _in_parts(sch, target, plan)
    else:
        *batch, m, n, turn = *sch.get_loops(epilogue), None
    no, nv, nl = sch.split(n, [None, plan.tile.vectors, cpu.lanes])
    mb, mo, mi = sch.split(m, [None, plan.block, plan.tile.rows])
    # Column tiles share their operand, so they are outside of row tiles, but a loop with a border is innermost.
    outer, inner = ([mb, mo], [no]) if plan.border else ([mb, no], [mo])
    if group:
        ng, no = sch.split(no, [None, group])
        outer, inner = [mb, ng], [no, mo]
    sch.reorder(*batch, *([turn] if turn else []), *outer, *inner, mi, nv, nl)
    sch.compute_at(block, inner[-1], preserve_unit_loops=True)
    if plan.through:
        sums = through_memory(sch, epilogue, anchor, inner[-1])
        in_registers(sch, *_points(sch, cpu, sch.get_loops(sums), plan))
    else:
        in_registers(sch, (mi, nv), nl)
    _sums(sch, cpu, block, plan, prefetch=(plan.packed or copy and not group) and rows > plan.tile.rows)
    if group:
        pack_columns(sch, cpu, copy, plan.tile.vectors, ng)
    serial = plan.border and rows % plan.tile.rows > 0  # borders both of rows and of columns
    parallel_nest(sch, cpu, batch if serial else [*batch, *outer], work)
    if turn:
        _add_up(sch, cpu, target, epilogue, turn)


def _add_up(sch, cpu, sums, epilogue, turn):
    """Sums made in parts begin at 0, and the epilogue is a nest of its own."""
    sch.decompose_reduction(sums, turn)
    *outer, n = sch.get_loops(epilogue)
    _, nl = sch.split(n, [None, cpu.lanes])
    sch.vectorize(nl)
    parallel_nest(sch, cpu, outer, steps(sch.get(epilogue)) * COST_OF_LOOP)


def _in_parts(sch, block, plan):
    """The block that makes a part of the sums, and the loops of the additions: over batches, rows, columns, parts."""
    *_, k = sch.get_loops(block)
    kp, _ = sch.split(k, [plan.parts, None])
    part = sch.rfactor(kp, 0)
    sch.set_scope(block, 0, "global")  # all sums, not those of a tile
    *loops, turn = sch.get_loops(block)
    if plan.packed:
        *loops, panel, column = loops
        loops.append(sch.fuse(panel, column))
    return part, *loops, turn


def _sums(sch, cpu, block, plan, prefetch):
    """The loops of a tile of sums: in registers, over the terms."""
    sch.set_scope(block, 0, "local")
    *loops, k = sch.get_loops(block)
    if plan.groups:
        (rows, *vectors), lanes = _points(sch, cpu, loops, plan)
        scaled_groups(sch, cpu, block, plan.groups, k, [rows], vectors, lanes)
        return
    chains = []
    parts = cpu.cost("fma_latency")  # of a sum, that do not wait for one another
    if plan.tile.accumulators <= 2 and static_extent(sch, k) % parts == 0:
        block, *loops, k, chain = _in_chains(sch, cpu, block, plan, k, parts)
        chains = [chain]
    points, lanes = _points(sch, cpu, loops, plan)
    (k,), lane = lane_by_lane(sch, cpu, [k], by_element(cpu, sch.get(block))[1])
    sch.reorder(k, *lane, *chains, *points, lanes)
    in_registers(sch, (*chains, *points), lanes)
    sch.decompose_reduction(block, k)
    _prefetch(sch, cpu, block, turn_of(sch, cpu, block, (k,)), prefetch)


def _in_chains(sch, cpu, block, plan, k, count):
    """Cut few sums, each of which would wait for its last term, into `count` that are added up at the end. Returns
    the block of these, and its loops."""
    _, chain = sch.split(k, [None, count])
    parts = sch.rfactor(chain, 0)
    sch.set_scope(parts, 0, "local")
    *loops, chain = sch.get_loops(block)
    points, lanes = _points(sch, cpu, loops, plan)
    sch.reorder(chain, *points, lanes)
    in_registers(sch, (chain, *points), lanes)
    sch.decompose_reduction(block, chain)
    return parts, *sch.get_loops(parts)


def _points(sch, cpu, loops, plan):
    """((loops over rows, a panel and vectors), loop over lanes) of a nest over a tile of the product."""
    vectors, lanes = sch.split(loops[-1], [None, cpu.lanes])
    return (*loops[-3 if plan.packed else -2:-1], vectors), lanes


def _prefetch(sch, cpu, block, k, worth):
    """Bring the next panel of columns into the second cache while this one is used, where all of them do not fit."""
    operand = wide_operand(sch.get(block)).buffer
    if worth and 4 * prod(static(e) for e in operand.shape[-3:]) > cpu.l2_bytes // 2:
        sch.annotate(k, PREFETCH, [operand.name])
