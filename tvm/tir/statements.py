"""Statements as TVM's constructors make them, where they are other nodes here."""
from __future__ import annotations

from ...ir.expr import Call, as_expr, is_const_int
from ...ir.tir.buffer import decl_buffer
from ...ir.tir.stmt import DeclBuffer, Evaluate, SeqStmt, Stmt


class _Allocations(type):
    def __instancecheck__(cls, stmt):
        return isinstance(stmt, DeclBuffer)


class Allocate(metaclass=_Allocations):
    """Allocate(buffer_var, dtype, extents, condition, body, annotations) is a DeclBuffer of a buffer at buffer_var, in
    the memory of its PointerType; all DeclBuffers are of this class. ValueError for an allocation under a condition or
    with annotations."""

    _is_statement = True

    def __new__(cls, buffer_var, dtype, extents, condition, body, annotations=None, span=None):
        if not is_const_int(as_expr(condition), 1):
            raise ValueError(f"{buffer_var.name} is allocated where {condition}: put the allocation in an IfThenElse")
        if annotations:
            raise ValueError(f"the allocation of {buffer_var.name} has annotations, which nothing here reads: leave "
                             f"{', '.join(annotations)} out")
        scope = getattr(buffer_var.pointer, "storage_scope", "") or "global"
        return DeclBuffer(decl_buffer(tuple(extents), dtype, buffer_var.name, scope, data=buffer_var), body)


def stmt_seq(*args):
    """The sequence of statements and of calls; of one alone itself."""
    made = [a if isinstance(a, Stmt) else Evaluate(a if isinstance(a, Call) else as_expr(a)) for a in args]
    return made[0] if len(made) == 1 else SeqStmt(made)


__all__ = ["Allocate", "stmt_seq"]
