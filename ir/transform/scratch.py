"""Scratch: temporaries of a thread that its stack has no room for become parameters, memory of each thread's own."""
from __future__ import annotations

from ..expr import IntImm, Ramp, Var, const
from ..node import Mutator
from ..tir.buffer import substitute_buffers
from ..tir.stmt import DeclBuffer
from .walk import StmtMutator, statements

ALIGN = 64


def lift_scratch(func, kept=None, registers=0):
    """Requires temporaries of constant size (LiftWorkspace). Ensures that those declared inside one another
    take at most `kept` bytes together, where arrays, the largest of the fullest place first, can be taken out; None:
    all stay. Arrays of vectors of at most `registers` bytes, those of all vector registers, stay: they are registers.

    What is taken out are parameters, the last of those that attrs["num_workspace"] counts. attrs["scratch"] are the
    places of these in a memory that each thread has one of, in bytes, and attrs["scratch_bytes"] is its size.
    """
    taken = {}  # buffer -> its place
    while kept is not None:
        size, inside = deepest(func.body, taken)
        movable = [b for b in inside if array_bytes(b) >= (ALIGN if b.dtype.lanes == 1 else registers + 1)]
        if size <= kept or not movable:
            break
        taken[max(movable, key=array_bytes)] = 0
    if not taken:
        return func
    total = 0
    for buffer in taken:  # each its own bytes: parameters are restrict
        taken[buffer], total = total, total + array_bytes(buffer)
    new = {b: _parameter(b) for b in taken}
    body = _InElements(new).visit(_Lift(taken).visit(func.body))
    handles = [Var(b.name, "handle") for b in new.values()]
    tensors = [p for p in func.params if p in func.buffer_map]
    scalars = [p for p in func.params if p not in func.buffer_map]
    attrs = {**func.attrs, "num_workspace": func.attrs.get("num_workspace", 0) + len(handles),
             "scratch": tuple(taken.values()), "scratch_bytes": total}
    return func.replace(params=(*tensors, *handles, *scalars), body=substitute_buffers(body, new), attrs=attrs,
                        buffer_map={**func.buffer_map, **dict(zip(handles, new.values()))})


def _parameter(buffer):
    """The buffer as memory that a parameter points to: of elements, as no C type of such memory is a vector."""
    dtype, size = buffer.dtype, buffer.shape[0]
    shape = buffer.shape if dtype.lanes == 1 else (IntImm(size.dtype, size.value * dtype.lanes),)
    return buffer.replace(shape=shape, dtype=dtype.with_lanes(1),
                          scope="global" if buffer.scope == "local" else buffer.scope)


def array_bytes(buffer):
    """Bytes of a temporary of constant size, as a C compiler places it: whole lines, but single values."""
    size = buffer.shape[0].value * buffer.dtype.bytes
    return size if size < 16 else -(-size // ALIGN) * ALIGN


def deepest(stmt, taken=()):
    """(bytes, buffers) of the temporaries declared inside one another that take most, without those `taken`."""
    size, inside = max((deepest(s, taken) for s in statements(stmt)), key=lambda found: found[0], default=(0, ()))
    if isinstance(stmt, DeclBuffer) and stmt.buffer not in taken:
        return size + array_bytes(stmt.buffer), (stmt.buffer, *inside)
    return size, inside


class _Lift(StmtMutator):
    def __init__(self, taken):
        self.taken = taken

    def visit_DeclBuffer(self, decl):
        body = self.visit(decl.body)
        return body if decl.buffer in self.taken else decl.replace(body=body)


class _InElements(Mutator):
    """Accesses to arrays of vectors that become arrays of elements."""

    def __init__(self, new):
        self.new = {b: n for b, n in new.items() if b.dtype.lanes > 1}

    def _access(self, node):
        node = self.generic_visit(node)
        if node.buffer not in self.new:
            return node
        first, lanes = node.indices[0], node.buffer.dtype.lanes
        index = Ramp(first * const(lanes, first.dtype), const(1, first.dtype), lanes)
        return node.replace(buffer=self.new[node.buffer], indices=(index,))

    visit_BufferLoad = visit_BufferStore = _access
