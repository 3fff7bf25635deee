"""ReduceBranchingThroughOvercompute: no branch around what may as well always be computed."""
from __future__ import annotations

from functools import partial

from ...arith import Analyzer
from ...arith.canonical import INDEX_TYPES
from ...expr import And, Range, const, free_vars, substitute
from ...node import collect, structural_equal
from ...tir.stmt import BufferLoad, BufferStore, Evaluate, For, IfThenElse, SeqStmt, seq
from ..booleans import may_divide_by_zero
from ..data_flow import NOTHING, DeadElements, KnownValues
from ..elements import SEQUENTIAL, Memory, is_fixed, is_opaque, negated, parts
from ..remove_no_op import is_no_op
from ..walk import StmtMutator


def reduce_branching_through_overcompute(func, use_dataflow_analysis=False):
    """Ensures no branch whose cases do the same, and none without an else case whose statements, run where its
    condition fails, access nothing outside of buffers and change nothing that anyone sees: each store puts back what is
    there, or with use_dataflow_analysis a value that is known to be there, or each is overwritten before it is read."""
    for _ in collect(func.body, IfThenElse):  # one at a time: what is known changes with each
        reduced = func.replace(body=_Reduce(func, use_dataflow_analysis).visit(func.body))
        if reduced.body is func.body:
            break
        func = reduced
    return func


class _Reduce(StmtMutator):
    """Replaces the first branch that may go by its first case."""

    def __init__(self, func, flow):
        self.an, self.memory, self.done = Analyzer(), Memory(func), False
        self.known, self.dead = (KnownValues(func), DeadElements(func)) if flow else (None, None)

    def visit(self, value):
        return value if self.done else super().visit(value)

    def visit_For(self, loop):
        """A loop of one thread: what others do at the same time is not known."""
        if loop.kind not in SEQUENTIAL:
            return loop
        with self.an.constraint_scope():
            self.an.bind(loop.loop_var, Range(loop.min, loop.extent), allow_override=True)
            return super()._body(loop)

    def visit_BlockRealize(self, realize):
        return realize if realize.block.iter_vars else super().visit_BlockRealize(realize)

    def visit_AttrStmt(self, stmt):
        return super()._body(stmt) if stmt.attr_key.startswith("pragma_") else stmt

    def visit_LetStmt(self, let):
        if let.var in self.an.given:
            return let
        self.an.bind_let(let.var, let.value)
        return super()._body(let)

    def visit_IfThenElse(self, branch):
        if self._may_go(branch):
            self.done = True
            return branch.then_case
        with self.an.constraint_scope(branch.condition):
            then_case = self.visit(branch.then_case)
        with self.an.constraint_scope(negated(parts(branch.condition))):
            return branch.replace(then_case=then_case, else_case=self.visit(branch.else_case))

    # ------------------------------------------------------------ proofs

    def _may_go(self, branch):
        if is_opaque(branch.condition):
            return False
        if branch.else_case is not None and not is_no_op(branch.else_case):
            return structural_equal(_without_no_ops(branch.then_case), _without_no_ops(branch.else_case))
        state = self.known.at(branch) if self.known else NOTHING
        with self.an.constraint_scope(negated(parts(branch.condition)), *state.conditions):
            return any(self._holds(branch.then_case, proof) for proof in (
                partial(self._puts_back, state), self._is_overwritten))

    def _holds(self, stmt, proof):
        """Whether a statement may be run here, and all its stores have a property."""
        if isinstance(stmt, SeqStmt):
            return all(self._holds(s, proof) for s in stmt.seq)
        if isinstance(stmt, For) and stmt.kind in SEQUENTIAL and is_fixed((stmt.min, stmt.extent)):
            self.an.bind(stmt.loop_var, Range(stmt.min, stmt.extent), allow_override=True)
            return self._is_safe((stmt.min, stmt.extent)) and self._holds(stmt.body, proof)
        if isinstance(stmt, Evaluate):
            return is_no_op(stmt) and self._is_safe(stmt.value)
        return isinstance(stmt, BufferStore) and self._is_within(stmt) and self._is_safe(
            (stmt.value, stmt.indices)) and proof(stmt)

    def _is_safe(self, e):
        """Whether an expression may be evaluated where a condition that guarded it does not hold."""
        return not is_opaque(e) and not may_divide_by_zero(e) and all(map(self._is_within, collect(e, BufferLoad)))

    def _is_within(self, access):
        """Whether an access is to an element that there is."""
        return self.memory.element(access.buffer, access.indices) is not None and all(
            self.an.can_prove(And(i >= const(0, i.dtype), i < extent))
            for i, extent in zip(access.indices, access.buffer.shape))

    def _puts_back(self, state, store):
        old, new = BufferLoad(store.buffer, store.indices), store.value
        if self.known:
            old, new = (self.known.resolve(e, state, self.an) for e in (old, new))
        points = {v: value for v in free_vars(new) if (value := self._point(v)) is not None}
        new = self.an.simplify(substitute(new, points))
        old = self.an.simplify(substitute(old, points))
        return structural_equal(old, new)

    def _point(self, v):
        """The only value that a variable has here; None where there are several."""
        if v.dtype not in INDEX_TYPES:
            return None
        bound = self.an.const_int_bound(v)
        return const(bound.min_value, v.dtype) if bound.min_value == bound.max_value else None

    def _is_overwritten(self, store):
        return self.dead is not None and self.dead.is_dead(store, self.an)


def _without_no_ops(stmt):
    """A statement without those next to others in it that do nothing."""
    return _NoOps().visit(stmt)


class _NoOps(StmtMutator):
    def visit_SeqStmt(self, s):
        return seq(*(self.visit(x) for x in s.seq if not is_no_op(x)))
