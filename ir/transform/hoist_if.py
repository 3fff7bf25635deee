"""HoistIfThenElse: conditions stand outside of the loops that they do not depend on, once before all they guard."""
from __future__ import annotations

from ..expr import free_vars
from ..node import collect, structural_equal
from ..tir.effects import has_effect
from ..tir.stmt import BufferLoad, BufferStore, IfThenElse, seq
from .walk import StmtMutator


def hoist_if_then_else(func):
    """for i: if c: s  ->  if c: for i: s, where the loop does not change c and is not parallel: directly nested
    parallel loops stay nested. A branch with an else stays, as its loop would be there twice.

    if c: s; if c: t  ->  if c: { s; t }, where c is about loop variables alone.
    """
    return func.replace(body=_Hoist().visit(func.body))


class _Hoist(StmtMutator):
    def visit_For(self, loop):
        return self._hoisted(loop.replace(body=self.visit(loop.body)))

    def visit_SeqStmt(self, stmts):
        merged = []
        for s in map(self.visit, stmts.seq):
            before = merged[-1] if merged else None
            if _is_guard(s) and _is_guard(before) and structural_equal(s.condition, before.condition):
                merged[-1] = before.replace(then_case=seq(before.then_case, s.then_case))
            else:
                merged.append(s)
        return seq(*merged)

    def _hoisted(self, loop):
        branch = loop.body
        if not isinstance(branch, IfThenElse) or branch.else_case is not None:
            return loop
        if loop.kind in ("parallel", "thread_binding") or _changes(loop, branch.condition):
            return loop
        return branch.replace(then_case=self._hoisted(loop.replace(body=branch.then_case)))


def _is_guard(stmt):
    """Whether a statement is a branch without an else, on what no statement changes."""
    return (isinstance(stmt, IfThenElse) and stmt.else_case is None and not has_effect(stmt.condition)
            and not collect(stmt.condition, BufferLoad))


def _changes(loop, condition):
    """Whether a condition may differ from one iteration to the next, or does something itself."""
    read = {id(e.buffer) for e in collect(condition, BufferLoad)}
    return (any(v is loop.loop_var for v in free_vars(condition)) or has_effect(condition)
            or read and (has_effect(loop.body) or any(id(s.buffer) in read for s in collect(loop.body, BufferStore))))
