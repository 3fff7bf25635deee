"""Elementwise and copying kernels: one loop where memory is one row."""
from __future__ import annotations

from functools import partial

from ...expr import Add, Cast, cast, is_const_int
from ...node import collect, structural_equal
from ...tir.intrinsics import NARROW, NEAREST_HALVES
from ...tir.stmt import BufferLoad, BufferStore
from ..blocks import uses
from ..errors import ScheduleError
from ..plan import Fixed, Match
from .blocks import inline_all, only_output, other_blocks, outer_spatial, static_extent, vectorizes
from .threads import nests_to_share, parallel_outer


def elementwise(sch, target):
    """Everything inlined into the output block, whose outer loops are fused and run in parallel. A costly stage with
    several consumers is computed once per element, just before them."""
    inline_all(sch)
    nests = nests_to_share(sch.func, target)
    shared = [work for work in nests if work >= target.cost("threads.least_work")]
    return Match(Fixed("elementwise", work=max(nests, default=1), what="rows", loops=len(shared)), partial(_apply, sch))


def _apply(sch, plan, target):
    output = only_output(sch)
    if output is not None:
        for name in reversed(other_blocks(sch, output)):
            _compute_per_element(sch, name, output)
    parallel_roots(sch, target)


def _compute_per_element(sch, name, output):
    """Move a stage into the innermost loop of the output, if every consumer reads only its own element of it."""
    block, loops = sch.get_block(name), sch.get_loops(output)
    stage, buffer = sch.get(block), sch.get(block).writes[0].buffer
    for consumer in map(sch.get, sch.get_consumers(block)):
        variables = [iv.var for iv in consumer.iter_vars]
        own = all(len(load.indices) == len(variables) and all(i is v for i, v in zip(load.indices, variables))
                  for load in collect(consumer.body, BufferLoad) if load.buffer is buffer)
        if not own or stage.init is not None or len(loops) != len(variables):
            return
    try:
        sch.compute_at(block, loops[-1])
        sch.set_scope(block, 0, "local")
    except ScheduleError:
        pass  # it stays a pass of its own over memory


def parallel_roots(sch, target):
    """Fuse what runs through memory as one row, and run outer loops in parallel, for each loop nest."""
    for nest in _nests(sch):
        loops = _common(sch, [outer_spatial(sch, block) for block in nest])
        flat = min(_flat_loops(sch, block, loops) for block in nest)
        if flat > 1:
            loops = [*loops[:-flat], sch.fuse(*loops[-flat:])]
        innermost = bool(loops) and any(len(sch.get_loops(block)) == len(loops) for block in nest)
        several = any(not is_const_int(sch.get(loop).extent, 1) for loop in loops[:-1])
        loops = _in_vectors(sch, target, nest, loops)
        parallel_outer(sch, target, loops[:-1] if innermost and several else loops)


def _in_vectors(sch, target, nest, loops):
    """The loops of a nest, whose innermost one becomes vectors where floats become bytes or bytes floats, or floats are
    of 16 bits in memory: compilers do not find those. Others they make vectors of by themselves."""
    block = sch.get(nest[0])
    if (target.lanes == 1 or not loops or len(nest) > 1 or len(sch.get_loops(nest[0])) != len(loops)
            or not vectorizes(block) or not _converts(block.body) or static_extent(sch, loops[-1]) < target.lanes):
        return loops
    vectors, lanes = sch.split(loops[-1], [None, target.lanes])
    sch.vectorize(lanes)
    return [*loops[:-1], vectors]


def _nests(sch):
    """The blocks in lists that have the outermost loop in common."""
    nests = {}
    for n, block in enumerate(sch.get_child_blocks(sch.get_block("root"))):
        loops = sch.get_loops(block)
        nests.setdefault(sch.get(loops[0]).loop_var if loops else n, []).append(block)
    return list(nests.values())


def _common(sch, nests):
    """The loops that all of several lists begin with."""
    first, *rest = nests
    count = len(first)
    for other in rest:
        same = [sch.get(a).loop_var is sch.get(b).loop_var for a, b in zip(first, other)]
        count = min([count, len(other), *(n for n, equal in enumerate(same) if not equal)])
    return first[:count]


def _flat_loops(sch, block, loops):
    """How many of the innermost loops run through every buffer they index element after element, so that they may be
    one loop: the trailing indices of each access are their variables, over the buffer's whole extents or not at all.
    The outermost of them may start at an offset."""
    realized = sch.get(block)
    if len(loops) != len(realized.iter_vars):
        return 0
    variables = [iv.var for iv in realized.iter_vars]
    count = len(variables)
    for access in collect(realized.body, (BufferLoad, BufferStore)):
        same = flat_indices(access, realized.iter_vars, count)
        while count > same and uses(access.indices, set(variables[-count:])):
            count -= 1
    return count


def flat_indices(access, iter_vars, most):
    """How many trailing indices of an access, up to `most`, are the trailing iteration variables in order, all but the
    first of them over the buffer's whole extent."""
    variables = {iv.var for iv in iter_vars}
    for same, (index, iv) in enumerate(zip(access.indices[::-1], iter_vars[::-1])):
        inner_whole = same == 0 or structural_equal(access.buffer.shape[-same], iter_vars[-same].dom.extent) and (
            not access.buffer.strides or _joined(access.buffer, same))
        if same == most or not inner_whole:
            return same
        if index is not iv.var:
            shifted = isinstance(index, Add) and index.a is iv.var and not uses(index.b, variables)
            return same + 1 if shifted else same
    return min(len(access.indices), len(iter_vars))


def _joined(buffer, last):
    """Whether the rows of a buffer with strides, each of its `last` dimensions, lie one behind the other."""
    row = buffer.strides[-last] * buffer.shape[-last]
    return is_const_int(buffer.strides[-1], 1) and structural_equal(cast(row, "int64"),
                                                                    cast(buffer.strides[-last - 1], "int64"))


def _converts(body):
    """Whether numbers in memory are others than those that a block computes with."""
    found = {str(access.buffer.dtype) for access in collect(body, (BufferLoad, BufferStore))}
    return not found.isdisjoint(NEAREST_HALVES) or not found.isdisjoint(NARROW) and bool(collect(body, Cast))
