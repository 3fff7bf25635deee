"""Copies of statements that may stand next to the original: what they define is their own."""
from __future__ import annotations

from ..expr import Var
from ..node import Mutator
from ..tir.buffer import decl_buffer


def fresh_copy(stmt, values):
    """A copy of a lowered statement with loop variables, lets and buffers of its own, and variables replaced."""
    return _Fresh(values).visit(stmt)


class _Fresh(Mutator):
    def __init__(self, values):
        self.values, self.buffers = dict(values), {}

    def visit_Var(self, v):
        return self.values.get(v, v)

    def visit_For(self, loop):
        self.values[loop.loop_var] = Var(loop.loop_var.name, loop.loop_var.dtype)
        return self.generic_visit(loop)

    def visit_LetStmt(self, let):
        value = self.visit(let.value)
        self.values[let.var] = Var(let.var.name, let.var.dtype)
        return let.replace(var=self.values[let.var], value=value, body=self.visit(let.body))

    def visit_DeclBuffer(self, decl):
        b = decl.buffer
        self.buffers[id(b)] = decl_buffer(b.shape, b.dtype, b.name, b.scope, data_alignment=b.data_alignment)
        return decl.replace(buffer=self.buffers[id(b)], body=self.visit(decl.body))

    def _access(self, n):
        n = self.generic_visit(n)
        return n.replace(buffer=self.buffers.get(id(n.buffer), n.buffer))

    visit_BufferLoad = visit_BufferStore = _access
