"""Reductions along rows: softmax, norms, means over images, products with a vector. Threads share each row."""
from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import log2, prod

from ....expr import IntImm
from ...plan import Kernel, Match, Plan
from ..blocks import SYMBOLIC, blocks, iter_vars, static
from .nests import keep_own, reduction_loops, share_loops
from .points import inline_rest, loops_of, result_of
from .stages import gathered, move_stages, reduces, runs_along_rows, shared_iterators

WARP = 32
LEAST_ROW = 32  # elements, of which each thread of a warp has one


@dataclass(frozen=True)
class Rows(Kernel):
    """A reduction of so many rows of `length` elements; SYMBOLIC stands for what is not known."""

    rows: int
    length: int

    rule = "rows"

    def candidates(self, target):
        for threads in (n for n in (32, 64, 128, 256, 512, 1024) if n <= target.launch.max_threads):
            yield Plan(self.rule, "warp" if threads == WARP else "block", turn=threads,
                       block=self._rows_of(threads, target))

    def _rows_of(self, threads, target):
        """How many rows a block of threads has: whole warps, as many as divide the rows."""
        if threads > WARP or self.rows == SYMBOLIC:
            return 1
        return max(n for n in range(1, target.cost("gpu.block_threads") // WARP + 1) if self.rows % n == 0)

    def cost(self, plan, target):
        threads = plan.turn
        steps = -(-self.length // threads) * target.cost("gpu.load") + log2(WARP) * target.cost("gpu.shuffle")
        steps += (threads > WARP) * (2 * target.cost("gpu.barrier") + threads // WARP * target.cost("gpu.shuffle"))
        running = target.cost("gpu.processors") * target.cost("gpu.threads")
        return steps * max(self.rows * threads / running, 1)


def rows(sch, target):
    """A warp, or a block, of threads has a row: its reductions are made by all of them together, what is done with each
    element by the thread that has it."""
    output = gathered(sch)
    if output is None or not runs_along_rows(sch):
        return None
    lengths = [prod(static(iv.dom.extent) for iv in iter_vars(b, "reduce")) for b in blocks(sch) if reduces(b)]
    if max(lengths) < LEAST_ROW:
        return None
    count = _rows(sch, output)
    return Match(Rows(count, min(max(lengths), SYMBOLIC)), partial(_apply, sch, output))


def _rows(sch, output):
    block = sch.get(output)
    spatial = iter_vars(block, "spatial")
    extents = [iv.dom.extent for iv in (spatial if reduces(block) else [
        block.iter_vars[k] for k in shared_iterators(sch, output)])]
    return prod(e.value for e in extents) if all(isinstance(e, IntImm) for e in extents) else SYMBOLIC


def _apply(sch, output, plan, target):
    output = result_of(sch, output)
    shared, loops = shared_iterators(sch, output), loops_of(sch, output)
    rest = [k for k in range(len(loops)) if k not in shared]
    if any(k > min(rest, default=k) and static(sch.get(loops[k]).extent) > 1 for k in shared) or not inline_rest(
            sch, output, len(sch.get(output).iter_vars)):
        return False
    count = len(shared) if sch.get(output).iter_vars else 1  # a unit loop around a tensor of rank 0
    if sch.get(output).iter_vars and shared != list(range(count)):  # loops of one iteration lie further in
        loops = [loops[k] for k in (*shared, *rest)]
        sch.reorder(*loops)
    row, inner = loops[:count], loops[count:]
    if not row:
        row = [sch.add_unit_loop(loops[0])]
    stages = move_stages(sch, output, row[-1])
    row = sch.fuse(*row) if len(row) > 1 else row[0]
    if (plan.block or 1) > 1:
        row, several = sch.split(row, [None, plan.block])
        sch.bind(several, "threadIdx.y")
    sch.bind(row, "blockIdx.x")
    for block in stages:
        share_loops(sch, reduction_loops(sch, block), plan.turn, block=block)
    share_loops(sch, inner or [sch.add_unit_loop(output)], plan.turn, block=output)
    keep_own(sch)
    return True
