"""InjectPrefetch: loops ask for the cache lines that come next, evenly spread over their turns."""
from __future__ import annotations

from ..arith import Analyzer
from ..expr import IntImm, Ramp, Range, Select, StringImm, Var, const, free_vars, substitute
from ..node import collect, structural_equal
from ..tir.intrin import prefetch
from ..tir.stmt import BufferLoad, Evaluate, For, seq
from .walk import StmtMutator

KEY, AHEAD_KEY = "pragma_prefetch", "pragma_prefetch_ahead"  # annotations of a loop: names of buffers
AHEAD = 2048  # bytes: some hundred cycles of multiply-adds that read them in order


def inject_prefetch(func):
    """Requires flat buffers. Ensures no annotation pragma_prefetch or pragma_prefetch_ahead. A loop k with the first,
    which names a buffer B:

        for p: for t: for k: use(B[p * S + f(k)])
    becomes
        for p: for t: for k: prefetch(B[next p * S + t * (S / T) + k * (S / (T * K))]); use(B[p * S + f(k)])

    where p is the innermost loop around k that moves the place in B, by S elements, and T and K are the turns of the
    loops inside of p: while one turn of p runs, what the next one reads comes closer; what the first one reads, while
    the last one runs. Where the places are not so, nothing is asked for. Loops right around k that go on where it ends
    count as part of it; S is then what they all run through, and each value of an unrolled loop inside of k that moves
    the place has lines of its own.

    A loop with the second, which names B:

        for k: for i: use(B[k * S + i * T])
    becomes
        for k: for i: prefetch(B[k * S + i * T], 2048); for i: use(B[k * S + i * T])

    which asks for what is 2048 bytes further on, of a buffer that is read as it lies.
    """
    return func.replace(body=_Inject().visit(func.body))


class _Inject(StmtMutator):
    def __init__(self):
        self.analyzer, self.loops = Analyzer(), ()

    def visit_For(self, loop):
        self.analyzer.bind(loop.loop_var, Range(loop.min, loop.extent), allow_override=True)
        outside, self.loops = self.loops, (*self.loops, loop)
        calls = [call for name in loop.annotations.get(KEY, ()) for call in self._calls(_text(name), loop)]
        for name in loop.annotations.get(AHEAD_KEY, ()):
            calls += _ahead(_text(name), loop)
        body = self.visit(loop.body)
        self.loops = outside
        rest = {k: v for k, v in loop.annotations.items() if k not in (KEY, AHEAD_KEY)}
        return loop.replace(body=seq(*calls, body), annotations=rest)

    def _calls(self, name, loop):
        """The statement that asks for a line of buffer `name` in one turn of a loop, in a list; empty where none is."""
        load = next((x for x in collect(loop.body, BufferLoad) if x.buffer.name == name), None)
        if load is None:
            return []
        index = load.indices[0].base if isinstance(load.indices[0], Ramp) else load.indices[0]
        inside = collect(loop.body, For)
        streams = [(x.extent, self._step(index, x.loop_var)) for x in inside if x.kind == "unrolled"]
        index = substitute(index, {x.loop_var: x.min for x in inside})
        steps = [self._step(index, x.loop_var) for x in self.loops]
        run, around = self._run(steps)
        moving = next((n for n in reversed(range(len(self.loops) - 1 - around)) if steps[n] != 0), None)
        if moving is None or not steps[moving] or steps[moving] < 0:
            return []
        outer, inner = self.loops[moving], self.loops[moving + 1:]
        if not all(isinstance(x.extent, IntImm) for x in inner):
            return []
        following = outer.loop_var + 1
        first = {x.loop_var: x.min for x in inner}
        place = substitute(index, {**first, outer.loop_var: Select(following < outer.min + outer.extent, following,
                                                                   outer.min)})
        span = run if around else steps[moving]
        for x in inner:
            span = -(-span // x.extent.value)
            place = place + (x.loop_var - x.min) * const(span, place.dtype)
        offsets = [n * step for extent, step in streams if step for n in range(int(extent))] if around else [0]
        return [Evaluate(prefetch(BufferLoad(load.buffer, (self.analyzer.simplify(place + offset),))))
                for offset in offsets or [0]]

    def _run(self, steps):
        """(how many elements k and the loops right around it run through in one go, how many loops those are)."""
        run, count = 0, -1
        for loop, step in zip(self.loops[::-1], steps[::-1]):
            if not step or step < 0 or run not in (0, step) or not isinstance(loop.extent, IntImm):
                break
            run, count = step * loop.extent.value, count + 1
        return run, max(count, 0)

    def _step(self, index, var):
        """By how much a turn of a loop moves an index; None when that is no constant."""
        step = self.analyzer.simplify(substitute(index, {var: var + 1}) - index)
        return step.value if isinstance(step, IntImm) else None


def _ahead(name, loop):
    """The statements that ask for what comes AHEAD of each load of buffer `name` in a turn of a loop."""
    inner, found = collect(loop.body, For)[::-1], []
    for load in collect(loop.body, BufferLoad):
        if load.buffer.name == name and not any(structural_equal(load, known) for known in found):
            found.append(load)
    out = []
    for load in found:
        index = load.indices[0].base if isinstance(load.indices[0], Ramp) else load.indices[0]
        around = [x for x in inner if any(v is x.loop_var for v in free_vars(index))]
        new = {x.loop_var: Var(x.loop_var.name, x.loop_var.dtype) for x in around}
        stmt = Evaluate(prefetch(BufferLoad(load.buffer, (substitute(index, new),)), AHEAD))
        for x in reversed(around):
            stmt = For(new[x.loop_var], x.min, x.extent, x.kind, stmt)
        out.append(stmt)
    return out


def _text(name):
    return name.value if isinstance(name, StringImm) else name
