"""Fallback: a thread an element."""
from __future__ import annotations

from ..analysis import normalize_prim_func
from ..base import max_threads_per_block, try_inline
from .base import Steps


class Fallback(Steps):
    """Inlines what can be, and gives each element of what is left a thread of its own, which sums up alone."""

    names = ("points", "fallback")

    def steps(self, sch, target):
        blocks = normalize_prim_func(sch)
        if blocks is None:
            return None
        sums = []
        for info in try_inline(sch, blocks):
            loops = sch.get_loops(info.block_rv)
            if not loops or any(sch.get(loop).thread_binding is not None for loop in loops):
                continue
            order = {kind: [loop for loop, k in zip(loops, info.dom_kind()) if k == kind] for kind in "SRO"}
            order["S"] = order["S"] or [sch.add_unit_loop(info.block_rv)]
            sch.reorder(*order["S"], *order["R"], *order["O"])
            block, thread = sch.split(sch.fuse(*order["S"]), [None, max_threads_per_block(target)])
            sch.bind(block, "blockIdx.x")
            sch.bind(thread, "threadIdx.x")
            if order["R"]:
                sums.append((info.block_rv, order["R"][0]))
        for block, loop in sums:
            sch.decompose_reduction(block, loop)
        return sch


__all__ = ["Fallback"]
