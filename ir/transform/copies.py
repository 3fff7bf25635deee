"""Copies of statements that may stand next to the original: what they define is their own."""
from __future__ import annotations

from ..expr import Var
from ..node import Mutator, collect
from ..tir.buffer import decl_buffer


def fresh_copy(stmt, values):
    """A copy of a statement without iteration variables, with loop variables, lets and buffers of its own, and
    variables replaced."""
    return Fresh(values).visit(stmt)


class Fresh(Mutator):
    """Makes such copies. values: {variable: what replaces it}."""

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
        return decl.replace(buffer=self.own(decl.buffer), body=self.visit(decl.body))

    def visit_Block(self, block):
        allocs = tuple(map(self.own, block.alloc_buffers))
        sources = [self.visit(m.source) for m in block.match_buffers]
        matched = tuple(m.replace(buffer=self.own(m.buffer), source=source)
                        for m, source in zip(block.match_buffers, sources))
        block = block.replace(alloc_buffers=(), match_buffers=())
        return self.generic_visit(block).replace(alloc_buffers=allocs, match_buffers=matched)

    def own(self, b):
        """A buffer of the copy for one that the statement defines, as are variables of its layout."""
        for v in collect((b.strides, b.elem_offset), Var):
            self.values.setdefault(v, Var(v.name, v.dtype))
        new = self.buffers[id(b)] = decl_buffer(b.shape, b.dtype, b.name, b.scope, self.visit(b.strides),
                                                self.visit(b.elem_offset), b.data_alignment, b.offset_factor)
        if b.data is not None:
            self.values[b.data] = new.data
        return new

    def _access(self, n):
        n = self.generic_visit(n)
        return n.replace(buffer=self.buffers.get(id(n.buffer), n.buffer))

    visit_BufferLoad = visit_BufferStore = visit_BufferRegion = _access
