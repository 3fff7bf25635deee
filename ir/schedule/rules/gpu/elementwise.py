"""Elementwise kernels over rows of whole vectors: each thread loads and stores four elements at once."""
from __future__ import annotations

from functools import partial
from math import prod

from ....expr import IntImm
from ....node import collect
from ....tir.stmt import BufferLoad, BufferStore
from ...blocks import uses
from ...plan import Fixed, Match
from ..blocks import blocks, inline_all, innermost, iter_vars, only_output, vectorizes
from ..elementwise import flat_loops
from .nests import bind_flat

LANES = 4            # float32 elements of the widest load
LEAST = 1 << 16      # elements; fewer give too few threads


def elementwise(sch, target):
    """All is one loop over memory, as far as it runs through it in order, of vectors that threads share."""
    inline_all(sch)
    output = only_output(sch)
    if output is None or len(blocks(sch)) != 1 or not _fits(sch, output):
        return None
    return Match(Fixed("elementwise"), partial(_apply, sch, output))


def _fits(sch, output):
    block, extents = sch.get(output), [iv.dom.extent for iv in iter_vars(sch.get(output), "spatial")]
    if len(extents) != len(block.iter_vars) or not all(isinstance(e, IntImm) for e in extents) or not vectorizes(block):
        return False
    flat = flat_loops(sch, output, sch.get_loops(output))
    row = prod(e.value for e in extents[len(extents) - flat:]) if flat else 0
    return row >= LANES and row % LANES == 0 and prod(e.value for e in extents) >= LEAST and _aligned(block, flat)


def _aligned(block, flat):
    """Whether what is read and written begins where vectors do: rows of it are whole vectors, from their start on."""
    last = {iv.var for iv in block.iter_vars[len(block.iter_vars) - flat:]}
    for access in collect(block.body, (BufferLoad, BufferStore)):
        if access.buffer.strides or access.buffer.elem_offset is not None and getattr(
                access.buffer.elem_offset, "value", 0) != 0:
            return False
        if uses(access.indices, last) and not any(innermost(access) is v for v in last):
            return False
        row = [n for n in access.buffer.shape[-flat:]]
        if uses(access.indices, last) and (not all(isinstance(n, IntImm) for n in row)
                                           or prod(n.value for n in row) % LANES):
            return False
    return True


def _apply(sch, output, plan, target):
    """Vectors go to registers and from there: what is computed in between is of single elements."""
    block = sch.get(output)
    flat = flat_loops(sch, output, sch.get_loops(output))
    last = {iv.var for iv in block.iter_vars[len(block.iter_vars) - flat:]}
    along = {load.buffer for load in collect(block.body, BufferLoad) if uses(load.indices, last)}
    copies = [sch.cache_read(output, n, "local") for n, r in enumerate(block.reads) if r.buffer in along]
    loops = sch.get_loops(sch.cache_write(output, 0, "local"))
    row = loops[len(loops) - flat:]
    vectors, lane = sch.split(sch.fuse(*row) if flat > 1 else row[0], [None, LANES])
    for stage in (output, *reversed(copies)):
        sch.compute_at(stage, vectors)
    bind_flat(sch, [*loops[:len(loops) - flat], vectors])
    for stage in copies:
        sch.vectorize(sch.get_loops(stage)[-1])
    sch.unroll(sch.get_loops(output)[-1])
    sch.vectorize(lane)
