"""GeneralReduction: softmax, norms and what else sums up rows and uses the sums for these rows."""
from __future__ import annotations

from ....ir.arith import Analyzer
from ....ir.expr import const, free_vars, is_const_int
from ....ir.tir.index_map import IndexMap
from ..analysis import normalize_prim_func
from ..base import try_inline_contiguous_spatial
from .base import Steps

_SHAPES = {"cuda": (256, 256), "opencl": (256, 64)}  # threads along a row, turns of loops that are unrolled


class GeneralReduction(Steps):
    """A block of threads a row, or several dimensions of rows: all steps of a row, one behind the other, with what they
    hand on in shared memory."""

    names = ("stepwise", "rows")

    def steps(self, sch, target):
        threads, unrolled = _SHAPES.get(target.kind.name, (64, 64))
        blocks = try_inline_contiguous_spatial(sch, normalize_prim_func(sch))
        if not blocks:
            return None
        *steps, last = blocks
        kinds = blocks[0].dom_kind()
        rows, summed = len(kinds) - len(kinds.lstrip("S")), len(kinds) - len(kinds.rstrip("R"))
        if not summed or not last.is_injective() or any(b.dom_kind() != kinds for b in blocks[1:-1]) or len(
                last.iters) > len(kinds):
            return None
        if len(last.iters) < len(kinds):
            sch.transform_block_layout(last.block_rv, _lengthened(blocks[0], last))
        _rows_first(sch, steps, last)
        loops = sch.get_loops(last.block_rv)
        row = sch.fuse(*loops[:rows])
        self._share(sch, loops[-1], threads, unrolled, before=lambda: sch.bind(row, "blockIdx.x"))
        for step in reversed(steps):
            for n, _ in enumerate(sch.get(step.block_rv).writes):
                sch.set_scope(step.block_rv, n, "shared")
            sch.compute_at(step.block_rv, row, preserve_unit_loops=True)
            self._share(sch, sch.fuse(*sch.get_loops(step.block_rv)[-summed:]), threads, unrolled)
        return sch

    @staticmethod
    def _share(sch, loop, threads, unrolled, before=lambda: None):
        """Let threads share a loop; a thread's turns are unrolled."""
        turns, thread = sch.split(loop, [None, threads])
        sch.reorder(thread, turns)
        before()
        sch.bind(thread, "threadIdx.x")
        sch.annotate(turns, "pragma_auto_unroll_max_step", unrolled)
        sch.annotate(turns, "pragma_unroll_explicit", 1)


def _lengthened(first, last):
    """The map that gives the last block as many iterators as the first one has: its own at those of their extents, in
    order, and zeros elsewhere; zeros in front where they do not all fit."""
    def places(*iters):
        left, found = list(zip(iters, last.iters)), []
        for info in first.iters:
            fits = left and Analyzer().can_prove_equal(info.dom, left[0][1].dom)
            found.append(left.pop(0)[0] if fits else const(0, iters[0].dtype))
        return found if not left else [const(0, iters[0].dtype)] * (len(first.iters) - len(iters)) + list(iters)
    return IndexMap.from_func(places, ndim=len(last.iters), index_dtype=last.iters[0].var.dtype)


def _rows_first(sch, steps, last):
    """Move the loops outside that say which sums the last block reads."""
    summed = {r.buffer for step in steps for r in sch.get(step.block_rv).writes}
    block, loops = sch.get(last.block_rv), sch.get_loops(last.block_rv)
    used = {v for read in block.reads if read.buffer in summed for r in read.region for v in free_vars([r.min, r.extent])}
    outer = [loop for iv, loop in zip(block.iter_vars, loops) if iv.var in used or is_const_int(sch.get(loop).extent, 1)]
    sch.reorder(*outer, *(loop for loop in loops if loop not in outer))


__all__ = ["GeneralReduction"]
