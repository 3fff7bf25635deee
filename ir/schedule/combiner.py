"""Reductions as algebra: which commutative operation a block's update applies, and from which neutral element."""
from __future__ import annotations

from dataclasses import dataclass

from ..expr import Add, FloatImm, IntImm, Max, Min, Mul, PrimExpr, const
from ..node import structural_equal
from ..tir.stmt import BufferLoad, BufferStore
from .signature import loads_of

# operation -> its neutral element in a dtype
NEUTRAL = {Add: lambda t: 0, Mul: lambda t: 1, Min: lambda t: t.max_value(), Max: lambda t: t.min_value()}


@dataclass(frozen=True)
class Combiner:
    """store.buffer[store.indices] = operation(itself, term), starting from the operation's neutral element."""

    operation: type
    store: BufferStore
    term: PrimExpr

    def joined(self, accumulator, term):
        """operation(accumulator, term)."""
        return self.operation(accumulator, term)

    @property
    def neutral(self):
        """The neutral element as an immediate."""
        dtype = self.store.buffer.dtype
        return const(NEUTRAL[self.operation](dtype), dtype)


def combiner_of(block):
    """(Combiner, "") of a block that reduces into one buffer by sum, product, min or max; else (None, the reason)."""
    store, init = block.body, block.init
    if not isinstance(store, BufferStore) or not isinstance(init, BufferStore):
        return None, "its init and its body are not one store each"
    if init.buffer is not store.buffer or not structural_equal(init.indices, store.indices):
        return None, "its init does not store where its body does"
    own = BufferLoad(store.buffer, store.indices)
    operation = type(store.value)
    if operation not in NEUTRAL:
        return None, f"it combines by {operation.__name__}, which is not one of sum, product, min and max"
    sides = [(store.value.a, store.value.b), (store.value.b, store.value.a)]
    term = next((t for load, t in sides if structural_equal(load, own)), None)
    if term is None or loads_of(term, store.buffer):
        return None, f"it does not combine {store.buffer.name} at the element it writes with a new term"
    found = Combiner(operation, store, term)
    if not _is(init.value, found.neutral):
        return None, f"its init {init.value} is not the neutral element {found.neutral} of its operation"
    return found, ""


def _is(value, neutral):
    return isinstance(value, (IntImm, FloatImm)) and value.value == neutral.value
