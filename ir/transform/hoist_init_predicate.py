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

    A guard holds back elements that the tensor does not have, so nothing else is ever stored there. Without it, no
    element is read before it is written when a whole tile is copied, and compilers need not prove that. This is about
    tiles, whose loops are unrolled: of other loops guards may hold back most iterations, as where a border is stored.
    """
    return func.replace(body=_HoistInitPredicate().visit(func.body)) if collect(func.body, IfThenElse) else func


class _HoistInitPredicate(Mutator):
    def __init__(self):
        self.analyzer = Analyzer()
        self.loops = []      # (id of the variable, whether it is of a tile) of the loops around but those of one turn
        self.declared = {}   # id(local buffer) -> how many loops were around its declaration

    def visit_DeclBuffer(self, decl):
        if decl.buffer.scope == "local":
            self.declared[id(decl.buffer)] = len(self.loops)
        return self.generic_visit(decl)

    def visit_For(self, loop):
        self.analyzer.bind(loop.loop_var, Range(loop.min, loop.extent), allow_override=True)
        own = [] if is_const_int(loop.extent, 1) else [(id(loop.loop_var), loop.kind in ("unrolled", "vectorized"))]
        around, self.loops = self.loops, self.loops + own
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
        outside = self.declared.get(id(store.buffer))
        if outside is None or not isinstance(store.buffer.shape[0], IntImm):
            return False
        index = store.indices[0]
        held = {id(v) for v in free_vars(guard)}
        inside = {v: of_tile for v, of_tile in self.loops[outside:] if v in held}
        bound = self.analyzer.interval(index)
        return (all(inside.values()) and inside.keys() <= {id(v) for v in free_vars(index)} and None not in bound
                and 0 <= bound.min_value and bound.max_value < store.buffer.shape[0].value)
