"""Columns of activations for products by pairs: their scales, what they are divided to, and what they add up to."""
from __future__ import annotations

from ...relax.ops.matmul_pairs import LANES
from .column_digits import output_name, reduce_columns, shared_columns
from .pair_products import INVERSE, LARGEST, OWN, SCALE
from .registers import in_registers, steps
from .threads import COST_OF_LOOP, parallel_nest

COLUMNS = "pair_columns"
REDUCED = {SCALE: LARGEST, "pair_offsets": OWN}  # a result of columns -> what it is made of


def column_pairs(sch, cpu):
    """pair_scales and pair_offsets, reductions of columns in the order of memory, and pair_columns, of a term of each
    third after the other:

        for some panels (parallel):  for t: for panel: for part:  columns = w * inverse

    Threads share columns, as they share panels of the product.
    """
    output = output_name(sch)
    if output == COLUMNS:
        _divide(sch, cpu, sch.get_block(COLUMNS))
    elif output in REDUCED:
        reduce_columns(sch, cpu, sch.get_block(REDUCED[output]), sch.get_block(output))
    else:
        return False
    return True


def _divide(sch, cpu, block):
    work = COST_OF_LOOP * steps(sch.get(block))
    panel, t, part, lane = sch.get_loops(block)
    _, lanes = sch.split(sch.get_loops(sch.get_block(INVERSE))[-1], [None, LANES])
    sch.vectorize(lanes)
    some, panel = sch.split(panel, [None, shared_columns(sch, cpu, panel, LANES) // LANES])
    sch.reorder(some, t, panel, part, lane)
    in_registers(sch, [part], lane)
    parallel_nest(sch, cpu, [some], work)
