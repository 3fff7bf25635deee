"""How a Winograd convolution is cut into blocks of tiles, by a model of its time in cycles of one core.

A block is some rows of tiles. Its transformed inputs V are made once; then, in turns of some vectors of output
channels, the products of all planes, M, and from these the results. The transformed weights U are read once
per block, V once per turn: more channels in an iteration make M larger.
"""
from __future__ import annotations

from dataclasses import dataclass
from math import inf

from ...relax.arithmetic.inner_product import padded, third
from .. import plan as plans
from ..plan import ONE_THREAD, Kernel, Plan, shared
from . import inner_product_tiles, tiles
from .tiles import FLOAT, busy


@dataclass(frozen=True)
class Layer(Kernel):
    """tile, kernel: m and r of F(m x m, r x r); in_blocks: of a group's input channels; out_blocks: of all; rows,
    columns: of tiles; lanes: of a block; depth: channels of an input block that are summed, None for all;
    resident: L2 keeps the weights from run to run; batch: images, and work: FMAs, of a kernel.

    A plan's tile is over rows and columns of tiles of Winograd's; its block is of rows of these; its iteration of
    vectors of output channels, of which the last may have fewer. Threads share "rows" of blocks or "channels" of the
    output ("each" thread then makes V for itself).
    """

    tile: int
    in_blocks: int
    out_blocks: int
    rows: int
    columns: int
    lanes: int
    kernel: int = 3
    depth: int | None = None
    resident: bool = False
    groups: int = 1
    inner_product: bool = False
    batch: int = 1
    work: int = 0

    rule = "winograd"

    @property
    def side(self):
        """Inputs along a side of a tile."""
        return self.tile + self.kernel - 1

    @property
    def channels(self):
        """Input channels of the reduction."""
        return self.in_blocks * (self.depth or self.lanes)

    @property
    def vector(self):
        """Bytes of one vector in every plane."""
        return self.side ** 2 * self.lanes * FLOAT

    @property
    def data_blocks(self):
        """Blocks of input channels, over all groups."""
        return self.in_blocks * self.groups

    @property
    def results(self):
        """Bytes of the output, in whole tiles."""
        return self.rows * self.columns * self.tile ** 2 * self.out_blocks * self.lanes * FLOAT

    @property
    def weights(self):
        return self.vector * self.channels * self.out_blocks

    def candidates(self, target):
        return (plan for _, plan in self.priced(target))

    def priced(self, target):
        """Plans for every number of rows, with the best register tile that leaves inner loops without conditions.
        Channels that it leaves are a tile of their own at the end of the last iteration. Sums of pairs are of a vector
        each. """
        own = self.out_blocks // self.groups
        every = inner_product_tiles.candidates(target) if self.inner_product else tiles.candidates(target)
        fitting = [t for t in every if t.columns <= self.columns
                   and tiles.covers(target, t.vectors, own, self.groups)]
        for rows in range(1, self.rows + 1):
            whole = (t for t in fitting if t.rows == 1 or t.rows <= rows and self.rows % rows == 0
                     and (rows % t.rows == 0 or rows == self.rows))
            products, *_, tile = min((_product(target, self, rows, t), t.vectors, t.rows, n, t)
                                     for n, t in enumerate(whole))
            for vectors in (*range(tile.vectors, self.out_blocks, tile.vectors), self.out_blocks):
                if own % tile.vectors or self.out_blocks % vectors == 0:
                    ways = _ways(target, self, rows, vectors, products)
                    over = min(ways, key=ways.get)
                    yield ways[over], Plan(self.rule, arithmetic="inner_product" if self.inner_product else "fma",
                                           tile=tile,
                                           block=rows, turn=vectors, threads=over)

    def cost(self, plan, target):
        products = _product(target, self, plan.block, plan.tile)
        return _ways(target, self, plan.block, plan.turn, products).get(plan.threads, inf)

    def complete(self, plan, target):
        return plan.replace(threads=ONE_THREAD) if shared(target, self.work, "") == ONE_THREAD else plan

    def waits(self, plan, target):
        """Those who share channels make V of each block, then its results."""
        blocks, turns = -(-self.rows // plan.block), -(-self.out_blocks // plan.turn)
        return self.batch * blocks * (1 + (turns > 1)) if plan.threads == "channels" else 1


def cycles(target, layer):
    """Cycles of the chosen plan, no fewer than it takes to stream weights that exceed L2: each of its blocks reads
    them from memory."""
    plan = plans.choose(layer, target)
    streamed = layer.weights * -(-layer.rows // plan.block) if layer.weights > target.l2_bytes else 0
    least = plans.cost(plan, layer, target)
    return least if target.cost("stream.beside") else max(least, streamed / target.cost("stream.read"))


def _streamed(target, layer, blocks):
    """Cycles in which weights come for each of some blocks, from memory for the first one, and for others if
    L3 does not hold them."""
    again = target.cost("l3_read" if layer.weights <= target.l3_bytes else "stream.read")
    return layer.weights / target.cost("stream.read") + (blocks - 1) * layer.weights / again


def _ways(target, layer, rows, vectors, cycles):
    """{what two threads share: twice the cycles of one of them}, {"rows": those of one thread} without threads, of
    blocks of so many rows in turns of so many vectors, whose products take so many cycles."""
    blocks, turns = -(-layer.rows // rows), -(-layer.out_blocks // vectors)
    points = rows * layer.columns
    data, products = layer.vector * layer.data_blocks * points, layer.vector * vectors * points
    row = layer.side * (layer.columns * layer.tile + layer.kernel - 1) * layer.lanes * FLOAT
    again = layer.weights > target.l2_bytes * 3 // 4
    beside = target.cost("stream.beside") > 0
    if beside and (again or not layer.resident):
        streamed = _streamed(target, layer, blocks if again else 1)
        slows = target.cost("inner_product.weights_beside" if layer.inner_product else "stream.slows")
        cycles = max(cycles + slows * streamed, streamed)
    spills = data + products > target.l2_bytes * 3 // 4
    made_far = data * blocks / target.cost("inner_product.made") if layer.inner_product and spills else 0
    cycles += transforms(target, layer) + _divisions(target, layer) + made_far
    far = 0 if beside else layer.weights * shown(target, layer, blocks, again)
    left = 0  # bytes of data and products that leave L2
    if spills:
        left += data * blocks * (target.cost("inner_product.read_beside") * turns if layer.inner_product else 2 + turns)
    if products > target.l2_bytes // 2:
        left += 3 * products * turns * blocks
    left /= target.cost("l3_read" if data + products <= target.l3_bytes else "beyond_l2_read")
    cycles += far / target.cost("beyond_l2_read") + left
    cycles += blocks * spilled(target, data + products) / (layer.lanes * FLOAT)
    ways = _shares(target, layer, rows, vectors, data, products, row, made_far) if target.parallel else {"rows": (1, 0)}
    return {over: busy * cycles + passed for over, (busy, passed) in ways.items()}


def shown(target, layer, blocks, again):
    """The times that the weights come from beyond L2 which prefetching does not hide: of those that L2 then holds for
    all blocks a share of one, of those that each block reads again a larger one of each."""
    if again:
        return target.cost("winograd.shown_again") * blocks
    return 0 if layer.resident else target.cost("winograd.shown")


def spilled(target, size):
    """Cycles, for each byte of a vector, of so many bytes of a block, beyond some times the size of L1."""
    return target.cost("winograd.spilled") * max(0, size - target.cost("winograd.kept") * target.l1_bytes)


def _shares(target, layer, rows, vectors, data, products, row, made_far):
    """{what two threads share: (twice their part of the time of one, cycles for what passes between cores)}."""
    blocks, turns = -(-layer.rows // rows), -(-layer.out_blocks // vectors)
    ways = {"channels": (2, 0)}  # what is too large for stacks one thread does
    passing = target.cost("core_to_core")
    if turns > 1 and products <= target.cost("winograd.most_sums"):
        ways["channels"] = busy(layer.out_blocks, vectors), (2 * data * blocks + layer.results) / passing
    if layer.inner_product:  # rows of all channels, of which the largest is known before they are divided
        data, row = layer.side ** 2 * rows * layer.columns * padded(layer.channels) * FLOAT, row * layer.data_blocks
    fits = data + products + row <= target.threads.local_bytes
    if blocks > 1 and fits:
        ways["rows"] = 2 * min(1, -(-blocks // 2) * rows / layer.rows), 0
    if turns > 1 and blocks == 1 == layer.groups and fits:  # what one thread makes for itself, both do
        made = data_transforms(target, layer) + _divisions(target, layer) + made_far
        ways["each"] = busy(turns), (2 - busy(turns)) * made + layer.results / passing
    return ways


def _divisions(target, layer):
    """Cycles in which V is divided for inner products."""
    points = layer.side ** 2 * layer.rows * layer.columns
    each = target.cost("inner_product.plane_row") + target.cost("inner_product.plane_block") * layer.data_blocks
    return points * each if layer.inner_product else 0


def _product(target, layer, rows, tile):
    """Cycles of the products."""
    blocks = [(rows, layer.rows // rows), (layer.rows % rows, 1)]
    if layer.inner_product:
        return layer.side ** 2 * layer.out_blocks * sum(
            count * again * inner_product_tiles.tile_cycles(target, h * w, third(layer.channels))
            for size, count in blocks for h, w, again in tiles.grid(size, layer.columns, tile))
    steps = sum(across * count * again * _step(target, wide, h * w)
                for wide, across in tiles.pieces(layer.out_blocks, tile.vectors)
                for size, count in blocks for h, w, again in tiles.grid(size, layer.columns, tile))
    return steps * layer.side ** 2 * layer.channels


def _step(target, vectors, points):
    """Cycles for one input channel."""
    data = "winograd.small_load_data" if vectors * points <= target.cost("tile.small") else "winograd.load_data"
    weights = target.cost("winograd.load_weights") * vectors
    return tiles.step(target, vectors, points) + weights + target.cost(data) * points


def transforms(target, layer):
    """Cycles of the transforms: about one store a cycle, with the loads and sums beside it."""
    points = layer.rows * layer.columns
    return data_transforms(target, layer) + layer.out_blocks * points * (layer.side ** 2 + 2 * layer.side * layer.tile)


def data_transforms(target, layer):
    """Cycles of the input transforms alone."""
    side, points, each = layer.side, layer.rows * layer.columns, target.cost("winograd.transform")
    rows = layer.rows * (layer.columns * layer.tile + layer.kernel - 1) * each * side
    return layer.data_blocks * (rows + each * points * side ** 2)
