"""Local response normalization in blocked layout: neighbours are other lanes, and lanes of the blocks beside."""
from __future__ import annotations

from .blocks import find_block, inline_all, only_output, static_extent
from .registers import in_registers, ranks, steps
from .threads import COST_OF_LOOP, parallel_nest

SQUARES, SUMS = "lrn_squares", "lrn_sum"
MOST_POINTS = 16  # whose squares stay in the first cache
LEAST_POINTS = 4


def local_response(sch, cpu):
    """nn.lrn in blocked layout: the squares of all channels of some points in rows, then sums of vectors from them:

        for points: squares = x * x;  for channels, points: acc = 0; for k: acc += squares[k ...];  epilogue(acc)
    """
    if cpu.lanes == 1 or find_block(sch, lambda b: b.name_hint == SUMS and ranks(b) == (5, 1)) is None:
        return False
    inline_all(sch, keep={SQUARES})
    output = only_output(sch)
    if output is None or len(sch.get_loops(output)) != 5:
        return False
    squares, sums = sch.get_block(SQUARES), sch.get_block(SUMS)
    n, c, y, x, lane = sch.get_loops(output)
    work, width = steps(sch.get(sums)), static_extent(sch, x)
    points = next(p for p in range(MOST_POINTS, 0, -1) if width % p == 0)
    xo, xi = sch.split(x, [None, points if points >= LEAST_POINTS else MOST_POINTS])
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
    parallel_nest(sch, cpu, [n, y], work * COST_OF_LOOP)
    return True
