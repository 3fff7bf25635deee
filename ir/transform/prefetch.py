"""InjectPrefetch: loops ask for the cache lines that come next, evenly spread over their turns."""
from __future__ import annotations

from ..arith import Analyzer
from ..expr import IntImm, Ramp, Range, Select, StringImm, const, substitute
from ..node import collect
from ..tir.intrin import prefetch
from ..tir.stmt import BufferLoad, Evaluate, For, seq
from .walk import StmtMutator

KEY = "pragma_prefetch"  # annotation of a loop: names of buffers


def inject_prefetch(func):
    """Requires flat buffers. Ensures no annotation pragma_prefetch. A loop k with it, which names a buffer B:

        for p: for t: for k: use(B[p * S + f(k)])
    becomes
        for p: for t: for k: prefetch(B[next p * S + t * (S / T) + k * (S / (T * K))]); use(B[p * S + f(k)])

    where p is the innermost loop around k that moves the place in B, by S elements, and T and K are the turns of the
    loops inside of p: while one turn of p runs, what the next one reads comes closer; what the first one reads, while
    the last one runs. Where the places are not so, nothing is asked for.
    """
    return func.replace(body=_Inject().visit(func.body))


class _Inject(StmtMutator):
    def __init__(self):
        self.analyzer, self.loops = Analyzer(), ()

    def visit_For(self, loop):
        self.analyzer.bind(loop.loop_var, Range(loop.min, loop.extent), allow_override=True)
        outside, self.loops = self.loops, (*self.loops, loop)
        calls = [call for name in loop.annotations.get(KEY, ()) for call in self._calls(_text(name), loop)]
        body = self.visit(loop.body)
        self.loops = outside
        rest = {k: v for k, v in loop.annotations.items() if k != KEY}
        return loop.replace(body=seq(*calls, body), annotations=rest)

    def _calls(self, name, loop):
        """The statement that asks for a line of buffer `name` in one turn of a loop, in a list; empty where none is."""
        load = next((x for x in collect(loop.body, BufferLoad) if x.buffer.name == name), None)
        if load is None:
            return []
        index = load.indices[0].base if isinstance(load.indices[0], Ramp) else load.indices[0]
        index = substitute(index, {x.loop_var: x.min for x in collect(loop.body, For)})
        steps = [self._step(index, x.loop_var) for x in self.loops[:-1]]
        moving = next((n for n in reversed(range(len(steps))) if steps[n] != 0), None)
        if moving is None or not steps[moving] or steps[moving] < 0:
            return []
        outer, inner = self.loops[moving], self.loops[moving + 1:]
        if not all(isinstance(x.extent, IntImm) for x in inner):
            return []
        following = outer.loop_var + 1
        first = {x.loop_var: x.min for x in inner}
        place = substitute(index, {**first, outer.loop_var: Select(following < outer.min + outer.extent, following,
                                                                   outer.min)})
        span = steps[moving]
        for x in inner:
            span = -(-span // x.extent.value)
            place = place + (x.loop_var - x.min) * const(span, place.dtype)
        return [Evaluate(prefetch(BufferLoad(load.buffer, (self.analyzer.simplify(place),))))]

    def _step(self, index, var):
        """By how much a turn of a loop moves an index; None when that is no constant."""
        step = self.analyzer.simplify(substitute(index, {var: var + 1}) - index)
        return step.value if isinstance(step, IntImm) else None


def _text(name):
    return name.value if isinstance(name, StringImm) else name
