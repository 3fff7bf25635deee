"""Register tiles of products by pairs (ops/matmul_pairs.py), and a model of their time in cycles of one core."""
from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ...relax.ops.matmul_pairs import BLOCK, LANES, PARTS, third
from . import tiles
from .blocks import SYMBOLIC
from .tiles import NEAR_BYTES, PASSED_BYTES

FLOAT = 4
MOST_ROWS = 16  # of a tile, a vector of columns wide: each addition takes its element of a row from memory
# Of a product by pairs: fewer rows wait for their sums, or for columns; fewer terms are not even in thirds.
LEAST_ROWS, LEAST_TERMS = 6, 48
# Cycles: of a tile besides its terms; of a term of each third, in parts of the two for each row, and at least; of a row,
# and of a block of its terms, which are looked at for the largest, divided, and multiplied with one another.
START, PACE, LEAST, ROW, SPLIT = 30, 1.04, 10, 25, 4
WORTH = 0.92  # of the time of multiply-adds
SHARES, FEW_SHARES = 4, 1.03  # blocks of which threads may take over some of others, and what fewer cost
BESIDE = 0.15  # of the shorter of both, to stream columns and to multiply at the same time
# A model of a Winograd convolution adds, for each row of a plane and each of its blocks of terms.
PLANE_ROW, PLANE_BLOCK = 14, 1.5


@dataclass(frozen=True)
class Plan:
    """tile: rows whose sums with a panel are in registers; block: tiles of rows, or rows of points of an image, that
    meet all panels one after the other, which the second cache holds; over: what threads share, "rows" or, once they
    are divided, "panels"."""

    tile: int
    block: int
    over: str = "rows"


def candidates():
    """The register tiles of sums of pairs, over two dimensions of rows."""
    for rows in range(1, MOST_ROWS + 1):
        for columns in range(1, MOST_ROWS // rows + 1):
            yield tiles.Tile(1, rows, columns)


def tile_cycles(rows, parts):
    """Of the sums of so many rows with a panel, over so many thirds of the terms."""
    return START + parts * max(2 * PACE * rows, LEAST)


def choose(cpu, rows, parts, panels):
    """The Plan of a product of so many thirds of terms. rows: how many there are, or rows of points and points in a
    row."""
    plans = (plan for tile in range(min(rows[-1], MOST_ROWS), 0, -1) for plan in _plans(cpu, tile, rows, parts))
    return min(plans, key=lambda plan: _time(cpu, plan, rows, parts, panels))


def _plans(cpu, tile, rows, parts):
    """Those of one size of tiles."""
    count, size = _blocks(tile, rows)
    largest = min(count, max(cpu.l2_bytes // 2 // (FLOAT * PARTS * parts * size), 1))
    if not cpu.parallel:
        return [Plan(tile, largest)]
    return [*(Plan(tile, block) for block in range(largest, 0, -1)), Plan(tile, largest, "panels")]


def _blocks(tile, rows):
    """(how many tiles, or rows of points, there are; the rows of each)."""
    return (-(-rows[0] // tile), tile) if len(rows) == 1 else rows


def _time(cpu, plan, rows, parts, panels):
    """Cycles of one thread, or twice those of two that share the work and pass on what they divided."""
    every, (count, size) = prod(rows), _blocks(plan.tile, rows)
    blocks, columns = -(-count // plan.block), FLOAT * LANES * panels * PARTS * parts
    cycles = panels * every // rows[-1] * _cycles(plan.tile, rows[-1], parts) + BESIDE * blocks * columns / NEAR_BYTES
    if not cpu.parallel:
        return cycles
    if plan.over == "panels":
        return cycles * _busy(1, panels) + FLOAT * every * (PARTS * parts + LANES * panels) / PASSED_BYTES
    return cycles * _busy(plan.block * size, every) * (FEW_SHARES if blocks < SHARES else 1)


def _busy(block, count):
    """How many times the half of so many one of two threads has, which share blocks."""
    blocks = -(-count // block)
    return 2 * min(count, -(-blocks // 2) * block) / count


def _cycles(tile, rows, parts):
    """Of a panel and all rows, in tiles."""
    return sum(count * tile_cycles(m, parts) for m, count in tiles.pieces(rows, tile))


def cycles(cpu, rows, depth, columns):
    """Of a product, whose columns are near."""
    every = prod(rows)
    parts = third(depth)
    tile = choose(cpu, (every,), parts, -(-columns // LANES)).tile
    return -(-columns // LANES) * _cycles(tile, every, parts) + every * (ROW + SPLIT * (depth // BLOCK))


def streamed(cpu, rows, depth, columns, weights):
    """Cycles of a product, so many bytes of whose columns come from memory."""
    near, far = cycles(cpu, rows, depth, columns), weights / cpu.streamed_bytes if weights else 0
    return max(near, far) + BESIDE * min(near, far)


def worth(cpu, rows, depth, columns):
    """Whether a product of a constant is predicted to be clearly faster by pairs than by multiply-adds."""
    if not cpu.adders or depth % BLOCK or depth < LEAST_TERMS or not LEAST_ROWS <= rows < SYMBOLIC:
        return False
    return cycles(cpu, (rows,), depth, columns) < WORTH * rows * depth * -(-columns // LANES) / cpu.multiply_adds
