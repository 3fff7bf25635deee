"""How a Winograd convolution by split integers is cut into blocks of rows of tiles, by a model of its time in cycles of
a core.

A block's inputs are transformed and cut into slices, a row of tiles at a time. Each panel of 32 output channels, or
half of one, then meets the slices of all planes, which makes the sums of the block's results. Weights are read once per
block, slices once per panel.
"""
from __future__ import annotations

from dataclasses import dataclass
from math import inf

from ...relax.arithmetic.split_integer import COLUMNS, SLICES, LANES, MOST_ROWS, TERMS
from .. import plan as plans
from ..plan import Kernel, Plan
from ..primitives.sample import divisors
from .split_integer_tiles import UNITS
from .tiles import FLOAT, busy
from .winograd_blocks import Layer, data_transforms, shown, spilled, transforms

@dataclass(frozen=True)
class SplitIntegerPlanes(Kernel):
    """The products of a winograd_blocks.Layer by split integers.

    A plan's block is of rows of tiles, its iteration of vectors of output channels that meet it. Threads share "rows"
    of blocks, or "channels" of the output once they have made slices together, or once "each" has made all of them for
    itself, so that none pass between cores.
    """

    layer: Layer

    rule = "winograd"

    def candidates(self, target):
        return (plan for _, plan in self.priced(target))

    def priced(self, target):
        for rows in divisors(self.layer.rows):
            if rows * self.layer.columns <= MOST_ROWS:
                for columns in UNITS:
                    for over, time in _ways(target, self.layer, rows, columns).items():
                        yield time, Plan(self.rule, arithmetic="split_integer", block=rows, turn=columns // LANES,
                                         threads=over)

    def cost(self, plan, target):
        return _ways(target, self.layer, plan.block, plan.turn * LANES).get(plan.threads, inf)

    def complete(self, plan, target):
        return self.layer.complete(plan, target)

    def waits(self, plan, target):
        return self.layer.waits(plan, target)


def cycles(target, layer):
    """Cycles of the chosen Plan, at least the time to stream weights that exceed L2; None without one."""
    kernel = SplitIntegerPlanes(layer)
    plan = plans.choose(kernel, target)
    if plan is None:
        return None
    again = _weights(layer) * (layer.rows // plan.block) if _weights(layer) > target.l2_bytes else 0
    return max(plans.cost(plan, kernel, target), again / target.cost("stream.read"))


def _ways(target, layer, rows, columns):
    """{what two threads share: twice the cycles of one of them}, {"rows": those of one thread} without threads, of
    blocks of so many rows of tiles that meet so many output channels at a time."""
    planes, steps, panels = layer.side ** 2, _steps(layer), -(-layer.out_blocks * LANES // columns)
    blocks, points = layer.rows // rows, rows * layer.columns
    width = layer.columns * layer.tile
    slices, sums = planes * points * steps * SLICES * TERMS, planes * points * columns * FLOAT
    few = points <= target.cost("split_integer.few_rows")
    step = target.cost("split_integer.few_step" if few else "split_integer.step")
    each = -(-points // 16) * (step * steps + target.cost("split_integer.tile"))
    cycles = blocks * panels * (layer.side * target.cost("split_integer.call") + planes * each * columns // COLUMNS)
    cutting = layer.rows * (target.cost("split_integer.scale") + layer.side * width * layer.data_blocks)
    cutting += planes * layer.rows * layer.columns * steps * TERMS // LANES * target.cost("split_integer.cut")
    cycles += cutting + planes * layer.rows * layer.columns * layer.out_blocks + transforms(target, layer)
    again = _weights(layer) > target.l2_bytes * 3 // 4
    far = _weights(layer) * shown(target, layer, blocks, again)
    far += min(slices, max(0, slices + sums - target.l2_bytes * 3 // 4)) * blocks * panels
    if sums > target.l2_bytes // 2:
        far += 2 * sums * panels * blocks
    row = layer.side * (width + layer.kernel - 1) * TERMS * FLOAT
    cycles += far / target.cost("beyond_l2_read") + steps * layer.rows * spilled(target, row) / (LANES * FLOAT)
    if not target.parallel:
        return {"rows": cycles}
    passing = target.cost("core_to_core")
    ways = {"channels": (busy(panels), (2 * slices * blocks + layer.results) / passing)}
    fits = row + slices + sums <= target.threads.local_bytes
    if fits and blocks > 1:
        ways["rows"] = busy(blocks), 0
    if fits:  # what one thread makes for itself, both do
        made = cutting + data_transforms(target, layer)
        ways["each"] = busy(panels), (2 - busy(panels)) * made + layer.results / passing
    return {over: times * cycles + passed for over, (times, passed) in ways.items()}


def _steps(layer):
    return -(-layer.data_blocks * LANES // TERMS)


def _weights(layer):
    """Bytes of slices."""
    return layer.side ** 2 * -(-layer.out_blocks * LANES // COLUMNS) * COLUMNS * _steps(layer) * TERMS * SLICES
