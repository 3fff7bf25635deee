"""Spreading loops over threads where the work is worth it."""
from __future__ import annotations

from ...expr import IntImm, is_const_int
from ...node import children
from ...tir.stmt import BufferStore, For
from ..errors import ScheduleError

# Threads are worth their start (some microseconds) from about so many multiply-adds, cut into so many parts. A scalar
# or memory-bound iteration counts as several of those that run from registers.
PARALLEL_MIN_WORK = 1 << 19
PARALLEL_MIN_PARTS = 16
COST_OF_LOOP = 8
# A network is worth threads from about so many operations, a byte that a kernel touches counted as BYTE of them: some
# tenths of a millisecond. In smaller ones the tensors that pass between cores cost as much as the other core saves.
PARALLEL_MIN_NETWORK = 1 << 26
BYTE = 4


def worth_threads(work):
    """Whether a network is, given [(operations, bytes of each buffer)] of its kernel calls; one of unknown size is."""
    total = 0
    for operations, touched in work:
        total = total + operations + BYTE * sum(touched)
    return not isinstance(total, int) or total >= PARALLEL_MIN_NETWORK


def parallel_nest(sch, cpu, loops, work):
    """Run each loop of a nest in parallel when the work is worth it; the C collapses them into one parallel loop."""
    if not cpu.parallel or work < PARALLEL_MIN_WORK:
        return
    for loop in loops:
        if not is_const_int(sch.get(loop).extent, 1):
            try:
                sch.parallel(loop)
            except ScheduleError:
                return  # a loop that carries a dependence stays serial, and so do those inside it


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
        parallel_nest(sch, cpu, chosen, COST_OF_LOOP * work_of(sch.get(chosen[0])))


def work_of(loop):
    """About how many innermost iterations a loop runs; symbolic extents count as many."""
    own = loop.extent.value if isinstance(loop.extent, IntImm) else PARALLEL_MIN_WORK
    return own * (sum(map(work_of, _child_loops(loop.body))) or 1)


def _child_loops(stmt):
    """The outermost loops inside a statement."""
    if isinstance(stmt, For):
        return [stmt]
    return [] if isinstance(stmt, BufferStore) else [f for c in children(stmt) for f in _child_loops(c)]
