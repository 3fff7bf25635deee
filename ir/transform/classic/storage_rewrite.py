"""StorageRewrite as scripts know it: allocations move out of loops, and temporaries that do not live at one time share
memory, under views of it."""
from __future__ import annotations

from dataclasses import dataclass, field

from ...arith import Analyzer
from ...arith.iter_map import is_affine_binding
from ...expr import Call, IntImm, Max, Range, Var, as_expr, const, free_vars
from ...node import Mutator, Visitor, collect, structural_equal
from ...tir.buffer import Buffer
from ...tir.stmt import (AssertStmt, AttrStmt, BufferLoad, BufferStore, DeclBuffer, Evaluate, For, IfThenElse, LetStmt,
                         While)
from .contexts import defined_in
from .vector_types import vectors_in_allocations

REACH = 16           # how many times as large, or as small, memory may be that a buffer takes over
SMALL_BITS = 32      # buffers of so few bits are registers
TAG_ALIGN = 32       # bits at which parts of the memory behind a tag begin
_SCOPES = (For, While, IfThenElse, AssertStmt, LetStmt)
_LEAVES = (BufferStore, Evaluate)
_LAUNCHES = ("thread_extent", "virtual_thread")
_KEPT_APART = ("extern_scope", "volatile_scope", *_LAUNCHES)  # attributes in which nothing is computed in place


def storage_rewrite(func):
    """Requires no blocks. Ensures that each buffer is allocated around the function's body, or within the innermost
    loop around its uses that is parallel or bound to threads, or the outermost launch of threads or virtual thread
    there; that nothing unused is; and that of the buffers of one scope
    - one whose last use is the statement in which another of its size begins, and which is read there only to compute
      what is stored at the same place, holds the other, too;
    - one takes the memory of another that is used no more, where both have one dimension and one dtype, and constant
      sizes that differ by no more than a factor of 16. Buffers of up to 32 bits and those of threads keep their own;
    - all of a scope with a tag, as "local.L0A", are parts of one, whatever their dtypes.
    Shared buffers keep their memory: that others read before a barrier is not known here.
    What is left holds vectors where all its accesses are vectors of one number of lanes."""
    uses = _Uses(func)
    plan = _Plan(uses)
    return vectors_in_allocations(func.replace(body=_Rewrite(plan).run(func.body)))


# ---------------------------------------------------------------- what is used where

@dataclass(eq=False)
class _Entry:
    """A statement that uses buffers, the begin of one with others in it (begin), or its end."""

    stmt: object
    begin: bool = True
    end: bool = True
    touched: dict = field(default_factory=dict)  # data pointers, in order


class _Uses(Visitor):
    """The uses of allocated buffers in a body, as a sequence of entries: a use inside of loops counts as one of the
    outermost statement within the allocation."""

    def __init__(self, func):
        self.entries, self.allocated, self.levels, self.open = [], {}, {}, []
        self.addressed = set()  # data pointers that stand in expressions by themselves
        self.threads = False    # within a launch
        self.fixed = defined_in(func.body)  # variables that have a value only within some statement
        self.visit(func.body)

    def visit(self, n):
        if isinstance(n, _LEAVES):
            self._entered(n, leaf=True)
        elif isinstance(n, _SCOPES) or isinstance(n, AttrStmt) and self._is_scope(n):
            self._entered(n, leaf=False)
        else:
            super().visit(n)

    def _is_scope(self, attr):
        return attr.attr_key == "virtual_thread" or attr.attr_key == "thread_extent" and not self.threads

    def _entered(self, n, leaf):
        outer = self.threads
        self.threads = outer or isinstance(n, AttrStmt) and n.attr_key == "thread_extent"
        entry = _Entry(n)
        if not leaf:
            begin = _Entry(n, end=False)
            self.entries.append(begin)
        self.open.append(entry)
        self.visit_fields(n)
        self.open.pop()
        self.threads = outer
        if not leaf:
            begin.touched, entry.begin = entry.touched, False
        if entry.touched or not leaf:
            self.entries.append(entry)

    def visit_fields(self, n):
        self.generic_visit(n)
        if isinstance(n, BufferStore):
            self._touch(n.buffer.data)

    def visit_DeclBuffer(self, decl):
        shape = decl.buffer.shape
        if not self.fixed.intersection(free_vars(shape)) and not collect(shape, BufferLoad):
            self.allocated[decl.buffer.data] = decl.buffer
            self.levels[decl.buffer.data] = len(self.open)
        self.visit((shape, decl.body))

    def visit_BufferLoad(self, load):
        self.visit(load.indices)
        self._touch(load.buffer.data)

    def visit_Buffer(self, buffer):
        pass

    def visit_Var(self, v):
        if v in self.allocated:
            self.addressed.add(v)
            self._touch(v)

    def _touch(self, data):
        if data in self.allocated and self.open:
            self.open[min(self.levels[data], len(self.open) - 1)].touched[data] = None


# ---------------------------------------------------------------- the plan

@dataclass(eq=False)
class _Storage:
    """Memory that buffers have one after the other."""

    attach: object  # the statement in which it is allocated; None: the function's body
    scope: str
    element: object
    bits: int       # 0: not constant
    buffers: list = field(default_factory=list)
    host: object = None  # the storage of which it is a part
    offset: int = 0      # in bits, there

    @property
    def data(self):
        return (self.host or self).buffers[0].data


class _Plan:
    def __init__(self, uses):
        self.uses, self.storages, self.of = uses, [], {}  # of: data pointer -> its _Storage
        self.free = []
        self._place(uses.entries)
        self._merge_tagged()

    def _place(self, entries):
        last, begun, replaced, around = {}, set(), set(), [None]
        for e in entries:
            if e.end:
                last.update((data, e) for data in e.touched)
        for e in entries:
            kills = [data for data in e.touched if last[data].stmt is e.stmt]
            if e.begin:
                gens = [data for data in e.touched if data not in begun]
                begun.update(gens)
                for data in gens:
                    self._begin(data, e.stmt, around[-1], kills if len(gens) <= 2 else (), replaced)
            if not e.begin and around[-1] is e.stmt:
                around.pop()
                self.free = [s for s in self.free if s.attach is not e.stmt]
            elif not e.end and (_runs_apart(e.stmt) or around[-1] is None and _launches(e.stmt)):
                around.append(e.stmt)
            if e.end:
                self.free += [self.of[data] for data in kills if data not in replaced and _is_shared(self.of[data])]

    def _begin(self, data, stmt, attach, kills, replaced):
        buffer = self.uses.allocated[data]
        storage = self._in_place(buffer, stmt, attach, kills, replaced) or self._freed(buffer, attach)
        if storage is None:
            storage = _Storage(attach, buffer.scope, buffer.dtype.with_lanes(1), _bits(buffer))
            self.storages.append(storage)
        storage.buffers.append(buffer)
        self.of[data] = storage

    def _in_place(self, buffer, stmt, attach, kills, replaced):
        for source in kills:
            storage = self.of.get(source)
            if storage is None or source in replaced or source is buffer.data or source in self.uses.addressed:
                continue
            old = self.uses.allocated[source]
            if (storage.scope, storage.attach, storage.element, storage.bits) == (
                    buffer.scope, attach, buffer.dtype.with_lanes(1), _bits(buffer)) and structural_equal(
                        (old.shape, old.strides), (buffer.shape, buffer.strides)) and _is_kept(buffer.scope) and _computes_in_place(
                            stmt, buffer.data, source):
                replaced.add(source)
                return storage
        return None

    def _freed(self, buffer, attach):
        """Memory that is free and fits: the least that is large enough, else the largest."""
        bits = _bits(buffer)
        if len(buffer.shape) != 1 or buffer.strides or not _is_kept(buffer.scope) or (
                not _tag(buffer.scope) and 0 < bits <= SMALL_BITS):
            return None
        fits = [s for s in self.free if (s.attach, s.scope) == (attach, buffer.scope)]
        same = [s for s in fits if s.element == buffer.dtype.with_lanes(1) and s.buffers[0].dtype == buffer.dtype]
        if bits == 0:
            found = [s for s in same if s.bits == 0 and structural_equal(s.buffers[0].shape, buffer.shape)]
        else:
            larger = [s for s in (fits if _tag(buffer.scope) else same) if bits <= s.bits <= bits * REACH]
            smaller = [s for s in same if bits // REACH <= s.bits < bits and s.bits]
            found = sorted(larger, key=lambda s: s.bits) or sorted(smaller, key=lambda s: -s.bits)
        if not found:
            return None
        self.free.remove(found[0])
        found[0].bits = max(found[0].bits, bits)
        return found[0]

    def _merge_tagged(self):
        """The storages of a scope with a tag become parts of the first of them."""
        hosts, ends = {}, {}
        for s in self.storages:
            if not _tag(s.scope) or not s.bits or any(
                    b.data in self.uses.addressed or len(b.shape) != 1 or b.strides for b in s.buffers):
                continue
            host = hosts.setdefault((s.attach, s.scope), s)
            if host is not s:
                s.host, s.offset = host, _up(ends[host], max(b.dtype.bits * b.dtype.lanes for b in s.buffers))
            ends[host] = _up(s.offset + s.bits, TAG_ALIGN)
        for host, end in ends.items():
            if any(s.host is host for s in self.storages):
                host.bits = end

    def allocation(self, storage):
        """The buffer that a storage is allocated as: the first one in it where all are alike."""
        first = storage.buffers[0]
        alone = not any(s.host is storage for s in self.storages)
        if alone and all(b.dtype == first.dtype and structural_equal(b.shape, first.shape) for b in storage.buffers):
            return first
        size = as_expr(first.shape[0])
        if storage.bits:
            each = first.dtype.bits * first.dtype.lanes
            size = const(-(-storage.bits // each), size.dtype)
        else:
            for b in storage.buffers[1:]:
                size = Max(size, b.shape[0])
        return first.replace(shape=(Analyzer().simplify(size),), strides=(), data_alignment=max(
            b.data_alignment for b in storage.buffers))


def _up(bits, unit):
    return -(-bits // unit) * unit


def _launches(stmt):
    return isinstance(stmt, AttrStmt) and stmt.attr_key in _LAUNCHES


def _runs_apart(stmt):
    """Whether the turns of a loop have memory of their own, wherever it stands."""
    return isinstance(stmt, For) and stmt.kind in ("parallel", "thread_binding")


def _tag(scope):
    """What follows a kind of memory, as L0A of "local.L0A"; "" of the scopes that have a meaning of their own."""
    kind, _, tag = scope.partition(".")
    return tag if kind in ("global", "local", "warp") and tag not in ("workspace", "vtcm") else ""


def _is_kept(scope):
    """Whether buffers of a scope may share memory at all."""
    return scope == "global" or bool(_tag(scope)) or scope.startswith("global.")


def _is_shared(storage):
    """Whether memory that is used no more may be another's."""
    return _is_kept(storage.scope) and not storage.buffers[0].strides and (
        bool(_tag(storage.scope)) or not 0 < storage.bits <= SMALL_BITS)


def _bits(buffer):
    """The size of a buffer; 0 where it is not constant."""
    bits = buffer.dtype.bits * buffer.dtype.lanes
    for extent in buffer.shape:
        bits *= extent.value if isinstance(extent, IntImm) else 0
    return bits


def _computes_in_place(stmt, target, source):
    """Whether a statement may store `target` in the memory of `source`: it stores each element once, where all that is
    read of `source` then is the same element, and reads nothing of `target`."""
    stores = [s for s in collect(stmt, BufferStore) if s.buffer.data is target]
    loads = [n for n in collect(stmt, BufferLoad) if n.buffer.data in (target, source)]
    if len(stores) != 1 or collect(stmt, While) or any(a.attr_key in _KEPT_APART for a in collect(stmt, AttrStmt)):
        return False
    store, = stores
    own = [n for n in collect(store.value, BufferLoad) if n.buffer.data is source]
    nested = [n for load in collect(store.value, (BufferLoad, Call)) for part in (
        load.indices if isinstance(load, BufferLoad) else load.args if load.op == "tir.address_of" else ())
        for n in collect(part, BufferLoad)]
    if len(own) != len(loads) or collect(store.indices, BufferLoad) or any(n.buffer.data is source for n in nested):
        return False
    if not all(structural_equal(_place(n), _place(store)) for n in own):
        return False
    if any(s.buffer.data is source for s in collect(stmt, BufferStore)):
        return False
    loops = {loop.loop_var: Range(loop.min, loop.extent) for loop in collect(stmt, For)
             if any(s is store for s in collect(loop.body, BufferStore))}
    if not (defined_in(stmt) - set(loops)).isdisjoint(free_vars(store.indices)):
        return False
    return not loops or is_affine_binding(store.indices, loops)


def _place(access):
    """Which elements of its memory an access is to, whatever the view."""
    b = access.buffer
    return access.indices, b.shape, b.strides, as_expr(b.elem_offset), const(0, b.dtype)


# ---------------------------------------------------------------- the program

class _Rewrite(Mutator):
    def __init__(self, plan):
        self.plan, self.buffers = plan, {}
        self.placed = {}  # statement -> the storages that are allocated in it
        for s in plan.storages:
            if s.host is None:
                self.placed.setdefault(s.attach, []).append(s)

    def run(self, body):
        return self._around(None, self.visit(body))

    def _around(self, stmt, body):
        for storage in reversed(self.placed.get(stmt, ())):
            body = DeclBuffer(self.plan.allocation(storage), body)
        return body

    def _launch(self, n):
        new = self.generic_visit(n)
        return new.replace(body=self._around(n, new.body))

    visit_For = visit_AttrStmt = _launch

    def visit_DeclBuffer(self, decl):
        if decl.buffer.data in self.plan.uses.allocated:
            return self.visit(decl.body)
        return self.generic_visit(decl)

    def visit_Var(self, v):
        storage = self.plan.of.get(v)
        return v if storage is None else storage.data

    def visit_Buffer(self, b):
        storage = self.plan.of.get(b.data)
        if storage is None:
            return b
        if id(b) not in self.buffers:
            new = b.replace(data=storage.data)
            if storage.offset:
                new = new.replace(elem_offset=as_expr(b.elem_offset) + storage.offset // (b.dtype.bits * b.dtype.lanes))
            self.buffers[id(b)] = new, b
        return self.buffers[id(b)][0]


__all__ = ["storage_rewrite"]
