"""AccumulateInRegisters: what a loop adds to one element of memory it adds up in a register."""
from __future__ import annotations

from ...expr import IntImm, const, free_vars
from ...node import Mutator, collect, structural_equal
from ...tir.buffer import decl_buffer
from ...tir.effects import has_effect
from ...tir.stmt import BufferLoad, BufferStore, DeclBuffer, For, seq
from ..walk import StmtMutator

KINDS = ("serial", "unrolled")


def accumulate_in_registers(func):
    """Requires flat buffers.

        y[i] = 0
        for k: y[i] = y[i] + x[i, k]
    becomes
        sum = 0
        for k: sum = sum + x[i, k]
        y[i] = sum

    where y does not lie in registers. A compiler must not do that itself where x may be y, or lies in one array with
    it.
    """
    return func.replace(body=_Accumulate().visit(func.body))


class _Accumulate(StmtMutator):
    def visit_SeqStmt(self, s):
        found = []
        for stmt in s.seq:
            inner = _updated(stmt)
            if inner is None:
                found.append(self.visit(stmt))
                continue
            before = found[-1] if found else None
            begins = isinstance(before, BufferStore) and _same(before, inner) and not _reads(before.value, inner.buffer)
            found.append(_in_register(stmt, inner, found.pop().value if begins else None))
        return seq(*found)

    def visit_For(self, loop):
        inner = _updated(loop)
        return super().visit_For(loop) if inner is None else _in_register(loop, inner)


def _updated(stmt):
    """The store that a nest of loops is, to one element that it alone reads in it; None for others."""
    variables, inner = [], stmt
    while isinstance(inner, For) and inner.kind in KINDS and isinstance(inner.extent, IntImm) and inner.extent.value:
        variables.append(inner.loop_var)
        inner = inner.body
    if not variables or not isinstance(inner, BufferStore) or inner.buffer.scope == "local":
        return None
    if inner.value.dtype.lanes > 1 or has_effect(inner.value):
        return None
    if any(v is w for v in free_vars(inner.indices) for w in variables) or _reads(inner.indices, inner.buffer):
        return None
    own = [load for load in collect(inner.value, BufferLoad) if load.buffer.data is inner.buffer.data]
    return inner if own and all(load.buffer is inner.buffer and _same(load, inner) for load in own) else None


def _in_register(nest, store, first=None):
    """The nest with a register in the place of the element that it updates; first: what that begins with."""
    register = decl_buffer((const(1),), store.buffer.dtype, f"{store.buffer.name}_own", "local")
    at = (const(0),)
    body = _Redirect(store.buffer, register).visit(nest)
    begin = BufferStore(register, BufferLoad(store.buffer, store.indices) if first is None else first, at)
    end = BufferStore(store.buffer, BufferLoad(register, at), store.indices)
    return DeclBuffer(register, seq(begin, body, end))


def _same(a, b):
    return a.buffer is b.buffer and structural_equal(a.indices, b.indices)


def _reads(value, buffer):
    return any(load.buffer.data is buffer.data for load in collect(value, BufferLoad))


class _Redirect(Mutator):
    def __init__(self, buffer, register):
        self.buffer, self.register = buffer, register

    def visit_BufferLoad(self, load):
        if load.buffer is self.buffer:
            return BufferLoad(self.register, (const(0),))
        return self.generic_visit(load)

    def visit_BufferStore(self, store):
        return BufferStore(self.register, self.visit(store.value), (const(0),))


__all__ = ["accumulate_in_registers"]
