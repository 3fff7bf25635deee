"""RemoveWeightLayoutRewriteBlock: weights come in the layout that their kernel wants."""
from __future__ import annotations

from ...node import collect
from ...tir.buffer import substitute_buffers
from ...tir.stmt import Block, BufferLoad, BufferStore, Evaluate
from ...expr import const
from ..walk import StmtMutator

HINT = "meta_schedule.layout_rewrite_preproc"


def remove_weight_layout_rewrite_block(func, skip_tensor_rewrite=True):
    """Ensures that no block annotated meta_schedule.layout_rewrite_preproc does anything: the parameter that it copies
    is the buffer that it copies to. The caller lays the weights out so."""
    found = [b for b in collect(func.body, Block) if HINT in b.annotations]
    parameters = {id(b): p for p, b in func.buffer_map.items()}
    buffer_map, moved, gone = dict(func.buffer_map), {}, set()
    for block in found:
        stores, loads = collect(block.body, BufferStore), collect(block.body, BufferLoad)
        if len(stores) != 1 or len(loads) != 1 or id(loads[0].buffer) not in parameters:
            continue
        old, new = loads[0].buffer, stores[0].buffer
        own = old.replace(shape=new.shape, strides=new.strides)
        buffer_map[parameters[id(old)]], moved[new] = own, own
        gone.update((id(new), id(block)))
    if not moved:
        return func
    body = substitute_buffers(_Empty(gone).visit(func.body), moved)
    return func.replace(buffer_map=buffer_map, body=body)


class _Empty(StmtMutator):
    """Empties blocks, and drops allocations, by their ids."""

    def __init__(self, gone):
        self.gone = gone

    def visit_Block(self, block):
        if id(block) in self.gone:
            return block.replace(reads=(), writes=(), body=Evaluate(const(0)))
        block = super().visit_Block(block)
        return block.replace(alloc_buffers=tuple(b for b in block.alloc_buffers if id(b) not in self.gone))
