"""How a Winograd convolution by digits is cut into blocks of rows of tiles, by a model of its time in cycles of a core.

A block's inputs are transformed and cut into digits, a row of tiles at a time. Each panel of 32 output channels, or
half of one, then meets the digits of all planes, which makes the sums of the block's results. Weights are read once per
block, digits once per panel.
"""
from __future__ import annotations

from dataclasses import dataclass

from ...relax.arithmetic.digits import COLUMNS, SLICES, LANES, MOST_ROWS, TERMS
from ..primitives.sample import divisors
from .digit_tiles import CALL, FEW, ROW, SPLIT, STEP, TILE, UNITS
from .tiles import FLOAT, busy
from .winograd_blocks import data_transforms, shown, spilled, transforms

FEW_STEP = 200  # of the unit for 64 terms of a panel and few rows


@dataclass(frozen=True)
class Blocking:
    """rows: of tiles in a block; columns: output channels that meet it at a time; over: what threads share, "rows" of
    blocks, or "channels" of the output once they have made digits together, or once "each" has made all of them for
    itself, so that none pass between cores; cycles: the estimate."""

    rows: int
    columns: int
    over: str
    cycles: float

    @property
    def vectors(self):
        return self.columns // LANES


def choose(target, layer):
    """The Blocking of a winograd_blocks.Layer with the least estimated time; None where no block fits."""
    fitting = (rows for rows in divisors(layer.rows) if rows * layer.columns <= MOST_ROWS)
    return min((_blocking(target, layer, rows, columns) for rows in fitting for columns in UNITS),
               key=lambda b: (b.cycles, b.rows), default=None)


def cycles(target, layer):
    """Cycles of the chosen Blocking, at least the time to stream weights that exceed L2; None without one."""
    blocking = choose(target, layer)
    if blocking is None:
        return None
    again = _weights(layer) * (layer.rows // blocking.rows) if _weights(layer) > target.l2_bytes else 0
    return max(blocking.cycles, again / target.cost("stream.read"))


def _blocking(target, layer, rows, columns):
    planes, steps, panels = layer.side ** 2, _steps(layer), -(-layer.out_blocks * LANES // columns)
    blocks, points = layer.rows // rows, rows * layer.columns
    width = layer.columns * layer.tile
    digits, sums = planes * points * steps * SLICES * TERMS, planes * points * columns * FLOAT
    each = FEW_STEP * steps + TILE if points <= FEW else -(-points // 16) * (STEP * steps + TILE)
    cycles = blocks * panels * (layer.side * CALL + planes * each * columns // COLUMNS)
    cutting = layer.rows * (ROW + layer.side * width * layer.data_blocks)
    cutting += planes * layer.rows * layer.columns * steps * TERMS // LANES * SPLIT
    cycles += cutting + planes * layer.rows * layer.columns * layer.out_blocks + transforms(target, layer)
    again = _weights(layer) > target.l2_bytes * 3 // 4
    far = _weights(layer) * shown(target, layer, blocks, again)
    far += min(digits, max(0, digits + sums - target.l2_bytes * 3 // 4)) * blocks * panels
    if sums > target.l2_bytes // 2:
        far += 2 * sums * panels * blocks
    row = layer.side * (width + layer.kernel - 1) * TERMS * FLOAT
    cycles += far / target.cost("far_read") + steps * layer.rows * spilled(target, row) / (LANES * FLOAT)
    if not target.parallel:
        return Blocking(rows, columns, "rows", cycles)
    passing = target.cost("core_to_core")
    ways = {"channels": (busy(panels), (2 * digits * blocks + layer.results) / passing)}
    fits = row + digits + sums <= target.threads.local_bytes
    if fits and blocks > 1:
        ways["rows"] = busy(blocks), 0
    if fits:  # what one thread makes for itself, both do
        made = cutting + data_transforms(target, layer)
        ways["each"] = busy(panels), (2 - busy(panels)) * made + layer.results / passing
    over = min(ways, key=lambda way: ways[way][0] * cycles + ways[way][1])
    times, passed = ways[over]
    return Blocking(rows, columns, over, times * cycles + passed)


def _steps(layer):
    return -(-layer.data_blocks * LANES // TERMS)


def _weights(layer):
    """Bytes of digits."""
    return layer.side ** 2 * -(-layer.out_blocks * LANES // COLUMNS) * COLUMNS * _steps(layer) * TERMS * SLICES
