"""Whether a PrimFunc hands its input on element by element in row-major order: a reshape."""
from __future__ import annotations

from ..arith import Analyzer
from ..expr import Range, const, substitute
from ..node import collect
from .stmt import Block, BlockRealize, BufferLoad, BufferStore, For


def is_reshape(func):
    """True when the function's only statement copies its one input to its one output, of another shape."""
    buffers = list(func.buffers)
    stores = collect(func.body, BufferStore)
    if len(buffers) != 2 or len(stores) != 1:
        return False
    store, = stores
    loads = collect(store.value, BufferLoad)
    if len(loads) != 1 or store.value is not loads[0]:
        return False
    load, = loads
    source, target = buffers
    if load.buffer is not source or store.buffer is not target or source.dtype != target.dtype:
        return False
    analyzer, values = Analyzer(), {}
    for loop in collect(func.body, For):
        analyzer.bind(loop.loop_var, Range(loop.min, loop.extent))
    for realize in collect(func.body, BlockRealize):
        block = realize.block
        if not isinstance(block, Block) or block.init is not None:
            return False
        values.update({iv.var: v for iv, v in zip(block.iter_vars, realize.iter_values)})
    places = [substitute(_flat(a.indices, a.buffer.shape), values) for a in (load, store)]
    return analyzer.can_prove_equal(*places)


def _flat(indices, shape):
    place = const(0, "int64")
    for i, extent in zip(indices, shape):
        place = place * extent.astype("int64") + i.astype("int64")
    return place


__all__ = ["is_reshape"]
