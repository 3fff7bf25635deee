"""Products: a tile of accumulators stays in registers over the whole reduction."""
from __future__ import annotations

from math import prod

from ...expr import IntImm
from ...tir.index_map import IndexMap
from ..blocks import uses
from . import tiles
from .blocks import iter_vars, operand_loads, static_extent, vectorizes
from .registers import (PACKED, anchored, by_element, in_registers, keep_rolled, lane_by_lane, ranks, steps,
                        through_memory)
from .threads import COST_OF_LOOP, parallel_nest


MAX_DEPTH = 1024  # terms of a sum that are added up in one go, where rows are many
SYMBOLIC = 1 << 20  # see static_extent
MIN_PACKED_ROWS = 32  # a copy costs about as much as this many rows of the product


def product(sch, cpu):
    """A product of a packed operand, or of a row-major one wide enough for vectors: accumulators of a tile live in
    registers over the whole reduction.

        for tile (parallel):  acc = 0;  for k: for rows: for vectors: acc += broadcast(a) * b;  epilogue(acc)
    """
    if cpu.lanes == 1:
        return False
    found = anchored(sch, lambda block: _is_packed_product(block) or _is_plain_product(block, cpu))
    if found is None:
        return False
    _pack(sch, cpu, *found)
    parts = _parts(sch, cpu, *found)
    if parts > 1:
        _tile_in_parts(sch, cpu, *found, parts)
    else:
        _tile_product(sch, cpu, *found)
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
    return (len(loads) == 2 and len(wide) == 1 and wide[0].indices[-1] is column.var
            and not uses(wide[0].indices, {row.var})
            and isinstance(column.dom.extent, IntImm) and column.dom.extent.value >= cpu.lanes)


def _wide_operand(block):
    """The load of the operand that is read in vectors: the last spatial variable runs along it."""
    *_, column = iter_vars(block, "spatial")
    return next(load for load in operand_loads(block) if uses(load.indices, {column.var}))


# ---------------------------------------------------------------- packing

def _pack(sch, cpu, anchor, epilogue):
    """Copy a row-major operand [..., k, n] to [..., n / lanes, k, lanes] where it is read often enough and not in the
    first cache anyway: a panel of columns is then one piece of memory, without a page and a few cache lines a row."""
    block = sch.get(sch.get_block(anchor))
    *_, row, column = iter_vars(block, "spatial")
    (k,) = iter_vars(block, "reduce")
    sizes = [iv.dom.extent.value if isinstance(iv.dom.extent, IntImm) else None for iv in (row, k, column)]
    if anchor.endswith(PACKED) or None in sizes or sizes[2] % cpu.lanes:
        return
    rows, depth, columns = sizes
    operand = _wide_operand(block)
    if rows < MIN_PACKED_ROWS or 4 * depth * columns <= cpu.l1_bytes or operand.indices[-2] is not k.var:
        return
    lanes = cpu.lanes
    index = next(n for n, r in enumerate(block.reads) if r.buffer is operand.buffer)
    copy = sch.cache_read(sch.get_block(anchor), index, "global")
    sch.transform_layout(copy, ("write", 0), IndexMap.from_func(
        lambda *i: (*i[:-2], i[-1] // lanes, i[-2], i[-1] % lanes), len(operand.indices)))
    *batch, ck, cn = sch.get_loops(copy)
    vectors = next(v for v in (4, 3, 2, 1) if columns // lanes % v == 0)  # a row of several touches whole cache lines
    no, nv, nl = sch.split(cn, [None, vectors, lanes])
    sch.reorder(*batch, no, ck, nv, nl)
    sch.vectorize(nl)
    parallel_nest(sch, cpu, [*batch, no], depth * columns * COST_OF_LOOP)


# ---------------------------------------------------------------- tiles

def _tile_product(sch, cpu, anchor, epilogue):
    *batch, m, n = sch.get_loops(epilogue)
    rows, columns = static_extent(sch, m), static_extent(sch, n)
    packed, depth = anchor.endswith(PACKED), _depth(sch, anchor)
    # Packed columns are padded to whole vectors. Others may not be read past the last one: tiles are whole, and what is
    # less than a vector is a tile of its own, next to tiles of one vector.
    border = not packed and columns % cpu.lanes > 0
    cpu, _ = by_element(cpu, sch.get(sch.get_block(anchor)))
    tile = tiles.choose_product(cpu, 1 if border else -(-columns // cpu.lanes), rows, dividing=not packed)
    whole = columns % (tile.vectors * cpu.lanes) == 0
    no, nv, nl = sch.split(n, [None, tile.vectors, cpu.lanes])
    blocks = _row_blocks(cpu, rows, tile.rows, depth)
    mb, mo, mi = sch.split(m, [None, -(-rows // (blocks * tile.rows)), tile.rows])
    # Column tiles share their operand, so they are outside of row tiles, but a loop with a border is innermost and
    # serial: loop_partition peels its last iteration.
    outer, inner = ([mb, mo], no) if border else ([mb, no], mo)
    sch.reorder(*batch, *outer, inner, mi, nv, nl)
    block = sch.get_block(anchor)
    sch.compute_at(block, inner, preserve_unit_loops=True)
    if vectorizes(sch.get(epilogue)) and (whole or not packed):
        in_registers(sch, (mi, nv), nl)
    else:
        copy = through_memory(sch, epilogue, anchor, inner)
        in_registers(sch, *_product_loops(sch, cpu, sch.get_loops(copy), packed))
    _in_tile(sch, cpu, block, packed, rows > tile.rows)
    serial = border and rows % tile.rows > 0
    parallel_nest(sch, cpu, batch if serial else [*batch, *outer], steps(sch.get(block)))


# ---------------------------------------------------------------- long sums

def _parts(sch, cpu, anchor, epilogue):
    """Into how many parts of equal length the sums are cut: several where the rows of all columns' sums do not fit the
    second cache, and blocks of a few rows would have to stream the columns again and again."""
    *_, m, n = sch.get_loops(epilogue)
    rows, columns, depth = static_extent(sch, m), static_extent(sch, n), _depth(sch, anchor)
    short = rows < MIN_PACKED_ROWS or _row_blocks(cpu, rows, 1, depth) == 1
    if short or max(rows, columns) >= SYMBOLIC or columns % cpu.lanes or not vectorizes(sch.get(epilogue)):
        return 1
    return next((p for p in range(2, 9) if depth % p == 0 and MAX_DEPTH // 2 <= depth // p <= MAX_DEPTH), 1)


def _tile_in_parts(sch, cpu, anchor, epilogue, parts):
    """As _tile_product, where the sums are made in several turns over all tiles; the epilogue runs after the last.

        C = 0;  for part of k: for tile (parallel):  acc = 0;  for k in part: ...: acc += a * b;  C += acc
    """
    packed = anchor.endswith(PACKED)
    *_, k = sch.get_loops(sch.get_block(anchor))
    kp, _ = sch.split(k, [parts, None])
    block, total = sch.rfactor(kp, 0), sch.get_block(anchor)
    sch.set_scope(total, 0, "global")  # all sums, not those of a tile
    *batch, m, n = sch.get_loops(epilogue)
    rows, vectors = static_extent(sch, m), static_extent(sch, n) // cpu.lanes
    cpu, _ = by_element(cpu, sch.get(block))
    tile = tiles.choose_product(cpu, vectors, rows, dividing=True)
    *batch, m, n, kp = sch.get_loops(total) if not packed else _rows_and_columns(sch, total)
    if packed:
        no, nv = sch.split(n[0], [None, tile.vectors])
        nl = n[1]
    else:
        no, nv, nl = sch.split(n, [None, tile.vectors, cpu.lanes])
    blocks = _row_blocks(cpu, rows, tile.rows, _depth(sch, sch.get(block).name_hint))
    mb, mo, mi = sch.split(m, [None, -(-rows // (blocks * tile.rows)), tile.rows])
    sch.reorder(*batch, kp, mb, no, mo, mi, nv, nl)
    sch.compute_at(block, mo, preserve_unit_loops=True)
    in_registers(sch, (mi, nv), nl)
    _in_tile(sch, cpu, block, packed, rows > tile.rows)
    sch.decompose_reduction(total, kp)
    parallel_nest(sch, cpu, [*batch, mb, no], steps(sch.get(block)))
    *outer, n = sch.get_loops(epilogue)
    _, nl = sch.split(n, [None, cpu.lanes])
    sch.vectorize(nl)
    parallel_nest(sch, cpu, outer, steps(sch.get(epilogue)) * COST_OF_LOOP)


def _rows_and_columns(sch, total):
    *batch, m, no, nl, kp = sch.get_loops(total)
    return [*batch, m, (no, nl), kp]


def _in_tile(sch, cpu, block, packed, prefetch):
    """The loops of a tile of sums: in registers, over the terms."""
    sch.set_scope(block, 0, "local")
    *loops, k = sch.get_loops(block)
    points, lanes = _product_loops(sch, cpu, loops, packed)
    (k,), lane = lane_by_lane(sch, cpu, [k], by_element(cpu, sch.get(block))[1])
    sch.reorder(k, *lane, *points, lanes)
    in_registers(sch, points, lanes)
    keep_rolled(sch, (k,))
    _prefetch(sch, cpu, block, k, prefetch)
    sch.decompose_reduction(block, k)


def _depth(sch, anchor):
    """How many terms every sum of a product has."""
    (k,) = iter_vars(sch.get(sch.get_block(anchor)), "reduce")
    return k.dom.extent.value if isinstance(k.dom.extent, IntImm) else 1 << 10


def _row_blocks(cpu, rows, tile_rows, depth):
    """Into how many blocks the rows are cut, so that those of one stay in the second cache while all columns pass,
    together with two panels of columns. A cut is worth it from several tiles of rows on."""
    fitting = max(4, cpu.l2_bytes * 3 // 4 // (4 * depth * tile_rows))
    return -(-rows // (fitting * tile_rows))


def _prefetch(sch, cpu, block, k, worth):
    """Bring the next panel of columns into the second cache while this one is used, where all of them do not fit."""
    operand = _wide_operand(sch.get(block)).buffer
    panels = operand.shape[-3:]
    if worth and len(panels) == 3 and all(isinstance(e, IntImm) for e in panels) and panels[2].value == cpu.lanes:
        if 4 * prod(e.value for e in panels) > cpu.l2_bytes // 2:
            sch.annotate(k, "pragma_prefetch", [operand.name])


def _product_loops(sch, cpu, loops, packed):
    """((loops over rows and vectors), loop over lanes) of a nest over a tile of the product."""
    if packed:
        return loops[-3:-1], loops[-1]
    vectors, lanes = sch.split(loops[-1], [None, cpu.lanes])
    return (loops[-2], vectors), lanes
