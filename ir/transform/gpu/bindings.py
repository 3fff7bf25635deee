"""UnifyThreadBinding: one way to say that a statement runs on many threads."""
from __future__ import annotations

from functools import wraps

from ...expr import IterVar, Var, cast, const, substitute
from ...tir.stmt import AttrStmt, For
from ..walk import StmtMutator

_KEYS = ("thread_extent", "virtual_thread")


def unify_thread_binding(func):
    """Ensures that no attribute says `thread_extent` or `virtual_thread`: what has one is a loop bound to that axis,
    with a variable of its own."""
    return func.replace(body=_Loops().visit(func.body))


def on_loops(function):
    """A pass that knows loops bound to threads alone, for programs that say it by attributes, too: T.launch_thread
    stays what it is."""
    @wraps(function)
    def run(func, *args, **kwargs):
        loops = _Loops()
        body = loops.visit(func.body)
        if not loops.made:
            return function(func, *args, **kwargs)
        done = function(func.replace(body=body), *args, **kwargs)
        return done.replace(body=_Attributes(loops.made).visit(done.body))
    return run


class _Loops(StmtMutator):
    def __init__(self):
        self.made = {}  # variable of a loop: the attribute that it stands for

    def visit_AttrStmt(self, stmt):
        body = self.visit(stmt.body)
        if stmt.attr_key not in _KEYS or not isinstance(stmt.target, IterVar):
            return stmt.replace(body=body)
        old = stmt.target.var
        v = Var(old.name, old.dtype)
        self.made[v] = stmt
        return For(v, const(0, v.dtype), cast(stmt.value, v.dtype), "thread_binding", substitute(body, {old: v}),
                   stmt.target.thread_tag)


class _Attributes(StmtMutator):
    def __init__(self, made):
        self.made = made

    def visit_For(self, loop):
        loop = loop.replace(body=self.visit(loop.body))
        old = self.made.get(loop.loop_var)
        if old is None or loop.kind != "thread_binding":
            return loop
        return AttrStmt(old.target, old.attr_key, old.value, substitute(loop.body, {loop.loop_var: old.target.var}))


__all__ = ["on_loops", "unify_thread_binding"]
