"""Sums that may have no terms: what they start with is written before their loops."""
from __future__ import annotations

from ..arith import Analyzer
from ..expr import is_const_int
from ..node import Visitor
from ..schedule import Schedule, ScheduleError
from ..schedule.blocks import uses
from ..schedule.context import know_dimensions


def start_sums(func):
    """Requires blocks. Ensures that a reduction whose loops may have no iterations, as those of a symbolic extent do,
    starts in a block of its own before them; where decompose_reduction cannot, or threads share the loops, it stays.
    Dimensions of parameters are at least 1: their callers are held to that."""
    found = _MayBeEmpty(func)
    found.visit(func.body)
    sch = Schedule(func) if found.blocks else None
    for name, depth in found.blocks:
        try:
            block = sch.get_block(name)
            sch.decompose_reduction(block, sch.get_loops(block)[depth])
        except ScheduleError:
            pass
    return sch.func if sch else func


class _MayBeEmpty(Visitor):
    """[(block, place of the outermost loop of its reduction)] of the reductions that may have no terms."""

    def __init__(self, func):
        self.loops, self.blocks, self.analyzer = [], [], know_dimensions(Analyzer(), func)

    def visit_For(self, loop):
        self.loops.append(loop)
        self.visit(loop.body)
        self.loops.pop()

    def visit_BlockRealize(self, realize):
        block, around = realize.block, self.loops
        values = [v for iv, v in zip(block.iter_vars, realize.iter_values) if iv.iter_type == "reduce"]
        depths = [d for d, loop in enumerate(around) if uses(tuple(values), {loop.loop_var})]
        if block.init is not None and any(self.may_be_empty(around[d].extent) for d in depths) and not any(
                loop.kind == "thread_binding" for loop in around[depths[0]:]):
            self.blocks.append((block.name_hint, depths[0]))
        self.loops = []  # those outside are not the inner blocks'
        self.visit(block.body)
        self.loops = around

    def may_be_empty(self, extent):
        return not is_const_int(extent) and not self.analyzer.can_prove(extent >= 1)


__all__ = ["start_sums"]
