"""AnnotateTIROpPattern: how the elements that PrimFuncs read lie to those that they write, as a number."""
from __future__ import annotations

from enum import IntEnum

from ..expr import Add, Cast, Mul, Var, free_vars, is_const_int
from ..node import collect
from ..tir.function import PrimFunc
from ..tir.stmt import BufferLoad, BufferStore
from .walk import all_statements, blocks


class OpPatternKind(IntEnum):
    """TVM's numbers: a kernel of a greater one is fused with less."""

    ELEMENTWISE, BROADCAST, INJECTIVE, REDUCE, OUT_ELEMENTWISE_FUSABLE = range(5)
    TUPLE, OPAQUE = 7, 8


def annotate_op_pattern(mod):
    """A module whose PrimFuncs have an attribute "op_pattern", an OpPatternKind's number, where they have none.

    A block with one place that it stores to is elementwise, a broadcast or injective by the indices of what it loads;
    else a reduction, or where elements are used again, as in products and pooling, "out elementwise fusable". A
    function is the greatest of its blocks, and opaque where one is none of these.
    """
    return mod.with_functions({n: f.with_attr("op_pattern", int(op_pattern(f)))
                               if isinstance(f, PrimFunc) and not f.attrs.get("op_pattern") else f
                               for n, f in mod.functions.items()})


def op_pattern(func):
    """The OpPatternKind of a PrimFunc that has blocks."""
    outputs, kind = list(func.buffer_map.values()), OpPatternKind.ELEMENTWISE
    for block in blocks(func.body):
        if block.name_hint == "root":
            continue
        own, store = _of_block(block)
        injective = own <= OpPatternKind.INJECTIVE
        if injective and kind == OpPatternKind.REDUCE and any(store.buffer is b for b in outputs):
            own = OpPatternKind.OUT_ELEMENTWISE_FUSABLE  # softmax: a reduction and what is computed of it
        kind = max(kind, own)
    return kind


def _of_block(block):
    """The kind of a block, and its store."""
    stores = [s for s in all_statements(block.body) if isinstance(s, BufferStore)]
    if not stores or any(not _same(s.indices, stores[0].indices) for s in stores):
        return OpPatternKind.OPAQUE, None
    store, loads = stores[-1], collect(block.body, BufferLoad)
    kinds = [_of_pair(store, load) for load in loads]
    if OpPatternKind.OPAQUE not in kinds:
        kind = max(kinds, default=OpPatternKind.ELEMENTWISE)
        if kind == OpPatternKind.BROADCAST and OpPatternKind.ELEMENTWISE in kinds:
            kind = OpPatternKind.ELEMENTWISE  # A[i, j] + B[j]
        return kind, store
    reduced = [v.var for v in block.iter_vars if v.iter_type == "reduce"]
    if not reduced:
        return OpPatternKind.OPAQUE, store
    again = _multiplies_and_adds(block.body) or not all(_plain(reduced, load.indices) for load in loads)
    return OpPatternKind.OUT_ELEMENTWISE_FUSABLE if again else OpPatternKind.REDUCE, store


def _of_pair(store, load):
    """How what is loaded lies to what is stored."""
    if _same(store.indices, load.indices):
        return OpPatternKind.ELEMENTWISE
    if _is_broadcast(store, load):
        return OpPatternKind.BROADCAST
    stored = {id(v) for v in store.indices}
    injective = all(isinstance(i, Var) for i in store.indices) and all(id(v) in stored for v in free_vars(load.indices))
    return OpPatternKind.INJECTIVE if injective else OpPatternKind.OPAQUE


def _same(a, b):
    """Whether indices are the same variables."""
    return len(a) == len(b) and all(x is y and isinstance(x, Var) for x, y in zip(a, b))


def _is_broadcast(store, load):
    """Whether the indices of a load are among the store's, in order, but for those of dimensions of 1."""
    at = 0
    for extent, index in zip(load.buffer.shape, load.indices):
        if is_const_int(extent, 1) and is_const_int(index, 0):
            continue
        while at < len(store.indices) and not _same(store.indices[at:at + 1], (index,)):
            at += 1
        if at == len(store.indices):
            return False
    return True


def _multiplies_and_adds(body):
    """Whether a block's body adds a product of two loads to where it stores, each for several elements stored."""
    total = _uncast(body.value) if isinstance(body, BufferStore) else None
    if not isinstance(total, Add) or not isinstance(_uncast(total.b), Mul):
        return False
    before, product = _uncast(total.a), _uncast(total.b)
    if not isinstance(before, BufferLoad) or before.buffer is not body.buffer or not _same(
            before.indices, body.indices):
        return False
    return all(isinstance(factor, BufferLoad) and _is_used_again(body, factor)
               for factor in (_uncast(product.a), _uncast(product.b)))


def _is_used_again(store, load):
    used = {id(v) for v in free_vars(load.indices)}
    return all(isinstance(i, Var) for i in store.indices) and any(id(i) not in used for i in store.indices)


def _uncast(e):
    while isinstance(e, Cast):
        e = e.value
    return e


def _plain(reduced, indices):
    """Whether reduce variables in indices stand alone."""
    return all(isinstance(i, Var) or not any(v is r for v in free_vars(i) for r in reduced) for i in indices)


__all__ = ["OpPatternKind", "annotate_op_pattern", "op_pattern"]
