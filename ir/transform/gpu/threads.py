"""Kernels of a PrimFunc: the nests whose loops are bound to threads, and what all threads of a block agree on."""
from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ...arith import Analyzer
from ...expr import IntImm, Var, free_vars, is_const_int
from ...node import collect, structural_equal
from ...tir.stmt import BufferLoad, BufferStore, DeclBuffer, For
from ..walk import StmtMutator

AXES = ("threadIdx.x", "threadIdx.y", "threadIdx.z")  # the fastest first: a warp is 32 neighbours in this order
WARP = 32


def lane_axes(extents):
    """The thread axes along which threads are of one warp, the fastest ones. extents: {axis: its extent}."""
    found, count = [], 1
    for axis in AXES:
        if count >= WARP:
            break
        found.append(axis)
        count *= extents.get(axis, 1)
    return found


def is_bound(stmt, to=""):
    """Whether a statement is a loop bound to a thread axis that starts with `to`."""
    return isinstance(stmt, For) and stmt.kind == "thread_binding" and (stmt.thread_binding or "").startswith(to)


def bound_loops(stmt, to="threadIdx"):
    """The loops under a statement that are bound to axes that start with `to`."""
    return [loop for loop in collect(stmt, For) if is_bound(loop, to)]


def buffers_of(kernel, func):
    """(the buffers that a kernel declares, those of an inner memory that are declared around it and that it alone uses):
    what each thread has for itself, unless it is shared."""
    here, all_ = (Counter(x.buffer for x in collect(s, (BufferLoad, BufferStore))) for s in (kernel, func.body))
    declared = {d.buffer for d in collect(kernel, DeclBuffer)}
    return declared, {b for b in here if b.scope != "global" and here[b] == all_[b]} - declared


@dataclass(frozen=True)
class Threads:
    """The threads of a block: one variable for each axis that loops are bound to, and the axis's extent, the greatest
    of these loops; None where it is no constant."""

    variables: dict
    extents: dict
    symbolic: dict = field(default_factory=dict)  # axis -> the extent of all of its loops, where that is no constant
    told_apart: dict = field(default_factory=dict, repr=False)  # what touched.py found out about indices

    @staticmethod
    def of(kernel):
        """The threads of a nest."""
        loops, an = bound_loops(kernel), Analyzer()
        axes = [a for a in AXES if any(loop.thread_binding == a for loop in loops)]
        dtype = {a: next(loop.loop_var.dtype for loop in loops if loop.thread_binding == a) for a in axes}
        most = {a: [an.simplify(loop.min + loop.extent) for loop in loops if loop.thread_binding == a] for a in axes}
        extents = {a: max(e.value for e in most[a]) if all(isinstance(e, IntImm) for e in most[a]) else None
                   for a in axes}
        alike = {a: most[a][0] for a in axes if extents[a] is None and all(structural_equal(e, most[a][0])
                                                                           for e in most[a])}
        return Threads({a: Var(a.replace("Idx.", "_"), dtype[a]) for a in axes}, extents, alike)

    @property
    def count(self):
        """How many threads a block has; None where that is no constant."""
        total = 1
        for extent in self.extents.values():
            total = None if total is None or extent is None else total * extent
        return total

    def holds_back(self, loop):
        """Whether some threads of the block do not run a bound loop."""
        extent = self.extents[loop.thread_binding]
        whole = isinstance(loop.extent, IntImm) and is_const_int(loop.min, 0) and loop.extent.value == extent
        return loop.thread_binding not in self.symbolic and not whole


class Kernels(StmtMutator):
    """Rewrites each kernel of a function: an outermost loop that is bound to a block or a thread, or that has such
    loops inside. One launch runs all of it."""

    def __init__(self, rewrite):
        self.rewrite = rewrite

    def visit_For(self, loop):
        return self.rewrite(loop) if bound_loops(loop, "") else loop


class Agreed:
    """Which expressions have one value in all threads of a block.

    varying: variables that differ between threads. `private` buffers are each thread's own.
    """

    def __init__(self, private):
        self.varying, self.private = set(), private

    def bind(self, var, value):
        """State that a variable has a value, an expression."""
        if self.differs(value):
            self.varying.add(var)

    def differs(self, *values):
        """Whether one of some expressions may have other values in other threads."""
        return any(v in self.varying for v in free_vars(values)) or any(
            load.buffer in self.private for load in collect(values, BufferLoad))
