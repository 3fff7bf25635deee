"""Reductions whose results lie side by side where their terms do not: windows, means over the first axes, products of a
vector with a matrix. Each thread makes results of its own, one or a few neighbours, or some threads the parts of
one."""
from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod

from ....expr import IntImm
from ...errors import ScheduleError
from ...plan import Kernel, Match, Plan
from ..blocks import SYMBOLIC, blocks, iter_vars, static
from .nests import THREADS, bind_flat, keep_own, reduction_loops, serial_reductions, share_loops
from .stages import gathered, move_stages, reduces, shared_iterators

SIZE = 4  # bytes of a term
NEIGHBOURS = (8, 4, 2)  # results of a thread
MOST_COPIES = 72        # of what is done with a term, in a loop over windows that is written out
NEIGHBOUR = 0.4         # of the time of a term that each further neighbour takes: indices and weights are shared
COLUMNS = (32, 16, 8)  # results of a block of threads that make parts of each: sectors of memory, or several


@dataclass(frozen=True)
class Points(Kernel):
    """So many results, each a reduction of `terms`; SYMBOLIC stands for what is not known. row: results that follow one
    another, of which a thread may make several; 1 where it may not."""

    results: int
    terms: int
    row: int = 1

    rule = "points"

    def candidates(self, target):
        yield Plan(self.rule, "whole")
        for lanes in NEIGHBOURS:
            if self.row % lanes == 0 and self.terms * lanes <= MOST_COPIES:
                yield Plan(self.rule, "neighbours", turn=lanes)
        for columns in COLUMNS:
            for parts in (4, 8, 16, 32, 64):
                if self.terms >= 4 * parts and columns * parts <= target.launch.max_threads:
                    yield Plan(self.rule, "parts", parts=parts, block=columns)

    def cost(self, plan, target):
        if plan.algorithm == "neighbours":
            return self._of_neighbours(plan.turn, target)
        parts, columns = plan.parts or 1, plan.block or THREADS
        joined = (parts > 1) * (parts * target.cost("gpu.shuffle") + 2 * target.cost("gpu.barrier"))
        steps = -(-self.terms // parts) * target.cost("gpu.load") + joined
        on_each = max(self.results / columns / target.cost("gpu.processors"), 1)  # blocks of a multiprocessor
        at_once = target.cost("gpu.threads") / (columns * parts)
        read = on_each * columns * self.terms * SIZE / target.cost("gpu.bytes")
        return steps * max(on_each / at_once, 1) + read

    def _of_neighbours(self, lanes, target):
        work = 1 + NEIGHBOUR * (lanes - 1)  # of a thread, in terms of one result
        on_each = max(self.results / lanes / THREADS / target.cost("gpu.processors"), 1)
        at_once = target.cost("gpu.threads") / THREADS
        read = on_each * THREADS * work * self.terms * SIZE / target.cost("gpu.bytes")
        return self.terms * work * target.cost("gpu.load") * max(on_each / at_once, 1) + read


def points(sch, target):
    """Every stage is computed where its result is needed, by the thread that needs it, in registers."""
    output = gathered(sch)
    if output is None:
        return None
    terms = [prod(static(iv.dom.extent) for iv in iter_vars(b, "reduce")) for b in blocks(sch) if reduces(b)]
    results = [iv.dom.extent for iv in iter_vars(sch.get(output), "spatial")]
    count = prod(e.value for e in results) if all(isinstance(e, IntImm) for e in results) else SYMBOLIC
    return Match(Points(count, min(max(terms), SYMBOLIC), _row(sch, output, results)), partial(_apply, sch, output))


def _row(sch, output, extents):
    """How many results follow one another that a thread may make several of; 1 where none may."""
    own = reduces(sch.get(output))
    once = sum(map(reduces, blocks(sch))) == 1 and len(blocks(sch)) == (1 if own else 2)
    whole = own or len(shared_iterators(sch, output)) == len(extents)
    return extents[-1].value if extents and once and whole and isinstance(extents[-1], IntImm) else 1


def _apply(sch, output, plan, target):
    output = result_of(sch, output)
    shared, loops = shared_iterators(sch, output), loops_of(sch, output)
    if not inline_rest(sch, output, len(sch.get(output).iter_vars)):
        return False
    if len(loops) != len(sch.get(output).iter_vars):
        shared = [0]  # the unit loop around a tensor of rank 0
    if not shared:
        return False
    order = [loops[k] for k in shared] + [loop for k, loop in enumerate(loops) if k not in shared]
    if [sch.get(loop) for loop in order] != [sch.get(loop) for loop in loops]:
        sch.reorder(*order)
    own = None
    if plan.algorithm == "neighbours":
        order[-1], own = sch.split(order[-1], [None, plan.turn])
    stages = move_stages(sch, output, order[len(shared) - 1])
    if own is not None:
        bind_flat(sch, order, THREADS)
        _make_neighbours(sch, stages[0], own)
        return True
    if not all(_is_one_value(sch, block, len(shared)) for block in stages):
        return False
    parts = plan.parts or 1
    bind_flat(sch, order[:len(shared)], (plan.block or COLUMNS[0]) if parts > 1 else THREADS)
    if parts > 1:
        for block in stages:
            share_loops(sch, reduction_loops(sch, block), parts, "threadIdx.y")
        rest = order[len(shared):] or [sch.add_unit_loop(output)]
        share_loops(sch, rest, parts, "threadIdx.y")
    keep_own(sch)
    serial_reductions(sch)
    return True


def _make_neighbours(sch, block, own):
    """Make the results of a thread term by term, all of them of each. own: the loop that stores them."""
    terms = reduction_loops(sch, block)
    lane = sch.get_loops(block)[-len(terms) - 1]
    sch.reorder(*terms, lane)
    first = sch.decompose_reduction(block, terms[0])
    for loop in (lane, own, sch.get_loops(first)[-1]):
        sch.vectorize(loop)
    for loop in terms:
        sch.unroll(loop)


def _is_one_value(sch, block, depth):
    """Whether a stage makes one value for each iteration of the first loops: an array of them is better shared."""
    reducing = {sch.get(loop).loop_var for loop in reduction_loops(sch, block)}
    return all(sch.get(loop).loop_var in reducing or static(sch.get(loop).extent) == 1
               for loop in sch.get_loops(block)[depth:])


def result_of(sch, output):
    """The block of the result; where this is a reduction, of a copy of what that makes in registers."""
    return sch.cache_write(output, 0, "local") if reduces(sch.get(output)) else output


def loops_of(sch, output):
    """The loops of the result; one around it, if it has none."""
    return sch.get_loops(output) or [sch.add_unit_loop(output)]


def inline_rest(sch, output, rank):
    """Inline what would be a row of values; whether all of it is."""
    name = sch.get(output).name_hint
    for block in blocks(sch):
        if block.name_hint != name and not reduces(block) and len(block.iter_vars) >= rank > 0:
            try:
                sch.compute_inline(sch.get_block(block.name_hint))
            except ScheduleError:
                return False
    return True
