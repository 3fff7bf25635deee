"""The memory plan: where each intermediate tensor lies in its memory (mostly the caller's arena), so that tensors that
are alive at the same time never overlap. Offsets are chosen at compile time; with symbolic dimensions they are
multiples of a product of them."""
from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from ..ir.arith import Analyzer
from ..ir.expr import Add, IntImm, Mul, PrimExpr, const
from ..ir.node import structural_equal

HOST = "global"  # the memory that the caller's arena lies in, and whatever else the caller passes
ALIGN = 64
ROUNDS = 100  # of improvement; more than that changes nothing on real networks


def scope_of(memory):
    """What memory is of, by its name: "global" of "global.sram", one of several that the caller passes."""
    return memory.partition(".")[0]


@dataclass(frozen=True)
class Buffer:
    """A tensor to place. bytes: its size, at most; life: ((first, last), ...), the moments at which it is alive, both
    included, in order (lives.py). part: bytes that threads divide among them, in each part of the tensor alike; None
    where that is all of it. memory: the name of what it lies in."""

    name: str
    bytes: PrimExpr
    life: tuple = ((0, 0),)
    part: PrimExpr | None = None
    memory: str = HOST

    @property
    def first(self):
        return self.life[0][0]

    @property
    def last(self):
        return self.life[-1][1]


@dataclass(frozen=True)
class Region:
    """Buffers whose sizes are constants times one `unit` (1, or an expression of symbolic dimensions)."""

    unit: PrimExpr
    bytes: int      # per unit
    lower_bound: int  # per unit: the largest sum of sizes alive at one time
    memory: str = HOST


@dataclass(frozen=True)
class MemoryPlan:
    """buffers[i] lies at regions[place[i][0]] + place[i][1] * unit. Regions of one memory follow one another there."""

    buffers: tuple
    regions: tuple
    places: tuple

    def offset(self, index):
        """Byte offset of buffer `index` from the first tensor in its memory, an expression of the dimensions."""
        number, offset = self.places[index]
        region = self.regions[number]
        return Analyzer().simplify(self._end(region.memory, number) + const(offset, "int64") * region.unit)

    def meet(self, a, b):
        """Whether two buffers have bytes in common, at whatever times; where sizes are symbolic they may have."""
        (own, begin), (other, start) = self.places[a], self.places[b]
        sizes = [Analyzer().simplify(self.buffers[i].bytes) for i in (a, b)]
        if own != other or not all(isinstance(n, IntImm) for n in sizes):
            return own == other
        return begin < start + sizes[1].value and start < begin + sizes[0].value

    @property
    def total(self):
        """Bytes of the caller's arena, an expression of the dimensions."""
        return self.bytes_of(HOST)

    @property
    def memories(self):
        """The names of the memories that buffers lie in, the caller's first."""
        return tuple(dict.fromkeys([HOST, *(r.memory for r in self.regions)]))

    def bytes_of(self, memory):
        """Bytes of all regions of a memory, an expression of the dimensions."""
        return Analyzer().simplify(self._end(memory, len(self.regions)))

    def _end(self, memory, number):
        """Where the regions of a memory end that come before region `number`."""
        total = const(0, "int64")
        for r in self.regions[:number]:
            total = total + const(r.bytes, "int64") * r.unit if r.memory == memory else total
        return total


def plan_memory(buffers, budget=0):
    """Place every buffer: greedily in several orders (Pisarchyk and Lee 2020 compare such orders), the best of which is
    then improved step by step. Most networks reach the lower bound.

    budget: how many bytes constant sizes may take in order that only buffers that threads divide alike lie in the same
    memory at different times. A thread then writes to lines that it had last, and waits for no other core's.
    """
    regions, places = [], [None] * len(buffers)
    for number, (memory, unit, members) in enumerate(_by_unit(buffers)):
        sizes = {i: -(-size // ALIGN) * ALIGN for i, size in members.items()}
        lives = {i: buffers[i].life for i in sizes}
        offsets, total = Placing(sizes, lives).best()
        if total < budget and isinstance(unit, IntImm):
            apart = _place_apart(sizes, lives, {i: _part(buffers[i]) for i in sizes})
            offsets, total = apart if apart[1] <= budget else (offsets, total)
        for i, offset in offsets.items():
            places[i] = (number, offset)
        regions.append(Region(unit, total, lower_bound(members, lives), memory))
    return MemoryPlan(tuple(buffers), tuple(regions), tuple(places))


def _place_apart(sizes, lives, parts):
    """(offsets, total bytes) of a placement in which buffers of different parts have no bytes in common."""
    offsets, total = {}, 0
    for part in sorted(set(parts.values())):
        alike = {i: size for i, size in sizes.items() if parts[i] == part}
        own, end = Placing(alike, {i: lives[i] for i in alike}).best()
        offsets |= {i: total + offset for i, offset in own.items()}
        total += end
    return offsets, total


def _part(buffer):
    """Bytes of a part of a buffer of constant size."""
    return Analyzer().simplify(buffer.bytes if buffer.part is None else buffer.part).value


def _by_unit(buffers):
    """[(memory, unit, {index: bytes per unit})], constant sizes first. Sizes with little but symbolic factors count in
    units of ALIGN bytes, so that rounding them up costs less than ALIGN bytes."""
    groups = []
    for i, b in enumerate(buffers):
        total = Analyzer().simplify(b.bytes)
        size, unit = split_constant(total)
        if size < ALIGN and not isinstance(unit, IntImm):
            size, unit = ALIGN, Analyzer().simplify((total + (ALIGN - 1)) // ALIGN)
        members = next((m for memory, u, m in groups if memory == b.memory and structural_equal(u, unit)), None)
        if members is None:
            groups.append((b.memory, unit, members := {}))
        members[i] = size
    return sorted(groups, key=lambda g: not isinstance(g[1], IntImm))


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


def lower_bound(sizes, lives):
    """The largest sum of sizes alive at one time; no plan can use less."""
    return max((sum(sizes[i] for i in alive) for alive in _alive(lives).values()), default=0)


def _alive(lives):
    """{moment at which a life or a part of one begins or ends: the buffers alive then}, in order."""
    parts = sorted((first, last, i) for i, life in lives.items() for first, last in life)
    found, alive, begun = {}, {}, 0
    for t in sorted({t for first, last, _ in parts for t in (first, last)}):
        alive = {i: last for i, last in alive.items() if last >= t}
        while begun < len(parts) and parts[begun][0] == t:
            alive[parts[begun][2]] = parts[begun][1]
            begun += 1
        found[t] = sorted(alive)
    return found


class Placing:
    """Offsets for buffers of given sizes and lives ({index: bytes}, {index: ((first, last), ...)})."""

    def __init__(self, sizes, lives):
        self.sizes, self.lives = sizes, lives
        self.bound = lower_bound(sizes, lives)
        self.neighbours = {i: set() for i in sizes}
        for alive in _alive(lives).values():
            for i in alive:
                self.neighbours[i].update(alive)

    def best(self):
        """(offsets {index: bytes}, total bytes) of the best placement found."""
        total, order, limit = min(((self.place(order, limit)[1], order, limit)
                                   for limit in (self.bound, 0) for order in self.orders()), key=lambda r: r[0])
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

    def orders(self):
        """By start, size, bytes times life, life, and by the fullest moment: the buffers alive then first."""
        sizes, lives = self.sizes, self.lives
        life = {i: sum(last - first for first, last in parts) for i, parts in lives.items()}
        yield sorted(sizes, key=lambda i: (lives[i][0][0], -sizes[i], i))
        yield sorted(sizes, key=lambda i: (-sizes[i], lives[i][0][0], i))
        yield sorted(sizes, key=lambda i: (-life[i] * sizes[i], i))
        yield sorted(sizes, key=lambda i: (-life[i], -sizes[i], i))
        alive = {t: sorted(some, key=lambda i: (-sizes[i], i)) for t, some in _alive(lives).items()}
        fullest = sorted(alive, key=lambda t: (-sum(sizes[i] for i in alive[t]), t))
        yield list(dict.fromkeys(i for t in fullest for i in alive[t]))
