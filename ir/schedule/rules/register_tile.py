"""Dense convolutions and products: a tile of accumulators stays in registers over the whole reduction."""
from __future__ import annotations

from ...expr import IntImm, is_const_int
from ...node import collect
from ...tir.stmt import BufferLoad
from ..blocks import uses
from . import tiles
from .blocks import find_block, inline_all, iter_vars, read_index, static_extent, vectorizes
from .threads import PARALLEL_MIN_PARTS, parallel_nest

# Stages whose name ends so are reductions over operands packed for one vector per step.
PACKED = "_packed"


def register_tile(sch, cpu):
    """A dense convolution or product: accumulators of a tile live in registers over the whole reduction.

        for tile (parallel):  acc = 0;  for k: for points: for vectors: acc += broadcast(a) * packed;  epilogue(acc)
    """
    if cpu.lanes == 1:
        return False
    for fits, tile in ((_is_packed_convolution, _tile_convolution), (_is_packed_product, _tile_product),
                       (lambda block: _is_plain_product(block, cpu), _tile_product)):
        anchor = find_block(sch, fits)
        if anchor is not None:
            inline_all(sch, keep={anchor})
            outputs = sch.get_output_blocks("root")
            if len(outputs) != 1:
                return False
            epilogue = outputs[0]
            if sch.get(epilogue).name_hint == anchor:
                epilogue = sch.cache_write(sch.get_block(anchor), 0, "local")
            tile(sch, cpu, anchor, epilogue)
            return True
    return False


# ---------------------------------------------------------------- what fits

def _is_packed_convolution(block):
    return block.name_hint.endswith(PACKED) and _ranks(block) == (5, 3)


def _is_packed_product(block):
    return block.name_hint.endswith(PACKED) and _ranks(block)[0] >= 3 and _ranks(block)[1] == 1


def _is_plain_product(block, cpu):
    """A product whose second operand is an activation: row-major and wide enough for vectors.

    That is, the last spatial variable, the column, only runs along the innermost dimension of one operand, which does
    not depend on the row.
    """
    if block.init is None or _ranks(block)[0] < 2 or _ranks(block)[1] != 1 or not vectorizes(block):
        return False
    *_, row, column = iter_vars(block, "spatial")
    loads = [load for load in collect(block.body, BufferLoad) if load.buffer is not block.writes[0].buffer]
    wide = [load for load in loads if uses(load.indices, {column.var})]
    return (len(loads) == 2 and len(wide) == 1 and wide[0].indices[-1] is column.var
            and not uses(wide[0].indices, {row.var})
            and isinstance(column.dom.extent, IntImm) and column.dom.extent.value >= cpu.lanes)


def _ranks(block):
    """How many spatial and how many reduce iteration variables a reduction has."""
    return len(iter_vars(block, "spatial")), len(iter_vars(block, "reduce"))


# ---------------------------------------------------------------- convolutions

def _tile_convolution(sch, cpu, anchor, epilogue):
    n, c, y, x = sch.get_loops(epilogue)
    packed = sch.get(sch.get_block(anchor))
    blocks, lanes = (packed.iter_vars[k].dom.extent.value for k in (1, 4))
    groups = int(packed.annotations.get("groups", 1))
    height = static_extent(sch, y)
    tile = tiles.choose(cpu, blocks // groups, height, static_extent(sch, x), dividing=groups > 1)
    whole = static_extent(sch, c) % (tile.vectors * lanes) == 0
    co, ci, cl = sch.split(c, [None, tile.vectors, lanes])
    yo, yi = sch.split(y, [None, tile.rows])
    xo, xi = sch.split(x, [None, tile.columns])
    conv = sch.get_block(anchor)
    if whole and vectorizes(sch.get(epilogue)):
        sch.reorder(n, co, yo, xo, yi, xi, ci, cl)
        sch.compute_at(conv, xo, preserve_unit_loops=True)
        _in_registers(sch, (yi, xi, ci), cl)
    else:  # through a tile in memory: a vector of channels there, rows of one channel in the output
        sch.reorder(n, co, yo, xo, ci, cl, yi, xi)
        sch.compute_at(conv, xo, preserve_unit_loops=True)
        copy = _through_memory(sch, epilogue, anchor, xo)
        *points, oi = sch.get_loops(copy)[-4:]
        _in_registers(sch, points, oi)
    sch.set_scope(conv, 0, "local")
    nn, oo, ty, tx, oi, ic, kh, kw = sch.get_loops(conv)[-8:]
    sch.reorder(ic, kh, kw, nn, ty, tx, oo, oi)
    _in_registers(sch, (ty, tx, oo), oi)
    _keep_rolled(sch, (ic, kh, kw))
    sch.decompose_reduction(conv, ic)
    # A row loop with a border stays serial: loop_partition peels its last iteration.
    parallel_nest(sch, cpu, [n, co, yo] if height % tile.rows == 0 else [n, co], _steps(packed))


# ---------------------------------------------------------------- products

def _tile_product(sch, cpu, anchor, epilogue):
    *batch, m, n = sch.get_loops(epilogue)
    rows, columns = static_extent(sch, m), static_extent(sch, n)
    packed = anchor.endswith(PACKED)
    # Packed columns are padded to whole vectors. Others may not be read past the last one: tiles are whole, and what is
    # less than a vector is a tile of its own, next to tiles of one vector.
    border = not packed and columns % cpu.lanes > 0
    tile = tiles.choose(cpu, 1 if border else -(-columns // cpu.lanes), rows, 1, dividing=not packed)
    whole = columns % (tile.vectors * cpu.lanes) == 0
    no, nv, nl = sch.split(n, [None, tile.vectors, cpu.lanes])
    mo, mi = sch.split(m, [None, tile.rows])
    # Column tiles share their operand, so they are the outer loop, but a loop with a border is innermost and serial:
    # loop_partition peels its last iteration.
    outer, inner = (mo, no) if border else (no, mo)
    sch.reorder(*batch, outer, inner, mi, nv, nl)
    product = sch.get_block(anchor)
    sch.compute_at(product, inner, preserve_unit_loops=True)
    if vectorizes(sch.get(epilogue)) and (whole or not packed):
        _in_registers(sch, (mi, nv), nl)
    else:
        copy = _through_memory(sch, epilogue, anchor, inner)
        _in_registers(sch, *_product_loops(sch, cpu, sch.get_loops(copy), packed))
    sch.set_scope(product, 0, "local")
    *loops, k = sch.get_loops(product)
    points, lanes = _product_loops(sch, cpu, loops, packed)
    sch.reorder(k, *points, lanes)
    _in_registers(sch, points, lanes)
    _keep_rolled(sch, (k,))
    sch.decompose_reduction(product, k)
    serial = border and rows % tile.rows > 0
    parallel_nest(sch, cpu, batch if serial else [*batch, outer], _steps(sch.get(product)))


def _product_loops(sch, cpu, loops, packed):
    """((loops over rows and vectors), loop over lanes) of a nest over a tile of the product."""
    if packed:
        return loops[-3:-1], loops[-1]
    vectors, lanes = sch.split(loops[-1], [None, cpu.lanes])
    return (loops[-2], vectors), lanes


# ---------------------------------------------------------------- parts of both

def _through_memory(sch, epilogue, anchor, at):
    """Copy the accumulators of a tile to memory, where the epilogue reads them in another order, or one by one."""
    copy = sch.cache_read(epilogue, read_index(sch, epilogue, anchor), "local")
    sch.compute_at(copy, at, preserve_unit_loops=True)
    return copy


def _in_registers(sch, points, lanes):
    """Unroll the loops over the points of a tile, so that the indices of its registers are constants."""
    for loop in points:
        sch.unroll(loop)
    sch.vectorize(lanes)


def _keep_rolled(sch, loops):
    """Ask the C compiler not to unroll the loop around a register tile: several turns at once would need more registers
    than there are (gcc 12 then runs at 110 instead of 190 GFLOP/s)."""
    inner = [loop for loop in loops if not is_const_int(sch.get(loop).extent, 1)]
    if inner:
        sch.annotate(inner[-1], "pragma_unroll", 1)


def _steps(block):
    """How often a block runs: the multiply-adds of a product. Symbolic extents count as many."""
    steps = 1
    for iv in block.iter_vars:
        steps *= iv.dom.extent.value if isinstance(iv.dom.extent, IntImm) else PARALLEL_MIN_PARTS
    return steps
