"""Which variables serve for indices only."""
from __future__ import annotations

from ..ir.expr import Add, Cast, Mul, Ramp, Sub, Var, free_vars
from ..ir.node import Visitor, collect
from ..ir.tir.stmt import BufferLoad, BufferStore


def is_offset(let):
    """Whether a 32-bit value serves for sums and products in indices only, which may be computed in more bits."""
    return let.var.dtype == "int32" and is_index(let)


def is_index(let):
    """Whether a value serves for sums and products in indices only."""
    return not _Elsewhere(let.var).found(let.body)


def indexed_by(var, stmt):
    """The buffers whose indices a variable is part of, one of each name."""
    return list({access.buffer.name: access.buffer for access in collect(stmt, (BufferLoad, BufferStore))
                 if any(v is var for v in free_vars(access.indices))}.values())


class _Elsewhere(Visitor):
    """Looks for a variable outside of sums and products in indices."""

    def __init__(self, var):
        self.var, self.here = var, False

    def found(self, stmt):
        self.visit(stmt)
        return self.here

    def visit_Var(self, v):
        self.here = self.here or v is self.var

    def visit_BufferLoad(self, load):
        self.index(load.indices[0])

    def visit_BufferStore(self, store):
        self.index(store.indices[0])
        self.visit(store.value)

    def index(self, e):
        if isinstance(e, (Add, Sub, Mul)):
            self.index(e.a)
            self.index(e.b)
        elif isinstance(e, Ramp):
            self.index(e.base)
        elif isinstance(e, Cast):
            self.index(e.value)
        elif not isinstance(e, Var):
            self.visit(e)
