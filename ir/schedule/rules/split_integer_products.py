"""Products in fixed point: sums of products of slices on a unit for tiles of integers."""
from __future__ import annotations

from functools import partial
from math import prod

from ...relax.arithmetic.split_integer import COLUMNS, SLICES, LANES, even_rows
from ..plan import Match
from ..primitives.sample import divisors
from .blocks import inline_all, iter_vars, only_output, static_extent, vectorizes
from .split_integer_tiles import SLICES_OF_TERMS, ROWS, SplitIntegerProduct, split_integer_tiles
from .registers import ranks, steps
from .roles import stages_of
from .row_reduction import reduce_points, reduce_serially
from .threads import COST_OF_LOOP, parallel_nest
from .tiles import FLOAT

SUMS, FIXED, SLICED, SCALE = "split_integer_sums", "split_integer_fixed", "split_integer_rows", "split_integer_scale"
LARGEST, INVERSE = "split_integer_largest", "split_integer_inverse"


def split_integer_products(sch, target):
    """Slices of rows, then panels of columns by the micro-kernel:

        for block of rows (parallel):
            for row:  largest, scale
            for row: for term: slices
            for panel:  sums = tiles(slices, panel);  for row: epilogue(sums)

    Rows of one block are cut into slices before, and panels are shared; so are those of a matrix where a thread had
    better not read all columns. Where terms are in parts, a part's slices meet some panels before the next part does.
    """
    inline_all(sch, keep=stages_of(sch, "split_integer"))
    epilogue = only_output(sch)
    if epilogue is None:
        return None
    image = ranks(sch.get(sch.get_block(LARGEST)))[1] > 1
    if image:
        *batch, columns, y, x, lane = sch.get_loops(epilogue)
        lines, points, width = [y, x], (static_extent(sch, y), static_extent(sch, x)), LANES
    else:
        *batch, m, columns = sch.get_loops(epilogue)
        lines, points, width, lane = [m], (even_rows(static_extent(sch, m)), 1), 1, None
    block = sch.get(sch.get_block(SUMS))
    *outer, _, _, _, _ = iter_vars(block, "spatial")  # panels, rows, halves and their columns
    parts = outer[-1].dom.extent.value if len(outer) > len(batch) else 1
    depth = parts * prod(iv.dom.extent.value for iv in iter_vars(block, "reduce"))
    kernel = SplitIntegerProduct(points, depth, static_extent(sch, columns) * width, image, parts, steps(block))
    return Match(kernel, partial(_apply, sch, kernel, epilogue, batch, lines, columns, lane))


def _apply(sch, kernel, epilogue, batch, lines, columns, lane, plan, target):
    """lines: the loops over rows, or over lines and their points; columns: the loop over columns, or over blocks of
    them, whose own is `lane`."""
    outer, line = sch.split(lines[0], [None, plan.block // kernel.points[1]])
    if kernel.image:
        panel, half = sch.split(columns, [None, plan.turn])
        sch.reorder(*batch, outer, panel, half, line, *lines[1:], lane)
    else:
        panel, half, lane = sch.split(columns, [None, plan.turn, LANES])
        sch.reorder(*batch, outer, panel, line, half, lane)
    if vectorizes(sch.get(epilogue)):
        sch.vectorize(lane)
    own = (kernel.image or plan.threads == ROWS) and static_extent(sch, outer) > 1
    block = sch.get_block(SUMS)
    reduce = iter_vars(sch.get(block), "reduce")
    if kernel.parts > 1:
        sums = kernel.parts * plan.block * COLUMNS
        most = min(target.cost("split_integer.panels"), target.cost("split_integer.most_sums") // sums)
        some = max(n for n in divisors(static_extent(sch, panel)) if n <= max(most, 1))
        panel, _ = sch.split(panel, [None, some])
    sch.compute_at(block, panel, preserve_unit_loops=True)
    sch.set_scope(block, 0, "local")
    slices = _slices(sch, target, outer if own else None, kernel.image)
    _, one = sch.split(sch.get_loops(block)[-4 - len(reduce)], [None, 1])
    sch.tensorize(one, split_integer_tiles(plan.block, plan.turn * LANES, reduce[0].dom.extent.value))
    sch.tensorize(slices, SLICES_OF_TERMS)  # after the block that reads them: of this one nothing is proved any more
    loops = [*batch, outer] if own else [*batch, outer, panel]
    parallel_nest(sch, target, loops, kernel.work // target.cost("split_integer.work"))


def _slices(sch, target, at, image):
    """Slices row by row, whose terms are looked at once for the scale and once for the slices; of an iteration of the
    loop `at`, or of all rows. All scales come first where L2 holds the rows, as a row's slices wait for its
    own. Returns the loop over the slices of 64 terms."""
    scale, slices = sch.get_block(SCALE), sch.get_block(SLICED)
    count = steps(sch.get(slices))
    apart = (at is not None or not target.parallel) and FLOAT * count // SLICES <= target.l2_bytes
    if at is not None:
        for name in (SLICED, FIXED, INVERSE, SCALE):
            sch.compute_at(sch.get_block(name), at, preserve_unit_loops=True)
    loops = sch.get_loops(scale)
    largest = sch.get_block(LARGEST)
    sch.compute_at(largest, loops[-1], preserve_unit_loops=True)
    if image:
        reduce_points(sch, largest)
    else:
        reduce_serially(sch, target, largest)
    for name in (INVERSE,) if apart else (INVERSE, FIXED, SLICED):
        sch.reverse_compute_at(sch.get_block(name), loops[-1], preserve_unit_loops=True)
    step, row, d, _ = sch.get_loops(slices)[-4:]
    if not (image and apart):  # blocks of an image's channels lie apart, terms of a matrix's row side by side
        sch.reorder(row, step)
    inner = sch.get_loops(slices)[-3]
    fixed = sch.get_block(FIXED)
    sch.compute_at(fixed, inner)
    sch.set_scope(fixed, 0, "local")
    lanes = sch.get_loops(fixed)[-1]
    if vectorizes(sch.get(fixed), sch.get(fixed).iter_vars[-1].var):
        sch.vectorize(lanes)
    if at is None:
        parallel_nest(sch, target, loops, COST_OF_LOOP * count)
    return d
