"""Winograd convolutions: the stages of nn.conv2d_winograd as one kernel over blocks of tiles.

    for block of tile rows:
        for ib, ty:          winograd_rows, then winograd_input: V, all planes of the block
        for output vectors:
            for plane, tile: acc = 0;  for ib, ic: for points, vectors: acc += broadcast(V) * U;  winograd_product = acc
            for tile:        winograd_columns, then the results and their epilogue

The sums of the transforms depend on the row of a matrix: those loops are copies of their body, one for each row.
"""
from __future__ import annotations

from ...tir.hints import EACH_THREAD, EXPLICIT, PREFETCH, PREFETCH_AHEAD
from . import winograd_blocks
from .blocks import blocks, find_block, inline_all, only_output, static_extent
from .registers import by_element, in_registers, lane_by_lane, ranks, steps, turn_of
from .threads import parallel_nest

STAGES = ("winograd_rows", "winograd_input", "winograd_product", "winograd_columns")
PAD = "pad_temp"


def winograd(sch, cpu):
    """nn.conv2d_winograd with what is fused to it, in blocks that fit the second cache. For vectors of another width
    than the layout's the stages stay one after the other."""
    output, pads = only_stages(sch, STAGES)
    if output is None or len(sch.get_loops(output)) != 5:
        return False
    rows, data, product, columns = map(sch.get_block, STAGES)
    layer = _layer(sch, data, product, columns)
    if layer.lanes != cpu.lanes:
        return True
    blocking = winograd_blocks.choose(cpu, layer)
    work = steps(sch.get(product))
    n, yb, oo = turns_of(sch, output, columns, layer.tile, blocking.rows, blocking.vectors)
    kept = {} if cpu.cost("tile.small") else {PREFETCH_AHEAD: cpu.l1_bytes}
    kept[PREFETCH] = cpu.l2_bytes
    prefetch = [name for name, room in kept.items() if layer.weights > room]
    sum_products(sch, cpu, product, oo, blocking.tile, prefetch)
    own = _input(sch, data, yb)
    sch.compute_at(rows, own[1], preserve_unit_loops=True)
    by_columns(sch, rows, pads)
    share(sch, cpu, blocking.over, [n, yb], own, oo, work)
    return True


def only_stages(sch, stages):
    """(the output's block, [PAD] where the image is padded, else []) of a kernel of these stages and of what is fused
    to them, which is inlined; (None, []) of others."""
    if not all(find_block(sch, lambda block: block.name_hint == name) for name in stages):
        return None, []
    inline_all(sch, keep={*stages, PAD})
    output = only_output(sch)
    pads = [PAD] if find_block(sch, lambda block: block.name_hint == PAD) else []
    if output is None or len(blocks(sch)) != len(stages) + len(pads) + 1:
        return None, []
    return output, pads


def turns_of(sch, output, columns, tile, rows, vectors):
    """Cut the results into blocks of rows of tiles, for each of which turns of so many vectors of channels follow one
    another. Returns the loops over the batch, over blocks and over turns."""
    n, ob, y, x, o = sch.get_loops(output)
    yb, ty, yi = sch.split(y, [None, rows, tile])
    tx, xi = sch.split(x, [None, tile])
    oo, ov = sch.split(ob, [None, vectors])
    sch.reorder(n, yb, oo, ov, ty, tx, yi, xi, o)
    choices(sch, xi, o)
    sch.compute_at(columns, tx, preserve_unit_loops=True)
    sch.set_scope(columns, 0, "local")
    y, v, o = sch.get_loops(columns)[-3:]
    sch.reorder(v, y, o)
    choices(sch, y, o)
    return n, yb, oo


def share(sch, cpu, over, bands, own, turns, work):
    """What threads share: "rows", in the nest `bands` over blocks of them, or "channels", in `turns`, and before them
    the rows of tiles of V, in the nest `own`; or channels alone, and "each" makes all of V for itself."""
    if over == "rows":
        parallel_nest(sch, cpu, bands, work)
        return
    if over == "each":
        sch.annotate(own[0], EACH_THREAD, 1)
    else:
        parallel_nest(sch, cpu, own, work, rows=True)
    parallel_nest(sch, cpu, [turns], work)


def _layer(sch, data, product, columns):
    _, side, _, ob, ty, tx, o, ib, ic = (static_extent(sch, loop) for loop in sch.get_loops(product))
    tile, groups = static_extent(sch, sch.get_loops(columns)[-3]), static_extent(sch, sch.get_loops(data)[3]) // ib
    return winograd_blocks.Layer(tile, ib, ob, ty, tx, o, side - tile + 1, ic, groups=groups)


def sum_products(sch, cpu, product, at, tile, prefetch):
    """The sums of a register tile, over all input channels, and the copy that stores them. prefetch: annotations of the
    innermost loop that ask for weights."""
    sch.compute_at(product, at, preserve_unit_loops=True)
    copy = sch.cache_write(product, 0, "local")
    apart(sch, copy)
    u, v, ob, ty, tx, o = sch.get_loops(copy)[-6:]
    tyo, tyi = sch.split(ty, [None, tile.rows])
    txo, txi = sch.split(tx, [None, tile.columns])
    obo, obi = sch.split(ob, [None, tile.vectors])
    sch.reorder(u, v, obo, tyo, txo, tyi, txi, obi, o)
    in_registers(sch, (tyi, txi, obi), o)
    sch.compute_at(product, txo, preserve_unit_loops=True)
    n, u, v, ob, ty, tx, o, *reduce = sch.get_loops(product)[-7 - ranks(sch.get(product))[1]:]
    reduce, lane = lane_by_lane(sch, cpu, reduce, by_element(cpu, sch.get(product))[1])
    sch.reorder(*reduce, *lane, n, u, v, ty, tx, ob, o)
    in_registers(sch, (ty, tx, ob), o)
    weights = sch.get(product).reads[1].buffer.name
    sch.decompose_reduction(product, reduce[0])
    turn = turn_of(sch, cpu, product, reduce)
    for annotation in prefetch:
        sch.annotate(turn, annotation, [weights])


def _input(sch, data, at):
    """Returns the loops over blocks of input channels and rows of tiles."""
    sch.compute_at(data, at, preserve_unit_loops=True)
    apart(sch, data)
    u, v, ib, ty, tx, c = sch.get_loops(data)[-6:]
    sch.reorder(ib, ty, tx, u, v, c)
    choices(sch, v, c)
    return [ib, ty]


def by_columns(sch, rows, pads):
    """Columns of the image one by one, whose padding is looked at once."""
    u, x, c = sch.get_loops(rows)[-3:]
    sch.reorder(x, u, c)
    choices(sch, u, c)
    for pad in map(sch.get_block, pads):
        sch.compute_at(pad, x, preserve_unit_loops=True)
        sch.set_scope(pad, 0, "local")
        *_, y, _, c = sch.get_loops(pad)
        in_registers(sch, (y,), c)


def apart(sch, block):
    """Planes an odd number of vectors apart. A tile is written to all planes and read from all: at the same place of
    each page they would share one set of the first cache, and loads would wait for stores of other planes."""
    lanes = static_extent(sch, sch.get_loops(block)[-1])
    sch.storage_align(block, 0, 2, 2 * lanes, lanes)


def choices(sch, loop, lanes):
    """Vectors, in copies of the loop's body with the one sum each that its turn takes."""
    sch.unroll(loop)
    sch.annotate(loop, EXPLICIT, 1)
    sch.vectorize(lanes)
