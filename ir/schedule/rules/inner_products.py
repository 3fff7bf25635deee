"""Products by inner products: two of three terms of a sum by one FMA and two additions."""
from __future__ import annotations

from math import prod

from ...arith import Analyzer
from ...expr import const, is_const_int
from ...tir.buffer import row_major_strides
from ...tir.hints import EXPLICIT, FULL_LANES, PREFETCH_AHEAD, PREFETCH_FAR, TRANSPOSE, UNROLL
from ...tir.index_map import IndexMap
from ..blocks import uses
from ..plan import Match
from .blocks import inline_all, iter_vars, only_output, operand_loads, static_extent
from .inner_product_tiles import PANELS, InnerProduct, sizes
from .registers import in_registers, reduce_lanes, steps
from .roles import stages_of
from .row_reduction import reduce_serially
from .threads import parallel_nest
from .tiles import FLOAT

SUMS, ROWS, LESS, OWN, SCALE, LARGEST, INVERSE = STAGES = [
    f"inner_product_{name}" for name in ("sums", "rows", "less", "own", "scale", "largest", "inverse")]
TURNED = "inner_product_transposed"


def inner_products(sch, target):
    """Rows that are divided, and tiles of sums in registers:

        for block of rows (parallel):
            for rows in the lanes of vectors: largest;  scale
            for rows in the lanes of vectors: inverse;  for terms of a square: turned = x;  rows = turned * inverse
            for rows in the lanes of vectors: own;  less
            for panel, tile of rows:
                acc = 0;  for t: for row: acc += (x0 + y1) (x1 + y0);  for row: acc += x2 y2;  epilogue(acc)

    A term of all rows of a block lies in a row, as sums read them. Where threads share panels all rows are divided
    before.
    """
    inline_all(sch, keep=stages_of(sch, "inner_product"))
    epilogue = only_output(sch)
    if epilogue is None:
        return None
    block = sch.get(sch.get_block(SUMS))
    batch, points, panel, lane = (_image if "image" in block.annotations else _matrix)(sch, target, epilogue)
    third = iter_vars(block, "reduce")[0].dom.extent.value
    kernel = InnerProduct(tuple(static_extent(sch, p) for p in points), third, static_extent(sch, panel), steps(block))

    def apply(plan, target):
        side_by_side(sch, target, (TURNED, ROWS))
        at = _multiply(sch, target, plan, batch, points, panel, lane)
        if plan.threads == PANELS:
            parallel_nest(sch, target, _divide_before(sch, target), kernel.work)
            parallel_nest(sch, target, [*batch, at, panel], kernel.work)
        else:
            _divide_in(sch, at, plan.turn)
            _in_vectors(sch, target)
            parallel_nest(sch, target, [*batch, at], kernel.work)

    return Match(kernel, apply)


def _multiply(sch, target, plan, batch, points, panel, lane):
    """The sums of a plan's tiles, with what is fused to them. The loops of the results: batch, around all; points, over
    rows or over lines of points and the points of one; panel, between those over blocks and those over tiles; lane,
    over a panel's columns. Returns the loop over blocks of rows."""
    first, *rest = sizes(plan, points)
    at, *outer_inner = sch.split(points[0], [None, plan.block, first])
    pairs = [outer_inner, *(sch.split(loop, [None, size]) for loop, size in zip(points[1:], rest))]
    outer, tile = map(list, zip(*pairs))
    sch.reorder(*batch, at, panel, *outer, *tile, lane)
    block = sch.get_block(SUMS)
    sch.compute_at(block, outer[-1], preserve_unit_loops=True)
    in_registers(sch, tile, lane)
    *loops, own_lane, t, by = sch.get_loops(block)
    rows = loops[-1:] if len(tile) == 1 else [loops[-3], loops[-1]]  # a panel's is between those of an image
    tile_sums(sch, target, block, rows, own_lane, t, by)
    return at


def _matrix(sch, target, epilogue):
    """(outer loops, those over rows, over panels and over the columns of one) of a matrix."""
    *batch, m, n = sch.get_loops(epilogue)
    panel, lane = sch.split(n, [None, target.lanes])
    return batch, [m], panel, lane


def _image(sch, target, epilogue):
    """The loops over the points of an image."""
    join_rows(sch, epilogue, TURNED, 1)
    n, panel, *points, lane = sch.get_loops(epilogue)
    return [n], points, panel, lane


def join_rows(sch, epilogue, source, at):
    """One dimension of the rows and columns of an image, which the stage `source` reads, and of those of the results,
    where they follow one another. at: the dimension of rows in the other stages."""
    block = sch.get(sch.get_block(source))
    _, y, x, _ = iter_vars(block, "spatial")
    width = x.dom.extent.value
    if not all(_in_a_row(load, y.var, x.var, width) for load in operand_loads(block)):
        return

    def joined(rows):
        return lambda *i: (*i[:rows], i[rows] * width + i[rows + 1], *i[rows + 2:])

    for name in STAGES[1:]:
        _relaid(sch, name, joined(at))
    _relaid(sch, source, joined(1))
    if _follow(sch.get(epilogue), width):
        sch.transform_block_layout(epilogue, lambda n, c, y, x, o: (n, c, y * width + x, o))
        # Panels are between rows and columns there.
        _relaid(sch, SUMS, lambda *i: (*i[:at], i[at + 1], i[at] * width + i[at + 2], *i[at + 3:]))


def _relaid(sch, name, index_map):
    """A stage and what it writes in the order that a map gives to its indices."""
    block = sch.get_block(name)
    ranks = len(sch.get(block).iter_vars), len(sch.get(block).writes[0].buffer.shape)
    own, written = (IndexMap.from_func(index_map, rank) for rank in ranks)
    sch.transform_block_layout(block, own)
    sch.transform_layout(block, ("write", 0), written)


def _in_a_row(load, y, x, width):
    """Whether what a row of points reads follows what the one above reads."""
    strides = load.buffer.strides or row_major_strides(load.buffer.shape)
    place = sum((index * stride for index, stride in zip(load.indices, strides)), const(0, x.dtype))
    down, along = (Analyzer().step(place, v) for v in (y, x))
    return along is not None and down == width * along


def _follow(result, width):
    """Whether each row of the points that results are made of follows the one above."""
    strides = [region.buffer.strides for region in (*result.reads, *result.writes) if region.buffer.strides]
    return all(len(s) == 5 and is_const_int(s[3]) and is_const_int(s[2], width * s[3].value) for s in strides)


def side_by_side(sch, target, names):
    """A term of all rows lies in a row, an odd number of vectors after the term before: terms of a tile that are a page
    apart would share one set of L1."""
    for name in names:
        block = sch.get_block(name)
        rank = len(sch.get(block).writes[0].buffer.shape)
        sch.transform_layout(block, ("write", 0), IndexMap.from_func(lambda *i: (*i[:-2], i[-1], i[-2]), rank))
        sch.storage_align(block, 0, -2, 2 * target.lanes, target.lanes)


def tile_sums(sch, target, block, points, lane, t, by):
    """The sums of a tile, in registers: first of pairs, then of the terms by themselves."""
    sch.set_scope(block, 0, "local")
    sch.reorder(t, by, *points, lane)
    in_registers(sch, points, lane)
    sch.unroll(by)
    sch.annotate(by, EXPLICIT, 1)
    sch.decompose_reduction(block, t)
    sch.annotate(t, UNROLL, 1)
    columns = columns_of(sch, block)
    if FLOAT * prod(d.value for d in columns.shape) > target.l1_bytes:  # out of the caches whenever their kernel begins
        for annotation in (PREFETCH_AHEAD, PREFETCH_FAR):
            sch.annotate(t, annotation, [columns.name])


def columns_of(sch, sums):
    """The buffer of packed columns that sums read."""
    block = sch.get(sums)
    lane = iter_vars(block, "spatial")[-1]
    return next(load.buffer for load in operand_loads(block) if uses(load.indices, {lane.var}))


def _divide_in(sch, at, size):
    """Divide rows in an iteration of the loop `at`, so many at a time."""
    for name, producer in ((LESS, OWN), (ROWS, INVERSE), (SCALE, LARGEST)):
        sch.compute_at(sch.get_block(name), at, preserve_unit_loops=True)
        sch.set_scope(sch.get_block(name), 0, "local")
        group = _groups(sch, name, size)
        sch.compute_at(sch.get_block(producer), group, preserve_unit_loops=True)


def _divide_before(sch, target):
    """Divide all rows. Returns the loops around those in the lanes of vectors."""
    *outer, _ = sch.get_loops(sch.get_block(SCALE))
    group = _groups(sch, SCALE, target.lanes)
    for name in (INVERSE, ROWS, OWN, LESS):
        sch.reverse_compute_at(sch.get_block(name), group, preserve_unit_loops=True)
    sch.compute_at(sch.get_block(LARGEST), group, preserve_unit_loops=True)
    _in_vectors(sch, target)
    return [*outer, group]


def _groups(sch, name, size):
    """The loop over groups of so many rows of a stage."""
    group, _ = sch.split(sch.get_loops(sch.get_block(name))[-2 if name == ROWS else -1], [None, size])
    return group


def _in_vectors(sch, target):
    """The stages of rows with one in each lane."""
    for name in (SCALE, INVERSE, LESS):
        in_row_lanes(sch, target, sch.get_loops(sch.get_block(name))[-1])
    _largest(sch, target)
    reduce_across(sch, target, sch.get_block(OWN))
    *_, row, k = sch.get_loops(sch.get_block(ROWS))
    k, square = sch.split(k, [None, target.lanes])
    sch.reorder(k, square, row)
    in_row_lanes(sch, target, row)
    turned = sch.get_block(TURNED)
    sch.compute_at(turned, k, preserve_unit_loops=True)
    sch.set_scope(turned, 0, "local")
    *_, row, square = sch.get_loops(turned)
    sch.reorder(square, row)
    read_square(sch, target, square, row)


def in_row_lanes(sch, target, rows):
    """Rows of a group are in the lanes of a vector; fewer than it has leave the others empty."""
    sch.vectorize(rows)
    if static_extent(sch, rows) < target.lanes:
        sch.annotate(rows, FULL_LANES, target.lanes)


def _largest(sch, target):
    """The largest of rows: of each by the lanes of a vector, and then of these of several rows together."""
    partial = _by_lanes(sch, target, sch.get_block(LARGEST))
    copy = sch.cache_write(partial, 0, "local")
    *_, row, vectors, _ = sch.get_loops(partial)
    sch.reverse_compute_at(copy, row, preserve_unit_loops=True)
    sch.vectorize(sch.get_loops(copy)[-1])
    sch.decompose_reduction(partial, vectors)
    reduce_across(sch, target, sch.get_block(LARGEST), turned=True)


def reduce_across(sch, target, block, turned=False):
    """The reductions of rows in the lanes of a vector; turned: the terms of a row lie next to one another."""
    sch.set_scope(block, 0, "local")
    copy = sch.cache_write(block, 0, "local")
    in_row_lanes(sch, target, sch.get_loops(copy)[-1])
    *_, row, k = sch.get_loops(block)
    sch.reorder(k, row)
    if turned:
        read_square(sch, target, k, row)
    else:
        in_row_lanes(sch, target, row)
    sch.decompose_reduction(block, k)


def read_square(sch, target, square, row):
    """Read a square of elements along its rows, for the lanes of vectors across them."""
    sch.unroll(square)
    sch.annotate(square, TRANSPOSE, 1)
    in_row_lanes(sch, target, row)


def in_lanes(sch, target, block):
    """A reduction over terms in the lanes of a vector, if they fill one."""
    *_, terms = sch.get_loops(block)
    if static_extent(sch, terms) < target.lanes:
        reduce_serially(sch, target, block)
        return
    partial = _by_lanes(sch, target, block)
    sch.decompose_reduction(partial, sch.get_loops(partial)[-2])
    reduce_lanes(sch, block, sch.get_loops(block)[-1])


def _by_lanes(sch, target, block):
    """The block of what the lanes of a vector reduce of every so many terms, which a reduction reduces from then on."""
    _, lane = sch.split(sch.get_loops(block)[-1], [None, target.lanes])
    partial = sch.rfactor(lane, len(sch.get(block).writes[0].buffer.shape))
    sch.set_scope(partial, 0, "local")
    sch.vectorize(sch.get_loops(partial)[-1])
    return partial
