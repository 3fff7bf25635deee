"""SplitConditions: what a condition on data holds back together, in kernels one after the other."""
from __future__ import annotations

from ...expr import Not, Var, const, substitute
from ...node import collect
from ...tir.buffer import decl_buffer
from ...tir.stmt import AttrStmt, BufferLoad, BufferStore, DeclBuffer, For, IfThenElse, LetStmt, SeqStmt, seq
from ..walk import StmtMutator
from .threads import bound_loops


def split_conditions(func):
    """Requires no blocks. Ensures that no condition and no variable of a LetStmt stands around several statements of
    which one has loops that are bound to blocks or threads: each has it for itself, so that it can be a kernel.

    A kernel computes it anew; where statements store to what it loads, a kernel of one thread computes it first, and
    leaves it in memory for the others.
    """
    return func.replace(body=_Split().visit(func.body))


class _Split(StmtMutator):
    def visit_For(self, loop):
        return loop  # one kernel runs what is inside

    visit_While = visit_For

    def visit_IfThenElse(self, branch):
        branch = super().visit_IfThenElse(branch)
        cases = [branch.then_case, *([] if branch.else_case is None else [branch.else_case])]
        if sum(map(_count, cases)) < 2 or not bound_loops(branch, ""):
            return branch

        def made(holds):
            conditions = (holds, Not(holds))
            return seq(*(_each(s, lambda inner, c=c: IfThenElse(c, inner)) for c, s in zip(conditions, cases)))
        return _once(branch.condition, cases, "holds", made)

    def visit_LetStmt(self, let):
        let = super().visit_LetStmt(let)
        if _count(let.body) < 2 or not bound_loops(let, ""):
            return let

        def bound(value):
            def own(inner):
                v = Var(let.var.name, let.var.dtype)
                return LetStmt(v, value, substitute(inner, {let.var: v}))
            return _each(let.body, own)
        return _once(let.value, let.body, let.var.name, bound)


def _each(stmt, wrap):
    """A statement with `wrap` of each of those that follow one another in it."""
    if isinstance(stmt, SeqStmt):
        return seq(*(_each(s, wrap) for s in stmt.seq))
    if isinstance(stmt, (DeclBuffer, AttrStmt)):
        return stmt.replace(body=_each(stmt.body, wrap))
    return wrap(stmt)


def _count(stmt):
    """How many these are."""
    if isinstance(stmt, SeqStmt):
        return sum(map(_count, stmt.seq))
    return _count(stmt.body) if isinstance(stmt, (DeclBuffer, AttrStmt)) else 1


def _once(value, body, name, made):
    """`made(value)`; where the body stores to what the value loads, of what it is before."""
    stored = {s.buffer.data for s in collect(body, BufferStore)}
    if not any(load.buffer.data in stored for load in collect(value, BufferLoad)):
        return made(value)
    kept = decl_buffer((1,), value.dtype, name)
    first = BufferStore(kept, value, (const(0),))
    for axis in ("threadIdx.x", "blockIdx.x"):
        first = For(Var("one", "int32"), const(0), const(1), "thread_binding", first, axis)
    return DeclBuffer(kept, seq(first, made(BufferLoad(kept, (const(0),)))))
