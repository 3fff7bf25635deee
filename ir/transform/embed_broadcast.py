"""EmbedBroadcast: multiply-adds take from memory the elements that they need in all lanes, where that is worth it."""
from __future__ import annotations

from math import prod

from ..arith import Analyzer
from ..expr import Broadcast, Call, IntImm, const, free_vars
from ..tir.hints import EMBED_BROADCAST
from ..tir.intrin import vector_intrinsic
from ..tir.stmt import BufferLoad
from .walk import StmtMutator, without


def embed_broadcast(func):
    """Requires flat buffers and tir.fma (LowerIntrin). Ensures no annotation pragma_embed_broadcast. In a loop with it

        for i in unroll(14): for v in unroll(2): c[i, v] = fma(Broadcast(B[i * S], 16), w[v], c[i, v])
    becomes
        for i in unroll(14): for v in unroll(2): c[i, v] = fma_at(w[v], B[i * S], i, c[i, v])

    which leaves it to simd.h for which i the element is broadcast to a register first: a load for two multiply-adds,
    but an instruction of its own. An element of one multiply-add is taken from memory by compilers already; more than
    two make more loads than are done beside them.
    """
    return func.replace(body=_Embed().visit(func.body))


class _Embed(StmtMutator):
    inside = None  # the loops in the annotated one, outermost first

    def visit_For(self, loop):
        around = self.inside
        if EMBED_BROADCAST in loop.annotations:
            self.inside = ()
            loop = without(loop, EMBED_BROADCAST)
        elif around is not None:
            self.inside = (*around, loop)
        loop = super().visit_For(loop)
        self.inside = around
        return loop

    def visit_BufferStore(self, store):
        value = store.value
        if self.inside is None or not (isinstance(value, Call) and value.op == "tir.fma"):
            return store
        a, b, c = value.args
        if not isinstance(a, Broadcast):
            a, b = b, a
        point = _point(a, self.inside)
        return store if point is None else store.replace(value=vector_intrinsic("fma_at", b, a.value, point, c))


def _point(broadcast, loops):
    """The number of an element that two turns of the unrolled `loops` take, among all; None where it is no such."""
    if not (isinstance(broadcast, Broadcast) and isinstance(broadcast.value, BufferLoad)) or not all(
            x.kind == "unrolled" and isinstance(x.extent, IntImm) for x in loops):
        return None
    index, = broadcast.value.indices
    used = set(free_vars(index))
    if prod(x.extent.value for x in loops if x.loop_var not in used) != 2:
        return None
    point = const(0, index.dtype)
    for x in loops:
        if x.loop_var in used:
            point = point * x.extent + (x.loop_var - x.min)
    return Analyzer().simplify(point)
