"""Reductions that need no register tile: windows, softmax, norms, means."""
from __future__ import annotations

from ...expr import IntImm
from ...node import collect
from ...tir.stmt import BufferLoad
from .blocks import find_block, inline_all, other_blocks
from .elementwise import parallel_roots
from .threads import parallel_outer


def row_reduction(sch, cpu):
    """Reductions are computed inside the loops of the output block that they share; the outer ones run in parallel.

    Window reductions (pooling, depthwise convolution) keep a row of accumulators, so that the loop over the row is the
    innermost and vectorizes; others (softmax, means) finish per element of the shared loops.
    """
    if find_block(sch, lambda b: b.init is not None) is None:
        return False
    inline_all(sch, keep=set())
    outputs = sch.get_output_blocks("root")
    if len(outputs) != 1:
        return parallel_roots(sch, cpu)
    output = outputs[0]
    if sch.get(output).init is not None:
        sch.cache_write(output, 0, "local")
        output = sch.get_output_blocks("root")[0]
    window = _window(sch, output)
    shared = _shared_loops(sch, output)
    if window and shared:
        shared = shared[:-1]
    if not shared:
        return parallel_roots(sch, cpu)
    at = shared[-1]
    for name in reversed(other_blocks(sch, output)):
        block = sch.get_block(name)
        sch.compute_at(block, at, preserve_unit_loops=True)
        sch.set_scope(block, 0, "local")
        if window and sch.get(block).init is not None:
            _row_innermost(sch, block, len(shared))
    parallel_outer(sch, cpu, shared[:-1] if window and len(shared) > 1 else shared)
    return True


def _window(sch, output):
    """The function is one reduction over constant windows of its last dimension."""
    reductions = [b for b in map(sch.get_block, other_blocks(sch, output)) if sch.get(b).init is not None]
    if len(reductions) != 1:
        return False
    block = sch.get(reductions[0])
    extents = [iv.dom.extent for iv in block.iter_vars if iv.iter_type == "reduce"]
    spatial = [iv.dom.extent for iv in block.iter_vars if iv.iter_type == "spatial"]
    return (len(spatial) == len(sch.get_loops(output)) and len(extents) >= 1
            and all(isinstance(e, IntImm) for e in extents[-2:] + spatial[-1:]) and spatial[-1].value > 1
            and not _reads_reduced_last(block))


def _reads_reduced_last(block):
    """The reduction runs along the innermost dimension of what it reads alone (a mean over rows, say)."""
    last_spatial = [iv.var for iv in block.iter_vars if iv.iter_type == "spatial"][-1]
    for load in collect(block.body, BufferLoad):
        if any(load.buffer is w.buffer for w in block.writes):
            continue
        if any(v is last_spatial for v in collect(load.indices[-1], type(last_spatial))):
            return False
    return True


def _row_innermost(sch, block, depth):
    """Loops of a window reduction below the shared ones: window first, row last; the init has its own loop."""
    loops = sch.get_loops(block)[depth:]
    iters = [iv.iter_type for iv in sch.get(block).iter_vars]
    spatial = [loop for loop, kind in zip(loops[-len(iters):], iters) if kind == "spatial"]
    reduce = [loop for loop, kind in zip(loops[-len(iters):], iters) if kind == "reduce"]
    sch.reorder(*reduce, *spatial)
    sch.decompose_reduction(block, reduce[0])


def _shared_loops(sch, output):
    """The output block's leading loops under which every producer can be computed once per iteration without repeating
    work: those whose variables index all the intermediate buffers."""
    block = sch.get(output)
    loops = sch.get_loops(output)
    shared = len(loops)
    written = {id(b.writes[0].buffer) for b in map(sch.get, map(sch.get_block, other_blocks(sch, output)))}
    variables = [iv.var for iv in block.iter_vars]
    single = {id(iv.var) for iv in block.iter_vars if isinstance(iv.dom.extent, IntImm) and iv.dom.extent.value == 1}
    for load in collect(block.body, BufferLoad):
        if id(load.buffer) in written:
            used = {id(v) for i in load.indices for v in collect(i, type(variables[0]))} | single
            while shared and not all(id(v) in used for v in variables[:shared]):
                shared -= 1
    return loops[:shared]
