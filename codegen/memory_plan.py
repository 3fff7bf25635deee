"""The memory plan: where each intermediate tensor lives in the caller's arena, so that tensors alive at the same time
never overlap. Offsets are chosen at compile time; with symbolic dimensions they are multiples of a product of them."""
from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from ..ir.arith import Analyzer
from ..ir.expr import Add, IntImm, Mul, PrimExpr, const
from ..ir.node import structural_equal

ALIGN = 64
ROUNDS = 100  # of improvement; more than that changes nothing on real networks


@dataclass(frozen=True)
class Buffer:
    """A tensor to place. bytes: its size; live from call number `first` to call number `last`, both included. part:
    bytes that threads divide among them, in each part of the tensor alike; None where that is all of it."""

    name: str
    bytes: PrimExpr
    first: int
    last: int
    part: PrimExpr | None = None


@dataclass(frozen=True)
class Region:
    """Buffers whose sizes are constants times one `unit` (1, or an expression of symbolic dimensions)."""

    unit: PrimExpr
    bytes: int      # per unit
    lower_bound: int  # per unit: the largest sum of sizes alive at one time


@dataclass(frozen=True)
class MemoryPlan:
    """buffers[i] lives at regions[place[i][0]] + place[i][1] * unit. Regions follow one another in the arena."""

    buffers: tuple
    regions: tuple
    places: tuple

    def offset(self, index):
        """Byte offset of buffer `index` from the arena's first tensor, an expression of the dimensions."""
        region, offset = self.places[index]
        total = const(0, "int64")
        for r in self.regions[:region]:
            total = total + const(r.bytes, "int64") * r.unit
        return Analyzer().simplify(total + const(offset, "int64") * self.regions[region].unit)

    def meet(self, a, b):
        """Whether two buffers have bytes in common, at whatever times; where sizes are symbolic they may have."""
        (own, begin), (other, start) = self.places[a], self.places[b]
        sizes = [Analyzer().simplify(self.buffers[i].bytes) for i in (a, b)]
        if own != other or not all(isinstance(n, IntImm) for n in sizes):
            return own == other
        return begin < start + sizes[1].value and start < begin + sizes[0].value

    @property
    def total(self):
        """Bytes of all regions, an expression of the dimensions."""
        total = const(0, "int64")
        for r in self.regions:
            total = total + const(r.bytes, "int64") * r.unit
        return Analyzer().simplify(total)


def plan_memory(buffers, room=0):
    """Place every buffer: greedily in several orders (Pisarchyk and Lee 2020 compare such orders), the best of which is
    then improved step by step. Most networks reach the lower bound.

    room: how many bytes constant sizes may take in order that only buffers that threads divide alike lie in the same
    memory at different times. A thread then writes to lines that it had last, and waits for no other core's.
    """
    regions, places = [], [None] * len(buffers)
    for number, (unit, members) in enumerate(_by_unit(buffers)):
        sizes = {i: -(-size // ALIGN) * ALIGN for i, size in members.items()}
        lives = {i: (buffers[i].first, buffers[i].last) for i in sizes}
        offsets, total = _Placing(sizes, lives).best()
        if total < room and isinstance(unit, IntImm):
            apart = _place_apart(sizes, lives, {i: _part(buffers[i]) for i in sizes})
            offsets, total = apart if apart[1] <= room else (offsets, total)
        for i, offset in offsets.items():
            places[i] = (number, offset)
        regions.append(Region(unit, total, _lower_bound(members, lives)))
    return MemoryPlan(tuple(buffers), tuple(regions), tuple(places))


def _place_apart(sizes, lives, parts):
    """(offsets, total bytes) of a placement in which buffers of different parts have no bytes in common."""
    offsets, total = {}, 0
    for part in sorted(set(parts.values())):
        alike = {i: size for i, size in sizes.items() if parts[i] == part}
        own, end = _Placing(alike, {i: lives[i] for i in alike}).best()
        offsets |= {i: total + offset for i, offset in own.items()}
        total += end
    return offsets, total


def _part(buffer):
    """Bytes of a part of a buffer of constant size."""
    return Analyzer().simplify(buffer.bytes if buffer.part is None else buffer.part).value


def _by_unit(buffers):
    """[(unit, {index: bytes per unit})], constant sizes first. Sizes with little but symbolic factors count in units of
    ALIGN bytes, so that rounding them up costs less than ALIGN bytes."""
    groups = []
    for i, b in enumerate(buffers):
        total = Analyzer().simplify(b.bytes)
        size, unit = split_constant(total)
        if size < ALIGN and not isinstance(unit, IntImm):
            size, unit = ALIGN, Analyzer().simplify((total + (ALIGN - 1)) // ALIGN)
        members = next((m for u, m in groups if structural_equal(u, unit)), None)
        if members is None:
            groups.append((unit, members := {}))
        members[i] = size
    return sorted(groups, key=lambda g: not isinstance(g[0], IntImm))


def split_constant(e):
    """(c, rest) with e = c * rest, c a constant as large as the expression shows."""
    if isinstance(e, IntImm):
        return e.value, const(1, "int64")  # one unit for all constants, whatever their dtype
    if isinstance(e, Mul):
        (ca, ra), (cb, rb) = split_constant(e.a), split_constant(e.b)
        return ca * cb, ra * rb
    if isinstance(e, Add):
        (ca, ra), (cb, rb) = split_constant(e.a), split_constant(e.b)
        common = gcd(ca, cb)
        return common, ra * (ca // common) + rb * (cb // common)
    return 1, e


def _lower_bound(sizes, lives):
    """The largest sum of sizes alive at one time; no plan can use less."""
    return max((sum(sizes[i] for i in alive) for _, alive in _moments(lives)), default=0)


def _moments(lives):
    """(time, what lives then) of each time at which a life begins or ends, in order. The second changes
    from one to the next."""
    begins, ends, alive = {}, {}, {}
    for i, (first, last) in lives.items():
        begins.setdefault(first, []).append(i)
        ends.setdefault(last, []).append(i)
    for time in sorted({*begins, *ends}):
        alive.update(dict.fromkeys(begins.get(time, ())))
        yield time, alive
        for i in ends.get(time, ()):
            del alive[i]


def _neighbours(lives):
    """{index: those of other lives that meet its own}."""
    found = {i: [] for i in lives}
    for time, alive in _moments(lives):
        for i in alive:
            if lives[i][0] == time:
                others = [j for j in alive if j != i]
                found[i] += others
                for j in others:
                    if lives[j][0] < time:  # which does not begin now, and so does not find i itself
                        found[j].append(i)
    return found


class _Placing:
    """Offsets for buffers of given sizes and lives ({index: bytes}, {index: (first, last)})."""

    def __init__(self, sizes, lives):
        self.sizes, self.lives = sizes, lives
        self.bound = _lower_bound(sizes, lives)
        self.neighbours = _neighbours(lives)

    def best(self):
        """(offsets {index: bytes}, total bytes) of the best placement found."""
        total, order, limit = min(((self.place(order, limit)[1], order, limit)
                                   for limit in (self.bound, 0) for order in self._orders()), key=lambda r: r[0])
        return self._improved(order, *self.place(order, limit))

    def place(self, order, limit):
        """Put the buffers of `order` one by one into the smallest gap that fits between those alive with them.

        The space below `limit` and above all others counts as a gap, filled from its end: neighbours in time then sit
        at opposite ends of the arena, and do not cut the room in the middle to pieces.
        """
        offsets, total, sizes = {}, 0, self.sizes
        for i in order:
            size, best, best_gap, end = sizes[i], None, None, 0
            for start, stop in sorted((offsets[j], offsets[j] + sizes[j]) for j in self.neighbours[i] if j in offsets):
                gap = start - end
                if gap >= size and (best is None or gap < best_gap):
                    best, best_gap = end, gap
                end = max(end, stop)
            gap = limit - end
            if gap >= size and (best is None or gap < best_gap):
                best = limit - size if end else 0
            offsets[i] = end if best is None else best
            total = max(total, offsets[i] + size)
        return offsets, total

    def _improved(self, order, offsets, total):
        """While the lower bound is missed, the buffer that ends highest is placed first."""
        now = offsets
        for _ in range(ROUNDS):
            if total == self.bound:
                break
            highest = max(order, key=lambda i: now[i] + self.sizes[i])
            order = [highest, *(i for i in order if i != highest)]
            now, used = self.place(order, self.bound)
            if used < total:
                offsets, total = now, used
        return offsets, total

    def _orders(self):
        """By start, size, bytes times life, life, and by the fullest moment: the buffers alive then first."""
        sizes, lives = self.sizes, self.lives
        life = {i: last - first for i, (first, last) in lives.items()}
        yield sorted(sizes, key=lambda i: (lives[i][0], -sizes[i], i))
        yield sorted(sizes, key=lambda i: (-sizes[i], lives[i][0], i))
        yield sorted(sizes, key=lambda i: (-life[i] * sizes[i], i))
        yield sorted(sizes, key=lambda i: (-life[i], -sizes[i], i))
        alive = {t: sorted(some, key=lambda i: (-sizes[i], i)) for t, some in _moments(lives)}
        fullest = sorted(alive, key=lambda t: (-sum(sizes[i] for i in alive[t]), t))
        yield list(dict.fromkeys(i for t in fullest for i in alive[t]))
