"""Register tiles of products by pairs (relax/arithmetic/pairs.py), and a model of their time in cycles of one core."""
from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod

from ...relax.arithmetic.pairs import BLOCK, LANES, PARTS, third
from ..primitives.sample import divisors
from . import tiles
from .blocks import SYMBOLIC
from .tiles import FLOAT, busy

MOST_ROWS = 16  # of a tile, a vector of columns wide: each addition takes its element of a row from memory
# Of a product by pairs: fewer rows wait for their sums, or for columns; of fewer terms sums are too short for what is
# made of their rows before: those of matrices, of an image's channels, and of Winograd's planes.
LEAST_ROWS, LEAST_TERMS, LEAST_CHANNELS, LEAST_PLANES = 6, 40, 32, 48
# Cycles: of a tile besides its terms; of a term of each third, in parts of the two for each row, and at least; the same
# where L1 does not hold so many thirds of a panel and of a tile's rows, and for each row less than many;
# of a row, and of a block of its terms, which are looked at for the largest, divided, and multiplied with one another.
START, PACE, LEAST = 30, 1.03, 10
NEAR_PARTS, FAR_PACE, FAR_LEAST, FAR_ROW, MANY_ROWS = 56, 1.02, 16, 0.3, 13
ROW, SPLIT = 4, 7.3
# Of a term of each third, where L1 does not hold them and a tile's rows, which lie among others, are no
# whole lines: it reads two of each. Bytes a cycle of rows that the other core divided, each line of which is waited
# for, and of columns that both threads read: these often come from memory.
STRADDLED, WAITED_BYTES, BOTH_BYTES = 2, 2.2, 80
PARTIAL = 2  # how much longer takes a group of rows that leave lanes empty
WORTH = 0.92  # of the time of FMAs
SHARES, FEW_SHARES = 4, 1.03  # blocks of which threads may take over some of others, and what fewer cost
WAIT = 1000  # until both threads have divided their rows
BESIDE = 0.15  # of the shorter of both, to stream columns and to multiply at the same time
# A model of a Winograd convolution adds, for each row of a plane and each of its blocks of terms.
PLANE_ROW, PLANE_BLOCK = 14, 1.5


@dataclass(frozen=True)
class Plan:
    """tile: rows whose sums with a panel are in registers, or (rows of points of an image, points of each); block:
    tiles that follow one another, or rows of them, that meet all panels one after the other, which L2
    holds; over: what threads share, "rows" or, once they are divided, "panels"; group: rows divided at a time."""

    tile: tuple
    block: int
    over: str = "rows"
    group: int = LANES


def candidates():
    """The register tiles of sums of pairs, over two dimensions of rows."""
    for rows in range(1, MOST_ROWS + 1):
        for columns in range(1, MOST_ROWS // rows + 1):
            yield tiles.Tile(1, rows, columns)


def tile_cycles(rows, parts):
    """Cycles to sum `rows` rows (M) with one panel, over so many thirds of K."""
    if parts <= NEAR_PARTS:
        return START + parts * max(2 * PACE * rows, LEAST)
    return START + parts * max(2 * FAR_PACE * rows + FAR_ROW * max(MANY_ROWS - rows, 0), FAR_LEAST)


def choose(target, rows, parts, panels):
    """The Plan of a product of so many thirds of terms. rows: how many there are, or rows of points and points in a
    row."""
    plans = (plan for tile in _tiles(rows) for plan in _plans(target, tile, rows, parts))
    return min(plans, key=lambda plan: _time(target, plan, rows, parts, panels))


def _tiles(rows):
    """Of an image: of points in a row that whole rows consist of, so that what blocks of rows read follows one another;
    of several rows where they are whole, or short of such tiles."""
    if len(rows) == 1:
        return [(n,) for n in range(min(rows[0], MOST_ROWS), 0, -1)]
    points = [n for n in reversed(divisors(rows[1])) if n <= MOST_ROWS]
    few = points[0] < LEAST_ROWS and rows[1] > MOST_ROWS
    return [(lines, n) for n in points for lines in range(min(MOST_ROWS // n, rows[0]), 0, -1)
            if lines == 1 or few or n == rows[1]]


def _plans(target, tile, rows, parts):
    """The plans for one tile size."""
    count, size = _blocks(tile, rows)
    largest = min(count, max(target.l2_bytes // 4 // (FLOAT * PARTS * parts * size), 1))
    shared = [Plan(tile, largest, "panels")] if target.parallel else []
    for block in range(largest, 0, -1):
        group = LANES if block == count else max(n for n in divisors(block * size) if n <= LANES)
        shared.append(Plan(tile, block, "rows", group))
    return shared


def _blocks(tile, rows):
    """(how many tiles, or rows of them, there are; the rows of each)."""
    return -(-rows[0] // tile[0]), tile[0] * prod(rows[1:])


def _time(target, plan, rows, parts, panels):
    """Cycles of one thread, or twice those of two that share the work and pass on what they divided."""
    every, (count, size) = prod(rows), _blocks(plan.tile, rows)
    blocks, columns = -(-count // plan.block), FLOAT * LANES * panels * PARTS * parts
    groups = -(-every // plan.group)
    sums = panels * _cycles(plan.tile, rows, parts) + BESIDE * blocks * columns / target.cost("l3_read")
    if plan.block > 1 and prod(plan.tile) % LANES and parts > NEAR_PARTS:
        sums += panels * STRADDLED * parts * -(-every // prod(plan.tile))
    divided = _divided(groups, parts, plan.group)
    if not target.parallel:
        return sums + divided
    if plan.over == "panels":
        passed = FLOAT * every * (PARTS * parts / WAITED_BYTES + LANES * panels / target.cost("core_to_core"))
        return sums * busy(panels) + divided * busy(groups) + 2 * WAIT + passed
    own = (sums + divided) * busy(every, plan.block * size) * (FEW_SHARES if blocks < SHARES else 1)
    return own + columns / BOTH_BYTES


def _cycles(tile, rows, parts):
    """Cycles of one panel with all rows, in tiles."""
    pieces = product(*(tiles.pieces(n, size) for n, size in zip(rows, tile)))
    return sum(prod(count for _, count in each) * tile_cycles(prod(m for m, _ in each), parts) for each in pieces)


def _divided(groups, parts, group=LANES):
    """Cycles to scale groups of rows, each in the lanes of vectors."""
    return groups * LANES * (ROW + SPLIT * PARTS * parts / BLOCK) * (1 if group == LANES else PARTIAL)


def cycles(target, rows, depth, columns):
    """Cycles of a product on one thread, with its columns resident in L2."""
    every, parts, panels = prod(rows), third(depth), -(-columns // LANES)
    plan = choose(target.alone(), (every,), parts, panels)
    return panels * _cycles(plan.tile, (every,), parts) + _divided(-(-every // plan.group), parts)


def worth(target, rows, depth, columns):
    """Whether a product of a constant is predicted to be clearly faster by pairs than by FMAs."""
    if not target.cost("adds_beside") or depth < LEAST_TERMS or not LEAST_ROWS <= rows < SYMBOLIC:
        return False
    vectors = depth * -(-columns // LANES)
    return cycles(target, (rows,), depth, columns) < WORTH * (rows / target.cost("multiply_adds")) * vectors
