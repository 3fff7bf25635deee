"""Spreading loops over threads where that is profitable."""
from __future__ import annotations

from math import prod

from ...expr import IntImm, is_const_int
from ...node import children, collect
from ...relax.arithmetic import ARITHMETICS
from ...relax.arithmetic.row import FLOAT32
from ...tir.hints import THREAD_OWN, THREAD_ROWS
from ...tir.stmt import Block, BufferStore, For
from ..errors import ScheduleError
from .blocks import static_extent

PARALLEL_MIN_PARTS = 16  # that a loop is cut into, so that no thread waits long for the last one
COST_OF_LOOP = 2  # of work: a scalar or memory-bound iteration counts as several of those that run from registers


def most_threads(target, work, accuracy=FLOAT32):
    """The largest profitable number of threads of a network, 1 where two are slower, given [(operations, bytes of each
    buffer, parallel loops that it runs)] of its kernel calls. As many as there may be where sizes are unknown.

    Threads must save more cycles than they cost: of two, half of the time of its parallel loops, whose bytes come from
    L2. Each wait of two for one another costs with the tensors that pass between their cores about a microsecond, each
    further thread makes it longer, and one thread's kernels read what others wrote."""
    faster = max(target.cost(row.pace) if row.pace else 1
                 for row in ARITHMETICS.values() if row.admitted(target, accuracy))  # by a unit for some
    pace = 2 * target.lanes * target.cost("multiply_adds") * faster
    l2, passed_bytes = target.cost("l2_read"), target.cost("threads.passed")
    shared = passed = waits = 0
    for operations, touched, loops in work:
        cycles = operations // pace + sum(touched) // l2 if loops else sum(touched) // passed_bytes
        if not isinstance(cycles, int):
            return target.threads.most
        shared, passed = shared + cycles * bool(loops), passed + cycles * (not loops)
        waits += max(loops, 1)

    def is_profitable(threads):
        cost = target.cost("threads.wait") + target.cost("threads.more") * (threads - 2)
        return shared - shared // threads > passed + waits * cost

    return max(filter(is_profitable, range(2, target.threads.most + 1))) if is_profitable(2) else 1


def parallel_loops(stmt):
    """How many parallel loops a statement runs; loops of unknown extents around them count once."""
    if isinstance(stmt, For):
        around = stmt.extent.value if isinstance(stmt.extent, IntImm) else 1
        return 1 if stmt.kind == "parallel" else around * parallel_loops(stmt.body)
    return sum(map(parallel_loops, _child_loops(stmt)))


def parallel_nest(sch, target, loops, work, rows=False):
    """Run each loop of a nest in parallel if that is profitable; the C makes them one parallel loop. rows: of the
    innermost one each thread keeps its own iterations, or has all of them where they are few. A loop that carries a
    dependence stays serial, and so do those inside it; `sch.refused` then says why.

    Where kernels divide the same rows, what they pass on stays in each core's cache; by channels half of it would come
    from another core. Of few rows that is less than what it costs to take a thread's iterations once for each channel,
    and that one thread has a row more: enough channels are shared then. In a short nest each thread does its own
    iterations, and none of another's: to take turns piece by piece costs up to a microsecond."""
    if not target.parallel or work < target.cost("threads.least_work"):
        return
    shared = [loop for loop in loops if not is_const_int(sch.get(loop).extent, 1)]
    rows = rows and shared[-1:] == [loops[-1]]
    if rows and not _divides_rows(sch, target, shared):
        shared, rows = shared[:-1] if _count(sch, shared[:-1]) >= PARALLEL_MIN_PARTS else shared, False
    for loop in shared:
        try:
            sch.parallel(loop)
        except ScheduleError as error:
            sch.refused += (f"threads: {error.line}",)
            return
    if rows:
        sch.annotate(shared[-1], THREAD_ROWS, 1)
    if shared and work < target.cost("threads.long_work"):
        sch.annotate(shared[-1], THREAD_OWN, 1)


def _divides_rows(sch, target, loops):
    """Whether threads divide the iterations of the innermost of several loops."""
    rows = static_extent(sch, loops[-1]) if len(loops) > 1 else 0
    few = _count(sch, loops[:-1]) < PARALLEL_MIN_PARTS
    return rows >= target.cost("threads.few_rows") or rows >= target.cost("threads.least_rows") and few


def _count(sch, loops):
    return prod(static_extent(sch, loop) for loop in loops)


def parallel_outer(sch, target, loops):
    """Run as many leading loops in parallel as it takes to have enough to share, if that is profitable. Batch,
    channels and rows are shared by rows."""
    chosen, count = [], 1
    for loop in loops:
        if count >= PARALLEL_MIN_PARTS:
            break
        chosen.append(loop)
        count *= static_extent(sch, loop)
    rows = len(loops) > 2 and is_const_int(sch.get(loops[0]).extent, 1) and _divides_rows(sch, target, loops[1:3])
    if chosen:
        work = COST_OF_LOOP * work_of(target, sch.get(chosen[0]))
        parallel_nest(sch, target, loops[:3] if rows else chosen, work, rows)


def nests_to_share(func, target):
    """The work of each of a function's loop nests that writes several elements: what parallel_outer finds in it."""
    return [COST_OF_LOOP * work_of(target, loop) for loop in _child_loops(func.body)
            if any(iv.iter_type == "spatial" and not is_const_int(iv.dom.extent, 1)
                   for block in collect(loop, Block) for iv in block.iter_vars)]


def work_of(target, loop):
    """About how many innermost iterations a loop runs; symbolic extents count as many."""
    own = loop.extent.value if isinstance(loop.extent, IntImm) else target.cost("threads.least_work")
    return own * (sum(work_of(target, inner) for inner in _child_loops(loop.body)) or 1)


def _child_loops(stmt):
    """The outermost loops inside a statement."""
    if isinstance(stmt, For):
        return [stmt]
    return [] if isinstance(stmt, BufferStore) else [f for c in children(stmt) for f in _child_loops(c)]
