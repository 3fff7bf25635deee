"""InjectPrefetch: loops ask for the cache lines that come next, evenly spread over their turns."""
from __future__ import annotations

from itertools import product
from math import prod

from ..arith import Analyzer
from ..costs import BASE
from ..expr import IntImm, Ramp, Range, Select, Var, const, free_vars, is_const_int, substitute
from ..node import collect, structural_equal
from ..tir.hints import PREFETCH, PREFETCH_AHEAD, PREFETCH_FAR, PREFETCH_TILE
from ..tir.intrin import prefetch
from ..tir.stmt import BufferLoad, BufferStore, Evaluate, For, IfThenElse, seq
from .pragmas import text_of
from .walk import StmtMutator, statements, without

KEYS = PREFETCH, PREFETCH_AHEAD, PREFETCH_FAR, PREFETCH_TILE


def inject_prefetch(func, line=BASE["line_bytes"].value, ahead=BASE["stream.ahead"].value,
                    far=BASE["stream.far_ahead"].value):
    """Requires flat buffers. Ensures no annotation pragma_prefetch, _ahead, _far or _tile. A loop k with the
    first, which names a buffer B:

        for p: for t: for k: for v: use(B[at(p, k, v)])
    becomes
        for p: for t: for k: prefetch(B[at(next p, t * (K / T) + k / T, k % T * V / T)]); for v: use(B[at(p, k, v)])

    where p is the innermost loop around k that moves the place in B, and K, T and V are turns of the loops k, t and v:
    while one turn of p runs, what the next one reads comes closer, at an even pace; what the first one reads, while the
    last one runs. In place of T as a divisor stands the next lower power of two. Where the places are no linear ones,
    nothing is asked for. Where loops right around k go on where it ends, they are part of it, and what lies between two
    turns of p is shared out evenly over them, for each value of an unrolled loop inside of k that moves the place.

    Where B is read beside k, in a nest of its own in the same loop p:

        for p: (for a: for b: use(B[at(p, a, b)])); for t: for k: for i: ...
    becomes
        for p: (for a: for b: use(B[at(p, a, b)]))
               for t: for k: for i: prefetch(B[at(next p, k, (t * I + i) / 2^n)]); ...

    where the next loop around i that has as many turns as a stands for it, or i, and the others together for b.

    A loop with the second, which names B:

        for k: for i: use(B[k * S + i * T])
    becomes
        for k: for i: prefetch(B[k * S + i * T], ahead); for i: use(B[k * S + i * T])

    which asks for what is `ahead` bytes further on, of a buffer that is read as it lies. With the third it is `far`
    bytes, for the second cache: of a buffer that all loops around run through in one go.

    A loop with the fourth, which names B:

        for r: for k: ...; for p: for v: use(B[at + p * T + v * S])
    becomes
        for r: for k: prefetch(B[at + k * T + r % V * S]); ...; for p: for v: use(B[at + p * T + v * S])

    where p and v are unrolled: while a tile is computed, the lines come closer that its results go to, or are added to.
    A loop over tiles with it, r for instance, asks for all lines of a tile at the start of each turn.
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
                calls += self._ahead(text_of(name), loop, distance)
        for name in loop.annotations.get(PREFETCH_TILE, ()):
            calls += self._tile(text_of(name), loop)
        body = self.visit(loop.body)
        self.loops = outside
        loop = without(loop, *KEYS)
        if isinstance(body, IfThenElse) and body.else_case is None:  # turns that do nothing ask for nothing
            return loop.replace(body=body.replace(then_case=seq(*calls, body.then_case)))
        return loop.replace(body=seq(*calls, body))

    def _calls(self, name, loop):
        """The statements that ask for lines of buffer `name` in one turn of a loop."""
        load = next((x for x in collect(loop.body, BufferLoad) if x.buffer.name == name), None)
        if load is None:
            return self._beside(name)
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
        if around and row[0] * row[1] != steps[-1]:  # otherwise they fill a turn
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
        """Places that the innermost loop of `inner` reads, its turns shared out to those of the loops around it. Each
        turn's are asked for in as many turns as it takes, one after the other. places: (step, count) of those of a
        turn; line: elements of a cache line."""
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

    def _beside(self, name):
        """The statements that ask for lines of buffer `name` that a nest beside the innermost loop reads in the next
        turn of the loop around both."""
        *around, loop = self.loops
        found = ((n, nest) for n in reversed(range(len(around))) for nest in _nests(around[n].body, name))
        depth, (load, nest) = next(found, (0, (None, ())))
        outer, inner = self.loops[depth], self.loops[depth + 1:]
        if not nest or not all(isinstance(x.extent, IntImm) for x in (*nest, *inner)):
            return []
        (first, *rest), (index,) = nest, load.indices
        index = index.base if isinstance(index, Ramp) else index
        _, count = _run(rest, [self.analyzer.step(index, x.loop_var) for x in rest])
        stands = next((x for x in (*inner[-2::-1], loop) if x.extent.value >= first.extent.value), None)
        if count < len(rest) or stands is None or not all(
                self.analyzer.step(index, x.loop_var) for x in (outer, first)):
            return []
        at = (stands.loop_var - stands.min) * first.extent.value // stands.extent
        turn, turns = _turns([x for x in inner if x is not stands], at.dtype)
        place = substitute(index, {**{x.loop_var: x.min for x in rest}, first.loop_var: first.min + at,
                                   outer.loop_var: _next(outer)})
        points, step = prod(x.extent.value for x in rest), self.analyzer.step(index, rest[-1].loop_var) if rest else 0
        each, pace = -(-points // turns), 1 << max(turns // points, 1).bit_length() - 1
        places = [place + (turn * each // pace + n) * step for n in range(each)]
        return [Evaluate(prefetch(BufferLoad(load.buffer, (self.analyzer.simplify(x),)))) for x in places]

    def _ahead(self, name, loop, distance):
        """The statements that ask for what is `distance` bytes behind each load of buffer `name` in a loop's turn."""
        inner, found = collect(loop.body, For)[::-1], []
        for load in collect(loop.body, BufferLoad):
            if load.buffer.name == name and not any(structural_equal(load, known) for known in found):
                found.append(load)
        out = []
        for load in found:
            index = self._line(load, loop)
            around = [x for x in inner if any(v is x.loop_var for v in free_vars(index))]
            out.append(_for_each(around, load.buffer, index, distance))
        return out

    def _tile(self, name, loop):
        """The statements that ask for lines of buffer `name` that the tile around a loop is read from or stored to, or
        the tile that each turn of it is about."""
        for tile in reversed(self.loops):
            unrolled = [x for x in collect(tile.body, For) if x.kind == "unrolled" and isinstance(x.extent, IntImm)]
            for access in collect(tile.body, (BufferLoad, BufferStore)):
                index, = access.indices
                index = index.base if isinstance(index, Ramp) else index
                inside = [x for x in unrolled if self.analyzer.step(index, x.loop_var) != 0]
                known = {x.loop_var for x in (*self.loops, *inside)}
                if access.buffer.name == name and all(v in known for v in free_vars(index)):
                    if tile is loop:
                        return [_for_each(inside[::-1], access.buffer, index)] if inside else []
                    places = self._tile_places(index, inside, loop)
                    return [Evaluate(prefetch(BufferLoad(access.buffer, (self.analyzer.simplify(x),)))) for x in places]
        return []

    def _tile_places(self, index, inside, loop):
        """Lines along the innermost of the unrolled loops `inside`, for each turn of the other, which turns of the loop
        around `loop` share."""
        steps = sorted((self.analyzer.step(index, x.loop_var) or 0, x.extent.value) for x in inside)
        if not 1 <= len(steps) <= 2 or steps[0][0] <= 0 or not isinstance(loop.extent, IntImm):
            return []
        (step, points), (apart, vectors) = steps[0], (steps[1:] or [(0, 1)])[0]
        pieces, around = -(-points // loop.extent.value), self.loops[-2]
        start = substitute(index, {x.loop_var: x.min for x in inside}) + (loop.loop_var - loop.min) * step
        turn = around.loop_var - around.min
        if (isinstance(around.extent, IntImm) and around.extent.value >= vectors * pieces
                and self.analyzer.step(index, around.loop_var) == 0):
            return [start + turn % vectors * apart + turn // vectors % pieces * (loop.extent.value * step)]
        return [start + (v * apart + n * loop.extent.value * step) for v in range(vectors) for n in range(pieces)]

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
    """A loop's variable in its next turn; after the last one, in the first."""
    following = loop.loop_var + 1
    return Select(following < loop.min + loop.extent, following, loop.min)


def _turns(loops, dtype):
    """(which of the turns of nested loops this is, how many they have)."""
    turn, turns = const(0, dtype), 1
    for x in loops:
        turn, turns = turn * x.extent + (x.loop_var - x.min), turns * x.extent.value
    return turn, turns


def _nests(stmt, name):
    """(load, the loops around it that have turns) of the loads of a buffer in loops of a statement."""
    if isinstance(stmt, For):
        turns = [] if is_const_int(stmt.extent, 1) else [stmt]
        return [(load, [*turns, *loops]) for load, loops in _nests(stmt.body, name)]
    inside = [nest for child in statements(stmt) for nest in _nests(child, name)]
    return inside or [(x, []) for x in collect(stmt, BufferLoad) if x.buffer.name == name]


def _for_each(loops, buffer, index, ahead=0):
    """Ask for what is `ahead` of a place of a buffer, in copies of the loops that move it."""
    new = {x.loop_var: Var(x.loop_var.name, x.loop_var.dtype) for x in loops}
    stmt = Evaluate(prefetch(BufferLoad(buffer, (substitute(index, new),)), ahead))
    for x in reversed(loops):
        stmt = For(new[x.loop_var], x.min, x.extent, x.kind, stmt)
    return stmt


def _shared_out(corner, start, inner, streams, run):
    """Places at equal distances in the `run` elements that the loops `inner` go through, in each of several streams."""
    place = substitute(corner, {**{x.loop_var: x.min for x in inner}, **start})
    for x in inner:
        run = -(-run // x.extent.value)
        place = place + (x.loop_var - x.min) * const(run, place.dtype)
    return [place + offset for offset in streams or [0]]
