"""Register tiles of inner products (relax/arithmetic/inner_product.py), and a model of their time in cycles of one
core."""
from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod

from ...relax.arithmetic.inner_product import BLOCK, LANES, PARTS, third
from ..plan import ONE_THREAD, Kernel, Plan, Tile, choose
from ..primitives.sample import divisors
from . import tiles
from .blocks import SYMBOLIC
from .tiles import FLOAT, busy

ROWS, PANELS = "rows", "panels"  # what threads share: rows, each of which divides its own, or panels once all are


@dataclass(frozen=True)
class InnerProduct(Kernel):
    """A product of so many thirds of terms with panels of columns. rows: how many there are, or lines of points of an
    image and points of each. work: FMAs.

    A plan's tile is of rows whose sums with a panel are in registers, or of lines and points; its block is of tiles
    that follow one another, or lines of them, that meet all panels one after the other, which L2 holds; its iteration
    divides so many rows at a time.
    """

    rows: tuple
    parts: int
    panels: int
    work: int = 0

    rule = "contraction"

    def seen(self, target):
        return target if target.parallel and self.work >= target.cost("threads.least_work") else target.alone()

    def candidates(self, target):
        for tile in self._tiles(target):
            count, size = _blocks(tile, self.rows)
            held = target.l2_bytes // 4 // (FLOAT * PARTS * self.parts * size)
            largest = min(count, max(held, 1))
            if target.parallel:
                yield self._plan(tile, largest, LANES, PANELS)
            for block in range(largest, 0, -1):
                group = LANES if block == count else max(n for n in divisors(block * size) if n <= LANES)
                yield self._plan(tile, block, group, ROWS if target.parallel else ONE_THREAD)

    def _plan(self, tile, block, group, threads):
        return Plan(self.rule, arithmetic="inner_product", tile=Tile(1, *tile), block=block, turn=group,
                    threads=threads)

    def _tiles(self, target):
        """Tiles of rows. An image's have so many points that they divide its rows, so that blocks of rows read one
        range of memory; several rows where tiles are whole rows, or would be too small otherwise."""
        rows, most = self.rows, target.cost("inner_product.most_rows")
        if len(rows) == 1:
            return [(n,) for n in range(min(rows[0], most), 0, -1)]
        points = [n for n in reversed(divisors(rows[1])) if n <= most]
        few = points[0] < target.cost("inner_product.least_rows") and rows[1] > most
        return [(lines, n) for n in points for lines in range(min(most // n, rows[0]), 0, -1)
                if lines == 1 or few or n == rows[1]]

    def cost(self, plan, target):
        """Cycles of one thread, or twice those of two that share the work and pass on what they divided."""
        rows, parts, panels, tile = self.rows, self.parts, self.panels, sizes(plan, self.rows)
        every, (count, size) = prod(rows), _blocks(tile, rows)
        blocks, columns = -(-count // plan.block), FLOAT * LANES * panels * PARTS * parts
        groups = -(-every // plan.turn)
        streamed = blocks * columns / target.cost("l3_read")
        sums = panels * _cycles(target, tile, rows, parts) + target.cost("inner_product.beside") * streamed
        if plan.block > 1 and prod(tile) % LANES and parts > target.cost("inner_product.l1_thirds"):
            sums += panels * target.cost("inner_product.straddled") * parts * -(-every // prod(tile))
        divided = _divided(target, groups, parts, plan.turn)
        if not target.parallel:
            return sums + divided
        if plan.threads == PANELS:
            passed = FLOAT * every * (PARTS * parts / target.cost("inner_product.waited")
                                      + LANES * panels / target.cost("core_to_core"))
            wait = 2 * target.cost("inner_product.wait")
            return sums * busy(panels) + divided * busy(groups) + wait + passed
        few = target.cost("inner_product.few_shares") if blocks < target.cost("inner_product.shares") else 1
        own = (sums + divided) * busy(every, plan.block * size) * few
        return own + columns / target.cost("inner_product.both")


def candidates(target):
    """The register tiles of sums of pairs, over two dimensions of rows."""
    most = target.cost("inner_product.most_rows")
    for rows in range(1, most + 1):
        for columns in range(1, most // rows + 1):
            yield Tile(1, rows, columns)


def sizes(plan, rows):
    """The sizes of a plan's tile over so many dimensions of rows."""
    return (plan.tile.rows, plan.tile.columns)[:len(rows)]


def tile_cycles(target, rows, parts):
    """Cycles to sum `rows` rows (M) with one panel, over so many thirds of K."""
    if parts <= target.cost("inner_product.l1_thirds"):
        third = max(2 * target.cost("inner_product.pace") * rows, target.cost("inner_product.least"))
    else:
        fewer = target.cost("inner_product.l2_row") * max(target.cost("inner_product.l2_rows") - rows, 0)
        third = max(2 * target.cost("inner_product.l2_pace") * rows + fewer, target.cost("inner_product.l2_least"))
    return target.cost("inner_product.start") + parts * third


def _blocks(tile, rows):
    """(how many tiles, or rows of them, there are; the rows of each)."""
    return -(-rows[0] // tile[0]), tile[0] * prod(rows[1:])


def _cycles(target, tile, rows, parts):
    """Cycles of one panel with all rows, in tiles."""
    pieces = product(*(tiles.pieces(n, size) for n, size in zip(rows, tile)))
    return sum(prod(count for _, count in each) * tile_cycles(target, prod(m for m, _ in each), parts)
               for each in pieces)


def _divided(target, groups, parts, group=LANES):
    """Cycles to scale groups of rows, each in the lanes of vectors."""
    row = target.cost("inner_product.row") + target.cost("inner_product.block") * PARTS * parts / BLOCK
    return groups * LANES * row * (1 if group == LANES else target.cost("inner_product.partial"))


def cycles(target, rows, depth, columns):
    """Cycles of a product on one thread, with its columns resident in L2."""
    alone = target.alone()
    kernel = InnerProduct((prod(rows),), third(depth), -(-columns // LANES))
    plan = choose(kernel, alone)
    sums = kernel.panels * _cycles(target, sizes(plan, kernel.rows), kernel.rows, kernel.parts)
    return sums + _divided(target, -(-kernel.rows[0] // plan.turn), kernel.parts)


def is_profitable(target, rows, depth, columns):
    """Whether a product of a constant is predicted to be clearly faster by inner products than by FMAs."""
    if not target.cost("adds_beside") or depth < target.cost("inner_product.least_terms") or not (
            target.cost("inner_product.least_rows") <= rows < SYMBOLIC):
        return False
    fmas = rows / target.cost("multiply_adds") * depth * -(-columns // LANES)
    return cycles(target, (rows,), depth, columns) < target.cost("inner_product.profitable") * fmas
