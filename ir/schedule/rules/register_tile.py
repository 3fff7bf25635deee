"""Dense convolutions and products: a tile of accumulators stays in registers over the whole reduction."""
from __future__ import annotations

from ...expr import Call, IntImm, is_const_int
from ...node import collect
from ...tir.stmt import BufferLoad, BufferStore
from ...transform.vectorize import VECTOR_CALLS
from . import tiles
from .blocks import find_block, inline_all, read_index, static_extent
from .threads import PARALLEL_MIN_PARTS, parallel_nest

# Stages whose name ends so are reductions over operands packed for one vector per step.
PACKED = "_packed"


def register_tile(sch, cpu):
    """A dense convolution or product: accumulators of a tile live in registers over the whole reduction.

        for tile (parallel):  acc = 0;  for k: for points: for vectors: acc += broadcast(a) * packed;  epilogue(acc)
    """
    if cpu.lanes == 1:
        return False
    anchor = find_block(sch, lambda b: b.name_hint.endswith(PACKED) or _plain_product(b, cpu))
    if anchor is None:
        return False
    inline_all(sch, keep={anchor})
    outputs = sch.get_output_blocks("root")
    if len(outputs) != 1:
        return False
    epilogue = outputs[0]
    if sch.get(epilogue).name_hint == anchor:
        sch.cache_write(sch.get_block(anchor), 0, "local")
        epilogue = sch.get_output_blocks("root")[0]
    if anchor.startswith("conv2d"):
        _tile_convolution(sch, cpu, anchor, epilogue)
    else:
        _tile_product(sch, cpu, anchor, epilogue)
    return True


def _tile_convolution(sch, cpu, anchor, epilogue):
    n, c, y, x = sch.get_loops(epilogue)
    packed = sch.get(sch.get_block(anchor))
    blocks, lanes = (packed.iter_vars[k].dom.extent.value for k in (1, 4))
    groups = int(packed.annotations.get("groups", 1))
    height = static_extent(sch, y)
    tile = tiles.choose(blocks // groups, height, static_extent(sch, x), cpu.registers, within_group=groups > 1)
    whole = static_extent(sch, c) % (tile.vectors * lanes) == 0
    co, ci, cl = sch.split(c, [None, tile.vectors, lanes])
    yo, yi = sch.split(y, [None, tile.rows])
    xo, xi = sch.split(x, [None, tile.columns])
    conv = sch.get_block(anchor)
    if whole and _vectorizes(sch.get(epilogue)):
        sch.reorder(n, co, yo, xo, yi, xi, ci, cl)
        sch.compute_at(conv, xo, preserve_unit_loops=True)
        for loop in (yi, xi, ci):
            sch.unroll(loop)
        sch.vectorize(cl)
    else:  # through a tile in memory: a vector of channels there, rows of one channel in the output
        sch.reorder(n, co, yo, xo, ci, cl, yi, xi)
        sch.compute_at(conv, xo, preserve_unit_loops=True)
        copy = sch.cache_read(epilogue, read_index(sch, epilogue, anchor), "local")
        sch.compute_at(copy, xo, preserve_unit_loops=True)
        _, oo, ty, tx, oi = sch.get_loops(copy)[-5:]
        for loop in (oo, ty, tx):
            sch.unroll(loop)
        sch.vectorize(oi)
    sch.set_scope(conv, 0, "local")
    nn, oo, ty, tx, oi, ic, kh, kw = sch.get_loops(conv)[-8:]
    sch.reorder(ic, kh, kw, nn, ty, tx, oo, oi)
    for loop in (ty, tx, oo):
        sch.unroll(loop)
    sch.vectorize(oi)
    _keep_rolled(sch, (ic, kh, kw))
    sch.decompose_reduction(conv, ic)
    # A row loop with a border stays serial: loop_partition peels its last iteration.
    parallel_nest(sch, cpu, [n, co, yo] if height % tile.rows == 0 else [n, co], _steps(packed))


def _tile_product(sch, cpu, anchor, epilogue):
    *batch, m, n = sch.get_loops(epilogue)
    rows, columns = static_extent(sch, m), static_extent(sch, n)
    packed = anchor.endswith(PACKED)
    tile = tiles.choose(-(-columns // cpu.lanes), rows, 1, cpu.registers)
    whole = columns % (tile.vectors * cpu.lanes) == 0
    no, nv, nl = sch.split(n, [None, tile.vectors, cpu.lanes])
    mo, mi = sch.split(m, [None, tile.rows])
    # Column tiles share their operand, so they are the outer loop; unpacked ones may not be read past the last column:
    # there the border is an iteration of its own, which must be innermost and serial.
    tiles_order = [no, mo] if packed or whole else [mo, no]
    sch.reorder(*batch, *tiles_order, mi, nv, nl)
    product, at = sch.get_block(anchor), tiles_order[-1]
    sch.compute_at(product, at, preserve_unit_loops=True)
    if packed and not (whole and _vectorizes(sch.get(epilogue))):
        copy = sch.cache_read(epilogue, read_index(sch, epilogue, anchor), "local")
        sch.compute_at(copy, at, preserve_unit_loops=True)
        tm, tv, tl = sch.get_loops(copy)[-3:]
        for loop in (tm, tv):
            sch.unroll(loop)
        sch.vectorize(tl)
    else:
        for loop in (mi, nv):
            sch.unroll(loop)
        sch.vectorize(nl)
    sch.set_scope(product, 0, "local")
    loops = sch.get_loops(product)
    k = loops[-1]
    if packed:
        tm, tv, tl = loops[-4:-1]
    else:
        tm, tn = loops[-3:-1]
        tv, tl = sch.split(tn, [None, cpu.lanes])
    sch.reorder(k, tm, tv, tl)
    for loop in (tm, tv):
        sch.unroll(loop)
    sch.vectorize(tl)
    _keep_rolled(sch, (k,))
    sch.decompose_reduction(product, k)
    border = columns % (tile.vectors * cpu.lanes) if tiles_order[0] is no else rows % tile.rows
    parallel_nest(sch, cpu, batch + ([tiles_order[0]] if packed or not border else []), _steps(sch.get(product)))


def _steps(block):
    """How often a block runs: the multiply-adds of a product. Symbolic extents count as many."""
    steps = 1
    for iv in block.iter_vars:
        steps *= iv.dom.extent.value if isinstance(iv.dom.extent, IntImm) else PARALLEL_MIN_PARTS
    return steps


def _keep_rolled(sch, loops):
    """Ask the C compiler not to unroll the loop around a register tile: several turns at once would need more registers
    than there are (gcc 12 then runs at 110 instead of 190 GFLOP/s)."""
    inner = [loop for loop in loops if not is_const_int(sch.get(loop).extent, 1)]
    if inner:
        sch.annotate(inner[-1], "unroll", 1)


def _vectorizes(block):
    """Every value of the block has a vector form, so that a loop over it may be vectorized."""
    return all(c.op.removeprefix("tir.") in VECTOR_CALLS for c in collect(block.body, Call)) and all(
        load.buffer.dtype == "float32" for load in collect(block.body, (BufferLoad, BufferStore)))


def _plain_product(block, cpu):
    """A product whose second operand is an activation: row-major and wide enough for vectors."""
    if block.name_hint != "matmul" or block.init is None:
        return False
    spatial = [iv for iv in block.iter_vars if iv.iter_type == "spatial"]
    columns = spatial[-1].dom.extent
    return len(spatial) >= 2 and isinstance(columns, IntImm) and columns.value >= cpu.lanes
