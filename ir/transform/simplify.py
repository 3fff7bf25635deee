"""Simplify and remove what does nothing, with loop ranges known."""
from __future__ import annotations

from ..arith import Analyzer
from ..expr import Call, IntImm, Range, const, substitute
from ..node import Mutator
from ..tir.stmt import Evaluate, SeqStmt, seq


def simplify(func):
    """Ensures expressions simplified under the loop ranges and conditions around them, no provably false or true
    branches, no empty loops; loops of one iteration are replaced by their body."""
    return func.replace(body=_Simplify().visit(func.body))


class _Simplify(Mutator):
    def __init__(self):
        self.analyzer = Analyzer()

    def visit_For(self, loop):
        extent = self.analyzer.simplify(loop.extent)
        minimum = self.analyzer.simplify(loop.min)
        if isinstance(extent, IntImm):
            if extent.value <= 0:
                return Evaluate(const(0))
            if extent.value == 1 and loop.kind != "thread_binding":
                return self.visit(substitute(loop.body, {loop.loop_var: minimum}))
        self.analyzer.bind(loop.loop_var, Range(minimum, extent))
        body = self.visit(loop.body)
        if _is_noop(body):
            return body
        return loop.replace(min=minimum, extent=extent, body=body)

    def visit_IfThenElse(self, branch):
        condition = self.visit(branch.condition)
        plain = condition.args[0] if isinstance(condition, Call) and condition.op == "tir.likely" else condition
        if isinstance(plain, IntImm):
            taken = branch.then_case if plain.value else branch.else_case
            return self.visit(taken) if taken is not None else Evaluate(const(0))
        with self.analyzer.constraint_scope(plain):
            then_case = self.visit(branch.then_case)
        else_case = None if branch.else_case is None else self.visit(branch.else_case)
        if _is_noop(then_case) and (else_case is None or _is_noop(else_case)):
            return then_case
        return branch.replace(condition=condition, then_case=then_case, else_case=else_case)

    def visit_SeqStmt(self, s):
        return seq(*(self.visit(x) for x in s.seq))

    def visit_BufferStore(self, store):
        return store.replace(value=self.analyzer.simplify(store.value),
                             indices=tuple(self.analyzer.simplify(i) for i in store.indices))

    def visit_Call(self, call):
        return self.analyzer.simplify(call)

    def generic_visit(self, n):
        from ..expr import PrimExpr
        return self.analyzer.simplify(n) if isinstance(n, PrimExpr) else super().generic_visit(n)


def _is_noop(stmt):
    return isinstance(stmt, Evaluate) and isinstance(stmt.value, IntImm) or (
        isinstance(stmt, SeqStmt) and not stmt.seq)
