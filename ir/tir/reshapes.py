"""Whether a PrimFunc hands an input on element by element in row-major order: a reshape."""
from __future__ import annotations

from ..arith import Analyzer
from ..expr import Range, const, substitute
from ..node import collect
from .stmt import Block, BlockRealize, BufferLoad, BufferStore, For


def is_reshape(func):
    """True when the function's only statement copies its one input to its one output, of another shape."""
    return len(func.buffers) == 2 and reshaped_input(func) == 0


def reshaped_input(func):
    """Which of the function's buffers its only statement copies to the last one, of another shape; None where that is
    not what it does."""
    *sources, target = func.buffers or [None]
    stores = collect(func.body, BufferStore)
    if len(stores) != 1 or stores[0].buffer is not target or not isinstance(stores[0].value, BufferLoad):
        return None
    store, = stores
    load = store.value
    at = next((n for n, source in enumerate(sources) if source is load.buffer), None)
    if at is None or load.buffer.dtype != target.dtype:
        return None
    analyzer, values = Analyzer(), {}
    for loop in collect(func.body, For):
        analyzer.bind(loop.loop_var, Range(loop.min, loop.extent))
    for realize in collect(func.body, BlockRealize):
        block = realize.block
        if not isinstance(block, Block) or block.init is not None:
            return None
        values.update({iv.var: v for iv, v in zip(block.iter_vars, realize.iter_values)})
    places = [substitute(_flat(a.indices, a.buffer.shape), values) for a in (load, store)]
    return at if analyzer.can_prove_equal(*places) else None


def _flat(indices, shape):
    place = const(0, "int64")
    for i, extent in zip(indices, shape):
        place = place * extent.astype("int64") + i.astype("int64")
    return place


__all__ = ["is_reshape", "reshaped_input"]
