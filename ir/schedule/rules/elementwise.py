"""Elementwise and copying kernels: one loop where memory is one row."""
from __future__ import annotations

from ...expr import Var, is_const_int
from ...node import collect, structural_equal
from ...tir.stmt import BufferLoad, BufferStore
from .blocks import inline_all, outer_spatial
from .threads import parallel_outer


def elementwise(sch, cpu):
    """Everything inlined into the output block, whose outer loops are fused and run in parallel."""
    inline_all(sch, keep=set())
    return parallel_roots(sch, cpu)


def parallel_roots(sch, cpu):
    for block in sch.get_child_blocks(sch.get_block("root")):
        loops = outer_spatial(sch, block)
        whole = _flat_loops(sch, block, loops)
        if whole > 1:
            loops = [*loops[:-whole], sch.fuse(*loops[-whole:])]
        several = any(not is_const_int(sch.get(loop).extent, 1) for loop in loops[:-1])
        parallel_outer(sch, cpu, loops[:-1] if several else loops)
    return True


def _flat_loops(sch, block, loops):
    """How many of the innermost loops run through every buffer they index element after element, so that they may be
    one loop: the trailing indices of each access are their variables, over the buffer's whole extents or not at all."""
    realized = sch.get(block)
    if len(loops) != len(realized.iter_vars):
        return 0
    variables = [iv.var for iv in realized.iter_vars]
    count = len(variables)
    for access in collect(realized.body, (BufferLoad, BufferStore)):
        used = [v for i in access.indices for v in collect(i, Var)]
        same = 0
        while (same < min(count, len(access.indices)) and access.indices[-1 - same] is variables[-1 - same]
               and (same == 0 or structural_equal(access.buffer.shape[-same], realized.iter_vars[-same].dom.extent))):
            same += 1
        while count > same and any(v is w for v in variables[-count:] for w in used):
            count -= 1
    return count
