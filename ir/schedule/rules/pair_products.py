"""Products by pairs: two of three terms of a sum by one multiply-add and two additions."""
from __future__ import annotations

from math import prod

from ..blocks import uses
from . import pair_tiles
from .blocks import find_block, inline_all, iter_vars, operand_loads, static_extent
from .pair_tiles import FLOAT
from .registers import in_registers, ranks, reduce_lanes, steps
from .row_reduction import reduce_serially
from .threads import parallel_nest

SUMS, ROWS, LESS, OWN, SCALE, LARGEST, INVERSE = STAGES = [
    f"pairs_{name}" for name in ("sums", "rows", "less", "own", "scale", "largest", "inverse")]


def pair_products(sch, cpu):
    """matmul_pairs and nn.conv2d_pairs with what is fused to them.

        for block of rows (parallel):
            for row: largest, scale, inverse;  for row: rows;  for row: own, less
            for panel, tile of rows:
                acc = 0;  for t: for row: acc += (x0 + y1) (x1 + y0);  for row: acc += x2 y2;  epilogue(acc)

    Where threads share panels the rows are divided before, tile by tile.
    """
    if find_block(sch, lambda block: block.name_hint == SUMS) is None:
        return False
    inline_all(sch, keep=set(STAGES))
    outputs = sch.get_output_blocks("root")
    if len(outputs) != 1:
        return False
    block, epilogue = sch.get_block(SUMS), outputs[0]
    work = steps(sch.get(block))
    batch, points, panel, lane = (_image if "image" in sch.get(block).annotations else _matrix)(sch, cpu, epilogue)
    third = next(iv for iv in iter_vars(sch.get(block), "reduce")).dom.extent.value
    plan = pair_tiles.choose(cpu, [static_extent(sch, p) for p in points], third, static_extent(sch, panel))
    if len(points) == 1:
        at, *outer, inner = sch.split(points[0], [None, plan.block, plan.tile])
    else:
        at, first = sch.split(points[0], [None, plan.block])
        second, inner = sch.split(points[1], [None, plan.tile])
        outer = [first, second]
    sch.reorder(*batch, at, panel, *outer, inner, lane)
    sch.compute_at(block, outer[-1], preserve_unit_loops=True)
    in_registers(sch, (inner,), lane)
    *_, row, own_lane, t, by = sch.get_loops(block)
    tile_sums(sch, cpu, block, (row,), own_lane, t, by)
    if plan.over == "rows":
        divide_rows(sch, cpu, at)
        parallel_nest(sch, cpu, [*batch, at], work)
    else:
        *others, row = sch.get_loops(sch.get_block(SCALE))
        tile, _ = sch.split(row, [None, plan.tile])
        divide_rows(sch, cpu, tile, alone=True)
        parallel_nest(sch, cpu, [*others, tile], work)
        parallel_nest(sch, cpu, [*batch, at, panel], work)
    return True


def _matrix(sch, cpu, epilogue):
    """(outer loops, those over rows, over panels and over the columns of one) of a matrix."""
    *batch, m, n = sch.get_loops(epilogue)
    panel, lane = sch.split(n, [None, cpu.lanes])
    return batch, [m], panel, lane


def _image(sch, cpu, epilogue):
    """The same of an image."""
    _join_rows(sch, epilogue)
    n, panel, *points, lane = sch.get_loops(epilogue)
    return [n], points, panel, lane


def _join_rows(sch, epilogue):
    """One dimension of rows and columns of an image, where its results follow one another."""
    result = sch.get(epilogue)
    if any(region.buffer.strides for region in (*result.reads, *result.writes)):
        return
    width = result.iter_vars[3].dom.extent.value
    sch.transform_block_layout(epilogue, lambda n, c, y, x, o: (n, c, y * width + x, o))
    for name in STAGES[1:]:
        block = sch.get_block(name)
        sch.transform_block_layout(block, lambda n, y, x, *rest: (n, y * width + x, *rest))
        sch.transform_layout(block, ("write", 0), lambda n, y, x, *rest: (n, y * width + x, *rest))
    block = sch.get_block(SUMS)
    sch.transform_block_layout(block, lambda n, y, c, x, *rest: (n, c, y * width + x, *rest))
    sch.transform_layout(block, ("write", 0), lambda n, y, c, x, o: (n, c, y * width + x, o))


def tile_sums(sch, cpu, block, points, lane, t, by):
    """The sums of a tile, in registers: first of pairs, then of the terms by themselves."""
    sch.set_scope(block, 0, "local")
    sch.reorder(t, by, *points, lane)
    in_registers(sch, points, lane)
    sch.unroll(by)
    sch.annotate(by, "pragma_unroll_explicit", 1)
    sch.decompose_reduction(block, t)
    sch.annotate(t, "pragma_unroll", 1)
    columns = columns_of(sch, block)
    if FLOAT * prod(d.value for d in columns.shape) > cpu.l1_bytes:  # out of the caches whenever their kernel begins
        for annotation in ("pragma_prefetch_ahead", "pragma_prefetch_far"):
            sch.annotate(t, annotation, [columns.name])


def columns_of(sch, sums):
    """The buffer of packed columns that sums read."""
    block = sch.get(sums)
    lane = iter_vars(block, "spatial")[-1]
    return next(load.buffer for load in operand_loads(block) if uses(load.indices, {lane.var}))


def divide_rows(sch, cpu, at, alone=False):
    """Rows divided by their largest magnitudes, and what each adds by itself, in a turn of the loop `at`: these in a
    loop of their own, since what was just stored in other vectors is slow to read. alone: the loop is around scales
    alone so far."""
    if alone:
        for name in (INVERSE, ROWS, OWN, LESS):
            at_own = sch.get_loops(sch.get_block(OWN))[-2] if name == LESS else at
            sch.reverse_compute_at(sch.get_block(name), at_own, preserve_unit_loops=True)
    else:
        for name in (LESS, OWN, ROWS, INVERSE, SCALE):
            at_own = sch.get_loops(sch.get_block(LESS))[-1] if name == OWN else at
            sch.compute_at(sch.get_block(name), at_own, preserve_unit_loops=True)
            sch.set_scope(sch.get_block(name), 0, "local")
    sch.compute_at(sch.get_block(LARGEST), sch.get_loops(sch.get_block(SCALE))[-1], preserve_unit_loops=True)
    for name in (OWN, LARGEST):
        sch.set_scope(sch.get_block(name), 0, "local")
    for name in (OWN, LARGEST):
        in_lanes(sch, cpu, sch.get_block(name))
    sch.reverse_compute_at(sch.get_block(INVERSE), sch.get_loops(sch.get_block(SCALE))[-1], preserve_unit_loops=True)
    rows = sch.get_block(ROWS)
    sch.storage_align(rows, 0, -2, 2 * cpu.lanes, cpu.lanes)
    _, lane = sch.split(sch.get_loops(rows)[-1], [None, cpu.lanes])
    sch.vectorize(lane)


def in_lanes(sch, cpu, block):
    """A reduction over terms, or over blocks of them and the terms of each, in the lanes of a vector, if they fill
    one."""
    *_, terms = sch.get_loops(block)
    if static_extent(sch, terms) < cpu.lanes:
        reduce_serially(sch, cpu, block)
        return
    if ranks(sch.get(block))[1] == 1:
        _, terms = sch.split(terms, [None, cpu.lanes])
    partial = sch.rfactor(terms, 0)
    sch.set_scope(partial, 0, "local")
    *_, vectors, lane = sch.get_loops(partial)
    sch.vectorize(lane)
    sch.decompose_reduction(partial, vectors)
    reduce_lanes(sch, block, sch.get_loops(block)[-1])
