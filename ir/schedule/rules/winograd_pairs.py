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
from .pair_products import INVERSE, LARGEST, LESS, OWN, ROWS, SCALE, SUMS, in_lanes, tile_sums
from .pair_products import STAGES as PAIRS
from .registers import in_registers, steps
from .winograd import STAGES, apart, by_columns, choices, only_stages, share, turns_of
from .winograd_digits import layer_of, scale_rows


def winograd_pairs(sch, cpu):
    """nn.conv2d_winograd_pairs with what is fused to it."""
    output, pads = only_stages(sch, (*STAGES, *PAIRS))
    if output is None:
        return False
    rows, data, product, columns = map(sch.get_block, STAGES)
    layer = layer_of(sch, output, data, columns, pairs=True)
    blocking = winograd_blocks.choose(cpu, layer)
    work = steps(sch.get(sch.get_block(SUMS)))
    n, yb, oo = turns_of(sch, output, columns, layer.tile, blocking.rows, blocking.vectors)
    _products(sch, cpu, product, oo, blocking.tile)
    own = _rows(sch, cpu, yb, rows, data, pads)
    share(sch, cpu, blocking.over, [n, yb], [own], oo, work)
    return True


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
    row = scale_rows(sch, at, LARGEST, (SCALE, INVERSE), (ROWS, OWN), after=(LESS,))
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
