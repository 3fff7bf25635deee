"""Winograd convolutions: the stages of nn.conv2d_winograd as one kernel over blocks of tiles.

    for block of tile rows:
        for ib, ty:          winograd_rows, then winograd_input: V, all planes of the block
        for output vectors:
            for plane, tile: acc = 0;  for ib, ic: for points, vectors: acc += broadcast(V) * U;  winograd_product = acc
            for tile:        winograd_columns, then the results and their epilogue

Products by other arithmetics have stages of their own in the places of these, and scales of rows of tiles before
winograd_input (winograd_products.py). The sums of the transforms depend on the row of a matrix: those loops are copies
of their body, one for each row.
"""
from __future__ import annotations

from dataclasses import replace

from ..plan import Match, one_after_another
from .arithmetics import SCHEDULES
from .blocks import find_block, static_extent
from .registers import steps
from .roles import arithmetic_of, stages_of
from .winograd_stages import STAGES, only_stages, share, turns_of


def winograd(sch, target):
    """nn.conv2d_winograd with what is fused to it, in blocks that fit L2. For vectors of another width
    than the layout's the stages stay one after the other."""
    if find_block(sch, lambda block: block.name_hint == STAGES[1]) is None:
        return None
    arithmetic = arithmetic_of(sch)
    output, pads = only_stages(sch, (*STAGES, *stages_of(sch, arithmetic)))
    if output is None or len(sch.get_loops(output)) != 5:
        return None
    planes = SCHEDULES[arithmetic].planes
    rows, data, product, columns = map(sch.get_block, STAGES)
    layer = planes.layer(sch, output, data, product, columns)
    if layer.lanes != target.lanes:
        return one_after_another("winograd")

    layer = replace(layer, batch=static_extent(sch, sch.get_loops(output)[0]),
                    work=steps(sch.get(planes.sums(sch, product))))

    def apply(plan, target):
        n, yb, oo = turns_of(sch, output, columns, layer.tile, plan)
        planes.products(sch, target, layer, plan, product, columns, oo)
        own = planes.inputs(sch, target, layer, plan, yb, rows, data, pads)
        share(sch, target, plan.threads, [n, yb], own, oo, layer.work)

    return Match(planes.kernel(layer), apply)
