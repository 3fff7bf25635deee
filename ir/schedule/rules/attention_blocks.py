"""Attention over any number of keys: scores and weighted values of a block of keys in register tiles."""
from __future__ import annotations

from dataclasses import dataclass

from ...tir.hints import UNROLL
from ..plan import Match, Plan, Stages
from . import tiles
from .attention import PACKING, _pack_keys
from .blocks import find_block
from .registers import by_element, in_registers, lane_by_lane, reduce_lanes, steps
from .threads import parallel_nest

IN_VECTORS = ("no_keys", "query", "start_sums", "exp", "shrunk", "result")  # stages whose last loops are vectors


def attention_blocks(sch, target):
    """nn.attention of unknown length, by its stages:

        keys packed for vectors
        for batch, head, rows of queries (parallel): for block of keys:
            for tile of keys: acc = 0; for d: acc += broadcast(q) * key; logits = acc
            max, exp and sum of each row, in vectors
            for tile of columns: acc = shrunk sums; for key: acc += broadcast(exp) * v; sums = acc
    """
    if target.lanes == 1 or find_block(sch, lambda block: block.name_hint == "online_step") is None:
        return None
    scores, values, rows = (sch.get_block("online_" + name) for name in ("scores", "values", "rows"))
    height, _, vectors, lanes, size = (iv.dom.extent for iv in sch.get(scores).iter_vars)
    if size.value % target.lanes or lanes.value != target.lanes:
        return None
    work = steps(sch.get(scores)) * steps(sch.get(rows))

    def apply(plan, target):
        of_values, of_scores = plan.stages
        _tile_values(sch, target, values, of_values.tile)
        _tile_scores(sch, target, scores, of_scores.tile)
        for name in IN_VECTORS:
            _row_of_vectors(sch, target, sch.get_block("online_" + name))
        for lanes, last in (("top", "greater"), ("sum", "weight")):
            _reduce(sch, sch.get_block("online_" + lanes), sch.get_block("online_" + last))
        keys = sch.get_block("online_keys")
        _pack_keys(sch, target, keys, size.value % target.lanes == 0)
        parallel_nest(sch, target, sch.get_loops(rows), work)

    stages = WholeTiles("values", size.value // target.lanes, height.value), WholeTiles("scores", vectors.value,
                                                                                     height.value)
    packed = PACKING * steps(sch.get(sch.get_block("online_keys"))) >= target.cost("threads.least_work")
    return Match(Stages("attention_blocks", stages, work, "heads and rows", 1 + packed), apply)


@dataclass(frozen=True)
class WholeTiles(tiles.Sums):
    """Sums in tiles that divide their vectors and rows."""

    def candidates(self, target):
        fitting = (t for t in tiles.candidates(target)
                   if t.columns == 1 and self.outer % t.vectors == 0 and self.rows % t.rows == 0)
        for tile in sorted(fitting, key=lambda t: (-t.accumulators, t.vectors)):
            yield Plan(self.rule, tile=tile)

    def cost(self, plan, target):
        """Cycles for one of the sums."""
        return tiles.step(target, plan.tile.vectors, plan.tile.rows) / plan.tile.accumulators


def _tile_scores(sch, target, scores, tile):
    """The products of queries and keys."""
    s, to, tv, tl = sch.get_loops(sch.get_block("online_logits"))
    so, si = sch.split(s, [None, tile.rows])
    vo, vi = sch.split(tv, [None, tile.vectors])
    sch.reorder(to, vo, so, si, vi, tl)
    _tile_sums(sch, target, scores, (to, vo, so), (si, vi, tl))


def _tile_values(sch, target, values, tile):
    """The sums of the rows of v, weighted."""
    s, d = sch.get_loops(sch.get_block("online_keep_sums"))
    so, si = sch.split(s, [None, tile.rows])
    do, dv, dl = sch.split(d, [None, tile.vectors, target.lanes])
    sch.reorder(do, so, si, dv, dl)
    _tile_sums(sch, target, values, (do, so), (si, dv, dl))


def _tile_sums(sch, target, sums, outer, points):
    """Sums that the loops over `points` copy out of registers, computed inside the loops `outer`."""
    sch.compute_at(sums, outer[-1], preserve_unit_loops=True)
    sch.set_scope(sums, 0, "local")
    in_registers(sch, points[:-1], points[-1])
    *points, k = sch.get_loops(sums)[len(outer):]
    (k,), lanes = lane_by_lane(sch, target, [k], by_element(target, sch.get(sums))[1])
    sch.reorder(k, *lanes, *points)
    in_registers(sch, points[:-1], points[-1])
    sch.annotate(k, UNROLL, 1)
    sch.decompose_reduction(sums, k)


def _row_of_vectors(sch, target, block):
    """The last loop of a stage over rows, in vectors."""
    _, lane = sch.split(sch.get_loops(block)[-1], [None, target.lanes])
    sch.vectorize(lane)


def _reduce(sch, lanes, last):
    """A vector of all rows' sums in registers, each of which the stage `last` then reduces to one number."""
    copy = sch.cache_write(lanes, 0, "local")
    s, lane, t = sch.get_loops(lanes)
    sch.reorder(t, s, lane)
    in_registers(sch, (s,), lane)
    sch.annotate(t, UNROLL, 1)
    sch.decompose_reduction(lanes, t)
    s, lane = sch.get_loops(copy)
    in_registers(sch, (s,), lane)
    reduce_lanes(sch, last, sch.get_loops(last)[-1])
