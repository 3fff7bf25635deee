"""Columns of activations in fixed point: their scales, and their digits by the tiles of the unit that reads them."""
from __future__ import annotations

from ...relax.ops.matmul_digits import LANES
from ..primitives.sample import divisors
from .blocks import only_output, static_extent
from .digit_products import FIXED, INVERSE, LARGEST, SCALE
from .digit_tiles import DIGITS_OF_COLUMNS
from .registers import in_registers, steps
from .threads import COST_OF_LOOP, parallel_nest

DIGITS = "column_digits"
TERMS_AT_ONCE = 4  # rows of a matrix that are read at the same time, each from a stream of its own
MOST_COLUMNS = 4096  # whose reductions the first cache holds
LEAST_SHARES = 4


def column_digits(sch, cpu):
    """column_scales, reductions of columns in the order of memory, and column_digits, 64 rows at a time, tile by tile:

        for step (parallel):  for panel, half, term:  fixed = w * inverse;  digits(fixed)
    """
    output = output_name(sch)
    if output == DIGITS:
        _digits(sch, cpu)
    elif output == SCALE:
        reduce_columns(sch, cpu, sch.get_block(LARGEST), sch.get_block(SCALE))
    else:
        return False
    return True


def output_name(sch):
    """The name of the block that makes the result; None where there are several results."""
    output = only_output(sch)
    return output and sch.get(output).name_hint


def reduce_columns(sch, cpu, reduction, result):
    """A reduction over the terms of columns, in the order of memory, and what is made of it:

        for columns (parallel):  for few of k: for vector: for k: total;  for vector: result
    """
    work, (n,) = steps(sch.get(reduction)), sch.get_loops(result)
    some, _, lanes = sch.split(n, [None, shared_columns(sch, cpu, n) // LANES, LANES])
    sch.vectorize(lanes)
    sch.compute_at(reduction, some)
    sch.set_scope(reduction, 0, "local")
    _, column, k = sch.get_loops(reduction)
    vector, lanes = sch.split(column, [None, LANES])
    few, k = sch.split(k, [None, max(d for d in divisors(static_extent(sch, k)) if d <= TERMS_AT_ONCE)])
    sch.reorder(few, vector, k, lanes)
    in_registers(sch, [k], lanes)
    sch.decompose_reduction(reduction, few)
    parallel_nest(sch, cpu, [some], work)


def shared_columns(sch, cpu, loop, panel=1):
    """How many columns one thread has at a time, of a loop over them or over panels of so many."""
    columns = static_extent(sch, loop) * panel
    most = min(columns // LEAST_SHARES if cpu.parallel else columns, MOST_COLUMNS)
    return max((c for c in divisors(columns) if c % LANES == 0 and c <= most), default=LANES)


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
