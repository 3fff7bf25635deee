"""Simplify and remove what does nothing, with loop ranges known."""
from __future__ import annotations

from contextlib import nullcontext

from ..arith import Analyzer
from ..expr import Call, IntImm, Not, PrimExpr, Range, const, free_vars, is_const_int, substitute
from ..node import Mutator
from ..tir.hints import FULL_LANES
from ..tir.stmt import Evaluate, IfThenElse, SeqStmt, seq


def simplify(func):
    """Ensures expressions simplified under the loop ranges and conditions around them, no provably false or true
    branches, no empty loops; loops of one iteration are replaced by their body, but where that is what is left of a
    vector; what runs only in the first iteration of a loop stands before it."""
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
            if extent.value == 1 and loop.kind != "thread_binding" and FULL_LANES not in loop.annotations:
                self.analyzer.bind(loop.loop_var, Range(minimum, extent), allow_override=True)
                return self.visit(loop.body)  # what the variable is now stands in its place
        # a symbolic extent is known to be positive inside the loop only
        with nullcontext() if isinstance(extent, IntImm) else self.analyzer.constraint_scope():
            left = FULL_LANES in loop.annotations and is_const_int(extent, 1)  # its variable stays, for vectors
            turns = const(loop.annotations[FULL_LANES], extent.dtype) if left else extent
            self.analyzer.bind(loop.loop_var, Range(minimum, turns), allow_override=True)
            body = self.visit(loop.body)
            loop = loop.replace(min=minimum, extent=extent, body=body)
            return body if _is_noop(body) else self._before_loop(loop)

    def _before_loop(self, loop):
        """for k: { if (k == 0 ...) init; rest }  ->  if (...) init with k = 0; for k: rest"""
        body, var, analyzer = loop.body, loop.loop_var, self.analyzer
        first = body.seq[0] if isinstance(body, SeqStmt) else body
        if not (isinstance(first, IfThenElse) and first.else_case is None and isinstance(loop.extent, IntImm)
                and loop.kind in ("serial", "unrolled") and any(v is var for v in free_vars(first.condition))):
            return loop
        with analyzer.constraint_scope(first.condition):
            if not analyzer.can_prove_equal(var, loop.min):
                return loop
        start = {var: loop.min}
        condition, init = (self.visit(substitute(part, start)) for part in (first.condition, first.then_case))
        if not is_const_int(condition, 1):
            init = IfThenElse(condition, init)
        rest = seq(*body.seq[1:]) if isinstance(body, SeqStmt) else Evaluate(const(0))
        return init if _is_noop(rest) else seq(init, loop.replace(body=rest))

    def visit_IfThenElse(self, branch):
        condition = self.visit(branch.condition)
        plain = condition.args[0] if isinstance(condition, Call) and condition.op == "tir.likely" else condition
        if isinstance(plain, IntImm):
            taken = branch.then_case if plain.value else branch.else_case
            return Evaluate(const(0)) if taken is None else self.visit(taken)
        with self.analyzer.constraint_scope(plain):
            then_case = self.visit(branch.then_case)
        else_case = None
        if branch.else_case is not None:
            with self.analyzer.constraint_scope(Not(plain)):
                else_case = self.visit(branch.else_case)
            else_case = None if _is_noop(else_case) else else_case
        if not _is_noop(then_case):
            return branch.replace(condition=condition, then_case=then_case, else_case=else_case)
        if else_case is None:
            return then_case
        return IfThenElse(self.analyzer.simplify(Not(plain)), else_case)

    def visit_SeqStmt(self, s):
        return seq(*(self.visit(x) for x in s.seq))

    def visit_LetStmt(self, let):
        value = self.visit(let.value)
        self.analyzer.bind_let(let.var, value)
        return let.replace(value=value, body=self.visit(let.body))

    def visit_DeclBuffer(self, decl):
        body = self.visit(decl.body)
        return body if _is_noop(body) else decl.replace(body=body)

    def visit_BufferStore(self, store):
        return store.replace(value=self.visit(store.value), indices=self.visit(store.indices))

    def visit(self, value):
        return self.analyzer.simplify(value) if isinstance(value, PrimExpr) else super().visit(value)


def _is_noop(stmt):
    return isinstance(stmt, Evaluate) and is_const_int(stmt.value) or isinstance(stmt, SeqStmt) and not stmt.seq
