"""Products: a tile of accumulators stays in registers over the whole reduction."""
from __future__ import annotations

from ...expr import IntImm
from ...node import collect
from ...tir.stmt import BufferLoad
from ..blocks import uses
from . import tiles
from .blocks import iter_vars, static_extent, vectorizes
from .registers import PACKED, anchored, in_registers, keep_rolled, ranks, steps, through_memory
from .threads import parallel_nest


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
    loads = [load for load in collect(block.body, BufferLoad) if load.buffer is not block.writes[0].buffer]
    wide = [load for load in loads if uses(load.indices, {column.var})]
    return (len(loads) == 2 and len(wide) == 1 and wide[0].indices[-1] is column.var
            and not uses(wide[0].indices, {row.var})
            and isinstance(column.dom.extent, IntImm) and column.dom.extent.value >= cpu.lanes)


# ---------------------------------------------------------------- products

def _tile_product(sch, cpu, anchor, epilogue):
    *batch, m, n = sch.get_loops(epilogue)
    rows, columns = static_extent(sch, m), static_extent(sch, n)
    packed, depth = anchor.endswith(PACKED), _depth(sch, anchor)
    # Packed columns are padded to whole vectors. Others may not be read past the last one: tiles are whole, and what is
    # less than a vector is a tile of its own, next to tiles of one vector.
    border = not packed and columns % cpu.lanes > 0
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
    sch.set_scope(block, 0, "local")
    *loops, k = sch.get_loops(block)
    points, lanes = _product_loops(sch, cpu, loops, packed)
    sch.reorder(k, *points, lanes)
    in_registers(sch, points, lanes)
    keep_rolled(sch, (k,))
    _prefetch(sch, cpu, block, k, packed and rows > tile.rows)
    sch.decompose_reduction(block, k)
    serial = border and rows % tile.rows > 0
    parallel_nest(sch, cpu, batch if serial else [*batch, *outer], steps(sch.get(block)))


def _depth(sch, anchor):
    """How many terms every sum of a product has."""
    (k,) = iter_vars(sch.get(sch.get_block(anchor)), "reduce")
    return k.dom.extent.value if isinstance(k.dom.extent, IntImm) else 1 << 10


def _row_blocks(cpu, rows, tile_rows, depth):
    """Into how many blocks the rows are cut, so that those of one stay in the second cache while all columns pass,
    together with two panels of columns. A cut is worth it from several tiles of rows on."""
    fitting = max(4, cpu.l2_bytes // 2 // (4 * depth * tile_rows))
    return -(-rows // (fitting * tile_rows))


def _prefetch(sch, cpu, block, k, worth):
    """Bring the next panel of columns into the second cache while this one is used, where all of them do not fit."""
    operand = next((r.buffer for r in sch.get(block).reads if len(r.buffer.shape) == 3), None)
    if not worth or operand is None or not all(isinstance(e, IntImm) for e in operand.shape):
        return
    size = 4
    for extent in operand.shape:
        size *= extent.value
    if size > cpu.l2_bytes // 2:
        sch.annotate(k, "pragma_prefetch", [operand.name])


def _product_loops(sch, cpu, loops, packed):
    """((loops over rows and vectors), loop over lanes) of a nest over a tile of the product."""
    if packed:
        return loops[-3:-1], loops[-1]
    vectors, lanes = sch.split(loops[-1], [None, cpu.lanes])
    return (loops[-2], vectors), lanes
