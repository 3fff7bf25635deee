"""Products in fixed point: sums of products of digits on a unit for tiles of integers."""
from __future__ import annotations

from ...relax.ops.matmul_digits import COLUMNS, LANES
from ..digit_tiles import digit_tiles, row_blocks
from .blocks import find_block, inline_all, iter_vars, static_extent, vectorizes
from .registers import steps
from .row_reduction import reduce_serially
from .threads import COST_OF_LOOP, parallel_nest

SUMS, FIXED, ROWS = "digits_sums", "digits_fixed", "digits_rows"
OF_ROWS = ("digits_total", "digits_largest", "digits_scale", "digits_inverse")


def digit_products(sch, cpu):
    """matmul_digits with what is fused to it: a row's digits, then panels of columns by the micro-kernel.

        for row (parallel):  largest, scale;  for term: digits
        for block of rows, panel (parallel):  sums = tiles(digits, panel);  for row: epilogue(sums)
    """
    if find_block(sch, lambda block: block.name_hint == SUMS) is None:
        return False
    inline_all(sch, keep={SUMS, FIXED, ROWS, *OF_ROWS})
    outputs = sch.get_output_blocks("root")
    if len(outputs) != 1:
        return False
    _digits(sch, cpu)
    block, epilogue = sch.get_block(SUMS), outputs[0]
    work = steps(sch.get(block))
    *batch, m, n = sch.get_loops(epilogue)
    rows = row_blocks(static_extent(sch, m))
    if not rows:
        return False
    mo, mi = sch.split(m, [None, rows])
    no, nh, nl = sch.split(n, [None, COLUMNS // LANES, LANES])
    sch.reorder(*batch, mo, no, mi, nh, nl)
    if vectorizes(sch.get(epilogue)):
        sch.vectorize(nl)
    sch.compute_at(block, no, preserve_unit_loops=True)
    sch.set_scope(block, 0, "local")
    step = iter_vars(sch.get(block), "reduce")[0]
    *_, panel, first = sch.get_loops(block)[:-5]
    sch.tensorize(first, digit_tiles(rows, step.dom.extent.value))
    parallel_nest(sch, cpu, [*batch, mo, no], work)
    return True


def _digits(sch, cpu):
    """Digits row by row, whose terms are looked at once for the scale and once for the digits."""
    scale, digits = sch.get_block("digits_scale"), sch.get_block(ROWS)
    work = COST_OF_LOOP * steps(sch.get(digits))
    loops = sch.get_loops(scale)
    for name in ("digits_total", "digits_largest"):
        sch.compute_at(sch.get_block(name), loops[-1])
        reduce_serially(sch, cpu, sch.get_block(name))
    for name in ("digits_inverse", FIXED, ROWS):
        sch.reverse_compute_at(sch.get_block(name), loops[-1])
    step, d, term = sch.get_loops(digits)[len(loops):]
    sch.reorder(step, term, d)
    sch.compute_at(sch.get_block(FIXED), step)
    sch.set_scope(sch.get_block(FIXED), 0, "local")
    sch.unroll(d)
    sch.annotate(d, "pragma_unroll_explicit", 1)
    parallel_nest(sch, cpu, loops, work)
