"""Winograd convolutions by digits: the stages of nn.conv2d_winograd_digits as one kernel over blocks of tiles.

    for block of tile rows:
        for ty:              for ib: winograd_rows;  for u: largest, scale
            for tx:          for 64 channels: winograd_input, V of all planes;  for plane: digits
        for panel of output channels:
            for plane:       sums = tiles(digits, panel)
            for tile:        winograd_columns of sums times scales, then the results and their epilogue

Threads share blocks, or a block's rows while digits are made, and then panels, or only these, and each makes all
digits for itself.
"""
from __future__ import annotations

from ...relax.ops.matmul_digits import LANES
from ...tir.hints import EXPLICIT
from . import winograd_digit_blocks
from .blocks import iter_vars, static_extent
from .digit_products import FIXED, INVERSE, LARGEST, ROWS, SCALE, SUMS, reduce_points
from .digit_tiles import DIGITS_OF_TERMS, digit_tiles_of
from .registers import steps
from .winograd import STAGES, by_columns, choices, only_stages, share, turns_of
from .winograd_blocks import Layer

DIGITS = (SUMS, FIXED, ROWS, SCALE, INVERSE, LARGEST)


def winograd_digits(sch, cpu):
    """nn.conv2d_winograd_digits with what is fused to it, of images whose rows of tiles are no more than rows that meet
    a panel at a time."""
    output, pads = only_stages(sch, (*STAGES, *DIGITS))
    if output is None:
        return False
    rows, data, product, columns = map(sch.get_block, STAGES)
    sums = sch.get_block(SUMS)
    work, depth = steps(sch.get(sums)), iter_vars(sch.get(sums), "reduce")[0].dom.extent.value
    layer = layer_of(sch, output, data, columns)
    blocking = winograd_digit_blocks.choose(cpu, layer)
    if blocking is None:
        return False
    n, yb, oo = turns_of(sch, output, columns, layer.tile, blocking.rows, blocking.columns // LANES)
    _scaled(sch, product, columns)
    sch.compute_at(sums, oo, preserve_unit_loops=True)
    own = _digits(sch, yb, rows, data, pads)
    v = sch.get_loops(sums)[-8]
    sch.tensorize(v, digit_tiles_of(static_extent(sch, v), blocking.rows * layer.columns, blocking.columns, depth))
    sch.tensorize(sch.get_loops(sch.get_block(ROWS))[-2], DIGITS_OF_TERMS)
    share(sch, cpu, blocking.over, [n, yb], [own], oo, work)
    return True


def layer_of(sch, output, data, columns, pairs=False):
    """The Layer of a kernel that sums products of all channels, which it scales."""
    _, side, _, ib, ty, tx, lanes = (static_extent(sch, loop) for loop in sch.get_loops(data))
    tile, out_blocks = (static_extent(sch, loop) for loop in (sch.get_loops(columns)[-3], sch.get_loops(output)[1]))
    return Layer(tile, ib, out_blocks, ty, tx, lanes, side - tile + 1, pairs=pairs)


def _scaled(sch, product, columns):
    """Products, the sums times both scales, of a column of planes at a time."""
    sch.compute_at(product, sch.get_loops(columns)[-3], preserve_unit_loops=True)
    sch.set_scope(product, 0, "local")
    *_, u, v, _, _, _, o = sch.get_loops(product)
    choices(sch, u, o)


def scale_rows(sch, at, largest, scales, nested, after=()):
    """Scales of one row of tiles after the other, in a turn of the loop `at`. largest: the stage they are made of;
    scales: these and their inverses; nested: the stages of what is scaled, in the loop over rows, which it returns;
    after: those that follow."""
    scale, inverse = scales
    for name in (*reversed(after), *reversed(nested), inverse, scale):
        sch.compute_at(sch.get_block(name), at, preserve_unit_loops=True)
    row, u = sch.get_loops(sch.get_block(scale))[-2:]
    sch.compute_at(sch.get_block(largest), u, preserve_unit_loops=True)
    reduce_points(sch, sch.get_block(largest))
    for name, loop in ((inverse, u), *((name, row) for name in nested)):
        sch.reverse_compute_at(sch.get_block(name), loop, preserve_unit_loops=True)
    bound = sch.get_loops(sch.get_block(inverse))[-1]
    sch.unroll(bound)
    sch.annotate(bound, EXPLICIT, 1)
    return row


def _digits(sch, at, rows, data, pads):
    """Scales and digits of one row of tiles after the other, whose loop it returns."""
    row = scale_rows(sch, at, LARGEST, (SCALE, INVERSE), (FIXED, ROWS))
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
