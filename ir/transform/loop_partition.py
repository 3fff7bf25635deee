"""LoopPartition: peel the last iteration of a loop when only there a `likely` condition may fail."""
from __future__ import annotations

from ..arith import Analyzer
from ..expr import LT, Call, IntImm, Range, const, free_vars, substitute
from ..node import Mutator, Visitor
from ..tir.stmt import IfThenElse, seq


def loop_partition(func):
    """Ensures that a serial loop whose `likely` conditions can all be proved except in its last iteration is split into
    the loop without conditions and that iteration; remaining `x < c` conditions right under a loop shorten the loop."""
    return func.replace(body=_Partition().visit(func.body))


class _Partition(Mutator):
    def __init__(self):
        self.analyzer = Analyzer()
        self.ranges = {}

    def visit_For(self, loop):
        self.ranges[loop.loop_var] = Range(loop.min, loop.extent)
        self.analyzer.bind(loop.loop_var, Range(loop.min, loop.extent))
        if loop.kind in ("serial", "unrolled") and isinstance(loop.extent, IntImm) and loop.extent.value > 1:
            split = self._peel(loop)
            if split is not None:
                return split
        body = self.visit(loop.body)
        return self._shorten(loop.replace(body=body))

    def _peel(self, loop):
        conditions = _likely_conditions(loop)
        if not conditions:
            return None
        main_extent = loop.extent.value - 1
        inner = Analyzer()
        for var, rng in self._known_ranges(loop).items():
            inner.bind(var, rng)
        inner.bind(loop.loop_var, Range(loop.min, const(main_extent, loop.extent.dtype)))
        if not all(inner.can_prove(c) for c in conditions):
            return None
        proved = set(map(id, conditions))
        main_body = self.visit(_Assume(proved).visit(loop.body))
        main = loop.replace(extent=const(main_extent, loop.extent.dtype), body=main_body)
        last = substitute(_fresh_loops(loop.body), {loop.loop_var: loop.min + main_extent})
        return seq(main, self.visit(last))

    def _known_ranges(self, loop):
        ranges = {}

        class Scan(Visitor):
            def visit_For(self, inner):
                ranges[inner.loop_var] = Range(inner.min, inner.extent)
                self.generic_visit(inner)

        Scan().visit(loop.body)
        return {**self.ranges, **ranges}

    def _shorten(self, loop):
        """for i in n: if likely(i < c): body  ->  for i in min(n, c): body."""
        body = loop.body
        if not (isinstance(body, IfThenElse) and body.else_case is None and loop.kind != "vectorized"):
            return loop
        condition = body.condition
        if not (isinstance(condition, Call) and condition.op == "tir.likely"):
            return loop
        limit = self._limit(condition.args[0], loop)
        if limit is None or not isinstance(loop.extent, IntImm):
            return loop
        return loop.replace(extent=const(min(limit, loop.extent.value), loop.extent.dtype), body=body.then_case)

    def _limit(self, condition, loop):
        """c when the condition is exactly loop_var - min < c, with c a constant."""
        condition = self.analyzer.simplify(condition)
        if not isinstance(condition, LT):
            return None
        slack = self.analyzer.simplify(condition.b - condition.a + (loop.loop_var - loop.min))
        if isinstance(slack, IntImm) and not any(v is loop.loop_var for v in free_vars(slack)):
            return slack.value
        return None


def _likely_conditions(loop):
    """The conditions of likely-guards inside `loop` that depend on its variable."""
    found = []

    class Scan(Visitor):
        def visit_Call(self, call):
            if call.op == "tir.likely" and any(v is loop.loop_var for v in free_vars(call.args[0])):
                found.append(call.args[0])
            else:
                self.generic_visit(call)

    Scan().visit(loop.body)
    return found


class _Assume(Mutator):
    """Takes the likely branches whose condition (by identity) was proved."""

    def __init__(self, proved):
        self.proved = proved

    def visit_IfThenElse(self, branch):
        c = branch.condition
        if isinstance(c, Call) and c.op == "tir.likely" and id(c.args[0]) in self.proved:
            return self.visit(branch.then_case)
        return self.generic_visit(branch)


def _fresh_loops(stmt):
    """A copy of `stmt` whose loops have variables (and allocations) of their own."""
    from ..expr import Var
    from ..tir.buffer import decl_buffer

    class Fresh(Mutator):
        def __init__(self):
            self.buffers = {}

        def visit_For(self, loop):
            var = Var(loop.loop_var.name, loop.loop_var.dtype)
            return self.generic_visit(loop.replace(loop_var=var, body=substitute(loop.body, {loop.loop_var: var})))

        def visit_DeclBuffer(self, decl):
            b = decl.buffer
            self.buffers[id(b)] = decl_buffer(b.shape, b.dtype, b.name, b.scope, data_alignment=b.data_alignment)
            return decl.replace(buffer=self.buffers[id(b)], body=self.visit(decl.body))

        def access(self, n):
            n = self.generic_visit(n)
            return n.replace(buffer=self.buffers.get(id(n.buffer), n.buffer))

        visit_BufferLoad = visit_BufferStore = access

    return Fresh().visit(stmt)
