"""Attention: the scores of a few queries against all keys stay in a buffer of rows, which caches hold."""
from __future__ import annotations

from dataclasses import dataclass

from ...expr import IntImm
from ...tir.hints import TRANSPOSE
from ..plan import Match, shared
from . import tiles
from .blocks import find_block, iter_vars, static
from .registers import by_element, in_registers, lane_by_lane, steps, turn_of
from .row_reduction import reduce_serially, row_in_vectors
from .threads import parallel_nest


PACKING = 8  # work for each element of keys that are packed


def attention(sch, target):
    """nn.attention, by its stages:

        keys packed for vectors
        for batch, head (parallel): for rows of queries:
            for tile of keys: acc = 0; for d: acc += broadcast(q) * key; logits = acc * scale + mask
            max, exp and sum of each row, in vectors
            for tile of columns: acc = 0; for key: acc += broadcast(exp) * v; out = acc / sum
    """
    if target.lanes == 1 or find_block(sch, lambda block: block.name_hint == "attention_scores") is None:
        return None
    output, = sch.get_output_blocks("root")
    scores, logits, values = (sch.get_block("attention_" + name) for name in ("scores", "logits", "values"))
    sizes = [iv.dom.extent for iv in sch.get(scores).iter_vars]
    size, queries = (sch.get(values).iter_vars[k].dom.extent for k in (3, 2))
    if not all(isinstance(n, IntImm) for n in (*sizes[1:], size)) or size.value % target.lanes or \
            sizes[4].value != target.lanes:
        return None
    keys = -(-static(iter_vars(sch.get(logits), "spatial")[-1].dom.extent) // target.lanes)
    packing = PACKING * steps(sch.get(sch.get_block("attention_keys")))
    kernel = Attention("attention", size.value // target.lanes, queries.value, 1, True, steps(sch.get(scores)), keys,
                       packing)

    def apply(plan, target):
        b, h, so, do = _tile_output(sch, target, output, plan.tile, size.value)
        _tile_values(sch, target, values, do)
        _softmax(sch, target, so)
        _tile_scores(sch, target, scores, logits, so, plan.turn)
        _pack_keys(sch, target, sch.get_block("attention_keys"))
        parallel_nest(sch, target, [b, h, so], kernel.work)

    return Match(kernel, apply)


@dataclass(frozen=True)
class Attention(tiles.Sums):
    """The sums of weighted values. keys: vectors of them, of which a plan's iteration takes so many with a tile's rows:
    as many as fit the registers, in tiles of about one size. work: FMAs of scores; packing: what keys are to it."""

    keys: int = 1
    packing: int = 0

    def complete(self, plan, target):
        most = max(t.vectors for t in tiles.candidates(target) if t.rows == plan.tile.rows and t.columns == 1)
        return plan.replace(turn=plan.turn or -(-self.keys // -(-self.keys // most)),
                            threads=plan.threads or shared(target, self.work, "heads and rows"))

    def waits(self, plan, target):
        return 1 + (self.packing >= target.cost("threads.least_work"))


def _tile_output(sch, target, output, tile, size):
    """The loops over batches, heads, rows and tiles of columns of the result."""
    *by_head, s, c = sch.get_loops(output)
    so, si = sch.split(s, [None, tile.rows])
    h, do, dv, dl = sch.split(c, [None, size // (tile.vectors * target.lanes), tile.vectors, target.lanes])
    b, h = by_head if len(by_head) == 2 else (*by_head, h)
    sch.reorder(b, h, so, do, si, dv, dl)
    in_registers(sch, (si, dv), dl)
    return b, h, so, do


def _tile_values(sch, target, values, at):
    """The sum of the rows of v, weighted."""
    sch.compute_at(values, at, preserve_unit_loops=True)
    sch.set_scope(values, 0, "local")
    *_, si, d, t = sch.get_loops(values)
    dv, dl = sch.split(d, [None, target.lanes])
    (t,), lane = lane_by_lane(sch, target, [t], by_element(target, sch.get(values))[1])
    sch.reorder(t, *lane, si, dv, dl)
    in_registers(sch, (si, dv), dl)
    sch.decompose_reduction(values, t)
    turn_of(sch, target, values, (t,))


def _softmax(sch, target, at):
    """Row after row, max, exp, sum and what to divide by."""
    peak, exp, total, scale = (sch.get_block("attention_" + name) for name in ("max", "exp", "sum", "scale"))
    for block in (scale, total, exp, peak):
        sch.compute_at(block, at, preserve_unit_loops=True)
        sch.set_scope(block, 0, "local")
    row = sch.get_loops(exp)[-2]
    sch.compute_at(peak, row, preserve_unit_loops=True)
    sch.reverse_compute_at(total, row, preserve_unit_loops=True)
    sch.reverse_compute_at(scale, row, preserve_unit_loops=True)
    reduce_serially(sch, target, peak)
    reduce_serially(sch, target, total)
    row_in_vectors(sch, target, exp, 0)


def _tile_scores(sch, target, scores, logits, at, vectors):
    """The products of queries and keys, scaled and masked where they leave their registers."""
    sch.compute_at(logits, at, preserve_unit_loops=True)
    sch.set_scope(logits, 0, "local")
    *_, si, t = sch.get_loops(logits)
    to, tl = sch.split(t, [None, target.lanes])
    to, tv = sch.split(to, [None, vectors])
    sch.reorder(to, si, tv, tl)
    sch.compute_at(scores, to, preserve_unit_loops=True)
    sch.set_scope(scores, 0, "local")
    in_registers(sch, (si, tv), tl)
    *_, si, tv, tl, d = sch.get_loops(scores)
    (d,), lane = lane_by_lane(sch, target, [d], by_element(target, sch.get(scores))[1])
    sch.reorder(d, *lane, si, tv, tl)
    in_registers(sch, (si, tv), tl)
    sch.decompose_reduction(scores, d)
    turn_of(sch, target, scores, (d,))


def _pack_keys(sch, target, keys, whole=None):
    """In squares, which are turned in registers, where all vectors of keys are whole ones."""
    *outer, d, lane = sch.get_loops(keys)
    shape = sch.get(keys).reads[0].buffer.shape
    if static(shape[len(shape) - 2]) % target.lanes == 0 if whole is None else whole:
        _, di = sch.split(d, [None, target.lanes])
        sch.unroll(di)
        sch.annotate(di, TRANSPOSE, 1)
    sch.vectorize(lane)
    if len(outer) > 2:  # else inside of the loop over rows
        parallel_nest(sch, target, outer[:2], PACKING * steps(sch.get(keys)))
