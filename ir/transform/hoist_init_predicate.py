"""HoistInitPredicate: start every accumulator of a register tile at a constant, also those past the tensor's end."""
from __future__ import annotations

from ..arith import Analyzer
from ..expr import Call, IntImm, Range, free_vars, is_const_int
from ..node import Mutator, collect
from ..tir.stmt import BufferLoad, BufferStore, IfThenElse


def hoist_init_predicate(func):
    """Requires flat buffers, and guards as lower_blocks writes them. Ensures that constants are stored to local buffers
    without `if likely(...)` around, where that stays inside of the buffer:

        for m in 16: if likely(m_0 * 16 + m < batch): acc[m] = 0   ->   for m in 16: acc[m] = 0

    What a guard holds back then becomes the constant, too, so nothing may be stored there before: the buffer's first
    access is this store, in loops that hold no other one. Without the guard, no element is read before it is written
    when a whole tile is copied, and compilers need not prove that. This is about tiles, whose loops are unrolled: of
    other loops guards may hold back most iterations, as where a border is stored.
    """
    return func.replace(body=_HoistInitPredicate().visit(func.body)) if collect(func.body, IfThenElse) else func


class _HoistInitPredicate(Mutator):
    def __init__(self):
        self.analyzer = Analyzer()
        self.loops = []      # the loops around but those of one turn
        self.declared = {}   # id(local buffer) -> (how many loops were around its declaration, what this holds)

    def visit_DeclBuffer(self, decl):
        if decl.buffer.scope == "local":
            self.declared[id(decl.buffer)] = len(self.loops), decl.body
        return self.generic_visit(decl)

    def visit_For(self, loop):
        self.analyzer.bind(loop.loop_var, Range(loop.min, loop.extent), allow_override=True)
        around, self.loops = self.loops, self.loops + [loop] * (not is_const_int(loop.extent, 1))
        loop = self.generic_visit(loop)
        self.loops = around
        return loop

    def visit_IfThenElse(self, branch):
        return branch.then_case if self._is_needless(branch) else self.generic_visit(branch)

    def _is_needless(self, branch):
        store, guard = branch.then_case, branch.condition
        if not (isinstance(guard, Call) and guard.op == "tir.likely" and branch.else_case is None
                and isinstance(store, BufferStore) and not collect(store.value, BufferLoad)):
            return False
        if id(store.buffer) not in self.declared or not isinstance(store.buffer.shape[0], IntImm):
            return False
        outside, body = self.declared[id(store.buffer)]
        index, loops, held = store.indices[0], self.loops[outside:], set(free_vars(guard))
        inside = [loop for loop in loops if loop.loop_var in held]
        bound = self.analyzer.interval(index)
        return (all(loop.kind in ("unrolled", "vectorized") for loop in inside)
                and {loop.loop_var for loop in inside} <= set(free_vars(index)) and None not in bound
                and 0 <= bound.min_value and bound.max_value < store.buffer.shape[0].value
                and _accesses(body, store.buffer)[0] is store
                and all(_accesses(loop, store.buffer) == [store] for loop in loops[:1]))


def _accesses(stmt, buffer):
    """The loads and stores of a buffer, and the calls that are given its pointer, in a statement's order."""
    return [a for a in collect(stmt, (BufferLoad, BufferStore, Call))
            if (any(v is buffer.data for v in a.args) if isinstance(a, Call) else a.buffer is buffer)]
