"""Products in fixed point: sums of products of digits on a unit for tiles of integers."""
from __future__ import annotations

from math import prod

from ...relax.arithmetic.digits import COLUMNS, SLICES, LANES, even_rows
from ..primitives.sample import divisors
from .blocks import inline_all, iter_vars, only_output, static_extent, vectorizes
from .digit_tiles import DIGITS_OF_TERMS, FASTER, choose_unit, digit_tiles, row_blocks, shared_rows
from .registers import ranks, steps
from .roles import stages_of
from .row_reduction import reduce_points, reduce_serially
from .threads import COST_OF_LOOP, parallel_nest
from .tiles import FLOAT

SUMS, FIXED, ROWS, SCALE = "digits_sums", "digits_fixed", "digits_rows", "digits_scale"
LARGEST, INVERSE = "digits_largest", "digits_inverse"
PANELS = 4  # that meet a part of the terms, or as many as make
MOST_SUMS = 1 << 17  # of all parts together: L2 holds them beside digits, and a thread's stack
MANY_ROWS = 96  # of a thread, that take longer to meet columns than these to come
MOST_DIGITS = 1 << 19  # bytes of a thread's own rows, on its stack


def digit_products(sch, target):
    """Digits of rows, then panels of columns by the micro-kernel:

        for block of rows (parallel):
            for row:  largest, scale
            for row: for term: digits
            for panel:  sums = tiles(digits, panel);  for row: epilogue(sums)

    Rows of one block are cut into digits before, and panels are shared; so are those of a matrix where a thread had
    better not read all columns. Where terms are in parts, a part's digits meet some panels before the next part does.
    """
    inline_all(sch, keep=stages_of(sch, "digits"))
    epilogue = only_output(sch)
    if epilogue is None:
        return False
    image = ranks(sch.get(sch.get_block(LARGEST)))[1] > 1
    block = sch.get_block(SUMS)
    work, reduce = steps(sch.get(block)), iter_vars(sch.get(block), "reduce")
    batch_rank = 1 if image else ranks(sch.get(epilogue))[0] - 2
    parts = ranks(sch.get(block))[0] > batch_rank + 4  # panels, rows, halves and their columns
    depth = prod(iv.dom.extent.value for iv in reduce)
    rows, unit, batch, outer, panel, own = (_points if image else _rows)(sch, target, epilogue, depth, parts)
    if not rows:
        return False
    own = own and static_extent(sch, outer) > 1
    if parts:
        most = max(min(PANELS, MOST_SUMS // (static_extent(sch, sch.get_loops(block)[len(batch)]) * rows * COLUMNS)), 1)
        some = max(n for n in divisors(static_extent(sch, panel)) if n <= most)
        panel, _ = sch.split(panel, [None, some])
    sch.compute_at(block, panel, preserve_unit_loops=True)
    sch.set_scope(block, 0, "local")
    digits = _digits(sch, target, outer if own else None, image)
    _, one = sch.split(sch.get_loops(block)[-4 - len(reduce)], [None, 1])
    sch.tensorize(one, digit_tiles(rows, unit, reduce[0].dom.extent.value))
    sch.tensorize(digits, DIGITS_OF_TERMS)  # after the block that reads them: of this one nothing is proved any more
    parallel_nest(sch, target, [*batch, outer] if own else [*batch, outer, panel], work // FASTER)
    return True


def _rows(sch, target, epilogue, depth, parts):
    """(rows and columns that meet at a time, batch loops, the loop over blocks of rows, over those columns, whether a
    block's rows are cut into digits in its turn) of a product, whose terms may be in parts."""
    *batch, m, n = sch.get_loops(epilogue)
    every, columns = even_rows(static_extent(sch, m)), static_extent(sch, n)
    rows = row_blocks(every)
    if not rows:
        return 0, 0, batch, m, n, False
    few = shared_rows((every, 1), depth, columns)
    own = _near(target, depth, columns, few) and few * depth * SLICES <= MOST_DIGITS
    rows = few if own else rows
    unit = COLUMNS if parts else choose_unit(target, (every, 1), depth, columns, rows)
    mo, mi = sch.split(m, [None, rows])
    no, nh, nl = sch.split(n, [None, unit // LANES, LANES])
    sch.reorder(*batch, mo, no, mi, nh, nl)
    if vectorizes(sch.get(epilogue)):
        sch.vectorize(nl)
    return rows, unit, batch, mo, no, own


def _near(target, depth, columns, rows=0):
    """Whether threads share rows, each of which keeps its own from kernel to kernel: all may read all columns, for
    MANY_ROWS also from somewhat beyond L2."""
    return target.parallel and SLICES * depth * columns <= target.l2_bytes * (2 if rows >= MANY_ROWS else 1)


def _points(sch, target, epilogue, depth, _):
    """Split the loops of an image, whose rows of points stay whole."""
    n, ob, y, x, o = sch.get_loops(epilogue)
    height, width, blocks = (static_extent(sch, loop) for loop in (y, x, ob))
    rows = row_blocks(height * width, width)
    if not rows:
        return 0, 0, [n], y, ob, False
    if _near(target, depth, blocks * LANES):
        rows = shared_rows((height, width), depth, blocks * LANES)
    unit = choose_unit(target, (height, width), depth, blocks * LANES, rows)
    yo, yi = sch.split(y, [None, rows // width])
    no, nh = sch.split(ob, [None, unit // LANES])
    sch.reorder(n, yo, no, nh, yi, x, o)
    if vectorizes(sch.get(epilogue)):
        sch.vectorize(o)
    return rows, unit, [n], yo, no, True


def _digits(sch, target, at, image):
    """Digits row by row, whose terms are looked at once for the scale and once for the digits; of an iteration of the
    loop `at`, or of all rows. All scales come first where L2 holds the rows, as a row's digits wait for its
    own. Returns the loop over the digits of 64 terms."""
    scale, digits = sch.get_block(SCALE), sch.get_block(ROWS)
    count = steps(sch.get(digits))
    apart = (at is not None or not target.parallel) and FLOAT * count // SLICES <= target.l2_bytes
    if at is not None:
        for name in (ROWS, FIXED, INVERSE, SCALE):
            sch.compute_at(sch.get_block(name), at, preserve_unit_loops=True)
    loops = sch.get_loops(scale)
    largest = sch.get_block(LARGEST)
    sch.compute_at(largest, loops[-1], preserve_unit_loops=True)
    if image:
        reduce_points(sch, largest)
    else:
        reduce_serially(sch, target, largest)
    for name in (INVERSE,) if apart else (INVERSE, FIXED, ROWS):
        sch.reverse_compute_at(sch.get_block(name), loops[-1], preserve_unit_loops=True)
    step, row, d, _ = sch.get_loops(digits)[-4:]
    if not (image and apart):  # blocks of an image's channels lie apart, terms of a matrix's row side by side
        sch.reorder(row, step)
    inner = sch.get_loops(digits)[-3]
    fixed = sch.get_block(FIXED)
    sch.compute_at(fixed, inner)
    sch.set_scope(fixed, 0, "local")
    lanes = sch.get_loops(fixed)[-1]
    if vectorizes(sch.get(fixed), sch.get(fixed).iter_vars[-1].var):
        sch.vectorize(lanes)
    if at is None:
        parallel_nest(sch, target, loops, COST_OF_LOOP * count)
    return d
