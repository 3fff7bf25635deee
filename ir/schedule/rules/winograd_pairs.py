"""Winograd convolutions by pairs: the stages of nn.conv2d_winograd_pairs as one kernel over blocks of tiles.

    for block of tile rows:
        for ty:              for ib: winograd_rows;  for u: largest, scale, inverses
                             for ib, tx: V of all planes, divided;  for plane, tx: own, less
        for output vectors:
            for plane, tile: acc = 0;  for t: for points: pairs, then terms by themselves;  winograd_product of acc
            for tile:        winograd_columns, then the results and their epilogue
"""
from __future__ import annotations

from . import winograd_blocks
from .blocks import blocks, find_block, inline_all, static_extent
from .digit_products import reduce_points
from .pair_products import INVERSE, LARGEST, LESS, OWN, ROWS, SCALE, SUMS, in_lanes, tile_sums
from .pair_products import STAGES as PAIRS
from .registers import in_registers, steps
from .threads import parallel_nest
from .winograd import PAD, STAGES, apart, by_columns, choices, place_columns


def winograd_pairs(sch, cpu):
    """nn.conv2d_winograd_pairs with what is fused to it."""
    if not all(find_block(sch, lambda block: block.name_hint == name) for name in (SUMS, STAGES[-1])):
        return False
    inline_all(sch, keep={*STAGES, *PAIRS, PAD})
    outputs = sch.get_output_blocks("root")
    pads = [PAD] if find_block(sch, lambda block: block.name_hint == PAD) else []
    if len(outputs) != 1 or len(blocks(sch)) != len(STAGES) + len(PAIRS) + len(pads) + 1:
        return False
    rows, data, product, columns = map(sch.get_block, STAGES)
    n, ob, y, x, o = sch.get_loops(outputs[0])
    layer = _layer(sch, data, columns, ob)
    blocking = winograd_blocks.choose(cpu, layer)
    work = steps(sch.get(sch.get_block(SUMS)))
    yb, ty, yi = sch.split(y, [None, blocking.rows, layer.tile])
    tx, xi = sch.split(x, [None, layer.tile])
    oo, ov = sch.split(ob, [None, blocking.vectors])
    sch.reorder(n, yb, oo, ov, ty, tx, yi, xi, o)
    choices(sch, xi, o)
    place_columns(sch, columns, tx)
    _products(sch, cpu, product, oo, blocking.tile)
    own = _rows(sch, cpu, yb, rows, data, pads)
    if blocking.over == "rows":
        parallel_nest(sch, cpu, [n, yb], work)
    else:
        parallel_nest(sch, cpu, [own], work)
        parallel_nest(sch, cpu, [oo], work)
    return True


def _layer(sch, data, columns, ob):
    _, side, _, ib, ty, tx, c = (static_extent(sch, loop) for loop in sch.get_loops(data))
    tile = static_extent(sch, sch.get_loops(columns)[-3])
    return winograd_blocks.Layer(tile, ib, static_extent(sch, ob), ty, tx, c, side - tile + 1, pairs=True)


def _products(sch, cpu, product, at, tile):
    """The products of the planes, a tile of sums in registers at a time."""
    sch.compute_at(product, at, preserve_unit_loops=True)
    apart(sch, product)
    u, v, ob, ty, tx, o = sch.get_loops(product)[-6:]
    tyo, tyi = sch.split(ty, [None, tile.rows])
    txo, txi = sch.split(tx, [None, tile.columns])
    sch.reorder(u, v, ob, tyo, txo, tyi, txi, o)
    in_registers(sch, (tyi, txi), o)
    block = sch.get_block(SUMS)
    sch.compute_at(block, txo, preserve_unit_loops=True)
    ty, _, tx, o, t, by = sch.get_loops(block)[-6:]
    tile_sums(sch, cpu, block, (ty, tx), o, t, by)


def _rows(sch, cpu, at, rows, data, pads):
    """Transformed tiles of one row of them after the other, whose loop it returns."""
    for name in (LESS, OWN, ROWS, INVERSE, SCALE):
        sch.compute_at(sch.get_block(name), at, preserve_unit_loops=True)
    row, u = sch.get_loops(sch.get_block(SCALE))[-2:]
    sch.compute_at(sch.get_block(LARGEST), u, preserve_unit_loops=True)
    reduce_points(sch, sch.get_block(LARGEST))
    for name, loop in ((INVERSE, u), (ROWS, row), (OWN, row)):
        sch.reverse_compute_at(sch.get_block(name), loop, preserve_unit_loops=True)
    bound = sch.get_loops(sch.get_block(INVERSE))[-1]
    sch.unroll(bound)
    sch.annotate(bound, "pragma_unroll_explicit", 1)
    own = sch.get_block(OWN)
    sch.reverse_compute_at(sch.get_block(LESS), sch.get_loops(own)[-2], preserve_unit_loops=True)
    sch.set_scope(own, 0, "local")
    in_lanes(sch, cpu, own)
    divided = sch.get_block(ROWS)
    sch.compute_inline(data)
    sch.storage_align(divided, 0, -2, 2 * cpu.lanes, cpu.lanes)
    *_, u, v, _, tx, k = sch.get_loops(divided)
    kb, lane = sch.split(k, [None, cpu.lanes])
    sch.reorder(kb, tx, u, v, lane)
    choices(sch, v, lane)
    sch.compute_at(rows, row, preserve_unit_loops=True)
    by_columns(sch, rows, pads)
    return row
