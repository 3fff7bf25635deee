"""MergeSharedMemoryAllocations: the shared memory of each kernel, planned.

Buffers whose lives do not overlap share space. Threads that still read the one may not meet threads that already write
the other, so a barrier stands between the two lives, and between iterations of a loop around both: one that is there
already, or, where memory is short, a new one.
"""
from __future__ import annotations

from dataclasses import dataclass

from ...expr import Call, IntImm, const
from ...node import Mutator, collect
from ...tir.buffer import decl_buffer
from ...tir.stmt import (
    AttrStmt, BufferLoad, BufferStore, DeclBuffer, Evaluate, For, LetStmt, SeqStmt)
from ..walk import StmtMutator
from .barriers import SYNC, TENSOR_MAP, barrier, is_beside, is_of_ring
from .threads import Kernels, Threads, is_bound

STATIC_BYTES = 48 << 10  # that a kernel may declare
WORTH_BYTES = 16 << 10   # below this, memory does not decide how many blocks run at once
ALIGN = 16               # of vector loads and asynchronous copies


def merge_shared_memory_allocations(func, static=STATIC_BYTES):
    """Requires flat buffers, and barriers. Ensures that a kernel with more than `static` bytes of shared memory, or one
    that needs much less when buffers share space, declares one buffer of scope "shared.dyn", of as many bytes as it
    needs, and that its shared buffers are views of that, each with its place as elem_offset: aligned to 16 bytes, or
    to more where the buffer asks for more than 64.

    Raises ValueError for a shared buffer without a constant size.
    """
    return func.replace(body=Kernels(lambda kernel: _planned(kernel, func, static)).visit(func.body))


def _planned(kernel, func, static):
    buffers = [d.buffer for d in collect(kernel, DeclBuffer) if d.buffer.scope.startswith("shared")]
    constant_sizes(func, buffers)
    if not buffers:
        return kernel
    lives = Lives(kernel, buffers)
    total = _bytes(_places(buffers, lambda a, b: True), buffers)
    kept = _mbarriers(kernel)

    def together(a, b):
        return a in kept or b in kept or not lives.apart(a, b)

    places = _places(buffers, lambda a, b: together(a, b) or lives.missing(a, b))
    if _bytes(places, buffers) > static:
        tight = _places(buffers, together)
        places = min(places, tight, key=lambda p: _bytes(p, buffers))
    size = _bytes(places, buffers)
    small = total <= static and (total <= WORTH_BYTES or 4 * size > 3 * total)
    if small and not any(b.scope == "shared.dyn" for b in buffers):
        return kernel
    waits = [w for n, a in enumerate(buffers) for b in buffers[n + 1:]
             if overlap(places, a, b) for w in lives.missing(a, b)]
    pool = decl_buffer((const(size),), "uint8", "shared_memory", "shared.dyn", data_alignment=max(map(_align, buffers)))
    views = {b: b.replace(scope="shared.dyn", data=pool.data, elem_offset=const(places[b] // b.dtype.bytes))
             for b in buffers}
    kernel = _Pooled(views, set(map(id, waits))).visit(kernel)
    return kernel.replace(body=DeclBuffer(pool, kernel.body))


def constant_sizes(func, buffers):
    """Raise ValueError for a buffer whose size is no constant."""
    for b in buffers:
        if not all(isinstance(s, IntImm) for s in b.shape):
            raise ValueError(f"{func.title}: the shared buffer {b.name} has the size {' * '.join(map(str, b.shape))}, "
                             "which is no constant; split the loops around it by constants")


def _mbarriers(kernel):
    """Buffers of mbarriers, whose places nothing else may have."""
    return {load.buffer for call in collect(kernel, Call) if is_of_ring(call) and call.op != TENSOR_MAP
            for load in collect(call.args, BufferLoad) if load.buffer.dtype == "uint64"}


def size_of(b):
    return b.shape[0].value * b.dtype.bytes


def _align(b):
    return max(ALIGN, b.dtype.bytes, b.data_alignment if b.data_alignment > 64 else 0)


def _places(buffers, together):
    """{buffer: its first byte}: the largest first, each as low as those allow that live together with it."""
    places = {}
    for b in sorted(buffers, key=size_of, reverse=True):
        taken = sorted((places[a], places[a] + size_of(a)) for a in places if together(a, b))
        at = 0
        for first, end in taken:
            if at + size_of(b) <= first:
                break
            at = max(at, -(-end // _align(b)) * _align(b))
        places[b] = at
    return places


def _bytes(places, buffers):
    return -(-max(places[b] + size_of(b) for b in buffers) // ALIGN) * ALIGN


def overlap(places, a, b):
    return places[a] < places[b] + size_of(b) and places[b] < places[a] + size_of(a)


@dataclass(frozen=True)
class _Apart:
    """Statements of a sequence that use a buffer, all before those that use another one.

    wait: the first statement of the other, before which a barrier is missing, or None; again: the first of all, before
    which one is missing when a loop comes back to it, or None.
    """

    wait: object = None
    again: object = None


class Lives:
    """Where buffers are used in a kernel. Warps beside the others are done when those are with what these fill."""

    def __init__(self, kernel, buffers):
        self.kernel, self.threads, self.wanted = kernel, Threads.of(kernel), set(buffers)
        self.found, self.used = {}, {}

    def apart(self, a, b):
        """_Apart of two buffers of which one is done with before the other is used; None of others."""
        key = frozenset((a, b))
        if key not in self.found:
            self.found[key] = self._apart(a, b)
        return self.found[key]

    def missing(self, a, b):
        """The statements that need a barrier before them so that two buffers may share space."""
        found = self.apart(a, b)
        return [s for s in (found.wait, found.again) if s is not None] if found else []

    def uses(self, stmt):
        """The buffers of interest that a statement uses."""
        if id(stmt) not in self.used:
            data = {b.data: b for b in self.wanted}
            found = {data.get(x.buffer.data) for x in collect(stmt, (BufferLoad, BufferStore))}
            found |= {data[v] for call in collect(stmt, Call) for v in call.args if getattr(v, "dtype", "") == "handle"
                      and v in data}
            self.used[id(stmt)] = stmt, found & self.wanted
        return self.used[id(stmt)][1]

    def _apart(self, a, b):
        stmt, again = self.kernel, False
        while True:
            if isinstance(stmt, SeqStmt):
                users = [[n for n, s in enumerate(stmt.seq) if x in self.uses(s) and not is_beside(s)] for x in (a, b)]
                if not all(users):
                    return _Apart()  # one is never used
                (first, last), (start, end) = sorted((min(u), max(u)) for u in users)
                if last < start:
                    earlier = a if a in self.uses(stmt.seq[last]) else b
                    return self._between(stmt.seq, first, last, start, end, again, earlier)
                if first != end:
                    return None
                stmt = stmt.seq[first]
            elif is_bound(stmt):
                if is_bound(stmt, "threadIdx") and self.threads.holds_back(stmt):
                    return None
                stmt = stmt.body
            elif isinstance(stmt, For):
                if not isinstance(stmt.extent, IntImm):
                    return None
                again, stmt = True, stmt.body
            elif isinstance(stmt, (DeclBuffer, AttrStmt, LetStmt)):
                stmt = stmt.body
            else:
                return None

    def _between(self, children, first, last, start, end, again, earlier):
        waits = [n for n, s in enumerate(children) if _is_barrier(s)]
        waited = any(last < n < start for n in waits) or self._waits_after(children[last], earlier)
        wait = None if waited else children[start]
        back = None if not again or any(n < first or n > end for n in waits) else children[first]
        return _Apart(wait, back)

    def _waits_after(self, stmt, buffer):
        """Whether a statement, a loop, ends with a barrier that no use of a buffer is after."""
        if not isinstance(stmt, For) or is_bound(stmt) or not isinstance(stmt.extent, IntImm) or stmt.extent.value < 1:
            return False
        for s in reversed(stmt.body.seq if isinstance(stmt.body, SeqStmt) else (stmt.body,)):
            if _is_barrier(s):
                return True
            if buffer in self.uses(s):
                return self._waits_after(s, buffer)
        return False


def _is_barrier(stmt):
    call = stmt.value if isinstance(stmt, Evaluate) else None
    return isinstance(call, Call) and call.op == SYNC and call.args[0].value != "warp"


class _Pooled(StmtMutator):
    """Puts views of the one buffer in place, and the barriers that are missing."""

    def __init__(self, views, waits):
        self.views, self.waits = views, waits

    def visit_SeqStmt(self, s):
        out = []
        for child in s.seq:
            out += [barrier()] * (id(child) in self.waits) + [self.visit(child)]
        return SeqStmt(tuple(x for c in out for x in (c.seq if isinstance(c, SeqStmt) else (c,))))

    def visit_DeclBuffer(self, decl):
        body = self.visit(decl.body)
        return body if decl.buffer in self.views else decl.replace(body=body)

    def _expressions(self, stmt):
        return _Renamed(self.views).visit(stmt)

    visit_BufferStore = visit_Evaluate = _expressions

    def _both(self, stmt):
        names = [n for n in ("min", "extent", "condition", "value") if hasattr(stmt, n)]
        renamed = {n: _Renamed(self.views).visit(getattr(stmt, n)) for n in names}
        return getattr(StmtMutator, f"visit_{type(stmt).__name__}")(self, stmt.replace(**renamed))

    visit_For = visit_LetStmt = visit_IfThenElse = visit_While = visit_AttrStmt = visit_AssertStmt = _both


class _Renamed(Mutator):
    def __init__(self, views):
        self.views = views

    def visit_Buffer(self, b):
        return self.views.get(b, b)
