"""LiftThreadBinding: one loop for each axis of threads of a kernel, around all that is bound to it."""
from __future__ import annotations

from itertools import takewhile

from ...arith import Analyzer
from ...expr import Var, cast
from ...node import Mutator
from ...tir.stmt import For, seq, statements


def lift_thread_binding(func):
    """Ensures that in each kernel, the outermost loop bound to threads and all in it, one loop is bound to an axis: in
    the innermost loop around all that were, whose annotations it has. What stands beside these runs on all threads, as
    it did. Raises ValueError for loops of one axis with different ranges. Loops bound to "vthread" are axes of their
    own, and stay."""
    return func.replace(body=_Lift().visit(func.body))


def _axis(loop):
    """The axis of threads that a loop is bound to, or None."""
    return loop.thread_binding if loop.kind == "thread_binding" and loop.thread_binding != "vthread" else None


class _Lift(Mutator):
    def __init__(self):
        self.kernel = None  # the _Kernel at hand

    def visit_Var(self, v):
        return self.kernel.values.get(v, v) if self.kernel else v

    def visit_For(self, loop):
        if self.kernel is None and _axis(loop):
            self.kernel = _Kernel(loop)
            body = self.visit_For(loop)
            self.kernel = None
            return body
        body = self.visit(loop.body)
        for axis in self.kernel.inside(loop) if self.kernel else ():
            body = axis.replace(min=self.visit(axis.min), extent=self.visit(axis.extent), body=body)
        if _axis(loop):
            return body
        return loop.replace(min=self.visit(loop.min), extent=self.visit(loop.extent), body=body)

    def visit_SeqStmt(self, s):
        """What a loop that goes held is of the sequence itself."""
        new = self.visit(s.seq)
        return s if new is s.seq else seq(*new)


class _Kernel:
    """loops: {axis: its loop}; paths: {axis: the loops around all that are bound to it}; values: {the variable of a
    loop that is bound: that of its axis}."""

    def __init__(self, root):
        self.loops, self.paths, self.values, self.analyzer = {}, {}, {}, Analyzer()
        self._scan(root, ())

    def _scan(self, stmt, path):
        path = (*path, stmt) if isinstance(stmt, For) else path
        for inner in statements(stmt):
            self._scan(inner, path)
        axis = _axis(stmt) if isinstance(stmt, For) else None
        if axis is None:
            return
        known = self.loops.get(axis)
        if known is None:
            v = Var(axis.replace(".", "_"), stmt.loop_var.dtype)
            self.loops[axis], self.paths[axis] = stmt.replace(loop_var=v, body=None), path
        else:
            self._require_same(known, stmt)
            self.loops[axis] = known.replace(annotations={**known.annotations, **stmt.annotations})
            pairs = takewhile(lambda pair: pair[0] is pair[1], zip(self.paths[axis], path))
            self.paths[axis] = tuple(a for a, _ in pairs)
        self.values[stmt.loop_var] = cast(self.loops[axis].loop_var, stmt.loop_var.dtype)

    def _require_same(self, a, b):
        ranges = (a.min, b.min), (a.extent, b.extent)
        if not all(self.analyzer.can_prove_equal(cast(x, y.dtype), y) for x, y in ranges):
            raise ValueError(f"all loops of a kernel that are bound to {a.thread_binding} have one range: from "
                             f"{a.min}, {a.extent} turns, is not from {b.min}, {b.extent} turns")

    def inside(self, loop):
        """The loops of axes to be put in a loop, inner ones first: threads in blocks."""
        found = (axis for axis, path in self.paths.items() if path[-1] is loop)
        return [self.loops[axis] for axis in sorted(found, key=lambda axis: (-len(axis), axis))]
