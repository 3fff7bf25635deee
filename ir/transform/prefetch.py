"""InjectPrefetch: loops ask for the cache lines that come next, evenly spread over their iterations."""
from __future__ import annotations

from itertools import product

from ..arith import Analyzer
from ..costs import BASE
from ..expr import IntImm, Ramp, Range, Select, Var, const, free_vars, substitute
from ..node import collect, structural_equal
from ..tir.hints import PREFETCH, PREFETCH_AHEAD, PREFETCH_FAR, PREFETCH_TURNS
from ..tir.intrin import prefetch
from ..tir.stmt import BufferLoad, Evaluate, For, IfThenElse, seq
from .pragmas import text_of
from .walk import StmtMutator, without

KEYS = PREFETCH, PREFETCH_AHEAD, PREFETCH_FAR, PREFETCH_TURNS


def inject_prefetch(func, line=BASE["line_bytes"].value, ahead=BASE["stream.ahead"].value,
                    far=BASE["stream.l2_ahead"].value):
    """Requires flat buffers. Ensures no annotation pragma_prefetch, _ahead, _far or _turns. A loop k with the first, which
    names a buffer B:

        for p: for t: for k: for v: use(B[at(p, k, v)])
    becomes
        for p: for t: for k: prefetch(B[at(next p, t * (K / T) + k / T, k % T * V / T)]); for v: use(B[at(p, k, v)])

    where p is the innermost loop around k that moves the place in B, and K, T and V are iterations of the loops k, t
    and v: while one iteration of p runs, what the next one reads comes closer, at an even pace; what the first one
    reads, while the last one runs. In place of T as a divisor stands the next lower power of two. Where the places are
    no linear ones, nothing is asked for. Where loops right around k go on where it ends, they are part of it, and what
    lies between two iterations of p is shared out evenly over them, for each value of an unrolled loop inside of k that
    moves the place.

    A loop with the second, which names B:

        for k: for i: use(B[k * S + i * T])
    becomes
        for k: for i: prefetch(B[k * S + i * T], ahead); for i: use(B[k * S + i * T])

    which asks for what is `ahead` bytes further on, of a buffer that is read as it lies. With the third it is `far`
    bytes, for L2: of a buffer that all loops around run through in one go. With the fourth, {B: n}, it is as far as n
    turns of the loop move the place, if by a constant: a line at a time of what lies in a row.
    """
    return func.replace(body=_Inject(line, ahead, far).visit(func.body))


class _Inject(StmtMutator):
    def __init__(self, line, ahead, far):
        self.analyzer, self.loops = Analyzer(), ()
        self.line, self.distances = line, ((PREFETCH_AHEAD, ahead), (PREFETCH_FAR, far))

    def visit_For(self, loop):
        self.analyzer.bind(loop.loop_var, Range(loop.min, loop.extent), allow_override=True)
        outside, self.loops = self.loops, (*self.loops, loop)
        calls = [call for name in loop.annotations.get(PREFETCH, ()) for call in self._calls(text_of(name), loop)]
        for key, distance in self.distances:
            for name in loop.annotations.get(key, ()):
                calls += [_for_each(around, load.buffer, index, distance)
                          for load, index, around in self._places(text_of(name), loop)]
        for name, turns in loop.annotations.get(PREFETCH_TURNS, {}).items():
            calls += self._turns_ahead(name, loop, int(turns))
        body = self.visit(loop.body)
        self.loops = outside
        loop = without(loop, *KEYS)
        if isinstance(body, IfThenElse) and body.else_case is None:  # turns that do nothing ask for nothing
            return loop.replace(body=body.replace(then_case=seq(*calls, body.then_case)))
        return loop.replace(body=seq(*calls, body))

    def _calls(self, name, loop):
        """The statements that ask for lines of buffer `name` in one iteration of a loop."""
        load = next((x for x in collect(loop.body, BufferLoad) if x.buffer.name == name), None)
        if load is None:
            return []
        index = self._line(load, loop)
        inside = [x for x in collect(loop.body, For) if self.analyzer.step(index, x.loop_var) != 0]
        corner = substitute(index, {x.loop_var: x.min for x in inside})
        steps = [self.analyzer.step(corner, x.loop_var) for x in self.loops]
        run, count = _run(self.loops, steps)
        around = max(count - 1, 0)
        moving = next((n for n in reversed(range(len(self.loops) - 1 - around)) if steps[n] != 0), None)
        if moving is None or not steps[moving] or steps[moving] < 0:
            return []
        outer, inner = self.loops[moving], self.loops[moving + 1:]
        if not all(isinstance(x.extent, IntImm) for x in (*inner, *inside)):
            return []
        start = {outer.loop_var: _next(outer)}
        row, *apart = _rows([(self.analyzer.step(index, x.loop_var) or 0, x.extent.value) for x in inside])
        if around and row[0] * row[1] != steps[-1]:  # otherwise they fill an iteration
            apart = [row, *apart]
        streams = [sum(n * step for n, (step, _) in zip(turns, apart))
                   for turns in product(*(range(count) for _, count in apart))]
        if around:
            places = _shared_out(corner, start, inner, streams, run)
        else:
            line = self.line // load.buffer.dtype.bytes
            places = [place + n for place in self._paced(corner, start, inner, row, line) for n in streams]
        return [Evaluate(prefetch(BufferLoad(load.buffer, (self.analyzer.simplify(x),)))) for x in places]

    def _paced(self, corner, start, inner, places, line):
        """Places that the innermost loop of `inner` reads, its iterations shared out to those of the loops around it.
        Each turn's are asked for in as many iterations as it takes, one after the other. places: (step, count) of those
        of an iteration; line: elements of a cache line."""
        *loops, loop = inner
        k, shares = loop.loop_var, 1
        row = const(0, k.dtype)
        for x in loops:
            shares *= x.extent.value
            row = row + (x.loop_var - x.min) * const(loop.extent.value // shares, k.dtype)
        pace = 1 << shares.bit_length() - 1
        step, count = places
        filled = step * count
        if step < line:
            step, count = line, max(-(-filled // line), 1)
        if count <= pace and filled and filled == self.analyzer.step(corner, k):  # elements in a row
            return [substitute(corner, {**start, k: row}) + k * filled // pace]
        place = substitute(corner, {**start, k: row + k // pace})
        return [place + (k % pace * count // pace + n) * step for n in range(-(-count // pace))]

    def _places(self, name, loop):
        """[(load, its index, the loops inside that move it)] of the loads of buffer `name` in a loop, each once."""
        inner, found = collect(loop.body, For)[::-1], []
        for load in collect(loop.body, BufferLoad):
            if load.buffer.name == name and not any(structural_equal(load, known) for known in found):
                found.append(load)
        indices = [self._line(load, loop) for load in found]
        return [(load, index, [x for x in inner if any(v is x.loop_var for v in free_vars(index))])
                for load, index in zip(found, indices)]

    def _turns_ahead(self, name, loop, turns):
        """The statements that ask for what is read of buffer `name` some turns of a loop later, where these move each
        place by a constant: a line at a time of what lies in a row."""
        out = []
        for load, index, around in self._places(name, loop):
            size = load.buffer.dtype.bytes
            steps = {x: (self.analyzer.step(index, x.loop_var) or 0) * size for x in (*around, loop)}
            if steps[loop]:
                skips = [max(self.line // abs(steps[x]), 1) if steps[x] else 1 for x in around]
                out.append(_for_each(around, load.buffer, index, steps[loop] * turns, skips))
        return out

    def _line(self, load, loop):
        """The index of a load's first element, at the start of unrolled loops in `loop` that stay within a line."""
        index, = load.indices
        index = index.base if isinstance(index, Ramp) else index
        for x in collect(loop.body, For):
            unrolled = x.kind == "unrolled" and isinstance(x.extent, IntImm)
            step = self.analyzer.step(index, x.loop_var) if unrolled else None
            if step and 0 < step * x.extent.value * load.buffer.dtype.bytes <= self.line:
                index = substitute(index, {x.loop_var: x.min})
        return index


def _run(loops, steps):
    """(how many elements the innermost loops run through in one go, how many loops those are); steps: of each."""
    run, count = 0, 0
    for loop, step in zip(loops[::-1], steps[::-1]):
        if not step or step < 0 or run not in (0, step) or not isinstance(loop.extent, IntImm):
            break
        run, count = step * loop.extent.value, count + 1
    return run, count


def _rows(moves):
    """[(step, count)] of the places that nested loops go to, given for each loop; those that lie in a row are one."""
    rows = []
    for step, count in sorted(moves):
        if rows and step == rows[-1][0] * rows[-1][1]:
            rows[-1] = rows[-1][0], rows[-1][1] * count
        else:
            rows.append((step, count))
    return rows or [(0, 1)]


def _next(loop):
    """A loop's variable in its next iteration; after the last one, in the first."""
    following = loop.loop_var + 1
    return Select(following < loop.min + loop.extent, following, loop.min)


def _for_each(loops, buffer, index, ahead=0, skips=None):
    """Ask for what is `ahead` of a place of a buffer, in copies of the loops that move it; skips: each one's distance
    between turns that do."""
    new = {x.loop_var: Var(x.loop_var.name, x.loop_var.dtype) for x in loops}
    counts = {x: (x.min, x.extent) for x in loops}
    for x, skip in zip(loops, skips or ()):
        if skip > 1:
            index = substitute(index, {x.loop_var: x.min + x.loop_var * skip})
            counts[x] = const(0, x.min.dtype), Analyzer().simplify((x.extent + (skip - 1)) // skip)
    stmt = Evaluate(prefetch(BufferLoad(buffer, (substitute(index, new),)), ahead))
    for x in reversed(loops):
        stmt = For(new[x.loop_var], *counts[x], x.kind, stmt)
    return stmt


def _shared_out(corner, start, inner, streams, run):
    """Places at equal distances in the `run` elements that the loops `inner` go through, in each of several streams."""
    place = substitute(corner, {**{x.loop_var: x.min for x in inner}, **start})
    for x in inner:
        run = -(-run // x.extent.value)
        place = place + (x.loop_var - x.min) * const(run, place.dtype)
    return [place + offset for offset in streams or [0]]
