"""Products of floats with columns of a few bits: blocks of terms add up in registers, and are scaled after."""
from __future__ import annotations

from dataclasses import dataclass

from ...relax.ops.matmul_quantized import BLOCKS, DIVIDED, ROWS, STAGES, SUMS
from ...tir.hints import EXPLICIT, UNROLL
from ..plan import Kernel, Match, Plan, Tile, shared
from .blocks import blocks, find_block, inline_all, iter_vars, only_output, static_extent, vectorizes
from .registers import in_registers, steps, through_memory
from .row_reduction import reduce_serially, row_in_vectors
from .threads import parallel_nest

ONE_ROW = (4, 5, 6, 7, 8)  # vectors of columns of a tile of one row: so many sums hardly wait for one another
SEVERAL = 2  # of a tile of several
MOST_ROWS = 6  # of a tile: what makes floats of a vector of words is shared by them
FEW_ROWS = 3  # where registers are few
FEW_REGISTERS = 16


def vectors_of_panel(rows, columns, lanes):
    """How many vectors of columns lie beside one another for a product of so many rows: of one row as many as leave the
    fewest columns to fill up."""
    return min(ONE_ROW, key=lambda n: (-columns % (n * lanes), -n)) if rows == 1 else SEVERAL


@dataclass(frozen=True)
class QuantizedProduct(Kernel):
    """A product of so many rows with panels of so many vectors of columns; work: its FMAs."""

    rows: int
    vectors: int
    work: int = 0

    rule = "quantized_product"

    def candidates(self, target):
        few = target.vectors["float32"].registers <= FEW_REGISTERS
        yield Plan(self.rule, tile=Tile(self.vectors, min(self.rows, FEW_ROWS if few else MOST_ROWS)))

    def complete(self, plan, target):
        return plan.replace(threads=plan.threads or shared(target, self.work, "columns"))


def quantized_product(sch, target):
    """matmul_quantized of packed columns, with what is fused to it:

        divided = x / what the highest bits of a word are times
        for panel (parallel): for tile of rows:
            sums = 0
            for block:  part = 0;  for word: for term: for rows: part += divided * term of word;  sums += part * scale
            epilogue(sums)
    """
    if target.lanes == 1 or find_block(sch, lambda b: b.name_hint == SUMS) is None:
        return None
    keep = {b.name_hint for b in blocks(sch)} & set(STAGES)
    inline_all(sch, keep=keep)
    epilogue = only_output(sch)
    if epilogue is None:
        return None
    *_, m, _ = sch.get_loops(epilogue)
    block = sch.get(sch.get_block(BLOCKS))
    panel = iter_vars(block, "spatial")[-1].dom.extent.value
    kernel = QuantizedProduct(static_extent(sch, m), panel // target.lanes, steps(block))
    return Match(kernel, lambda plan, target: _apply(sch, epilogue, keep, plan, target))


def _apply(sch, epilogue, keep, plan, target):
    *batch, m, n = sch.get_loops(epilogue)
    no, nv, nl = sch.split(n, [None, plan.tile.vectors, target.lanes])
    mo, mi = sch.split(m, [None, plan.tile.rows])
    sch.reorder(*batch, no, mo, mi, nv, nl)
    sums, parts = sch.get_block(SUMS), sch.get_block(BLOCKS)
    work = steps(sch.get(parts))
    sch.compute_at(sums, mo, preserve_unit_loops=True)
    if vectorizes(sch.get(epilogue)):
        in_registers(sch, (mi, nv), nl)
    else:
        in_registers(sch, *_points(sch, target, sch.get_loops(through_memory(sch, epilogue, SUMS, mo))[-3:]))
    sch.set_scope(sums, 0, "local")
    *loops, g = sch.get_loops(sums)
    points, lanes = _points(sch, target, loops[-3:])
    sch.reorder(g, *points, lanes)
    in_registers(sch, points, lanes)
    _sums_of_block(sch, target, parts, g)
    sch.decompose_reduction(sums, g)
    if ROWS in keep:
        reduce_serially(sch, target, sch.get_block(ROWS))
    if DIVIDED in keep:
        row_in_vectors(sch, target, sch.get_block(DIVIDED), 0)
    parallel_nest(sch, target, [*batch, no], work)


def _sums_of_block(sch, target, parts, g):
    """The sums of one block, in registers: its terms lie in the bits of words."""
    sch.compute_at(parts, g, preserve_unit_loops=True)
    sch.set_scope(parts, 0, "local")
    *loops, row, panel, _, column, word, term = sch.get_loops(parts)
    points, lanes = _points(sch, target, (row, panel, column))
    sch.reorder(word, term, *points, lanes)
    in_registers(sch, (term, *points), lanes)
    sch.annotate(term, EXPLICIT, 1)
    sch.decompose_reduction(parts, word)
    sch.annotate(word, UNROLL, 1)


def _points(sch, target, loops):
    """((loops over rows, a panel and vectors), loop over lanes)."""
    *outer, columns = loops
    vectors, lanes = sch.split(columns, [None, target.lanes])
    return (*outer, vectors), lanes
