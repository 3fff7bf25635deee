"""Products: a tile of accumulators stays in registers over the whole reduction."""
from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import prod

from ...expr import IntImm, is_const_int
from ...relax.arithmetic.compressed import ROWS as COMPRESSED_ROWS
from ...tir.hints import PAIRS, PREFETCH
from ...tir.intrinsics import CONTRACTIONS
from ..blocks import uses
from ..plan import Match
from .blocks import find_block, innermost, iter_vars, operand_loads, static, static_extent, vectorizes
from .few_rows import dots, makes_dot_products
from .operands import (choose_copies, columns_copy, lies_across, pack_columns, pack_rows, stages, term_count,
                       wide_operand)
from .byte_tiles_of_unit import on_unit, reads_rows
from .product_plan import BLOCKS, COLUMNS, GROUPS, ROWS, UNIT, Product
from .registers import (PACKED, anchored, by_element, in_registers, lane_by_lane, ranks, steps,
                        through_memory, turn_of, word_by_word, words_by_lane)
from .compressed_weights import groups_of, scaled_groups
from .threads import COST_OF_LOOP, parallel_nest


def product(sch, target):
    """A product of a packed operand, or of a row-major one wide enough for vectors: accumulators of a tile live in
    registers over the whole reduction.

        for tile (parallel):  acc = 0;  for k: for rows: for vectors: acc += broadcast(a) * b;  epilogue(acc)
    """
    def fits(block):
        return _is_packed_product(block) or _is_plain_product(block, target)

    anchor = find_block(sch, fits) if target.has_tiles else None
    found = anchored(sch, fits, keep=stages(sch, anchor) | {COMPRESSED_ROWS}) if anchor else None
    if found is None:
        return None
    groups = groups_of(sch, sch.get_block(anchor))
    copied, wide, tall = (False, None, None) if groups else choose_copies(sch, target, anchor)
    kernel = _kernel(sch, target, *found, groups, copied, wide, tall)
    if not fits(sch.get(sch.get_block(anchor))):
        fits_dots = makes_dot_products(sch, target, anchor)
        return Match(replace(kernel, dots=True), partial(dots, sch, *found)) if fits_dots else None
    return Match(kernel, partial(_apply, sch, kernel, *found, groups, wide, tall))


def _kernel(sch, target, anchor, epilogue, groups, copied, wide, tall):
    *batch, m, n = sch.get_loops(epilogue)
    block, terms = sch.get(sch.get_block(anchor)), term_count(sch, anchor)
    plain, dot = not anchor.endswith(PACKED), anchor.removesuffix(PACKED)
    return Product(
        static_extent(sch, m), terms, static_extent(sch, n),
        panel=0 if plain else iter_vars(block, "spatial")[-1].dom.extent.value,
        by_element=by_element(target, block)[0].by_element or words_by_lane(target, dot, terms),
        compressed=groups is not None,
        in_vectors=vectorizes(sch.get(epilogue)), copied=copied,
        across=copied and wide is not None and lies_across(sch, wide), tall=tall is not None,
        dot=dot if dot in CONTRACTIONS else "", made=not reads_rows(block), pairs=dot in CONTRACTIONS and _in_pairs(block),
        batch=prod(static_extent(sch, loop) for loop in batch), work=steps(sch.get(groups) if groups else block))


def _apply(sch, kernel, anchor, epilogue, groups, wide, tall, plan, target):
    if plan.algorithm == UNIT:
        return on_unit(sch, target, anchor, epilogue, kernel, plan)
    copy = columns_copy(sch, anchor, wide) if kernel.copied else None
    if tall:
        pack_rows(sch, target, tall, plan.tile.rows)
    _tile(sch, target, anchor, epilogue, kernel, plan, groups, copy)


def _in_pairs(block):
    """Whether the words of a column lie in pairs, twice as many side by side as a panel has columns."""
    return not is_const_int(wide_operand(block).buffer.shape[-1], iter_vars(block, "spatial")[-1].dom.extent.value)


# ---------------------------------------------------------------- what fits

def _is_packed_product(block):
    return block.name_hint.endswith(PACKED) and ranks(block)[0] >= 3 and ranks(block)[1] == 1


def _is_plain_product(block, target):
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
            and isinstance(column.dom.extent, IntImm) and column.dom.extent.value >= target.lanes)


# ---------------------------------------------------------------- tiles

def _tile(sch, target, anchor, epilogue, kernel, plan, groups, copy):
    """Cut the output into tiles, and compute the sums of each in it. Sums made in parts are added up in memory, by
    tiles too, and the epilogue runs after the last part:

        C = 0;  for part of k: for tile (parallel):  acc = 0;  for k in part: ...: acc += a * b;  C += acc

    copy: the block that copies columns to panels, if one does: before, or a group of panels at a time:

        for group (parallel):  panels = b;  for panel, rows: acc = 0;  for k: ...: acc += a * panels;  epilogue(acc)
    """
    block = sch.get_block(anchor)
    if copy and not plan.turn:
        pack_columns(sch, target, copy, plan.tile.vectors)
    if plan.parts > 1:
        anchor_block = block
        block, *batch, m, n, turn = _in_parts(sch, block, kernel, plan)
    else:
        *batch, m, n, turn = *sch.get_loops(epilogue), None
    no, nv, nl = sch.split(n, [None, plan.tile.vectors, target.lanes])
    mb, mo, mi = sch.split(m, [None, plan.block, plan.tile.rows])
    loops = {BLOCKS: mb, ROWS: mo, COLUMNS: no}
    if plan.turn:
        loops[GROUPS], loops[COLUMNS] = sch.split(no, [None, plan.turn])
    # Column tiles share their operand, so they are outside of row tiles, but a loop with a border is innermost.
    outer = [loops[name] for name in plan.order]
    sch.reorder(*batch, *([turn] if turn else []), *outer, mi, nv, nl)
    sch.compute_at(block, outer[-1], preserve_unit_loops=True)
    if kernel.through_memory(plan, target):
        sums = through_memory(sch, epilogue, anchor, outer[-1])
        in_registers(sch, *_points(sch, target, sch.get_loops(sums), kernel))
    else:
        in_registers(sch, (mi, nv), nl)
    several = (kernel.panel or copy and not plan.turn) and kernel.rows > plan.tile.rows
    _sums(sch, target, block, kernel, plan, groups, prefetch=several)
    if plan.turn:
        pack_columns(sch, target, copy, plan.tile.vectors, loops[GROUPS])
    parallel_nest(sch, target, batch if kernel.serial(plan, target) else [*batch, *outer[:2]], kernel.work)
    if turn:
        _add_up(sch, target, anchor_block, epilogue, turn)


def _add_up(sch, target, sums, epilogue, turn):
    """Sums made in parts begin at 0, and the epilogue is a nest of its own."""
    sch.decompose_reduction(sums, turn)
    *outer, n = sch.get_loops(epilogue)
    _, nl = sch.split(n, [None, target.lanes])
    sch.vectorize(nl)
    parallel_nest(sch, target, outer, steps(sch.get(epilogue)) * COST_OF_LOOP)


def _in_parts(sch, block, kernel, plan):
    """The block that makes a part of the sums, and the loops of the additions: over batches, rows, columns, parts."""
    *_, k = sch.get_loops(block)
    kp, _ = sch.split(k, [plan.parts, None])
    part = sch.rfactor(kp, 0)
    sch.set_scope(block, 0, "global")  # all sums, not those of a tile
    *loops, turn = sch.get_loops(block)
    if kernel.panel:
        *loops, panel, column = loops
        loops.append(sch.fuse(panel, column))
    return part, *loops, turn


def _sums(sch, target, block, kernel, plan, groups, prefetch):
    """The loops of a tile of sums: in registers, over the terms."""
    sch.set_scope(block, 0, "local")
    *loops, k = sch.get_loops(block)
    if groups:
        (rows, *vectors), lanes = _points(sch, target, loops, kernel)
        scaled_groups(sch, target, block, groups, k, [rows], vectors, lanes)
        return
    chains = []
    parts = target.cost("fma_latency")  # of a sum, that do not wait for one another
    if plan.tile.accumulators <= 2 and static_extent(sch, k) % parts == 0:
        block, *loops, k, chain = _in_chains(sch, target, block, kernel, k, parts)
        chains = [chain]
    points, lanes = _points(sch, target, loops, kernel)
    (k,), lane = lane_by_lane(sch, target, [k], by_element(target, sch.get(block))[1])
    if words_by_lane(target, kernel.dot, static_extent(sch, k)):
        k, *lane = word_by_word(sch, target, k)
    if kernel.dot in target.matrix_dots and lane:
        sch.annotate(k, PAIRS, 1)
    sch.reorder(k, *lane, *chains, *points, lanes)
    in_registers(sch, (*chains, *points), lanes)
    sch.decompose_reduction(block, k)
    _prefetch(sch, target, block, turn_of(sch, target, block, (k,)), prefetch)


def _in_chains(sch, target, block, kernel, k, count):
    """Cut few sums, each of which would wait for its last term, into `count` that are added up at the end. Returns
    the block of these, and its loops."""
    _, chain = sch.split(k, [None, count])
    parts = sch.rfactor(chain, 0)
    sch.set_scope(parts, 0, "local")
    *loops, chain = sch.get_loops(block)
    points, lanes = _points(sch, target, loops, kernel)
    sch.reorder(chain, *points, lanes)
    in_registers(sch, (chain, *points), lanes)
    sch.decompose_reduction(block, chain)
    return parts, *sch.get_loops(parts)


def _points(sch, target, loops, kernel):
    """((loops over rows, a panel and vectors), loop over lanes) of a nest over a tile of the product."""
    vectors, lanes = sch.split(loops[-1], [None, target.lanes])
    return (*loops[-3 if kernel.panel else -2:-1], vectors), lanes


def _prefetch(sch, target, block, k, several):
    """Bring the next panel of columns into L2 while this one is used, where all of them do not fit."""
    operand = wide_operand(sch.get(block)).buffer
    if several and 4 * prod(static(e) for e in operand.shape[-3:]) > target.l2_bytes // 2:
        sch.annotate(k, PREFETCH, [operand.name])
