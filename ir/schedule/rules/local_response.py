"""Local response normalization in blocked layout: neighbours are other lanes, and lanes of the blocks beside."""
from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from ..plan import Kernel, Match, Plan, shared
from .blocks import find_block, inline_all, only_output, static_extent
from .registers import in_registers, ranks, steps
from .threads import COST_OF_LOOP, parallel_nest

SQUARES, SUMS = "lrn_squares", "lrn_sum"


def local_response(sch, target):
    """nn.lrn in blocked layout: the squares of all channels of some points in rows, then sums of vectors from them:

        for points: squares = x * x;  for channels, points: acc = 0; for k: acc += squares[k ...];  epilogue(acc)
    """
    if target.lanes == 1 or find_block(sch, lambda b: b.name_hint == SUMS and ranks(b) == (5, 1)) is None:
        return None
    inline_all(sch, keep={SQUARES})
    output = only_output(sch)
    if output is None or len(sch.get_loops(output)) != 5:
        return None
    work = COST_OF_LOOP * steps(sch.get(sch.get_block(SUMS)))
    kernel = Rows(static_extent(sch, sch.get_loops(output)[3]), work)
    return Match(kernel, partial(_apply, sch, output, kernel))


@dataclass(frozen=True)
class Rows(Kernel):
    """Rows of so many points, of which a plan's block are taken at a time: as many as divide them. work: terms."""

    width: int
    work: int = 0

    rule = "local_response"

    def candidates(self, target):
        most = target.cost("local_response.points")
        points = next(p for p in range(most, 0, -1) if self.width % p == 0)
        yield Plan(self.rule, block=points if points >= target.cost("local_response.least_points") else most)

    def complete(self, plan, target):
        return plan.replace(threads=plan.threads or shared(target, self.work, "rows"))


def _apply(sch, output, kernel, plan, target):
    squares, sums = sch.get_block(SQUARES), sch.get_block(SUMS)
    n, c, y, x, lane = sch.get_loops(output)
    xo, xi = sch.split(x, [None, plan.block])
    sch.reorder(n, y, xo, c, xi, lane)
    sch.vectorize(lane)
    sch.compute_at(sums, xi, preserve_unit_loops=True)
    sch.set_scope(sums, 0, "local")
    *_, own, k = sch.get_loops(sums)
    sch.reorder(k, own)
    in_registers(sch, (k,), own)
    sch.decompose_reduction(sums, k)
    sch.compute_at(squares, xo, preserve_unit_loops=True)
    point, block, own = sch.get_loops(squares)[-3:]
    sch.reorder(block, point)
    sch.vectorize(own)
    parallel_nest(sch, target, [n, y], kernel.work)
