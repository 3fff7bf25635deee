"""UnifyThreadBinding: one way to say that a statement runs on many threads."""
from __future__ import annotations

from ...expr import IterVar, Var, cast, const, substitute
from ...tir.stmt import For
from ..walk import StmtMutator

_KEYS = ("thread_extent", "virtual_thread")


def unify_thread_binding(func):
    """Ensures that no attribute says `thread_extent` or `virtual_thread`: what has one is a loop bound to that axis,
    with a variable of its own."""
    return func.replace(body=_Loops().visit(func.body))


class _Loops(StmtMutator):
    def visit_AttrStmt(self, stmt):
        body = self.visit(stmt.body)
        if stmt.attr_key not in _KEYS or not isinstance(stmt.target, IterVar):
            return stmt.replace(body=body)
        old = stmt.target.var
        v = Var(old.name, old.dtype)
        return For(v, const(0, v.dtype), cast(stmt.value, v.dtype), "thread_binding", substitute(body, {old: v}),
                   stmt.target.thread_tag)
