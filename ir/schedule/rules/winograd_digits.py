"""Winograd convolutions by digits: the stages of nn.conv2d_winograd_digits as one kernel over blocks of tiles.

    for block of tile rows:
        for ty:              for ib: winograd_rows;  for u: largest, scale
            for tx:          for 64 channels: winograd_input, V of all planes;  for plane: digits
        for panel of output channels:
            for plane:       sums = tiles(digits, panel)
            for tile:        winograd_columns of sums times scales, then the results and their epilogue

Threads share blocks, or a block's rows while digits are made, and then panels.
"""
from __future__ import annotations

from ...relax.ops.matmul_digits import LANES
from . import winograd_digit_blocks
from .blocks import blocks, find_block, inline_all, iter_vars, static_extent
from .digit_products import FIXED, INVERSE, REDUCED, ROWS, SCALE, SUMS, reduce_points
from .digit_tiles import DIGITS_OF_TERMS, digit_tiles_of
from .registers import steps
from .threads import parallel_nest
from .winograd import PAD, STAGES, by_columns, choices, place_columns
from .winograd_blocks import Layer

DIGITS = (SUMS, FIXED, ROWS, SCALE, INVERSE, *REDUCED)


def winograd_digits(sch, cpu):
    """nn.conv2d_winograd_digits with what is fused to it, of images whose rows of tiles are no more than rows that meet
    a panel at a time."""
    if not all(find_block(sch, lambda block: block.name_hint == name) for name in (SUMS, STAGES[-1])):
        return False
    inline_all(sch, keep={*STAGES, *DIGITS, PAD})
    outputs = sch.get_output_blocks("root")
    pads = [PAD] if find_block(sch, lambda block: block.name_hint == PAD) else []
    if len(outputs) != 1 or len(blocks(sch)) != len(STAGES) + len(DIGITS) + len(pads) + 1:
        return False
    rows, data, product, columns = map(sch.get_block, STAGES)
    n, ob, y, x, o = sch.get_loops(outputs[0])
    sums = sch.get_block(SUMS)
    work, depth = steps(sch.get(sums)), iter_vars(sch.get(sums), "reduce")[0].dom.extent.value
    layer = _layer(sch, data, columns, ob)
    blocking = winograd_digit_blocks.choose(cpu, layer)
    if blocking is None:
        return False
    yb, ty, yi = sch.split(y, [None, blocking.rows, layer.tile])
    tx, xi = sch.split(x, [None, layer.tile])
    oo, oh = sch.split(ob, [None, blocking.columns // LANES])
    sch.reorder(n, yb, oo, oh, ty, tx, yi, xi, o)
    choices(sch, xi, o)
    place_columns(sch, columns, tx)
    _scaled(sch, product, columns)
    sch.compute_at(sums, oo, preserve_unit_loops=True)
    own = _digits(sch, yb, rows, data, pads)
    v = sch.get_loops(sums)[-8]
    sch.tensorize(v, digit_tiles_of(static_extent(sch, v), blocking.rows * layer.columns, blocking.columns, depth))
    sch.tensorize(sch.get_loops(sch.get_block(ROWS))[-2], DIGITS_OF_TERMS)
    if blocking.over == "rows":
        parallel_nest(sch, cpu, [n, yb], work)
    else:
        parallel_nest(sch, cpu, [own], work)
        parallel_nest(sch, cpu, [oo], work)
    return True


def _layer(sch, data, columns, ob):
    _, side, _, ib, ty, tx, _ = (static_extent(sch, loop) for loop in sch.get_loops(data))
    tile = static_extent(sch, sch.get_loops(columns)[-3])
    return Layer(tile, ib, static_extent(sch, ob), ty, tx, LANES, side - tile + 1)


def _scaled(sch, product, columns):
    """Products, the sums times both scales, of a column of planes at a time."""
    sch.compute_at(product, sch.get_loops(columns)[-3], preserve_unit_loops=True)
    sch.set_scope(product, 0, "local")
    *_, u, v, _, _, _, o = sch.get_loops(product)
    choices(sch, u, o)


def _digits(sch, at, rows, data, pads):
    """Scales and digits of one row of tiles after the other, whose loop it returns."""
    for name in (ROWS, FIXED, INVERSE, SCALE):
        sch.compute_at(sch.get_block(name), at, preserve_unit_loops=True)
    row, u = sch.get_loops(sch.get_block(SCALE))[-2:]
    for name in REDUCED:
        sch.compute_at(sch.get_block(name), u, preserve_unit_loops=True)
        reduce_points(sch, sch.get_block(name))
    for name, loop in ((INVERSE, u), (FIXED, row), (ROWS, row)):
        sch.reverse_compute_at(sch.get_block(name), loop, preserve_unit_loops=True)
    bound = sch.get_loops(sch.get_block(INVERSE))[-1]
    sch.unroll(bound)
    sch.annotate(bound, "pragma_unroll_explicit", 1)
    u, v, step, point, _, _ = sch.get_loops(sch.get_block(ROWS))[-6:]
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
    return row
