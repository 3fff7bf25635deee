"""Tiles of a convolution in blocked layout: the points whose sums registers hold, and the order that caches like."""
from __future__ import annotations

from dataclasses import dataclass

from ..plan import Kernel, Plan, Tile, shared
from . import tiles

MOST_VECTORS = 8  # of a tile that are looked at
SUMS_OF_MATRICES = 20  # of a tile of pairs of points and of channels
SUMS_BY_LANE = 28  # of a tile that gcc 12 keeps in 32 registers beside two vectors of weights and one of words


@dataclass(frozen=True)
class Shape(Kernel):
    """The shape of a convolution: vectors of output channels, output height and width, steps of the reduction, bytes of
    all weights and of the input, groups of channels (of which one vector may have several).

    A plan's block is a band of rows that the outermost loop takes at a time, within which weights are read once: a
    multiple of the tile's rows, or all rows. made: whether the data is made for each band: of few tiles, so that it is
    near, but not one, as compilers keep a register for each point where its place depends on a block of channels alone.
    in_rows: tiles are of one row. by_element: whether FMAs may take elements of the data out of vectors. by_lane:
    whether dot products take words of neighbouring points out of one; in_pairs: those of two points, and two blocks of
    channels, at a time. work: FMAs. rule: that schedules it.
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
    by_lane: bool = False
    in_pairs: bool = False
    work: int = 0
    rule: str = "blocked_convolution"

    def seen(self, target):
        if self.by_lane:
            return target.without("by_element").summing(SUMS_OF_MATRICES if self.in_pairs else SUMS_BY_LANE)
        return target if self.by_element or not target.by_element else target.without("by_element")

    def candidates(self, target):
        """Points at the border are a tile of their own."""
        own = self.blocks // self.groups
        tiles_ = (Tile(v, r, c) for v in range(1, MOST_VECTORS + 1) if tiles.covers(target, v, own, self.groups)
                  for r, c in _points(tiles.most_accumulators(target, v) // v, self)
                  if not self.in_pairs or r * c % 2 == 0)
        for tile in sorted(tiles_, key=lambda t: (_near(target, t, self), t.rows, t.vectors)):
            yield Plan(self.rule, tile=tile)

    def cost(self, plan, target):
        return cycles(target, plan.tile, self)

    def complete(self, plan, target):
        block = plan.block or _band(target, plan.tile, self)
        if self.in_rows:
            plan, block = plan.replace(tile=plan.tile.replace(rows=1)), self.height
        return plan.replace(block=block, threads=plan.threads or shared(target, self.work, "bands, channels and rows"))


def _points(most, shape):
    """Rows x columns of at most so many points; several rows only where one is not enough."""
    for columns in range(1, min(most, shape.width) + 1):
        yield 1, columns
    for rows in range(2, min(most // shape.width, shape.height) + 1):
        yield rows, shape.width


def cycles(target, tile, shape):
    """About how long the convolution takes with a tile; pieces at the border are tiles of their own size. A step takes
    no less than its weights do from L2, where L1 has no room for all that a tile reads."""
    far, start = _panel(tile, shape) > target.l1_bytes, target.cost("conv.start")

    def step(vectors, points):
        if shape.in_pairs:  # instructions: words are joined in pairs, in which weights lie
            return vectors * points + points + 2 * vectors + target.cost("conv.loop")
        return max(_step(target, vectors, points), 4 * target.lanes * vectors / target.cost("l2_read") if far else 0)

    total = sum(across * count * (start + shape.steps * step(vectors, rows * columns))
                for vectors, across in tiles.pieces(shape.blocks, tile.vectors)
                for rows, columns, count in tiles.grid(shape.height, shape.width, tile))
    return total * (target.cost("conv.border") if shape.blocks % tile.vectors else 1)


def _step(target, vectors, points):
    """Cycles of a step, or what all its instructions take: FMAs, loads, prefetches and the loop's. Small tiles
    load more for each FMA, but ask for lines and count turns once in several steps."""
    if vectors * points <= target.cost("tile.small"):
        return tiles.step_with_loads(target, vectors, points)
    instructions = vectors * points + points + 2 * vectors + target.cost("conv.loop")
    return max(tiles.step(target, vectors, points), instructions / target.cost("issue"))


def _near(target, tile, shape):
    """Bytes of weights that come from L2: those of a tile again for each tile that L1 has no room for. Prefetches and
    loads of other tiles of as many cycles go with them."""
    if _panel(tile, shape) <= target.l1_bytes:
        return shape.weight_bytes
    return shape.weight_bytes * -(-shape.height // tile.rows) * -(-shape.width // tile.columns)


def streams(target, shape, plan):
    """Whether each weight is read from beyond the L2 cache once, by the first of the tiles that share it: what the next
    ones share is then asked for meanwhile, at an even pace, if the cache has room for it. A network's weights are out
    of the cache whenever their layer begins. Depthwise convolutions have too few."""
    return plan.block == shape.height and shape.groups < shape.blocks and _panel(plan.tile, shape) <= target.l2_bytes


def _panel(tile, shape):
    """Bytes of the weights of a tile."""
    return shape.weight_bytes * tile.vectors // shape.blocks


def _band(target, tile, shape):
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
        weights = shape.weight_bytes * (1 if shape.weight_bytes + own <= target.l2_bytes else bands)
        again = 1 if own + shape.weight_bytes // turns <= target.l2_bytes else turns
        return weights + shape.input_bytes * again

    bands = [b for b in range(tile.rows, shape.height, tile.rows) if shape.height % b == 0]
    if shape.made:
        whole = shape.height // tile.rows
        bands = [count * tile.rows for count in range(2, whole + 1) if whole % count == 0][:1]
    return min([*bands, shape.height], key=lambda b: (traffic(b), b))
