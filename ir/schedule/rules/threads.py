"""Spreading loops over threads where the work is worth it."""
from __future__ import annotations

from ...expr import IntImm, is_const_int
from ...node import children
from ...tir.stmt import BufferLoad, BufferStore, For
from ..errors import ScheduleError

# Threads are worth their start (some microseconds) from about so many multiply-adds, cut into so many parts. A scalar
# or memory-bound iteration counts as several of those that run from registers.
PARALLEL_MIN_WORK = 1 << 19
PARALLEL_MIN_PARTS = 16
COST_OF_LOOP = 8


def parallel_nest(sch, cpu, loops, work):
    """Run each loop of a nest in parallel when the work is worth it; the C collapses them into one parallel loop."""
    if cpu.parallel and work >= PARALLEL_MIN_WORK:
        for loop in loops:
            if not is_const_int(sch.get(loop).extent, 1):
                sch.parallel(loop)


def parallel_outer(sch, cpu, loops):
    """Run as many leading loops in parallel as it takes to have enough to share, if the work is worth it."""
    chosen, count = [], 1
    for loop in loops:
        if count >= PARALLEL_MIN_PARTS:
            break
        chosen.append(loop)
        extent = sch.get(loop).extent
        count *= extent.value if isinstance(extent, IntImm) else PARALLEL_MIN_PARTS
    if chosen:
        try:
            parallel_nest(sch, cpu, chosen, COST_OF_LOOP * work_of(sch.get(chosen[0])))
        except ScheduleError:
            pass  # a loop that carries a dependence stays serial


def work_of(loop):
    """About how many innermost iterations a loop runs; symbolic extents count as many."""
    total = 0
    own = loop.extent.value if isinstance(loop.extent, IntImm) else PARALLEL_MIN_WORK
    inner = [work_of(f) for f in _child_loops(loop.body)]
    total = sum(inner) if inner else 1
    return own * total


def _child_loops(stmt):
    found = []

    def walk(s):
        if isinstance(s, For):
            found.append(s)
            return
        for c in children(s):
            if not isinstance(c, (BufferStore, BufferLoad)):
                walk(c)

    walk(stmt)
    return found
