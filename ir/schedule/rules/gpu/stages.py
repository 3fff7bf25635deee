"""Stages of a kernel around the block that makes its result: which loops of it they share, and how they move there."""
from __future__ import annotations

from ....expr import is_const_int
from ....node import collect
from ....tir.stmt import BufferLoad
from ...blocks import uses
from ..blocks import blocks, inline_all, only_output, operand_loads, other_blocks


def reduces(block):
    """Whether a block is a reduction."""
    return block.init is not None


def gathered(sch):
    """The block of the result of a function with one result, into which elementwise stages are inlined, or which is
    made from the reduction that is it; None for others."""
    if not any(map(reduces, blocks(sch))):
        return None
    inline_all(sch, keep=row_values(sch))
    return only_output(sch)


def row_values(sch):
    """Stages made of a reduction's results that have fewer dimensions than the result: one value per row."""
    results = {b.writes[0].buffer for b in blocks(sch) if reduces(b)}
    rank = max(len(sch.get(output).iter_vars) for output in sch.get_output_blocks("root"))
    return {b.name_hint for b in blocks(sch)
            if not reduces(b) and len(b.iter_vars) < rank and any(r.buffer in results for r in b.reads)}


def shared_iterators(sch, output):
    """Of the result's loops, in order, those that all stages before it have in common: their variables index every
    element that a reduction made and that the result needs."""
    block = sch.get(output)
    kept = list(range(len(block.iter_vars)))
    reduced = {b.writes[0].buffer for b in blocks(sch) if reduces(b) and b is not block}
    for load in collect(block.body, BufferLoad):
        if load.buffer in reduced or load.buffer in _made_of(sch, reduced):
            kept = [k for k in kept if is_const_int(block.iter_vars[k].dom.extent, 1)
                    or uses(load.indices, {block.iter_vars[k].var})]
    return kept


def _made_of(sch, reduced):
    return {w.buffer for b in blocks(sch) if not reduces(b) and any(r.buffer in reduced for r in b.reads)
            for w in b.writes}


def runs_along_rows(sch):
    """Whether every reduction reads along the innermost dimension of all that it reads: neighbouring terms are
    neighbours in memory, neighbouring results are not."""
    for block in filter(reduces, blocks(sch)):
        spatial = {iv.var for iv in block.iter_vars if iv.iter_type == "spatial" and not is_const_int(iv.dom.extent, 1)}
        terms = {iv.var for iv in block.iter_vars if iv.iter_type == "reduce"}
        loads = [load for load in operand_loads(block) if load.indices and uses(load.indices, terms)]
        innermost = [_innermost(load) for load in loads]
        if not loads or any(uses(index, spatial) or not uses(index, terms) for index in innermost):
            return False
    return True


def _innermost(load):
    """The index along the innermost dimension of more than one element."""
    found = [i for i, extent in zip(load.indices, load.buffer.shape) if not is_const_int(extent, 1)]
    return (found or load.indices)[-1]


def move_stages(sch, output, loop):
    """Compute every stage before the result inside a loop of it, in registers of a thread. Returns the stages, in the
    order in which they run."""
    names = other_blocks(sch, output)
    for name in reversed(names):
        block = sch.get_block(name)
        sch.compute_at(block, loop)
        for index in range(len(sch.get(block).writes)):
            sch.set_scope(block, index, "local")
    return [sch.get_block(name) for name in names]
