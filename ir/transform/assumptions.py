"""What a program says for the simplifier alone: T.assume(condition), and T.undef(), a value that nobody needs."""
from __future__ import annotations

from ..expr import Call
from ..node import Mutator, collect
from ..tir.effects import has_effect
from ..tir.stmt import BufferLoad
from .remove_no_op import NO_OP, is_no_op
from .walk import StmtMutator

ASSUME, UNDEF = "tir.assume", "tir.undef"


def remove_assume(func):
    """Ensures no T.assume, nor loops, branches and lets around nothing else."""
    return func.replace(body=_RemoveAssume().visit(func.body))


class _RemoveNothing(StmtMutator):
    """Removes what stands around nothing."""

    def _around(self, stmt):
        stmt = stmt.replace(body=self.visit(stmt.body))
        return NO_OP if is_no_op(stmt.body) and not has_effect(stmt.replace(body=NO_OP)) else stmt

    visit_For = visit_LetStmt = visit_AttrStmt = visit_DeclBuffer = _around

    def visit_IfThenElse(self, branch):
        new = super().visit_IfThenElse(branch)
        if new.else_case is not None and is_no_op(new.else_case):
            new = new.replace(else_case=None)
        nothing = new.else_case is None and is_no_op(new.then_case) and not has_effect(new.condition)
        return NO_OP if nothing else new


class _RemoveAssume(_RemoveNothing):
    def visit_Evaluate(self, stmt):
        return NO_OP if isinstance(stmt.value, Call) and stmt.value.op == ASSUME else stmt


def remove_store_undef(func):
    """Ensures no T.undef: what is stored of it is not, what is bound to it goes. Raises ValueError for one that is an
    index, or that something else than a store needs."""
    remove = _RemoveUndef()
    body = remove.visit(func.body)
    if any(c.op == UNDEF for c in collect(body, Call)):
        raise ValueError("T.undef() is a value to be stored; something else needs it")
    return func.replace(body=body)


class _RemoveUndef(_RemoveNothing):
    def __init__(self):
        self.undefined = set()  # variables bound to T.undef

    def visit_LetStmt(self, let):
        if not self._is_undefined(let.value):
            return super().visit_LetStmt(let)
        self.undefined.add(let.var)
        return self.visit(let.body)

    def visit_BufferStore(self, store):
        loads = collect(store.value, BufferLoad)
        if self._is_undefined(store.indices) or self._is_undefined(tuple(load.indices for load in loads)):
            raise ValueError(f"T.undef() is an index of buffer {store.buffer.name} or of what is stored in it")
        return NO_OP if self._is_undefined(store.value) else store

    def _is_undefined(self, e):
        return any(c.op == UNDEF for c in collect(e, Call)) or any(v in self.undefined for v in _variables(e))


def _variables(e):
    found = []

    class Find(Mutator):
        def visit_Var(self, v):
            found.append(v)
            return v
    Find().visit(e)
    return found
