"""Winograd convolutions along one axis: the stages of nn.conv2d_winograd_rows as one kernel over rows of tiles.

    for n, row of tiles:
        for ic, y, x:        the rows of the image that it sees, with their border, where the image is padded here
        for ic, p, x:        winograd_rows: what all products of the row read
        for block of columns:
            for plane, tile: acc = 0;  for ic, p, kw: for columns, vectors: acc += broadcast(rows) * U;  product = acc
            for ob, x:       the results of a column, and their epilogue
"""
from __future__ import annotations

from functools import partial
from math import prod

from ...arith import Analyzer
from ...tir.hints import WHOLE
from ..plan import Match, one_after_another
from . import winograd_row_tiles
from .blocks import PADDED, blocks, find_block, inline_all, only_output, operand_loads, static_extent, store_border
from .registers import by_element, steps
from .threads import parallel_nest
from .winograd_products import sum_products
from .winograd_stages import choices

STAGES = ("winograd_rows", "winograd_product")
RESULT = "conv2d_winograd_rows"


def winograd_rows(sch, cpu):
    """nn.conv2d_winograd_rows with what is fused to it. For vectors of another width than the layout's the stages stay
    one after the other."""
    if find_block(sch, lambda block: block.name_hint == RESULT) is None:
        return None
    padded = find_block(sch, lambda block: block.name_hint == PADDED)
    inline_all(sch, keep={*STAGES, PADDED})
    output = only_output(sch)
    if output is None or len(blocks(sch)) != len(STAGES) + 1 + bool(padded) or len(sch.get_loops(output)) != 5:
        return None
    rows, products = map(sch.get_block, STAGES)
    layer, lanes = _layer(sch, cpu, rows, products)
    if lanes != cpu.lanes:
        return one_after_another("winograd_rows")
    return Match(layer, partial(_apply, sch, output, rows, products, padded, layer))


def _apply(sch, output, rows, products, padded, layer, plan, cpu):
    n, ob, y, x, o = sch.get_loops(output)
    ty, yi = sch.split(y, [None, layer.tile])
    xb, xi = sch.split(x, [None, plan.block])
    sch.reorder(n, ty, xb, ob, xi, yi, o)
    choices(sch, yi, o)
    sum_products(sch, cpu, products, xb, plan.tile, [])
    _rows(sch, rows, ty, cpu.lanes)
    if padded:
        _image(sch, sch.get_block(padded), ty)
    parallel_nest(sch, cpu, [n, ty], layer.work)


def _image(sch, padded, at):
    """The rows of the image that a row of tiles sees, each copied once it is known to be there."""
    sch.compute_at(padded, at, preserve_unit_loops=True)
    sch.set_scope(padded, 0, "local")
    store_border(sch, padded)
    sch.annotate(sch.get_loops(padded)[-2], WHOLE, 0)


def _layer(sch, cpu, rows, products):
    """(the Layer, lanes of the layout)."""
    _, channels, _, side, stride, columns = (static_extent(sch, loop) for loop in sch.get_loops(rows))
    _, _, _, out_blocks, count, width, lanes, *terms = (static_extent(sch, loop) for loop in sch.get_loops(products))
    block = sch.get(rows)
    tile = Analyzer().step(operand_loads(block)[0].indices[2], block.iter_vars[2].var) // stride
    data = channels * stride * -(-columns // lanes)
    by, work = by_element(cpu, sch.get(products))[0].by_element, steps(sch.get(products))
    return winograd_row_tiles.Layer(tile, side, prod(terms), out_blocks, count, width, data, by, work), lanes


def _rows(sch, rows, at, lanes):
    """Vectors of columns of the image, each transformed at once."""
    sch.compute_at(rows, at, preserve_unit_loops=True)
    i, _, u, p, x = sch.get_loops(rows)[-5:]
    xv, xl = sch.split(x, [None, lanes])
    sch.reorder(i, p, xv, u, xl)
    choices(sch, u, xl)
