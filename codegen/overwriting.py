"""Which tensors of a network lie where an earlier one was: results of kernels that may overwrite an input that nobody
reads any more, as residual sums and activations do."""
from __future__ import annotations

from ..ir.expr import IntImm
from ..ir.node import structural_equal
from ..ir.tir.stored import ATTRIBUTE as STORED
from ..ir.transform.overwrites import ASKED, ATTRIBUTE


def ask(functions):
    """Functions, {name: PrimFunc} before they are scheduled, with the attribute by which FindOverwrites looks for
    inputs that the one result of constant size may overwrite."""
    return {n: f.with_attr(ASKED, size) if (size := _elements(f)) else f for n, f in functions.items()}


def _elements(func):
    result = func.buffers[-1]
    fits = func.attrs.get("num_outputs", 1) == 1 and all(isinstance(d, IntImm) for d in result.shape)
    if not fits or not any(b.dtype == result.dtype and structural_equal(b.shape, result.shape)
                           for b in func.buffers[:-1]):
        return 0
    size = 1
    for d in result.shape:
        size *= d.value
    return size


def overwritten(mod, memory, bindings, kept):
    """{owner of memory: the earlier owner in whose place it lies} for the calls of "main" in order, whose values lie as
    a Memory says. kept: owners that callers see. Empty where a run decides what is called."""
    if any(b.value.op != "call_tir" for b in bindings):
        return {}
    touched = {}  # owner -> [(number of a call, whether it fills a border alone)], in order
    for k, b in enumerate(bindings):
        for owner in _owners(memory, b):
            touched.setdefault(owner, []).append((k, mod[b.value.attrs["gv"]] if not b.value.args else None))
    found = {}
    for k, b in enumerate(bindings):
        func = mod[b.value.attrs["gv"]]
        for n in func.attrs.get(ATTRIBUTE, ()):
            if func.attrs.get(STORED, ("",) * (n + 1))[n]:
                continue
            source, result = memory.place(b.value.args[n]), memory.results(b)[0]
            if result.owner in found or not _alike(memory, source, result, kept):
                continue
            once = [memory.place(a).owner for a in b.value.args].count(source.owner) == 1
            ends = touched[source.owner][-1][0] == k
            before = [border for at, border in touched[result.owner] if at < k]
            if once and ends and before == [border for _, border in touched[source.owner][:len(before)]] and (
                    None not in before):
                found[result.owner] = source.owner
                break
    return found


def root(owner, found):
    """The owner whose memory it is in the end."""
    while owner in found:
        owner = found[owner]
    return owner


def _owners(memory, binding):
    return {*(memory.place(a).owner for a in binding.value.args), *(p.owner for p in memory.results(binding))}


def _alike(memory, source, result, kept):
    """Whether two values lie at the same elements of memories of the same size, which kernels write."""
    if source.owner in kept or result.owner in kept or source.owner == result.owner:
        return False
    if not memory.is_computed(source.owner):
        return False
    shapes = [memory.values[owner][1] for owner in (source.owner, result.owner)]
    return (shapes[0].dtype == shapes[1].dtype and structural_equal(shapes[0].shape, shapes[1].shape)
            and structural_equal(source.offset, result.offset)
            and structural_equal(tuple(source.strides), tuple(result.strides)))
