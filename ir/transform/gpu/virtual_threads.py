"""InjectVirtualThread: loops bound to "vthread" become innermost loops, whose iterations share what none of them
changes."""
from __future__ import annotations

from ...arith import Analyzer
from ...expr import Call, IntImm, Ramp, Var, const, free_vars, substitute
from ...node import Mutator, collect
from ...tir.stmt import (
    BufferLoad, BufferStore, DeclBuffer, Evaluate, For, IfThenElse, LetStmt, SeqStmt, While, for_, seq)
from ..walk import StmtMutator
from .threads import is_bound

OWN = "cthread"   # the axis of virtual threads that share nothing
MOST_COPIES = 16  # iterations that are unrolled


def inject_virtual_thread(func, flat=False):
    """Requires no blocks and shaped buffers. Ensures that no loop is bound to "vthread": its iterations, of which none
    uses what another one wrote, run one after the other around each statement that depends on them. Other statements
    run once for all. Buffers that are declared inside and differ between iterations get a dimension. A loop without a
    constant extent becomes a serial one where it is.

    A loop bound to "cthread" is one of threads of which each has all that is declared inside for itself.

    flat: buffers of one dimension keep that, for the iterations one after another, and few iterations are written out.
    """
    return func.replace(body=_Inject(flat).visit(func.body))


class _Inject(StmtMutator):
    def __init__(self, flat):
        self.flat = flat

    def visit_For(self, loop):
        loop = loop.replace(body=self.visit(loop.body))
        if not (is_bound(loop, "vthread") or is_bound(loop, OWN)):
            return loop
        if not isinstance(loop.extent, IntImm):
            return loop.replace(kind="serial", thread_binding=None)
        differing = _Differing(loop, self.flat)
        return _Sink(loop, differing).visit(differing.expanded(loop.body))


class _Differing:
    """What differs between the iterations of a loop: variables, and buffers declared inside."""

    def __init__(self, loop, flat):
        self.loop, self.flat, self.variables = loop, flat, {loop.loop_var}
        self.inside = {d.buffer for d in collect(loop.body, DeclBuffer)}
        self.buffers, size = set(self.inside) if is_bound(loop, OWN) else set(), -1
        while size != len(self.variables) + len(self.buffers):
            size = len(self.variables) + len(self.buffers)
            self._find(loop.body, False)

    def differs(self, *values):
        """Whether expressions do."""
        return not self.variables.isdisjoint(free_vars(values)) or any(
            load.buffer in self.buffers for load in collect(values, BufferLoad))

    def _find(self, stmt, under):
        """Note what a statement makes differ. under: what decides how often it runs does."""
        if isinstance(stmt, SeqStmt):
            for s in stmt.seq:
                self._find(s, under)
        elif isinstance(stmt, BufferStore):
            if under or self.differs(stmt.value, stmt.indices):
                self.buffers |= {stmt.buffer} & self.inside
        elif isinstance(stmt, Evaluate):
            if under or self.differs(stmt.value):
                self.buffers |= {load.buffer for call in collect(stmt.value, Call) if call.op == "tir.address_of"
                                 for load in call.args} & self.inside
        elif isinstance(stmt, For):
            if self.differs(stmt.min, stmt.extent):
                self.variables.add(stmt.loop_var)
            self._find(stmt.body, under or self.differs(stmt.min, stmt.extent))
        elif isinstance(stmt, LetStmt):
            if self.differs(stmt.value):
                self.variables.add(stmt.var)
            self._find(stmt.body, under)
        elif isinstance(stmt, (IfThenElse, While)):
            under = under or self.differs(stmt.condition)
            for case in (stmt.body,) if isinstance(stmt, While) else filter(None, (stmt.then_case, stmt.else_case)):
                self._find(case, under)
        else:
            self._find(stmt.body, under)

    def expanded(self, stmt):
        """A statement in which buffers that differ have a first dimension more, for the loop's iterations."""
        new, self.buffers = {b: self._expanded(b) for b in self.buffers}, set()
        self.buffers.update(new.values())
        return _Expand(new, self.loop.loop_var - self.loop.min).visit(stmt)

    def _expanded(self, b):
        if self.flat and _is_flat(b):
            return b.replace(shape=(b.shape[0] * const(self.loop.extent.value, b.shape[0].dtype),))
        strides = (b.strides[0] * b.shape[0], *b.strides) if b.strides else ()
        return b.replace(shape=(const(self.loop.extent.value, b.shape[0].dtype), *b.shape), strides=strides)


def _is_flat(buffer):
    """Whether a buffer has one dimension, whose elements lie side by side."""
    return len(buffer.shape) == 1 and not buffer.strides


class _Expand(Mutator):
    def __init__(self, new, index):
        self.new, self.index = new, index

    def visit_DeclBuffer(self, decl):
        return decl.replace(buffer=self.new.get(decl.buffer, decl.buffer), body=self.visit(decl.body))

    def _access(self, node):
        node = self.generic_visit(node)
        if node.buffer not in self.new:
            return node
        new, old = self.new[node.buffer], node.buffer
        if len(new.shape) > len(old.shape):
            return node.replace(buffer=new, indices=(self.index, *node.indices))
        index, ahead = node.indices[0], self.index * old.shape[0]
        if isinstance(index, Ramp):
            return node.replace(buffer=new, indices=(index.replace(base=_sum(ahead, index.base)),))
        return node.replace(buffer=new, indices=(_sum(ahead, index),))

    visit_BufferLoad = visit_BufferStore = _access


def _sum(a, b):
    return Analyzer().simplify(a + b)


class _Sink(StmtMutator):
    """Puts the loop around the statements that depend on it."""

    def __init__(self, loop, differing):
        self.loop, self.differing = loop, differing

    def _depends(self, root):
        return not self.differing.variables.isdisjoint(free_vars(root)) or any(
            a.buffer in self.differing.buffers for a in collect(root, (BufferLoad, BufferStore)))

    def around(self, stmt):
        """The loop around a statement, with a variable of its own."""
        if not self._depends(stmt):
            return stmt
        if self.differing.flat and self.loop.extent.value <= MOST_COPIES:
            first = self.loop.min
            return seq(*(substitute(stmt, {self.loop.loop_var: first + n}) for n in range(self.loop.extent.value)))
        v, count = Var(self.loop.loop_var.name, self.loop.loop_var.dtype), self.loop.extent.value
        kind = "unrolled" if count <= MOST_COPIES else "serial"
        return for_(v, count, substitute(stmt, {self.loop.loop_var: v}), kind, self.loop.min, self.loop.annotations)

    visit_BufferStore = visit_Evaluate = around

    def visit_SeqStmt(self, s):
        """Stores side by side are in one loop."""
        out, run = [], []
        for child in s.seq:
            leaf = isinstance(child, (BufferStore, Evaluate)) and self._depends(child)
            if not leaf and run:
                out.append(self.around(seq(*run)))
                run = []
            run.append(child) if leaf else out.append(self.visit(child))
        return seq(*out, *([self.around(seq(*run))] if run else []))

    def _if_alike(*names):
        """Go inside of a statement whose own expressions do not depend on the loop."""
        def visit(self, stmt):
            if any(self._depends(getattr(stmt, name)) for name in names):
                return self.around(stmt)
            return getattr(StmtMutator, f"visit_{type(stmt).__name__}")(self, stmt)
        return visit

    visit_For = _if_alike("min", "extent")
    visit_LetStmt = visit_AttrStmt = _if_alike("value")
    visit_IfThenElse = visit_While = visit_AssertStmt = _if_alike("condition")
