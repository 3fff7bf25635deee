"""Reductions that need no register tile: windows, softmax, norms, means."""
from __future__ import annotations

from functools import partial
from math import prod

from ...expr import Call, FloatImm, FloorDiv, FloorMod, IntImm, is_const_int
from ...node import collect
from ...target import VECTOR_LANES
from ...tir.stmt import BlockRealize, BufferLoad, BufferStore
from ..blocks import uses
from ..errors import ScheduleError
from ..plan import Fixed, Match
from ..primitives.sample import divisors
from .blocks import (blocks, find_block, inline_all, innermost, iter_vars, only_output, other_blocks, static_extent,
                     vectorizes)
from .elementwise import flat_indices, parallel_roots
from .registers import reduce_lanes
from .threads import nests_to_share, parallel_outer

PIECE = 128  # elements of a row of accumulators, where rows are cut
CHAINS = 4   # vectors of accumulators of a long row: additions take as many cycles to give a result


def row_reduction(sch, target):
    """Reductions are computed inside the loops of the output block that they share; the outer ones run in parallel.

    Window reductions (pooling, depthwise convolution) keep a row of accumulators, so that the loop over the row is the
    innermost and vectorizes; others (softmax, means) finish per element of the shared loops, in the lanes of a vector
    where they run through memory in order.
    """
    if find_block(sch, _reduces) is None:
        return None
    inline_all(sch, keep=_row_values(sch) | _padded(sch))
    work = sum(nests_to_share(sch.func, target)) or 1
    return Match(Fixed("row_reduction", work=work, what="rows"), partial(_apply, sch))


def _apply(sch, plan, target):
    output = only_output(sch)
    if output is None or not _rows(sch, target, output):
        parallel_roots(sch, target)


def _rows(sch, target, output):
    """Compute everything inside the output's loops; False where none can be shared."""
    if _reduces(sch.get(output)):
        output = sch.cache_write(output, 0, "local")
    window = _window(sch, output)
    shared = _shared_loops(sch, output)
    if window and len(shared) == 1:  # nothing but the row: in pieces, for several threads
        shared = sch.split(shared[0], [None, min(PIECE, static_extent(sch, shared[0]))])
    if window:
        shared = shared[:-1]
    if not shared:
        for name in other_blocks(sch, output):
            reduce_serially(sch, target, sch.get_block(name))
        return False
    whole = _padded(sch)
    producers = [sch.get_block(name) for name in reversed(other_blocks(sch, output)) if name not in whole]
    for block in producers:
        sch.compute_at(block, shared[-1], preserve_unit_loops=window)
        sch.set_scope(block, 0, "local")
    for block in producers:
        if window and _reduces(sch.get(block)):
            _row_innermost(sch, block, len(shared))
        elif _reduces(sch.get(block)):
            reduce_serially(sch, target, block)
        else:
            row_in_vectors(sch, target, block, len(shared))
    row_in_vectors(sch, target, output, len(shared))
    parallel_outer(sch, target, shared)
    for name in whole:
        parallel_outer(sch, target, sch.get_loops(name)[:-1])
    return True


def row_in_vectors(sch, target, block, depth):
    """Vectorize the innermost loop of an elementwise block below the `depth` shared ones; what is less than a vector
    is a part of one."""
    loops, realized = sch.get_loops(block), sch.get(block)
    if (target.lanes == 1 or len(loops) <= depth or not vectorizes(realized)
            or not _is_row(realized, sch.get(loops[-1]))):
        return
    vectors, lanes = sch.split(loops[-1], [None, target.lanes])
    sch.vectorize(lanes)


def _is_row(block, loop):
    """Whether the last loop runs along the innermost dimension of all that depends on it, and is at least a vector."""
    last = block.iter_vars[-1].var if block.iter_vars else None
    return (isinstance(loop.extent, IntImm) and loop.extent.value >= VECTOR_LANES[0] and last is not None and all(
        innermost(access) is last or not uses(access.indices, {last})
        for access in collect(block.body, (BufferLoad, BufferStore))))


def _reduces(block):
    return block.init is not None


def _row_values(sch):
    """Stages made of a reduction's results, one value per row (a mean, say): inlined they would be computed anew for
    each element of the row."""
    results = {b.writes[0].buffer for b in blocks(sch) if _reduces(b)}
    rank = max(len(sch.get(output).iter_vars) for output in sch.get_output_blocks("root"))
    return {b.name_hint for b in blocks(sch)
            if not _reduces(b) and len(b.iter_vars) < rank and any(r.buffer in results for r in b.reads)}


def _padded(sch):
    """Images with a border, of which a reduction that makes several from each reads every element many times, as a
    convolution does: inlined, whether a term is inside would be asked for each of them, and rows not be vectors."""
    images = {b.writes[0].buffer: b.name_hint for b in blocks(sch) if not _reduces(b) and _is_border(b)}
    found = set()
    for block in filter(_reduces, blocks(sch)) if images else ():
        for load in collect(block.body, BufferLoad):
            again = [iv for iv in block.iter_vars if iv.iter_type == "spatial" and not uses(load.indices, {iv.var})]
            if load.buffer in images and any(not is_const_int(iv.dom.extent, 1) for iv in again):
                found.add(images[load.buffer])
    return found


def _is_border(block):
    """Whether a block copies what is inside of bounds, and stores a number elsewhere."""
    value = getattr(block.body, "value", None)
    if not isinstance(value, Call) or value.op != "tir.if_then_else" or collect(value, (FloorDiv, FloorMod)):
        return False
    _, inside, outside = value.args
    return isinstance(inside, BufferLoad) and isinstance(outside, (FloatImm, IntImm))


def _window(sch, output):
    """The function is one reduction over constant windows of its last dimension, which it has rows of."""
    reductions = [b for b in map(sch.get, map(sch.get_block, other_blocks(sch, output))) if _reduces(b)]
    if len(reductions) != 1:
        return False
    spatial, reduce = (iter_vars(reductions[0], kind) for kind in ("spatial", "reduce"))
    if not spatial or not reduce or len(spatial) != len(sch.get_loops(output)):
        return False
    constant = all(isinstance(iv.dom.extent, IntImm) for iv in reduce[-2:] + spatial[-1:])
    return constant and spatial[-1].dom.extent.value > 1 and _reads_rows(reductions[0], spatial[-1].var)


def _reads_rows(block, last):
    """Whether the last spatial variable runs along the innermost dimension of something that the block reads; else the
    reduction alone does (a mean over rows, say)."""
    written = [w.buffer for w in block.writes]
    return any(uses(load.indices[-1:], {last})
               for load in collect(block.body, BufferLoad) if load.buffer not in written)


def _row_innermost(sch, block, depth):
    """Loops of a window reduction below the shared ones: window first, row last; the init has its own loop."""
    loops = list(zip(sch.get_loops(block)[depth:], sch.get(block).iter_vars))
    spatial = [loop for loop, iv in loops if iv.iter_type == "spatial"]
    reduce = [loop for loop, iv in loops if iv.iter_type == "reduce"]
    sch.reorder(*reduce, *spatial)
    sch.decompose_reduction(block, reduce[0])


def reduce_serially(sch, target, block):
    """One accumulator per result, in the lanes of a vector where that is possible, set before its loops."""
    loops = reduction_loops(sch, block)
    if loops and not _in_lanes(sch, target, block, loops):
        sch.decompose_reduction(block, reduction_loops(sch, block)[0])


def reduction_loops(sch, block):
    """The loops that a reduction block's reduce iteration variables run over; none for other blocks."""
    loops = sch.get_loops(block)
    realize = sch.get(loops[-1]).body if loops else None
    if not isinstance(realize, BlockRealize) or not _reduces(realize.block):
        return []
    values = [v for iv, v in zip(realize.block.iter_vars, realize.iter_values) if iv.iter_type == "reduce"]
    return [loop for loop in loops if uses(tuple(values), {sch.get(loop).loop_var})]


def _in_lanes(sch, target, block, loops):
    """Reduce what lies element after element in memory in the lanes of a vector, then reduce those: the order of a sum
    is the program's, and no C compiler may change it. Returns whether that is done."""
    realized = sch.get(block)
    reduce = [iv for iv in iter_vars(realized, "reduce") if not is_const_int(iv.dom.extent, 1)]
    lanes = _lanes_of(target, [iv.dom.extent for iv in reduce])
    loops = [loop for loop in loops if not is_const_int(sch.get(loop).extent, 1)]
    if not lanes or not vectorizes(realized) or not _in_order(realized, reduce):
        return False
    row = sch.fuse(*loops) if len(loops) > 1 else loops[0]
    several = CHAINS if static_extent(sch, row) >= 2 * CHAINS * lanes and len(loops) == 1 else 1
    _, lane = sch.split(row, [None, several * lanes])
    try:
        partial = sch.rfactor(lane, 0)
    except ScheduleError:
        return False
    sch.set_scope(partial, 0, "local")
    *_, vectors, lane = sch.get_loops(partial)
    sch.vectorize(lane)
    sch.decompose_reduction(partial, vectors)
    tree, = reduction_loops(sch, block)
    reduce_lanes(sch, block, tree)
    return True


def _lanes_of(target, extents):
    """The most lanes of which there are several vectors in a reduction over `extents`; None for no vectors.

    Of several dimensions a vector is some whole rows of each, or a row some whole vectors: else its elements have no
    plain index. The last vector of one dimension may be a part of one.
    """
    if not all(isinstance(e, IntImm) for e in extents):
        return None
    if len(extents) == 1:
        return next((n for n in VECTOR_LANES[::-1] if 2 * n <= extents[0].value and n <= target.lanes), None)
    sizes = [prod(e.value for e in extents[k:]) for k in range(len(extents))]
    return next((n for n in VECTOR_LANES[::-1] if n <= target.lanes and sizes and sizes[0] >= 2 * n
                 and all(size % n == 0 or n % size == 0 for size in sizes)), None)


def _in_order(block, reduce):
    """Whether the reduction runs through memory, in order, wherever it reads."""
    variables, own = {iv.var for iv in reduce}, block.writes[0].buffer
    return all(flat_indices(load, reduce, len(reduce)) == len(reduce)
               for load in collect(block.body, BufferLoad) if load.buffer is not own and uses(load.indices, variables))


def _shared_loops(sch, output):
    """The output block's leading loops under which every producer can be computed once per iteration without repeating
    work: those whose variables index all the intermediate buffers."""
    block, shared = sch.get(output), sch.get_loops(output)
    written = {b.writes[0].buffer for b in map(sch.get, map(sch.get_block, other_blocks(sch, output)))}
    for load in collect(block.body, BufferLoad):
        if load.buffer in written:
            while shared and not all(_indexes(iv, load) for iv in block.iter_vars[:len(shared)]):
                shared = shared[:-1]
    return shared


def _indexes(iv, load):
    return is_const_int(iv.dom.extent, 1) or uses(load.indices, {iv.var})


def reduce_points(sch, block):
    """The reduction over blocks of channels, points and the channels of a block: in the lanes of each and in some
    chains, for one that waits for itself takes four times as long."""
    *_, lane = sch.get_loops(block)
    partial = sch.rfactor(lane, 0)
    sch.set_scope(partial, 0, "local")
    *_, channels, points, lane = sch.get_loops(partial)
    chains = max(n for n in divisors(static_extent(sch, channels)) if n <= CHAINS)
    channels, chain = sch.split(channels, [None, chains])
    sch.reorder(channels, points, chain, lane)
    several = sch.rfactor(chain, 0)
    sch.set_scope(several, 0, "local")
    sch.vectorize(sch.get_loops(several)[-1])
    sch.decompose_reduction(several, sch.get_loops(several)[-4])
    *_, chain, lane = sch.get_loops(partial)
    sch.vectorize(lane)
    sch.decompose_reduction(partial, chain)
    reduce_lanes(sch, block, sch.get_loops(block)[-1])
