"""How the products of a Winograd convolution's planes are made, and what they read, by each arithmetic.

    fma      V of some rows of tiles
             for plane, tile: acc = 0;  for ib, ic: for points, vectors: acc += broadcast(V) * U
    inner    for a row of tiles: scales;  V divided, of all planes;  own, less
             for plane, tile: acc = 0;  for t: for points: pairs, then terms by themselves;  winograd_product of acc
    split    for a row of tiles: scales;  for tile: for 64 channels: V of all planes;  for plane: slices
             for plane: sums = tiles(slices, panel);  winograd_product, of a column of planes at a time, of sums
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ...relax.arithmetic import LANES
from ...tir.hints import PREFETCH, PREFETCH_AHEAD
from . import winograd_blocks
from .blocks import iter_vars, static_extent
from .split_integer_products import FIXED, SLICED
from .split_integer_tiles import SLICES_OF_TERMS, split_integer_tiles
from .inner_products import LESS, OWN, ROWS, in_lanes, tile_sums
from .registers import by_element, in_registers, lane_by_lane, ranks, turn_of
from .winograd_blocks import Layer
from .winograd_split_integer import SplitIntegerPlanes
from .winograd_stages import apart, by_columns, choices, scale_rows


@dataclass(frozen=True)
class Planes:
    """The schedule of an arithmetic: layer(sch, output, data, product, columns), the Layer; kernel(layer), what
    is planned; sums(sch, product), the block that has the work; products(sch, target, layer,
    plan, product, columns, at) in the turns `at`, and before them inputs(sch, target, layer, plan, at, rows, data,
    pads) in those of blocks, the loops that threads may share."""

    layer: Callable
    kernel: Callable
    sums: Callable
    products: Callable
    inputs: Callable


# ---------------------------------------------------------------- FMAs

def _layer(sch, output, data, product, columns):
    _, side, _, ob, ty, tx, o, ib, ic = (static_extent(sch, loop) for loop in sch.get_loops(product))
    tile, groups = static_extent(sch, sch.get_loops(columns)[-3]), static_extent(sch, sch.get_loops(data)[3]) // ib
    return winograd_blocks.Layer(tile, ib, ob, ty, tx, o, side - tile + 1, ic, groups=groups)


def _fma_products(sch, target, layer, plan, product, columns, at):
    kept = {} if target.cost("tile.small") else {PREFETCH_AHEAD: target.l1_bytes}
    kept[PREFETCH] = target.l2_bytes
    sum_products(sch, target, product, at, plan.tile,
                 [name for name, capacity in kept.items() if layer.weights > capacity])


def _fma_inputs(sch, target, layer, plan, at, rows, data, pads):
    """Returns the loops over blocks of input channels and rows of tiles."""
    sch.compute_at(data, at, preserve_unit_loops=True)
    apart(sch, data)
    u, v, ib, ty, tx, c = sch.get_loops(data)[-6:]
    sch.reorder(ib, ty, tx, u, v, c)
    choices(sch, v, c)
    sch.compute_at(rows, ty, preserve_unit_loops=True)
    by_columns(sch, rows, pads)
    return [ib, ty]


def sum_products(sch, target, product, at, tile, prefetch):
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
    reduce, lane = lane_by_lane(sch, target, reduce, by_element(target, sch.get(product))[1])
    sch.reorder(*reduce, *lane, n, u, v, ty, tx, ob, o)
    in_registers(sch, (ty, tx, ob), o)
    weights = sch.get(product).reads[1].buffer.name
    sch.decompose_reduction(product, reduce[0])
    turn = turn_of(sch, target, product, reduce)
    for annotation in prefetch:
        sch.annotate(turn, annotation, [weights])


# ---------------------------------------------------------------- scaled products

def _scaled_layer(sch, output, data, product, columns, inner_product=False):
    """The Layer of a kernel that sums products of all channels, which it scales."""
    _, side, _, ib, ty, tx, lanes = (static_extent(sch, loop) for loop in sch.get_loops(data))
    tile, out_blocks = (static_extent(sch, loop) for loop in (sch.get_loops(columns)[-3], sch.get_loops(output)[1]))
    return Layer(tile, ib, out_blocks, ty, tx, lanes, side - tile + 1, inner_product=inner_product)


def _inner_products(sch, target, layer, plan, product, columns, at):
    """The products of the planes, a tile of sums in registers at a time."""
    tile = plan.tile
    sch.compute_at(product, at, preserve_unit_loops=True)
    apart(sch, product)
    u, v, ob, ty, tx, o = sch.get_loops(product)[-6:]
    tyo, tyi = sch.split(ty, [None, tile.rows])
    txo, txi = sch.split(tx, [None, tile.columns])
    sch.reorder(u, v, ob, tyo, txo, tyi, txi, o)
    in_registers(sch, (tyi, txi), o)
    block = sch.get_block("inner_product_sums")
    sch.compute_at(block, txo, preserve_unit_loops=True)
    ty, _, tx, o, t, by = sch.get_loops(block)[-6:]
    tile_sums(sch, target, block, (ty, tx), o, t, by)


def _inner_product_inputs(sch, target, layer, plan, at, rows, data, pads):
    """Transformed tiles of one row of them after the other, whose loop it returns."""
    row = scale_rows(sch, at, "inner_product", (ROWS, OWN), after=(LESS,))
    own = sch.get_block(OWN)
    sch.reverse_compute_at(sch.get_block(LESS), sch.get_loops(own)[-2], preserve_unit_loops=True)
    sch.set_scope(own, 0, "local")
    in_lanes(sch, target, own)
    divided = sch.get_block(ROWS)
    sch.compute_inline(data)
    sch.storage_align(divided, 0, -2, 2 * target.lanes, target.lanes)
    *_, u, v, _, tx, k = sch.get_loops(divided)
    kb, lane = sch.split(k, [None, target.lanes])
    sch.reorder(kb, tx, u, v, lane)
    choices(sch, v, lane)
    sch.compute_at(rows, row, preserve_unit_loops=True)
    by_columns(sch, rows, pads)
    return [row]


def _split_integer_products(sch, target, layer, plan, product, columns, at):
    """Products, the sums times both scales, of a column of planes at a time."""
    sch.compute_at(product, sch.get_loops(columns)[-3], preserve_unit_loops=True)
    sch.set_scope(product, 0, "local")
    *_, u, v, _, _, _, o = sch.get_loops(product)
    choices(sch, u, o)
    sch.compute_at(sch.get_block("split_integer_sums"), at, preserve_unit_loops=True)


def _split_integer_inputs(sch, target, layer, plan, at, rows, data, pads):
    """Scales and slices of one row of tiles after the other, whose loop it returns."""
    row = scale_rows(sch, at, "split_integer", (FIXED, SLICED))
    u, v, step, point, _, _ = sch.get_loops(sch.get_block(SLICED))[-6:]
    sch.reorder(point, step, u, v)
    fixed = sch.get_block(FIXED)
    sch.compute_at(fixed, v)
    sch.set_scope(fixed, 0, "local")
    sch.vectorize(sch.get_loops(fixed)[-1])
    sch.compute_at(data, step, preserve_unit_loops=True)
    u, v, ib, _, _, c = sch.get_loops(data)[-6:]
    sch.reorder(ib, u, v, c)
    choices(sch, v, c)
    sch.compute_at(rows, row, preserve_unit_loops=True)
    by_columns(sch, rows, pads)
    sums = sch.get_block("split_integer_sums")
    depth = iter_vars(sch.get(sums), "reduce")[0].dom.extent.value
    v = sch.get_loops(sums)[-8]
    sch.tensorize(v, split_integer_tiles(static_extent(sch, v), plan.block * layer.columns, plan.turn * LANES, depth))
    sch.tensorize(sch.get_loops(sch.get_block(SLICED))[-2], SLICES_OF_TERMS)
    return [row]


def _named(stage):
    return lambda sch, product: sch.get_block(stage)


def _same(layer):
    return layer


FMA_PLANES = Planes(_layer, _same, lambda sch, product: product, _fma_products, _fma_inputs)
INNER_PRODUCT_PLANES = Planes(partial(_scaled_layer, inner_product=True), _same, _named("inner_product_sums"),
                              _inner_products, _inner_product_inputs)
SPLIT_INTEGER_PLANES = Planes(_scaled_layer, SplitIntegerPlanes, _named("split_integer_sums"), _split_integer_products,
                              _split_integer_inputs)
