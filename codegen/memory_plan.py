"""The memory plan: where each intermediate tensor lives in the caller's arena, so that tensors alive at the same time
never overlap. Offsets are chosen at compile time; with symbolic dimensions they are multiples of a product of them."""
from __future__ import annotations

from dataclasses import dataclass

from ..ir.arith import Analyzer
from ..ir.expr import IntImm, Mul, PrimExpr, const
from ..ir.node import structural_equal

ALIGN = 64


@dataclass(frozen=True)
class Buffer:
    """A tensor to place. bytes: its size; live from call number `first` to call number `last`, both included."""

    name: str
    bytes: PrimExpr
    first: int
    last: int


@dataclass(frozen=True)
class Region:
    """Buffers whose sizes are constants times one `unit` (1, or a product of symbolic dimensions)."""

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

    @property
    def total(self):
        """Bytes of all regions, an expression of the dimensions."""
        total = const(0, "int64")
        for r in self.regions:
            total = total + const(r.bytes, "int64") * r.unit
        return Analyzer().simplify(total)


def plan_memory(buffers):
    """Place every buffer. Greedy by several orders (largest first, longest-lived first, by the fullest moment), each into
    the lowest gap that fits (best fit among equals); the best order wins. Pisarchyk and Lee 2020 compare such orders.
    """
    groups = _by_unit(buffers)
    regions, places = [], [None] * len(buffers)
    for number, (unit, members) in enumerate(groups):
        sizes = {i: size for i, size in members}
        lives = {i: (buffers[i].first, buffers[i].last) for i in sizes}
        offsets, total = min((_place(order, sizes, lives) for order in _orders(sizes, lives)), key=lambda r: r[1])
        for i, offset in offsets.items():
            places[i] = (number, offset)
        regions.append(Region(unit, total, _lower_bound(sizes, lives)))
    return MemoryPlan(tuple(buffers), tuple(regions), tuple(places))


def _by_unit(buffers):
    """[(unit, [(index, bytes per unit rounded up to ALIGN)])], constant sizes first."""
    groups = []
    for i, b in enumerate(buffers):
        size, unit = split_constant(Analyzer().simplify(b.bytes))
        entry = next((g for g in groups if structural_equal(g[0], unit)), None)
        if entry is None:
            groups.append(entry := (unit, []))
        entry[1].append((i, -(-size // ALIGN) * ALIGN))
    return sorted(groups, key=lambda g: not isinstance(g[0], IntImm))


def split_constant(e):
    """(c, rest) with e = c * rest, c a positive constant as large as the expression shows."""
    if isinstance(e, IntImm):
        return e.value, const(1, e.dtype)
    if isinstance(e, Mul):
        (ca, ra), (cb, rb) = split_constant(e.a), split_constant(e.b)
        return ca * cb, ra * rb
    return 1, e


def _overlap(a, b):
    return a[0] <= b[1] and b[0] <= a[1]


def _orders(sizes, lives):
    by_size = sorted(sizes, key=lambda i: (-sizes[i], lives[i][0], i))
    yield by_size
    yield sorted(sizes, key=lambda i: (lives[i][0], -sizes[i], i))
    yield sorted(sizes, key=lambda i: (-(lives[i][1] - lives[i][0]) * sizes[i], i))
    yield _by_breadth(sizes, lives)


def _by_breadth(sizes, lives):
    """Buffers of the fullest moment first, then of the next fullest, larger before smaller."""
    moments = sorted({t for life in lives.values() for t in life})
    alive = {t: [i for i in sizes if lives[i][0] <= t <= lives[i][1]] for t in moments}
    order = {}
    for t in sorted(moments, key=lambda t: (-sum(sizes[i] for i in alive[t]), t)):
        for i in sorted(alive[t], key=lambda i: (-sizes[i], i)):
            order.setdefault(i)
    return list(order)


def _place(order, sizes, lives):
    """Put the buffers of `order` one by one into the smallest gap that fits between those alive with them."""
    offsets, total = {}, 0
    for i in order:
        neighbours = sorted((offsets[j], offsets[j] + sizes[j]) for j in offsets if _overlap(lives[i], lives[j]))
        best, best_gap, end = None, None, 0
        for start, stop in neighbours:
            gap = start - end
            if gap >= sizes[i] and (best_gap is None or gap < best_gap):
                best, best_gap = end, gap
            end = max(end, stop)
        offsets[i] = end if best is None else best
        total = max(total, offsets[i] + sizes[i])
    return offsets, total


def _lower_bound(sizes, lives):
    """The largest sum of sizes alive at one time; no plan can use less."""
    return max((sum(sizes[i] for i in sizes if lives[i][0] <= t <= lives[i][1])
                for t in {life[0] for life in lives.values()}), default=0)
