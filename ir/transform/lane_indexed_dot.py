"""LaneIndexedDot: words of bytes that follow one another are lanes of a vector, of which dot products take one each."""
from __future__ import annotations

from ..arith import Analyzer
from ..dtype import DataType
from ..expr import Broadcast, Call, Div, IntImm, Min, Mod, Mul, Sub, const, free_vars, is_const_int, substitute
from ..node import collect
from ..tir.intrinsics import WORD_DOTS
from ..tir.stmt import BufferLoad, BufferStore
from .lane_indexed_fma import is_conditional
from .lower_intrin import LOADS
from .walk import StmtMutator

WORD = 4  # bytes
_DOTS = {f"tir.{name}": f"tir.{name}_lane" for name in WORD_DOTS}


def lane_indexed_dot(func, lanes=4, dots=()):
    """Requires flat buffers, vectors and tir.fma (LowerIntrin). In an unrolled loop x with as many iterations as an
    int32 vector has `lanes`, or more,

        for x in unroll(8): c[x] = dot(Broadcast(load_word(B[x * 4])), w, c[x])
    becomes
        for x in unroll(8): c[x] = dot_lane(load_bytes(B[x / 4 * 16]), x % 4, w, c[x])

    for the products `dots`, names of WORD_DOTS, that take one lane of an operand. Iterations of a loop that is no
    multiple of them take lanes of the last whole vector: no byte is read that is not read anyway.
    """
    wanted = {f"tir.{name}" for name in dots}
    return func.replace(body=_Lanes(wanted, lanes).visit(func.body)) if wanted else func


class _Lanes(StmtMutator):
    loops = ()  # unrolled ones around that hold no condition, innermost last

    def __init__(self, dots, lanes):
        self.dots, self.lanes = dots, lanes

    def visit_For(self, loop):
        outside = self.loops
        whole = loop.kind == "unrolled" and isinstance(loop.extent, IntImm) and is_const_int(loop.min, 0)
        if whole and loop.extent.value >= self.lanes and not is_conditional(loop.body):
            written = {id(s.buffer) for s in collect(loop, BufferStore)}
            self.loops = (*outside, (loop, written))
        loop = super().visit_For(loop)
        self.loops = outside
        return loop

    def visit_BufferStore(self, store):
        value = store.value
        if isinstance(value, Call) and value.op in self.dots and value.dtype.lanes == self.lanes:
            place = self._place(value.args[0])
            if place is not None:
                return store.replace(value=Call(value.dtype, _DOTS[value.op], (*place, *value.args[1:])))
        return store

    def _place(self, word):
        """(vector, lane) of a word that is the same in all lanes; None where no vector holds it."""
        if not (isinstance(word, Broadcast) and isinstance(word.value, Call) and word.value.op in LOADS.values()):
            return None
        first, = word.value.args
        index, = first.indices
        if collect(index, BufferLoad):
            return None
        for loop, written in reversed(self.loops):
            x, extent = loop.loop_var, loop.extent.value
            if id(first.buffer) in written:
                return None
            if not any(v is x for v in free_vars(index)) or Analyzer().step(index, x) != WORD // first.dtype.bytes:
                continue
            lanes = const(self.lanes, x.dtype)
            start, lane = Mul(Div(x, lanes), lanes), Mod(x, lanes)
            if extent == self.lanes:
                start, lane = const(0, x.dtype), x
            elif extent % self.lanes:
                start = Min(start, const(extent - self.lanes, x.dtype))
                lane = Sub(x, start)
            at = first.replace(indices=(substitute(index, {x: start}),))
            return Call(DataType("int32").with_lanes(self.lanes), "tir.load_bytes", (at,)), lane
        return None
