"""Tiles of a convolution in blocked layout: the points whose sums registers hold, and the order that caches like."""
from __future__ import annotations

from dataclasses import dataclass

from ..plan import Kernel, Plan, Tile, shared
from . import tiles

MOST_VECTORS = 8  # of a tile that are looked at


@dataclass(frozen=True)
class Shape(Kernel):
    """Of a convolution: vectors of output channels, height and width of the output, steps of the reduction, bytes of
    all weights and of the input, groups of channels (of which one vector may have several).

    A plan's block is a band of rows that the outermost loop takes at a time, within which weights are read once: a
    multiple of the tile's rows, or all rows. made: whether the data is made for each band: of few tiles, so that it is
    near, but not one, as compilers keep a register for each point where its place depends on a block of channels alone.
    in_rows: tiles are of one row. by_element: whether multiply-adds may take elements of the data out of vectors. work:
    multiply-adds.
    """

    blocks: int
    height: int
    width: int
    steps: int
    weight_bytes: int
    input_bytes: int
    groups: int = 1
    made: bool = False
    in_rows: bool = False
    by_element: bool = True
    work: int = 0

    rule = "blocked_convolution"

    def seen(self, cpu):
        return cpu if self.by_element or not cpu.by_element else cpu.without("by_element")

    def candidates(self, cpu):
        """Points at the border are a tile of their own."""
        own = self.blocks // self.groups
        tiles_ = (Tile(v, r, c) for v in range(1, MOST_VECTORS + 1) if tiles.covers(cpu, v, own, self.groups)
                  for r, c in _points(tiles.room(cpu, v) // v, self))
        for tile in sorted(tiles_, key=lambda t: (_near(cpu, t, self), t.rows, t.vectors)):
            yield Plan(self.rule, tile=tile)

    def cost(self, plan, cpu):
        return cycles(cpu, plan.tile, self)

    def complete(self, plan, cpu):
        block = plan.block or _band(cpu, plan.tile, self)
        if self.in_rows:
            plan, block = plan.replace(tile=plan.tile.replace(rows=1)), self.height
        return plan.replace(block=block, threads=plan.threads or shared(cpu, self.work, "bands, channels and rows"))


def _points(most, shape):
    """Rows x columns of at most so many points; several rows only where one is not enough."""
    for columns in range(1, min(most, shape.width) + 1):
        yield 1, columns
    for rows in range(2, min(most // shape.width, shape.height) + 1):
        yield rows, shape.width


def cycles(cpu, tile, shape):
    """About how long the convolution takes with a tile; pieces at the border are tiles of their own size. A step takes
    no less than its weights do from the second cache, where the first has no room for all that a tile reads."""
    far, start = _panel(tile, shape) > cpu.l1_bytes, cpu.cost("conv.start")

    def step(vectors, points):
        return max(_step(cpu, vectors, points), 4 * cpu.lanes * vectors / cpu.cost("l2_read") if far else 0)

    total = sum(across * count * (start + shape.steps * step(vectors, rows * columns))
                for vectors, across in tiles.pieces(shape.blocks, tile.vectors)
                for rows, columns, count in tiles.grid(shape.height, shape.width, tile))
    return total * (cpu.cost("conv.border") if shape.blocks % tile.vectors else 1)


def _step(cpu, vectors, points):
    """Cycles of a step, or what all its instructions take: multiply-adds, loads, prefetches and the loop's. Small tiles
    load more for each multiply-add, but ask for lines and count turns once in several steps."""
    if vectors * points <= cpu.cost("tile.small"):
        return tiles.step_with_loads(cpu, vectors, points)
    instructions = vectors * points + points + 2 * vectors + cpu.cost("conv.loop")
    return max(tiles.step(cpu, vectors, points), instructions / cpu.cost("issue"))


def _near(cpu, tile, shape):
    """Bytes of weights that come from the second cache: those of a tile again for each tile that the first has no room
    for. Prefetches and loads of other tiles of as many cycles go with them."""
    if _panel(tile, shape) <= cpu.l1_bytes:
        return shape.weight_bytes
    return shape.weight_bytes * -(-shape.height // tile.rows) * -(-shape.width // tile.columns)


def streams(cpu, shape, plan):
    """Whether each weight is read from beyond the L2 cache once, by the first of the tiles that share it: what the next
    ones share is then asked for meanwhile, at an even pace, if the cache has room for it. A network's weights are out
    of the cache whenever their layer begins. Depthwise convolutions have too few."""
    return plan.block == shape.height and shape.groups < shape.blocks and _panel(plan.tile, shape) <= cpu.l2_bytes


def _panel(tile, shape):
    """Bytes of the weights of a tile."""
    return shape.weight_bytes * tile.vectors // shape.blocks


def _band(cpu, tile, shape):
    """The band with the least traffic from beyond the L2 cache.

    What fits there is read once: all weights, or those of one tile and the input of a band. Groups share nothing: each
    takes all its rows.
    """
    if shape.groups > 1:
        return shape.height

    def traffic(band):
        bands = shape.height // band
        own = shape.input_bytes // bands
        turns = -(-shape.blocks // tile.vectors)
        weights = shape.weight_bytes * (1 if shape.weight_bytes + own <= cpu.l2_bytes else bands)
        again = 1 if own + shape.weight_bytes // turns <= cpu.l2_bytes else turns
        return weights + shape.input_bytes * again

    bands = [b for b in range(tile.rows, shape.height, tile.rows) if shape.height % b == 0]
    if shape.made:
        whole = shape.height // tile.rows
        bands = [count * tile.rows for count in range(2, whole + 1) if whole % count == 0][:1]
    return min([*bands, shape.height], key=lambda b: (traffic(b), b))
