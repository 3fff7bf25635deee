"""Attention over any number of keys: scores and weighted values of a block of keys in register tiles."""
from __future__ import annotations

from ...tir.hints import UNROLL
from . import tiles
from .attention import _pack_keys
from .blocks import find_block
from .registers import by_element, in_registers, lane_by_lane, reduce_lanes, steps
from .threads import parallel_nest

IN_VECTORS = ("no_keys", "query", "start_sums", "exp", "shrunk", "result")  # stages whose last loops are vectors


def attention_blocks(sch, cpu):
    """nn.attention of unknown length, by its stages:

        keys packed for vectors
        for batch, head, rows of queries (parallel): for block of keys:
            for tile of keys: acc = 0; for d: acc += broadcast(q) * key; logits = acc
            max, exp and sum of each row, in vectors
            for tile of columns: acc = shrunk sums; for key: acc += broadcast(exp) * v; sums = acc
    """
    if cpu.lanes == 1 or find_block(sch, lambda block: block.name_hint == "online_step") is None:
        return False
    scores, values, rows = (sch.get_block("online_" + name) for name in ("scores", "values", "rows"))
    height, _, vectors, lanes, size = (iv.dom.extent for iv in sch.get(scores).iter_vars)
    if size.value % cpu.lanes or lanes.value != cpu.lanes:
        return False
    work = steps(sch.get(scores)) * steps(sch.get(rows))
    _tile_values(sch, cpu, values, _tile(cpu, size.value // cpu.lanes, height.value))
    _tile_scores(sch, cpu, scores, _tile(cpu, vectors.value, height.value))
    for name in IN_VECTORS:
        _row_of_vectors(sch, cpu, sch.get_block("online_" + name))
    for lanes, last in (("top", "greater"), ("sum", "weight")):
        _reduce(sch, sch.get_block("online_" + lanes), sch.get_block("online_" + last))
    _pack_keys(sch, cpu, sch.get_block("online_keys"))
    parallel_nest(sch, cpu, sch.get_loops(rows), work)
    return True


def _tile(cpu, outer, rows):
    """The cheapest tile that divides so many vectors and rows."""
    fitting = [t for t in tiles.candidates(cpu) if t.columns == 1 and outer % t.vectors == 0 and rows % t.rows == 0]
    return min(fitting, key=lambda t: (tiles.step(cpu, t.vectors, t.rows) / t.accumulators, -t.accumulators, t.vectors))


def _tile_scores(sch, cpu, scores, tile):
    """The products of queries and keys."""
    s, to, tv, tl = sch.get_loops(sch.get_block("online_logits"))
    so, si = sch.split(s, [None, tile.rows])
    vo, vi = sch.split(tv, [None, tile.vectors])
    sch.reorder(to, vo, so, si, vi, tl)
    _tile_sums(sch, cpu, scores, (to, vo, so), (si, vi, tl))


def _tile_values(sch, cpu, values, tile):
    """The sums of the rows of v, weighted."""
    s, d = sch.get_loops(sch.get_block("online_keep_sums"))
    so, si = sch.split(s, [None, tile.rows])
    do, dv, dl = sch.split(d, [None, tile.vectors, cpu.lanes])
    sch.reorder(do, so, si, dv, dl)
    _tile_sums(sch, cpu, values, (do, so), (si, dv, dl))


def _tile_sums(sch, cpu, sums, outer, points):
    """Sums that the loops over `points` copy out of registers, computed inside the loops `outer`."""
    sch.compute_at(sums, outer[-1], preserve_unit_loops=True)
    sch.set_scope(sums, 0, "local")
    in_registers(sch, points[:-1], points[-1])
    *points, k = sch.get_loops(sums)[len(outer):]
    (k,), lanes = lane_by_lane(sch, cpu, [k], by_element(cpu, sch.get(sums))[1])
    sch.reorder(k, *lanes, *points)
    in_registers(sch, points[:-1], points[-1])
    sch.annotate(k, UNROLL, 1)
    sch.decompose_reduction(sums, k)


def _row_of_vectors(sch, cpu, block):
    """The last loop of a stage over rows, in vectors."""
    _, lane = sch.split(sch.get_loops(block)[-1], [None, cpu.lanes])
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
