"""HoistSumPredicate: compute nothing where a condition keeps a term out of a sum."""
from __future__ import annotations

from ..expr import Add, And, Call, FloatImm, IntImm, free_vars
from ..node import collect, structural_equal
from ..tir.stmt import BufferLoad, IfThenElse
from .hoist_if import hoist_if_then_else
from .walk import StmtMutator


def hoist_sum_predicate(func):
    """Requires flat buffers and no vectors. Ensures that a sum that adds nothing where a condition fails is not
    computed there:

        for i: for v: acc[v] = acc[v] + (x if c && d else 0)   ->   if c: for i: if d: for v: acc[v] = acc[v] + x

    where no unrolled or vectorized loop around the sum changes the condition, which then leaves the loops that it does
    not depend on; of several parts each leaves no more than those before it. Sums start at +0, so that adding nothing
    changes no bit.
    """
    new = func.replace(body=_Guard().visit(func.body))
    return func if new.body is func.body else hoist_if_then_else(new)


class _Guard(StmtMutator):
    def __init__(self):
        self.tile = []  # the variables of the unrolled and vectorized loops around

    def visit_For(self, loop):
        if loop.kind not in ("unrolled", "vectorized"):
            return super().visit_For(loop)
        self.tile.append(loop.loop_var)
        loop = super().visit_For(loop)
        self.tile.pop()
        return loop

    def visit_BufferStore(self, store):
        condition, term = _choice(store)
        if condition is None or not self.tile or any(v in self.tile for v in free_vars(condition)):
            return store
        new = store.replace(value=Add(store.value.a, term))
        for part in reversed(_parts(condition)):
            new = IfThenElse(part, new)
        return new


def _choice(store):
    """(condition, term) of `b[i] = b[i] + if_then_else(condition, term, 0)`; (None, None) for other stores."""
    value = store.value
    if not isinstance(value, Add) or not isinstance(value.a, BufferLoad) or not isinstance(value.b, Call):
        return None, None
    if value.b.op != "tir.if_then_else" or value.a.buffer is not store.buffer:
        return None, None
    condition, term, zero = value.b.args
    none = isinstance(zero, (FloatImm, IntImm)) and zero.value == 0
    same = structural_equal(value.a.indices, store.indices)
    return (condition, term) if none and same and not collect(condition, BufferLoad) else (None, None)


def _parts(condition):
    return _parts(condition.a) + _parts(condition.b) if isinstance(condition, And) else [condition]
