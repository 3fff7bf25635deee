"""Room for barriers: statements before others in a sequence, and conditions that move inside, to both sides of one."""
from __future__ import annotations

from ...expr import And, Call, Not, Var, free_vars
from ...node import collect
from ...tir.renew import renew_defs
from ...tir.stmt import AttrStmt, BufferLoad, BufferStore, DeclBuffer, For, IfThenElse, LetStmt, SeqStmt, seq
from ..walk import StmtMutator
from .threads import is_bound


class BarrierError(ValueError):
    """Threads hand an element on where no barrier can stand."""


def before(stmt, nodes, what):
    """`stmt` with a statement before the first of its parts, in a sequence, that holds one of some nodes (by id)."""
    if isinstance(stmt, SeqStmt):
        at = next(n for n, s in enumerate(stmt.seq) if _holds(s, nodes))
        return SeqStmt((*stmt.seq[:at], what, *stmt.seq[at:]))
    if isinstance(stmt, (DeclBuffer, AttrStmt, LetStmt)) and _holds(stmt.body, nodes) and not (
            isinstance(stmt, LetStmt) and _holds(stmt.value, nodes)) and not (
            isinstance(stmt, AttrStmt) and id(stmt) in nodes):
        return stmt.replace(body=before(stmt.body, nodes, what))
    return seq(what, stmt)


def _holds(root, nodes):
    return any(id(n) in nodes for n in collect(root, (BufferLoad, BufferStore, Call, AttrStmt)))


# ---------------------------------------------------------------- conditions move inside

def sunk(outer, buffer, kernel, title):
    """Something that some threads skip, moved one statement further in; of a branch with two cases, two branches."""
    if outer is kernel or not (isinstance(outer, IfThenElse) or is_bound(outer)):
        name = f"loop {outer.loop_var.name}" if isinstance(outer, For) else "a `while`"
        raise BarrierError(
            f"{title}: threads hand {buffer.name} on inside {name}, which they do not run equally often, so that no "
            "barrier can stand there; give the loop bounds that are the same for all threads, and guard what is in it")
    if is_bound(outer):
        return _pushed(outer.body, lambda s: _fresh_loop(outer, s), {outer.loop_var}, outer, buffer, title)
    condition, wrap = outer.condition, lambda s: s
    if collect(condition, BufferLoad) or outer.else_case is not None and collect(condition, Call):
        v, value = Var("inside", "bool"), condition
        condition, wrap = v, lambda s: LetStmt(v, value, s)
    if outer.else_case is not None:
        return wrap(seq(IfThenElse(condition, outer.then_case), IfThenElse(Not(condition), outer.else_case)))
    return wrap(_pushed(outer.then_case, lambda s: _guarded(condition, s), frozenset(), outer, buffer,
                        title))


def _guarded(condition, stmt):
    if isinstance(stmt, IfThenElse) and stmt.else_case is None:
        return stmt.replace(condition=And(condition, stmt.condition))
    return IfThenElse(condition, stmt)


def _fresh_loop(loop, body):
    return renew_defs(loop.replace(body=body))


def _pushed(inner, wrap, own, outer, buffer, title):
    """`wrap` around the parts of a statement in place of around itself. own: variables that `wrap` defines."""
    if isinstance(inner, SeqStmt):
        return seq(*map(wrap, inner.seq))
    used = {For: lambda: (inner.min, inner.extent), LetStmt: lambda: inner.value, AttrStmt: lambda: inner.value,
            DeclBuffer: lambda: inner.buffer.shape}.get(type(inner))
    if used is not None and own.isdisjoint(free_vars(used())) and not collect(used(), BufferLoad):
        return inner.replace(body=wrap(inner.body))
    what = f"loop {outer.loop_var.name}" if isinstance(outer, For) else f"`if {outer.condition}`"
    raise BarrierError(f"{title}: threads hand {buffer.name} on inside {what}, which some of them skip, so that no "
                       "barrier can stand there; let all threads run it, and guard single stores")


class Replace(StmtMutator):
    """Puts a statement for another one."""

    def __init__(self, old, new):
        self.old, self.new = old, new

    def visit(self, value):
        return self.new if value is self.old else super().visit(value)
