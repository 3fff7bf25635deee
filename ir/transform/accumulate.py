"""Accumulate: the sums of a register tile stay in their registers over several terms."""
from __future__ import annotations

from ..expr import Broadcast, Call, IntImm, free_vars
from ..node import structural_equal
from ..tir.hints import ACCUMULATE
from ..tir.intrin import vector_intrinsic
from ..tir.stmt import BufferLoad
from .walk import StmtMutator, rewrite_annotated


def accumulate(func):
    """Requires flat buffers and tir.fma (LowerIntrin). Ensures no annotation pragma_accumulate: in a loop with it

        for k in unroll(4): for i in unroll(4): for v in unroll(3): c[i, v] = fma(B[i, k], W[k, v], c[i, v])
    becomes
        for k in unroll(4): for i in unroll(4): for v in unroll(3): c[i, v] = accumulate(B[i, k], W[k, v], c[i, v])

    where each operand serves several sums. A compiler may otherwise put a sum in the register of an operand that is not
    needed any more: after some terms sums have moved through all registers, and lie on the stack in between.
    """
    return func.replace(body=rewrite_annotated(
        func.body, ACCUMULATE, lambda loop, _: loop.replace(body=_Accumulate().visit(loop.body))))


class _Accumulate(StmtMutator):
    loops = ()  # unrolled ones around

    def visit_For(self, loop):
        outside = self.loops
        if loop.kind == "unrolled" and isinstance(loop.extent, IntImm) and loop.extent.value > 1:
            self.loops = (*outside, loop.loop_var)
        loop = super().visit_For(loop)
        self.loops = outside
        return loop

    def visit_BufferStore(self, store):
        value = store.value
        if not (isinstance(value, Call) and value.op == "tir.fma"):
            return store
        *factors, total = value.args
        is_sum = (isinstance(total, BufferLoad) and total.buffer.same_as(store.buffer)
                  and structural_equal(total.indices, store.indices))
        return store.replace(value=vector_intrinsic("accumulate", *value.args)) if is_sum and all(
            map(self._serves_several, factors)) else store

    def _serves_several(self, factor):
        return isinstance(factor, Broadcast) or not set(self.loops) <= set(free_vars(factor))
