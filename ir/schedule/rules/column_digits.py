"""Columns of activations in fixed point: their scales, and their digits by the tiles of the unit that reads them."""
from __future__ import annotations

from ...relax.ops.matmul_digits import LANES
from .blocks import find_block, static_extent
from .digit_products import FIXED, INVERSE, LARGEST, SCALE
from .digit_tiles import DIGITS_OF_COLUMNS
from .registers import in_registers, steps
from .threads import COST_OF_LOOP, parallel_nest

DIGITS = "column_digits"
VECTORS = 16  # of columns, of which scales are found at a time: few pages have many lines of each
LEAST_SHARES = 4


def column_digits(sch, cpu):
    """column_scales, the reductions of some columns at a time, and column_digits, 64 rows at a time, tile by tile:

        for columns (parallel):  for k: for vectors: total;  for k: for vectors: largest;  scale
        for step (parallel):  for panel, half, term:  fixed = w * inverse;  digits(fixed)
    """
    if find_block(sch, lambda block: block.name_hint == DIGITS):
        _digits(sch, cpu)
        return True
    scale = find_block(sch, lambda block: block.name_hint == SCALE)
    if scale is None or len(sch.get_loops(sch.get_block(scale))) != 1:
        return False
    _scales(sch, cpu, sch.get_block(scale))
    return True


def _scales(sch, cpu, scale):
    largest, (n,) = sch.get_block(LARGEST), sch.get_loops(scale)
    work = steps(sch.get(largest))
    shares = LEAST_SHARES if cpu.parallel else 1
    some, *within = sch.split(n, [None, max(min(VECTORS, static_extent(sch, n) // (shares * LANES)), 1), LANES])
    sch.compute_at(largest, some)
    sch.set_scope(largest, 0, "local")
    _, column, k = sch.get_loops(largest)
    vectors, lanes = sch.split(column, [None, LANES])
    sch.reorder(k, vectors, lanes)
    in_registers(sch, [vectors], lanes)
    sch.decompose_reduction(largest, k)
    in_registers(sch, within[:1], within[1])
    parallel_nest(sch, cpu, [some], work)


def _digits(sch, cpu):
    fixed, digits = sch.get_block(FIXED), sch.get_block(DIGITS)
    work = COST_OF_LOOP * steps(sch.get(digits))
    _, lanes = sch.split(sch.get_loops(sch.get_block(INVERSE))[-1], [None, LANES])
    sch.vectorize(lanes)
    panel, step, d, half, t, j, q = sch.get_loops(digits)
    half, one = sch.split(half, [None, 1])
    t, other = sch.split(t, [None, 1])
    sch.reorder(step, panel, half, t, d, one, other, j, q)
    sch.compute_at(fixed, t)
    sch.set_scope(fixed, 0, "local")
    sch.vectorize(sch.get_loops(fixed)[-1])
    sch.tensorize(d, DIGITS_OF_COLUMNS)
    parallel_nest(sch, cpu, [step], work)
