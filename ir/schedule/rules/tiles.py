"""Register tiles: how many rows of how many vectors keep the FMA units busy without spilling."""
from __future__ import annotations

from dataclasses import dataclass

from ..plan import Kernel, Plan, Tile, shared

VECTORS = (1, 2, 3, 4, 6, 8)  # of a tile that are looked at
FLOAT = 4  # bytes


@dataclass(frozen=True)
class Window:
    """A row, or column, of the window of a depthwise kernel: taps; by how many elements it moves with the output, and
    its taps are apart."""

    taps: int
    stride: int
    dilation: int

    def seen(self, points):
        """Elements of the input that so many points in a row see."""
        return (points - 1) * self.stride + (self.taps - 1) * self.dilation + 1

    def cycles(self, target, points, loads):
        """For an FMA of each tap to each of the points, one after the other for each point. There are few of
        them for loads to hide behind."""
        pace = target.cost("loads")
        return max(points * self.taps / pace, loads / pace, target.cost("fma_latency") * self.taps) + (
            2 * target.cost("tile.load") * loads)


def most_accumulators(target, vectors):
    """The registers that accumulators may take, beside a row of `vectors` vectors of the packed operand and one
    broadcast value; by element, beside two rows, one on its way, and a vector for each point."""
    if target.by_element:
        return (target.registers - 2 * vectors - 1) // (vectors + 1) * vectors
    left = target.registers - vectors - 1
    return min(left, target.accumulators or left)


def covers(target, vectors, own, groups):
    """Whether tiles of so many vectors may cover the `own` vectors of a group's channels: where they divide them, or
    tiles are small and there is one group, whose last channels are a tile of their own then. One vector for many points
    loads as often as it multiplies."""
    return vectors <= own if target.cost("tile.small") and groups == 1 else own % vectors == 0


def pieces(extent, size):
    """[(extent of a piece, how many)] of a loop split by `size`."""
    return [piece for piece in ((size, extent // size), (extent % size, 1)) if all(piece)]


def grid(height, width, tile):
    """[(rows, columns, how many)] of the tiles, and pieces of tiles, that height x width points are cut into."""
    return [(r, c, n * m) for r, n in pieces(height, tile.rows) for c, m in pieces(width, tile.columns)]


def busy(count, block=1):
    """How many times the half of so many one of two threads has, which share whole blocks of them: the first has the
    lesser number of blocks, the last of which may be a small one."""
    first = -(-count // block) // 2 * block
    return 2 * max(first, count - first) / count


def step(target, vectors, points):
    """Cycles of a step: FMAs, or loads, of elements so many a cycle and of vectors as many as are multiplied,
    and no fewer than hide the FMAs' latency."""
    pace = target.cost("multiply_adds")
    return max(vectors * points / pace, vectors / pace + points / target.cost("loads"), target.cost("fma_latency"))


def step_with_loads(target, vectors, points):
    """Cycles of a step where loads cost a little even if FMAs take longer: they compete with another thread of
    the core, and the packed operand comes from L2."""
    loads = points / target.lanes if target.by_element else points
    return step(target, vectors, points) + target.cost("tile.load") * (target.cost("tile.packed") * vectors + loads)


def candidates(target):
    """Tiles whose accumulators, one row of the packed operand and one broadcast value fit the registers, of which the
    accumulators take no more than target.accumulators."""
    for vectors in VECTORS:
        most = most_accumulators(target, vectors) // vectors
        for rows in range(1, most + 1):
            for columns in range(1, most // rows + 1):
                yield Tile(vectors, rows, columns)


@dataclass(frozen=True)
class Sums(Kernel):
    """Sums of an output of `outer` vectors x rows x columns points. dividing: the vectors of a tile must divide
    `outer`, because the next ones belong to another group, say. work: FMAs.

    Model: a step issues vectors * points FMAs and vectors + points loads, and takes no less than the cycles in
    which an FMA gives its result (Goto and van de Geijn 2008 give the reasoning). A tile at the border does the
    work of a whole one, in code of its own, hence the small penalty. Among equals the one with more points: it loads
    less.
    """

    rule: str
    outer: int
    rows: int
    columns: int = 1
    dividing: bool = False
    work: int = 0

    def candidates(self, target):
        fitting = (t for t in candidates(target) if not self.dividing or self.outer % t.vectors == 0)
        for tile in sorted(fitting, key=lambda t: (-t.accumulators, t.rows, t.vectors)):
            yield Plan(self.rule, tile=tile)

    def cost(self, plan, target):
        return _cost(target, plan.tile, self.outer, self.rows, self.columns)

    def complete(self, plan, target):
        return plan.replace(threads=plan.threads or shared(target, self.work, "channels and rows"))


def _cost(target, tile, outer, rows, columns):
    steps = -(-outer // tile.vectors) * -(-rows // tile.rows) * -(-columns // tile.columns)
    borders = (outer % tile.vectors > 0) + (rows % tile.rows > 0) + (columns % tile.columns > 0)
    return steps * step(target, tile.vectors, tile.points) * (1 + target.cost("tile.border") * borders)
