"""GuardRedundantStores: what several threads would store alike, one of them stores."""
from __future__ import annotations

from ...arith.pattern import conjuncts
from ...expr import EQ, IntImm, Var, const, free_vars
from ...node import collect
from ...tir.stmt import (
    AttrStmt, BufferLoad, BufferStore, DeclBuffer, Evaluate, For, IfThenElse, LetStmt, While)
from ..walk import StmtMutator
from .threads import AXES, Kernels, buffers_of, is_bound

_NO_STORES = (For, While, IfThenElse, DeclBuffer, AttrStmt, Evaluate)


def guard_redundant_stores(func):
    """Requires no blocks. Ensures that a kernel's store to shared or global memory that does not depend on a thread
    axis is done by the first thread of this axis alone, where all of them would store the same: outside of the axis's
    loops in a loop bound to it of one iteration, inside under a condition.
    """
    return func.replace(body=Kernels(lambda kernel: _Guard(kernel, func).visit(kernel)).visit(func.body))


class _Guard(StmtMutator):
    def __init__(self, kernel, func):
        bound = [x.thread_binding for x in collect(kernel, For) if is_bound(x, "threadIdx")]
        self.axes = [a for a in AXES if a in bound]
        self.private = {b for b in set().union(*buffers_of(kernel, func)) if not b.scope.startswith("shared")}
        self.loops = {}      # axis -> the loop around that is bound to it
        self.depends = {}    # variable -> the axes that it depends on
        self.decided = ()    # the axes of which conditions around choose one thread

    def axes_of(self, *values):
        """The axes on which expressions depend; all, where they are of what a thread has for itself."""
        if any(load.buffer in self.private for load in collect(values, BufferLoad)):
            return set(self.axes)
        return set().union(*(self.depends.get(v, ()) for v in free_vars(values)))

    def visit_For(self, loop):
        if loop.kind == "vectorized":
            return self._guarded(loop)
        saved, axis = (self.loops, self.decided), loop.thread_binding
        self.depends[loop.loop_var] = {axis} if axis in self.axes else self.axes_of(loop.min, loop.extent)
        if axis in self.axes:
            self.loops = {**self.loops, axis: loop}
            self.decided = tuple(a for a in self.decided if a != axis)
            if isinstance(loop.extent, IntImm) and loop.extent.value == 1:
                self.decided += (axis,)
        loop = loop.replace(body=self.visit(loop.body))
        self.loops, self.decided = saved
        return loop

    def visit_LetStmt(self, let):
        """What only stores use is computed by who stores."""
        if not collect(let.body, _NO_STORES):
            return self._guarded(let)
        self.depends[let.var] = self.axes_of(let.value)
        return super().visit_LetStmt(let)

    def visit_IfThenElse(self, branch):
        decided = self.decided
        for c in conjuncts(branch.condition):
            if isinstance(c, EQ) and isinstance(c.a, Var) and isinstance(c.b, IntImm):
                self.decided += tuple(a for a, x in self.loops.items() if x.loop_var is c.a)
        then, self.decided = self.visit(branch.then_case), decided
        return branch.replace(then_case=then, else_case=self.visit(branch.else_case))

    def _guarded(self, stmt):
        """A store, or a loop over lanes or variables around stores."""
        stores = collect(stmt, BufferStore)
        for loop in collect(stmt, For):
            self.depends[loop.loop_var] = self.axes_of(loop.min, loop.extent)
        for let in reversed(collect(stmt, LetStmt)):
            self.depends[let.var] = self.axes_of(let.value)
        if any(s.buffer in self.private for s in stores):
            return stmt
        used = set(self.decided).union(*(self.axes_of(s.indices) for s in stores))
        for axis in self.axes:
            if axis in used:
                continue
            if axis in self.loops:
                v = self.loops[axis].loop_var
                stmt = IfThenElse(EQ(v, self.loops[axis].min), stmt)
            else:
                v = Var(axis.replace("Idx.", "_"))
                stmt = For(v, const(0), const(1), "thread_binding", stmt, axis)
        return stmt

    visit_BufferStore = _guarded
