"""MergeSharedMemoryAllocations as scripts know it: one allocation of bytes in each kernel, and indices that count from
its beginning. The form that builds use is gpu/shared_plan.py."""
from __future__ import annotations

from dataclasses import dataclass, field

from ...expr import Call, Var, const
from ...node import Mutator, collect, structural_equal
from ...tir.buffer import decl_buffer
from ...tir.stmt import AssertStmt, BufferLoad, BufferStore, DeclBuffer, For, IfThenElse, While, statements
from ..gpu.shared_plan import Lives, after_barriers, constant_sizes, overlap, size_of
from ..gpu.threads import Kernels, Threads, is_bound

SMALL = 4   # bytes: buffers of no more share their memory with none
REACH = 16  # how many times as large the memory may be that a buffer takes over
CP_ASYNC = "tir.ptx_cp_async"
NAMES = {"shared.dyn": "buf_dyn_shmem", "shared": "buf_shmem"}


def merge_shared_memory_allocations(func, merge_static_smem=False):
    """Requires flat buffers. Ensures that a function that allocates several buffers of scope "shared.dyn" allocates one
    of bytes in their place, at the beginning of each kernel, with indices that count from its beginning. Buffers of
    which one is done with before another is used may have one place; a barrier is put between them where none is and
    threads use other elements than their own. merge_static_smem: those of scope "shared" likewise.

    Raises ValueError for a buffer without a constant size, and where a call takes a pointer to one that it says nothing
    of the place in.
    """
    for scope in NAMES if merge_static_smem else ("shared.dyn",):
        found = [d.buffer for d in collect(func.body, DeclBuffer) if d.buffer.scope == scope]
        if len(found) > 1:
            constant_sizes(func, found)
            body = Kernels(lambda kernel, own=found: _of_kernel(kernel, own, func)).visit(func.body)
            func = func.replace(body=_Without(found).visit(body))
    return func


def _of_kernel(kernel, found, func):
    uses = _Uses(kernel, found)
    if not uses.lives:
        return kernel
    places, size = _Plan(uses).places()
    waits = [w for n, a in enumerate(places) for b in list(places)[n + 1:]
             if overlap(places, a, b) and not uses.in_threads(a, b) for w in uses.apart.missing(a, b)]
    scope = found[0].scope
    pool = decl_buffer((const(size),), "uint8", NAMES[scope], scope)
    kernel = _Placed(places, pool, set(map(id, waits)), func).visit(kernel)
    return kernel.replace(body=DeclBuffer(pool, kernel.body))


# ---------------------------------------------------------------- when buffers are alive

class _Uses:
    """lives: {buffer: (number of the first statement that uses it, number of the last, whether it is one)}, where a
    use in loops counts as one of the outermost statement that the allocation is around."""

    def __init__(self, kernel, buffers):
        self.kernel, self.pointers = kernel, {b.data: b for b in buffers}
        self.lives, self.apart = {}, Lives(kernel, buffers)
        self._depths = dict.fromkeys(buffers, 0)
        self._count = 0
        self._walk(kernel, ())

    def _walk(self, stmt, around):
        number = self._count
        self._count += 1
        opens = stmt is self.kernel or isinstance(stmt, (While, IfThenElse, AssertStmt)) or isinstance(
            stmt, For) and not is_bound(stmt, "threadIdx") and not is_bound(stmt, "blockIdx")
        touched = {}  # a scope that is around: the buffers that are used in it, and allocated outside of it
        inside = (*around, touched) if opens else around
        if isinstance(stmt, DeclBuffer) and stmt.buffer in self._depths:
            self._depths[stmt.buffer] = len(around)
        for child in statements(stmt):
            self._walk(child, inside)
        for b in self._own(stmt):
            depth = self._depths[b]
            if depth < len(inside):
                inside[depth][b] = True
            else:
                self._live(b, number, number)
        end = self._count
        self._count += 1
        for b in touched:
            self._live(b, number, end)

    def _own(self, stmt):
        """The buffers that a statement uses outside of the statements in it."""
        parts = [getattr(stmt, name, ()) for name in ("indices", "value", "condition", "min", "extent")]
        found = [*collect(parts, Var), *(n.buffer.data for n in collect(parts, BufferLoad))]
        if isinstance(stmt, BufferStore):
            found.append(stmt.buffer.data)
        return dict.fromkeys(self.pointers[v] for v in found if v in self.pointers)

    def _live(self, b, first, last):
        begin, end = self.lives.get(b, (first, last))
        self.lives[b] = min(begin, first), max(end, last)

    def in_threads(self, a, b):
        """Whether each thread uses elements of two buffers that lie where no other thread does."""
        axes = Threads.of(self.kernel).variables
        loops = {loop.loop_var for loop in collect(self.kernel, For) if is_bound(loop, "threadIdx")}
        accesses = collect(self.kernel, (BufferLoad, BufferStore))
        places = [n.indices for n in accesses if n.buffer.data in (a.data, b.data)]
        bare = {v for call in collect(self.kernel, Call) for v in call.args if isinstance(v, Var)}
        return (len(axes) == 1 and a.dtype == b.dtype and bare.isdisjoint((a.data, b.data))
                and all(len(p) == 1 and p[0] in loops and structural_equal(p, places[0]) for p in places))


# ---------------------------------------------------------------- places

@dataclass(eq=False)
class _Slot:
    """Memory of several buffers. layers: lists of buffers next to each other, one list over another."""

    size: int
    layers: list = field(default_factory=list)


class _Plan:
    """A slot for each buffer: in the order of their first uses, one that is free, which is the smallest that holds it,
    else the smaller ones that together do."""

    def __init__(self, uses):
        self.uses, self.free, self.slots, self.of = uses, [], [], {}
        lives, order = uses.lives, list(uses.lives)
        events = sorted([(lives[b][0], 0, n) for n, b in enumerate(order)] + [
            (lives[b][1], 1, n) for n, b in enumerate(order)])
        for _, ends, n in events:
            self._end(order[n]) if ends else self._begin(order[n])

    def _end(self, b):
        if size_of(b) > SMALL:
            slot = self.of[b]
            after = next((n for n, s in enumerate(self.free) if s.size > slot.size), len(self.free))
            self.free.insert(after, slot)

    def _begin(self, b):
        size = size_of(b)
        slot = _Slot(size, [[b]])
        larger = next((s for s in self.free if size <= s.size <= size * REACH and self._may(s, b)), None)
        if size > SMALL and larger is not None:
            self.free.remove(larger)
            larger.layers.append([b])
            slot = larger
        elif size > SMALL:
            slot = self._of_smaller(b, slot)
        if slot not in self.slots:
            self.slots.append(slot)
        self.of[b] = slot

    def _of_smaller(self, b, slot):
        taken, total = [], 0
        for s in reversed([s for s in self.free if s.size < size_of(b) and self._may(s, b)]):
            taken.append(s)
            total += s.size
            if total >= size_of(b):
                break
        if not taken:
            return slot
        for s in taken:
            self.free.remove(s)
            self.slots.remove(s)
        count = max(len(s.layers) for s in taken)
        layers = [[x for s in taken if n < len(s.layers) for x in s.layers[n]] for n in range(count)]
        return _Slot(max(total, size_of(b)), [*layers, [b]])

    def _may(self, slot, b):
        """Whether a barrier can keep a buffer and those of a slot apart."""
        return all(self.uses.apart.apart(a, b) is not None for layer in slot.layers for a in layer)

    def places(self):
        """({buffer: its first byte}, how many bytes all take)."""
        places, total = {}, 0
        order = [s for s in self.free if s in self.slots]
        for slot in [*order, *(s for s in self.slots if s not in order)]:
            total = _round(total, max(_align(b) for layer in slot.layers for b in layer))
            highest = 0
            for layer in slot.layers:
                at = 0
                for b in layer:
                    at = _round(at, _align(b))
                    places[b] = total + at
                    at += size_of(b)
                highest = max(highest, at)
            total += highest
        return places, total


def _round(value, unit):
    return -(-value // unit) * unit


def _align(b):
    """That of the widest vectors that may lie in a buffer."""
    fitting = next((n for n in (16, 8, 4, 2) if size_of(b) % n == 0), 1)
    return max(b.dtype.bytes, fitting)


# ---------------------------------------------------------------- the program

class _Without(Mutator):
    """Leaves allocations of some buffers out."""

    def __init__(self, buffers):
        self.buffers = set(buffers)

    def visit_DeclBuffer(self, decl):
        body = self.visit(decl.body)
        return body if decl.buffer in self.buffers else decl.replace(body=body)


class _Placed(Mutator):
    def __init__(self, places, pool, waits, func):
        self.places = {b.data: (b, place) for b, place in places.items()}
        self.pool, self.waits, self.func = pool, waits, func
        self.views = {}

    def visit_SeqStmt(self, s):
        return after_barriers(s, self.waits, self.visit)

    def visit_DeclBuffer(self, decl):
        body = self.visit(decl.body)
        return body if decl.buffer.data in self.places else decl.replace(body=body)

    def visit_Buffer(self, b):
        if b.data not in self.places:
            return b
        return self.views.setdefault(b, b.replace(data=self.pool.data))

    def _access(self, n):
        if n.buffer.data not in self.places:
            return self.generic_visit(n)
        if len(n.indices) != 1:
            raise ValueError(f"{self.func.title}: {n.buffer.name} is accessed by {len(n.indices)} indices: run "
                             "FlattenBuffer first")
        offset = self._offset(n.buffer.data, n.buffer.dtype)
        n = self.generic_visit(n)
        return n if offset is None else n.replace(indices=(n.indices[0] + offset,))

    visit_BufferLoad = visit_BufferStore = _access

    def _offset(self, data, dtype):
        """The place of a buffer in elements; None where that is the first."""
        b, place = self.places[data]
        if place % dtype.bytes:
            raise ValueError(f"{self.func.title}: {b.name} is accessed as {dtype}, of which its place, byte {place}, is no "
                             "multiple: declare its memory with that dtype")
        return const(place // dtype.bytes) if place else None

    def visit_Call(self, call):
        if call.op == CP_ASYNC and isinstance(call.args[0], Var) and call.args[0] in self.places:
            to, start, *rest = call.args
            offset = self._offset(to, call.dtype)
            start = self.visit(start) if offset is None else offset + self.visit(start)
            return call.replace(args=(self.pool.data, start * call.dtype.bytes, *map(self.visit, rest)))
        for v in call.args:
            if isinstance(v, Var) and v in self.places:
                raise ValueError(f"{self.func.title}: {call.op} takes the pointer {v.name}, which moves: use "
                                 f"T.address_of({self.places[v][0].name}[...])")
        return self.generic_visit(call)


__all__ = ["merge_shared_memory_allocations"]
