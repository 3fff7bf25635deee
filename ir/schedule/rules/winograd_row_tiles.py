"""The register tile of a Winograd convolution along one axis, by a model of its time in cycles of one core."""
from __future__ import annotations

from dataclasses import dataclass

from .. import plan as plans
from ..plan import Kernel, Plan, shared
from . import tiles

ROOM = 1 / 2  # of the first cache, for the products of a block of columns


@dataclass(frozen=True)
class Layer(Kernel):
    """tile, side: m and a of F(m, r), a = m + r - 1; terms: of each product; out_blocks: of channels; tiles: rows of
    them; width: columns of results; data: vectors of the image in the rows of a tile, of which each makes `side`;
    by_element: whether multiply-adds may take elements of the rows out of vectors; work: multiply-adds.

    A plan's block is of columns, whose products the first cache holds."""

    tile: int
    side: int
    terms: int
    out_blocks: int
    tiles: int
    width: int
    data: int
    by_element: bool = True
    work: int = 0

    rule = "winograd_rows"

    def seen(self, cpu):
        return cpu if self.by_element or not cpu.by_element else cpu.without("by_element")

    def candidates(self, cpu):
        """Register tiles over vectors of output channels and columns."""
        fitting = (t for t in tiles.candidates(cpu)
                   if t.rows == 1 and self.out_blocks % t.vectors == 0 and t.columns <= self.width)
        for tile in sorted(fitting, key=lambda t: t.vectors):
            yield Plan(self.rule, tile=tile)

    def cost(self, plan, cpu):
        """Of the products in a row of tiles."""
        start, tile = cpu.cost("winograd_rows.start"), plan.tile
        each = sum(count * (self.terms * tiles.step(cpu, tile.vectors, points) + start)
                   for _, points, count in tiles.grid(1, self.width, tile))
        return self.side * self.out_blocks // tile.vectors * each

    def complete(self, plan, cpu):
        """Whole register tiles; all columns where the cache can."""
        most = ROOM * cpu.l1_bytes / (self.side * self.out_blocks * cpu.lanes * 4)
        block = self.width if self.width <= most else max(1, int(most / plan.tile.columns)) * plan.tile.columns
        return plan.replace(block=plan.block or block, threads=plan.threads or shared(cpu, self.work, "rows"))


def cycles(cpu, layer):
    """About how long the convolution takes."""
    transforms = layer.side * layer.data + (layer.side / 2 + 2 * layer.tile) * layer.out_blocks * layer.width
    plan = plans.choose(layer, cpu)
    return layer.tiles * (plans.cost(plan, layer, cpu) + transforms)
