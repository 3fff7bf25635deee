"""The Kernel of a product, on which its decision depends, and the model that makes the decision."""
from __future__ import annotations

from dataclasses import dataclass

from ..plan import ONE_THREAD, Kernel, Plan, Tile, shared
from ..primitives.sample import divisors
from . import tiles
from .blocks import SYMBOLIC
from .byte_tiles_of_unit import LEAST_ROWS, WORDS
from .split_integer_tiles import row_blocks
from .threads import COST_OF_LOOP

TILES, DOTS, UNIT = "tiles", "dots", "unit"  # algorithms
BLOCKS, GROUPS, COLUMNS, ROWS = "blocks", "groups", "columns", "rows"  # loops over tiles
SUMS_OF_MATRICES = 18  # of a tile of pairs of rows and of columns, beside what gcc 12 makes these of ahead
REGISTERS = 2  # of those that operands have, for the words of a group of compressed weights beside one vector


@dataclass(frozen=True)
class Product(Kernel):
    """A product of rows and columns with sums of `depth` terms; SYMBOLIC stands for a size that is not known.

    panel: columns of a panel of packed ones, 0 where they lie in rows, None where the plan is to say it. by_element:
    whether FMAs may take elements of rows out of vectors. compressed: columns lie in fewer words than they are.
    in_vectors: whether what follows the sums has vectors. copied: whether columns are copied to panels; across: from
    where each lies in a row; tall: whether rows are copied. dots: whether both operands have their terms in a row.
    batch: products. work: FMAs of all of them. dot: the arithmetic of words of several terms, which depth counts
    then; pairs: whether the words of columns lie in pairs; made: whether those of rows are not in memory as they are
    multiplied.
    """

    rows: int
    depth: int
    columns: int
    panel: int | None = None
    by_element: bool = True
    compressed: bool = False
    in_vectors: bool = False
    copied: bool = False
    across: bool = False
    tall: bool = False
    dots: bool = False
    batch: int = 1
    work: int = 0
    dot: str = ""
    pairs: bool = False
    made: bool = False

    rule = "contraction"

    @property
    def arithmetic(self):
        return "compressed" if self.compressed else self.dot or "fma"

    def seen(self, target):
        if self.dot and target.integers:
            return target.holding(target.integers)
        if self.compressed:
            return target.without("by_element").sparing(REGISTERS)
        if self.of_matrices(target):
            return target.without("by_element").summing(SUMS_OF_MATRICES)
        return target if self.by_element and not self.dots or not target.by_element else target.without("by_element")

    def candidates(self, target):
        if self.dots:
            yield from self._tiles(DOTS, product_tiles(target, self.columns, self._dot_rows(target)))
            return
        if vectors := self._of_unit(target):
            yield Plan(self.rule, UNIT, self.arithmetic, tile=Tile(vectors=vectors, rows=row_blocks(self.rows)))
            return
        vectors = self.panel // target.lanes if self.panel else None
        outer = self._vectors(target)
        yield from self._tiles(TILES, (t for t in product_tiles(target, outer, self.rows) if (
            t.vectors == vectors if vectors else self.panel is None or outer % t.vectors == 0)))

    def _tiles(self, algorithm, fitting):
        for tile in sorted(fitting, key=lambda t: (-t.accumulators, t.rows)):
            yield Plan(self.rule, algorithm, self.arithmetic, tile=tile)

    def cost(self, plan, target):
        if self.dots:
            return product_cost(target, plan.tile, self.columns, self._dot_rows(target))
        if plan.algorithm == UNIT:  # whose products of tiles take 16 cycles each
            return self.rows * self.columns * self.depth / WORDS ** 2
        if self.of_matrices(target):
            return matrix_cost(plan.tile, self._vectors(target), self.rows, self.pairs)
        return product_cost(target, plan.tile, self._vectors(target), self.rows)

    def _of_unit(self, target):
        """The vectors of columns that blocks of rows meet on a unit for tiles of integers; 0 where it makes none of it."""
        vectors = next((v for v in (2, 1) if self.columns % (v * target.lanes) == 0), 0)
        fits = self.dot in target.tile_dots and self.depth % WORDS == 0 and not self.pairs and not self.made and (
            self.panel in (None, vectors * target.lanes)) and row_blocks(self.rows) >= LEAST_ROWS
        return vectors if fits else 0

    def of_matrices(self, target):
        """Whether two rows of the product meet two columns in an instruction."""
        return self.dot in target.matrix_dots and self.by_element and self.rows > 1

    def complete(self, plan, target):
        if self.panel is None:
            return plan
        if plan.algorithm == DOTS:
            return plan.replace(threads=plan.threads or shared(target, self.work, COLUMNS))
        if plan.algorithm == UNIT:
            plan = plan.replace(parts=1, turn=0, block=self.rows // plan.tile.rows, order=(COLUMNS, ROWS))
            return plan.replace(threads=plan.threads or shared(target, self.work, self._what(plan, target)))
        parts = plan.parts or self._parts(target, plan.tile)
        block = plan.block or _tiles_in_block(target, self.rows, plan.tile.rows, self.depth // parts)
        plan = plan.replace(parts=parts, block=block)
        if plan.turn is None:
            plan = plan.replace(turn=self._group(target, plan) if self.copied else 0)
        order = plan.order or ((BLOCKS, GROUPS, COLUMNS, ROWS) if plan.turn else (BLOCKS, ROWS, COLUMNS)
                               if self.has_border(target) else (BLOCKS, COLUMNS, ROWS))
        plan = plan.replace(order=order)
        return plan.replace(threads=plan.threads or shared(target, self.work, self._what(plan, target)))

    def _what(self, plan, target):
        """What there are several of that threads may share."""
        outer = () if self.serial(plan, target) else plan.order[:2]
        panels = -(-self.columns // (plan.tile.vectors * target.lanes))
        turns = {BLOCKS: -(-self.rows // (plan.block * plan.tile.rows)), ROWS: plan.block,
                 COLUMNS: plan.turn or panels, GROUPS: -(-panels // (plan.turn or 1))}
        if any(turns[name] > 1 for name in outer):
            return " and ".join(outer)
        return "batches" if self.batch > 1 else ONE_THREAD

    def waits(self, plan, target):
        """Operands are copied before; sums in parts are set to 0, follow one another, and something is made of them."""
        if plan.algorithm == DOTS:
            return 1
        nests = [(self.copied and not plan.turn, self.depth * self.columns), (self.tall, self.rows * self.depth),
                 (plan.parts > 1, self.batch * self.rows * self.columns)]
        least = target.cost("threads.least_work")
        return sum(there and COST_OF_LOOP * elements >= least for there, elements in nests) + (
            plan.parts + 1 if plan.parts > 1 and self.batch == 1 else 1)

    def serial(self, plan, target):
        """Whether tiles have borders both of rows and of columns, whose copies of loops threads do not share."""
        return self.has_border(target) and self.rows % plan.tile.rows > 0

    def has_border(self, target):
        """Whether columns end within a vector: packed ones are padded to whole panels. Others may not be read past the
        last one: tiles are whole, and what is less than a vector is a tile of its own, next to tiles of one vector."""
        return self.panel == 0 and self.columns % target.lanes > 0

    def through_memory(self, plan, target):
        """Whether what follows reads the sums from memory: it has no vectors, or there are two borders, of blocks of
        rows and of columns, which would make one copy of the loops whose sums have conditions."""
        uneven = plan.block * plan.tile.rows < self.rows and self.rows % (plan.block * plan.tile.rows) > 0
        partial = bool(self.panel) and self.columns % (plan.tile.vectors * target.lanes) > 0
        return not self.in_vectors or partial and uneven

    def _dot_rows(self, target):
        return min(self.rows, target.cost("tile.dot_rows"))

    def _vectors(self, target):
        return 1 if self.has_border(target) else -(-self.columns // target.lanes)

    def _parts(self, target, tile):
        """Into how many parts of equal length the sums are cut: several where the rows of whole sums do not fit
        L2, so that columns would have to come again for blocks of a few rows, but all the sums do, which each
        part reads and writes."""
        rows, depth = self.rows, self.depth
        if rows >= SYMBOLIC or self.columns % (tile.vectors * target.lanes) or not self.in_vectors or (
                4 * rows * depth <= _room(target) or rows < target.cost("copy.rows")
                or 4 * rows * self.columns > target.l2_bytes):
            return 1
        most = target.cost("tile.most_terms")
        fitting = [p for p in range(2, 9) if depth % p == 0 and most // 2 <= depth // p <= most]
        return next((p for p in fitting if 4 * rows * depth // p <= _room(target)), (*fitting, 1)[0])

    def _group(self, target, plan):
        """How many panels of columns are copied at a time, to L2, where they meet all rows; 0 where all
        are copied before, since rows come in several blocks, or fill L2."""
        panel = plan.tile.vectors * target.lanes
        panels, one_block = -(-self.columns // panel), plan.parts == 1 and self.rows <= plan.block * plan.tile.rows
        if not one_block or 4 * self.rows * self.depth > target.l2_bytes // 2 or self.across:
            return 0
        most = panels // target.cost("copy.least_groups") if target.parallel else panels
        return max((g for g in divisors(panels) if g <= most and g * panel >= target.cost("stream.least_chunk")
                    and 4 * g * panel * self.depth <= target.l2_bytes * target.cost("copy.l2")), default=0)


def product_tiles(target, outer, rows):
    """Tiles for a product with `rows` rows and `outer` vectors of columns."""
    return (t for t in tiles.candidates(target) if t.columns == 1 and t.rows <= rows and t.vectors <= outer)


def product_cost(target, tile, outer, rows):
    """Cycles for one term of every sum: the model of tiles.Sums, but a border of rows does only its own work, and loads
    cost a little even where FMAs take longer: they compete with another thread of the core, and vectors of
    columns come from L2. Panels are whole ones; those of a few rows take as long as they come."""
    read = tiles.FLOAT * target.lanes * tile.vectors / target.cost("tile.panel_read") + target.cost("tile.turn")
    panel = sum(down * max(tiles.step_with_loads(target, tile.vectors, points), read)
                for points, down in tiles.pieces(rows, tile.rows))
    borders = (outer % tile.vectors > 0) + (rows % tile.rows > 0)
    return -(-outer // tile.vectors) * panel * (1 + target.cost("tile.panel_border") * borders)


def matrix_cost(tile, outer, rows, pairs):
    """Instructions for two words of every sum of pairs of rows and of columns (MatrixDots): rows are loaded and joined,
    two vectors of columns, which one instruction loads, and joined for each half, but where they lie in pairs."""
    columns = 1 if pairs else 3
    return -(-outer // tile.vectors) * sum(
        (points * tile.vectors + 2 * -(-points // 2) + columns * tile.vectors) * down
        for points, down in tiles.pieces(rows, tile.rows))


def _tiles_in_block(target, rows, tile_rows, depth):
    """How many tiles of rows a block has: all, if these stay in L2, together with two panels of columns;
    else about as many as take two thirds of that, if possible so that blocks are of equal size."""
    tiles_of_rows, least = -(-rows // tile_rows), target.cost("tile.least_block")
    most = max(_room(target) // (4 * depth * tile_rows), least)
    if tiles_of_rows <= most:
        return tiles_of_rows
    best = max(most * 2 // 3, least)
    even = [n for n in range(best // 2 + 1, most + 1) if tiles_of_rows % n == 0]
    return min(even, key=lambda n: abs(n - best), default=best)


def _room(target):
    """Bytes of rows that stay in L2."""
    return target.l2_bytes * 3 // 4
