"""PlanAndUpdateBufferAllocationLocation: each temporary is allocated in the innermost loop that holds all its uses."""
from __future__ import annotations

from itertools import takewhile

from ..expr import Var, const, free_vars
from ..names import unique_name
from ..node import Visitor
from ..tir.device_ops import ALLREDUCE, allreduce_parts
from ..tir.region import access_regions, full_region
from ..tir.hints import DIM_ALIGN
from ..tir.stmt import Block, BlockRealize, ForKind
from .walk import StmtMutator, blocks

THREAD_BINDING = ForKind.THREAD_BINDING


def place_buffers(func, precise=False):
    """Requires blocks, no inits and no views. Ensures each buffer of alloc_buffers is allocated in the innermost loop
    that holds all its uses, by a block of its own there, or where it was.

    A buffer stays outside loops whose iterations hand its contents on (those bound to a non-spatial iterator of a block
    that writes it or stands around such a block, or to an opaque one of a block that reads it), outside loops whose
    iteration reads it first, and outside vectorized loops, whose lanes would share it. What lies in no memory of a
    kernel stays outside all bound loops, unless each thread uses it for itself. Shared memory is one for all threads of
    a block wherever it is allocated.

    precise: signatures of the blocks that allocate say which regions are accessed, not all of each buffer; and a block
    that is all that its loop has allocates what belongs there.
    """
    scan = _Scan()
    scan.visit(func.body)
    homes = {}  # id of a loop variable -> buffers that belong in this loop
    for key, buffer in scan.buffers.items():
        home = scan.home(key)
        if home is not None:
            homes.setdefault(id(home.loop_var), []).append(buffer)
    return func.replace(body=_Move(homes, func.body, precise).visit(func.body)) if homes else func


class Aliases:
    """Which buffer's memory a buffer is: matched buffers stand for the one that they are matched to, views for the one
    that allocates their data."""

    def __init__(self):
        self.of = {}
        self.pointers = {}  # data pointer -> the buffer's id

    def add(self, block):
        """Enter what a block allocates and matches."""
        for b in block.alloc_buffers:
            self.pointers[b.data] = id(b)
        for match in block.match_buffers:
            self.of[id(match.buffer)] = self.pointers[match.buffer.data] = self[match.source.buffer]

    def __getitem__(self, buffer):
        return self.of.get(id(buffer), self.pointers.get(buffer.data, id(buffer)))


class _Scan(Visitor):
    """buffers: {id: allocated buffer}; in which loops each is used, which of them read it before they write it."""

    def __init__(self):
        self.buffers = {}
        self.outside = {}        # id(buffer) -> how many loops are around its allocation
        self.shared = {}         # id(buffer) -> the loops around all its uses so far
        self.written_first = {}  # (id(buffer), id(loop variable)) -> whether the loop's first access is a store
        self.carried = {}        # id(buffer) -> ids of the loop variables whose iterations hand it on
        self.loops, self.carrying, self.opaque = (), frozenset(), frozenset()
        self.drivers = {}        # id(block iterator) -> ids of the loop variables that it depends on
        self.alias = Aliases()
        self.filled = set()      # ids of the buffers that the innermost block writes and does not read
        self.bound = {}          # id(buffer) -> ids of the variables of bound loops around its uses
        self.pinned = set()      # ids of buffers whose alignment a block around others asks for, by its signature

    def visit_For(self, loop):
        self.visit((loop.min, loop.extent))
        self.loops += (loop,)
        self.visit(loop.body)
        self.loops = self.loops[:-1]

    def visit_BlockRealize(self, realize):
        block, outside = realize.block, (self.carrying, self.opaque)
        self.visit((realize.iter_values, realize.predicate))
        for iv, value in zip(block.iter_vars, realize.iter_values):
            found = frozenset().union(*(self.drivers.get(id(v), {id(v)}) for v in free_vars(value)))
            self.drivers[id(iv.var)] = found
            if iv.iter_type != "spatial":
                self.carrying |= found
            if iv.iter_type == "opaque":
                self.opaque |= found
        for b in block.alloc_buffers:
            self.buffers[id(b)], self.outside[id(b)] = b, len(self.loops)
        if DIM_ALIGN in block.annotations and any(blocks(block.body)):
            self.pinned.update(id(r.buffer) for r in block.writes)
        self.alias.add(block)
        for match in block.match_buffers:  # stands where its source is allocated already
            key = self.alias[match.source.buffer]
            self.shared[key] = _common(self.shared.get(key, self.loops), self.loops)
        around, self.filled = self.filled, {self.alias[r.buffer] for r in block.writes} - {
            self.alias[r.buffer] for r in block.reads}
        self.visit(block.body)
        (self.carrying, self.opaque), self.filled = outside, around

    def visit_Call(self, call):
        if call.op == ALLREDUCE:
            values, elements = allreduce_parts(call)
            self.visit((values, [e.indices for e in elements]))
            for e in elements:
                self._record(e.buffer, True)
            return
        if call.op == "tir.address_of":  # what C does there, only the block around says
            load = call.args[0]
            self.visit(load.indices)
            self._record(load.buffer, self.alias[load.buffer] in self.filled)
            return
        for v in call.args:
            if isinstance(v, Var) and v in self.alias.pointers:
                self._note(self.alias.pointers[v], self.alias.pointers[v] in self.filled)
        self.generic_visit(call)

    def visit_BufferStore(self, store):
        self.visit((store.value, store.indices))
        key = self._record(store.buffer, True)
        self.carried.setdefault(key, set()).update(self.carrying)

    def visit_BufferLoad(self, load):
        self.visit(load.indices)
        key = self._record(load.buffer, False)
        if self.opaque:
            self.carried.setdefault(key, set()).update(self.opaque)

    def _record(self, buffer, writes):
        key = self.alias[buffer]
        self._note(key, writes)
        return key

    def _note(self, key, writes):
        if key in self.buffers:
            self.shared[key] = _common(self.shared.get(key, self.loops), self.loops)
            self.bound.setdefault(key, set()).update(id(x.loop_var) for x in self.loops if x.kind == THREAD_BINDING)
            for loop in self.loops:
                self.written_first.setdefault((key, id(loop.loop_var)), writes)

    def home(self, key):
        """The loop inside which a buffer is to be allocated; None: where it is."""
        outside, carried, scope = self.outside[key], self.carried.get(key, ()), self.buffers[key].scope
        found = []
        for loop in () if key in self.pinned else self.shared.get(key, ())[outside:]:
            var = id(loop.loop_var)
            if var in carried or loop.kind == "vectorized" or not self.written_first[key, var]:
                break
            found.append(loop)
        inside = {id(x.loop_var) for x in (*self.shared.get(key, ())[:outside], *found)}
        if scope == "global" and not self.bound.get(key, inside) <= inside:
            found = list(takewhile(lambda x: x.kind != THREAD_BINDING, found))
        return found[-1] if found else None


def _common(a, b):
    """The longest common start of two tuples of loops."""
    count = 0
    while count < min(len(a), len(b)) and a[count] is b[count]:
        count += 1
    return a[:count]


class _Move(StmtMutator):
    """Takes allocations from where they are to blocks of their own in the loops of `homes`."""

    def __init__(self, homes, body, precise):
        self.homes, self.precise = homes, precise
        self.moved = {id(b) for buffers in homes.values() for b in buffers}
        self.names = {b.name_hint for b in blocks(body)}

    def visit_For(self, loop):
        body = self.visit(loop.body)
        buffers = self.homes.get(id(loop.loop_var))
        return loop.replace(body=self._allocating(buffers, body) if buffers else body)

    def _allocating(self, buffers, body):
        """`body` in an opaque block that allocates `buffers`, or the one that it is."""
        own = set(map(id, buffers))
        if self.precise and isinstance(body, BlockRealize) and body.block.init is None:
            reads, writes = (tuple(r for r in regions if id(r.buffer) not in own)
                             for regions in (body.block.reads, body.block.writes))
            return body.replace(block=body.block.replace(
                reads=reads, writes=writes, alloc_buffers=(*body.block.alloc_buffers, *buffers)))
        name = unique_name(f"alloc_{buffers[0].name}", self.names)
        signature = access_regions(body) if self.precise else _signature(body)
        reads, writes = (tuple(r for r in regions if id(r.buffer) not in own) for regions in signature)
        return BlockRealize((), const(True), Block((), reads, writes, name, tuple(buffers), (), {}, None, body))

    def visit_Block(self, block):
        """Signatures do not mention what is allocated inside."""
        body = self.visit(block.body)
        if body is block.body and not block.alloc_buffers:
            return block
        inside = {id(b) for x in blocks(body) for b in x.alloc_buffers} & self.moved
        return block.replace(
            body=body, alloc_buffers=tuple(b for b in block.alloc_buffers if id(b) not in self.moved),
            reads=tuple(r for r in block.reads if id(r.buffer) not in inside),
            writes=tuple(r for r in block.writes if id(r.buffer) not in inside))


def _signature(body):
    """(reads, writes) of an opaque block: all of every buffer that the blocks in it, or statements outside of these, read
    or write."""
    found, own = ({}, {}), set()
    for block in blocks(body):
        for regions, known in zip((block.reads, block.writes), found):
            known.update((id(r.buffer), r.buffer) for r in regions)
        own.update(id(b) for b in (*block.alloc_buffers, *(m.buffer for m in block.match_buffers)))
    for regions, known in zip(access_regions(body), found):
        for region in regions:
            known.setdefault(id(region.buffer), region.buffer)
    return tuple(tuple(full_region(b) for key, b in known.items() if key not in own) for known in found)
