"""Workspace: temporaries too large for the stack become parameters, so that the memory plan holds them."""
from __future__ import annotations

from ..expr import IntImm, Var
from ..node import Mutator

STACK_BYTES = 16 * 1024


def lift_workspace(func):
    """Requires flat buffers. Ensures every DeclBuffer has a constant size of at most STACK_BYTES: larger ones, and
    those of symbolic size, are parameters after the outputs, counted by attrs["num_workspace"].

    A large temporary inside a parallel loop would be shared by threads: such loops become serial.
    """
    lift = _Lift()
    body = lift.visit(func.body)
    if not lift.lifted:
        return func
    handles = [Var(b.name, "handle") for b in lift.lifted]
    tensors = [p for p in func.params if p in func.buffer_map]
    scalars = [p for p in func.params if p not in func.buffer_map]
    return func.replace(params=(*tensors, *handles, *scalars), body=body,
                        buffer_map={**func.buffer_map, **dict(zip(handles, lift.lifted))},
                        attrs={**func.attrs, "num_workspace": len(handles)})


class _Lift(Mutator):
    def __init__(self):
        self.lifted = []

    def visit_DeclBuffer(self, decl):
        extent = decl.buffer.shape[0]
        if isinstance(extent, IntImm) and extent.value * decl.buffer.dtype.bytes <= STACK_BYTES:
            return decl.replace(body=self.visit(decl.body))
        self.lifted.append(decl.buffer)
        return self.visit(decl.body)

    def visit_For(self, loop):
        before = len(self.lifted)
        loop = loop.replace(body=self.visit(loop.body))
        if loop.kind == "parallel" and len(self.lifted) > before:
            return loop.replace(kind="serial")
        return loop

    def visit_BufferStore(self, store):
        return store
