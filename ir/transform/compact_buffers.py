"""CompactBufferAllocation: temporaries shrink to what is used of them where they are allocated."""
from __future__ import annotations

from dataclasses import dataclass

from ..arith import Analyzer
from ..arith.int_set import limits_of
from ..arith.linear import DoesNotFit, Linear, render, shifted
from ..arith.relax import relax
from ..expr import IntImm, IterVar, Not, Range, Var, as_expr, const, is_const_int, substitute
from ..node import Mutator, Visitor, collect, structural_equal
from ..tir.buffer import decl_buffer
from ..tir.stmt import BufferLoad, For, ForKind
from ..tir.storage_align import aligned_strides, alignments
from .gpu.threads import WARP, lane_axes
from .gpu.touched import extremes
from .simplify import THREAD_EXTENTS


def compact_buffers(func, is_strict=True, scripted=False):
    """Requires opaque blocks and no views. Ensures that each allocated buffer is no larger than the box that its uses
    touch while the loops inside its allocation run, with indices counted from the box's corner; one of one element has
    scope "local", unless threads share it. Rows are as far apart as storage_align asked for. Loops that are bound to
    threads of a block all run for shared memory, and stand still for that of a thread, scope "local": loops bound to
    one axis then are one.

    Buffers with strides, whose address is taken, or that data-dependent indices reach keep their size; so do those that
    another buffer is a view of. is_strict: no buffer grows; without it one that accesses go beyond does. scripted: as
    TVM's pass, which keeps scopes, has virtual threads share what threads do, and knows by conditions around an access
    what it reaches.
    """
    scan, aligned = _Scan(scripted, is_strict), alignments(func.body)
    scan.visit(func.body)
    known = {}
    for key, (buffer, depth) in scan.buffers.items():
        new, corner = _compact(buffer, depth, scan, aligned.get(buffer))
        if new is not buffer:
            known[key] = (new, corner)
    return func.replace(body=_Rebase(known, scan).visit(func.body)) if known else func


@dataclass(frozen=True)
class _Use:
    """One access: the loops around it, outermost first, and its indices."""

    loops: tuple
    indices: tuple
    guards: tuple = ()  # conditions around


class _Scan(Visitor):
    """Every access to allocated buffers, and how many loops are around each allocation."""

    def __init__(self, scripted, is_strict):
        self.scripted, self.is_strict = scripted, is_strict
        self.buffers, self.uses = {}, {}
        self.whole = set()  # ids of buffers whose address is taken
        self.loops, self.analyzer = (), Analyzer()
        self.guards = ()
        self.pointers = {}  # data pointer -> the buffer's id
        self.threads = {}   # thread axis -> the variable that stands for all loops bound to it
        self.extents = {}   # thread axis -> the greatest constant extent of these

    def visit_Call(self, call):
        if call.op == "tir.address_of":
            self.whole.add(id(call.args[0].buffer))
        self.whole.update(self.pointers[a] for a in call.args if isinstance(a, Var) and a in self.pointers)
        if call.op != "tir.if_then_else" or not self.scripted or call.dtype.lanes > 1:
            self.generic_visit(call)
            return
        condition, *values = call.args
        self.visit(condition)
        around = self.guards
        for guard, value in zip((condition, Not(condition)), values):
            self.guards = (*around, guard)
            self.visit(value)
        self.guards = around

    def visit_For(self, loop):
        self.visit((loop.min, loop.extent))
        self.analyzer.bind(loop.loop_var, Range(loop.min, loop.extent), allow_override=True)
        if is_thread(loop) and loop.thread_binding not in self.threads:
            v = self.threads[loop.thread_binding] = Var(loop.thread_binding, loop.loop_var.dtype)
            self.analyzer.bind(v, Range(loop.min, loop.extent))
        if is_thread(loop):
            extent = loop.extent.value if isinstance(loop.extent, IntImm) else WARP
            self.extents[loop.thread_binding] = max(extent, self.extents.get(loop.thread_binding, 1))
        self.loops += (loop,)
        self.visit(loop.body)
        self.loops = self.loops[:-1]

    def visit_AttrStmt(self, attr):
        """The extent of a thread is a loop over its index."""
        loop = _loop_of(attr) if self.scripted else None
        self.visit_For(loop) if loop else self.generic_visit(attr)

    def visit_BlockRealize(self, realize):
        around, self.guards = self.guards, (*self.guards, realize.predicate)
        self.generic_visit(realize)
        self.guards = around

    def visit_IfThenElse(self, branch):
        self.visit(branch.condition)
        around, self.guards = self.guards, (*self.guards, branch.condition)
        self.visit(branch.then_case)
        self.guards = around
        self.visit(branch.else_case)

    def visit_Block(self, block):
        for b in block.alloc_buffers:
            self._allocated(b)
        for match in block.match_buffers:  # both corners of the region; what is accessed through it lies between
            region = match.source.region
            self._record(match.source.buffer, tuple(r.min for r in region))
            self._record(match.source.buffer, tuple(r.min + (r.extent - 1) for r in region))
        self.visit(block.body)

    def _allocated(self, b):
        self.buffers[id(b)], self.uses[id(b)] = (b, len(self.loops)), []
        self.pointers[b.data] = id(b)

    def visit_DeclBuffer(self, decl):
        self._allocated(decl.buffer)
        self.visit(decl.body)

    def visit_BufferStore(self, store):
        self.visit((store.value, store.indices))
        self._record(store.buffer, store.indices)

    def visit_BufferLoad(self, load):
        self.visit(load.indices)
        self._record(load.buffer, load.indices)

    def _record(self, buffer, indices):
        if id(buffer) in self.uses:
            self.uses[id(buffer)].append(_Use(self.loops, indices, self.guards))
        elif buffer.data in self.pointers:
            self.whole.add(self.pointers[buffer.data])


def _compact(buffer, depth, scan, aligned=None):
    """(buffer shrunk to the box that its uses touch while the loops from the depth-th on run, the box's corner)."""
    uses, shape, shared = scan.uses[id(buffer)], buffer.shape, buffer.scope.startswith("shared")
    if buffer.scope == "local":
        uses = [_for_one_thread(use, depth, scan.threads) for use in uses]
    elif buffer.scope.startswith("wmma"):  # a warp's, whose lanes have elements of each tile
        lanes = lane_axes(scan.extents)
        uses = [_for_one_thread(use, depth, scan.threads, lambda loop: is_thread(loop) and (
            loop.thread_binding not in lanes)) for use in uses]
    elif buffer.scope == "warp":  # whose lanes are threads along x: others are of other warps
        uses = [_around(_for_one_thread(use, depth, scan.threads, is_warp), depth, is_lane) for use in uses]
    elif shared:
        uses = [_around(use, depth, _is_any_thread if scan.scripted else is_thread) for use in uses]
    bound = any(loop.kind == ForKind.THREAD_BINDING for use in uses for loop in use.loops[depth:])
    corner = [const(0, extent.dtype) for extent in shape]
    if uses and not buffer.strides and id(buffer) not in scan.whole:
        found = [_interval(uses, dim, extent, depth, scan) for dim, extent in enumerate(shape)]
        corner = [f[0] if f else low for f, low in zip(found, corner)]
        shape = tuple(f[1] if f else extent for f, extent in zip(found, shape))
    alone = (not scan.scripted and uses and buffer.scope != "warp" and not shared and not bound
             and all(is_const_int(s, 1) for s in shape))
    scope = "local" if alone else buffer.scope  # then a plain variable
    strides = aligned_strides(shape, aligned) if aligned else buffer.strides
    if scope == buffer.scope and structural_equal((shape, strides), (buffer.shape, buffer.strides)):
        return buffer, None
    return decl_buffer(shape, buffer.dtype, buffer.name, scope, strides, data_alignment=buffer.data_alignment), corner


def _loop_of(attr):
    """The loop that a lowered program states as the extent of a thread; None of any other attribute."""
    if attr.attr_key not in THREAD_EXTENTS or not isinstance(attr.target, IterVar):
        return None
    return For(attr.target.var, const(0, attr.value.dtype), attr.value, ForKind.THREAD_BINDING, attr.body,
               attr.target.thread_tag)


def is_thread(loop):
    """Whether a loop is bound to the threads of a block."""
    return (loop.thread_binding or "").startswith("threadIdx")


def _is_any_thread(loop):
    """Whether a loop is bound to threads of a block, be these virtual."""
    return is_thread(loop) or (loop.thread_binding or "").startswith("vthread")


def is_warp(loop):
    """Whether a loop is bound to threads that are of several warps."""
    return is_thread(loop) and not is_lane(loop)


def is_lane(loop):
    """Whether a loop is bound to the threads that warps are made of."""
    return loop.thread_binding == "threadIdx.x"


def _around(use, depth, shares):
    """An access while loops around an allocation that share it run, too."""
    return _Use((*use.loops[:depth], *filter(shares, use.loops[:depth]), *use.loops[depth:]), use.indices, use.guards)


def _for_one_thread(use, depth, threads, stands=is_thread):
    """An access while the loops inside an allocation that are bound to threads stand still."""
    bound = {loop.loop_var: threads[loop.thread_binding] for loop in use.loops[depth:] if stands(loop)}
    loops = (*use.loops[:depth], *(loop for loop in use.loops[depth:] if not stands(loop)))
    return _Use(loops, substitute(use.indices, bound), use.guards) if bound else use


def _interval(uses, dim, extent, depth, scan):
    """(least index, size) of one dimension over all uses; None where it is not known to be smaller than the buffer."""
    seen, low, high, an = set(), None, None, scan.analyzer
    for use in uses:
        form = _form(an, use.indices[dim])
        if form is None:
            return None
        inner = use.loops[depth:]
        if (form.key, inner, use.guards) in seen:
            continue
        seen.add((form.key, inner, use.guards))
        ranges = {loop.loop_var: Range(loop.min, loop.extent) for loop in inner}
        counted = any(map(is_thread, inner)) or scan.scripted and use.guards
        first, last = _of_threads(an, form, use, ranges, extent.dtype) if counted else (None, None)
        if first is None:
            limits = limits_of(an, ranges)
            first, last = relax(an, form, False, limits), relax(an, form, True, limits)
        if first is None or last is None:
            return None
        low = first if low is None else _lesser(an, low, first)
        high = last if high is None else _lesser(an, last, high, take_second=True)
        if low is None or high is None:
            return None
    return _sized(an, low, high, extent, scan.is_strict)


def _of_threads(an, form, use, ranges, dtype):
    """(least, greatest) form of an index that threads have where the guards around let them through: of what they
    share, fewer than the loops have iterations often do the last round. (None, None) where no numbers tell."""
    moving = {a: k for a, k in form.terms.items() if not a.vars.isdisjoint(ranges)}
    try:
        found = extremes(render(Linear(moving, 0), dtype), ranges, use.guards)
    except DoesNotFit:
        found = None
    if found is None:
        return None, None
    rest = Linear({a: k for a, k in form.terms.items() if a not in moving}, form.const)
    return tuple(shifted(rest, value) for value in found)


def _form(an, index):
    """The normal form of an index; None when it depends on data."""
    return None if collect(index, BufferLoad) else an.canonical.linear(index)


def _lesser(an, a, b, take_second=False):
    """The lesser of two forms (the greater with take_second), None when their order is not known."""
    if a.key == b.key or an.nonnegative(an.canonical.add(b, a, -1)):
        return b if take_second else a
    if an.nonnegative(an.canonical.add(a, b, -1)):
        return a if take_second else b
    return None


def _sized(an, low, high, extent, is_strict):
    try:
        span = shifted(an.canonical.add(high, low, -1), 1)
        bound = an.interval(render(span, extent.dtype))[1]
        if bound is None or (is_strict and isinstance(extent, IntImm) and bound > extent.value):
            return None
        return render(low, extent.dtype), const(bound, extent.dtype)
    except DoesNotFit:
        return None


class _Rebase(Mutator):
    """Puts the compact buffers in place. known: {id(buffer): (new buffer, corner)}."""

    def __init__(self, known, scan):
        self.known, self.analyzer, self.threads = known, scan.analyzer, scan.threads
        self.bound = {}  # the variable of a thread axis -> that of the loop around that is bound to it

    def visit_For(self, loop):
        if not is_thread(loop):
            return self.generic_visit(loop)
        around, self.bound = self.bound, {**self.bound, self.threads[loop.thread_binding]: loop.loop_var}
        loop, self.bound = self.generic_visit(loop), around
        return loop

    def visit_AttrStmt(self, attr):
        loop = _loop_of(attr)
        around = self.bound
        if loop and is_thread(loop) and loop.thread_binding in self.threads:
            self.bound = {**around, self.threads[loop.thread_binding]: loop.loop_var}
        attr, self.bound = self.generic_visit(attr), around
        return attr

    def _from(self, corner, index):
        if is_const_int(corner, 0):
            return index
        return self.analyzer.simplify(index - substitute(as_expr(corner), self.bound))

    def visit_Block(self, block):
        block = self.generic_visit(block)
        allocated = tuple(self.known.get(id(b), (b, None))[0] for b in block.alloc_buffers)
        return block.replace(alloc_buffers=allocated)

    def visit_DeclBuffer(self, decl):
        return decl.replace(buffer=self.known.get(id(decl.buffer), (decl.buffer, None))[0], body=self.visit(decl.body))

    def visit_BufferRegion(self, region):
        region = region.replace(region=self.visit(region.region))
        found = self.known.get(id(region.buffer))
        if found is None:
            return region
        new, corner = found
        moved = tuple(Range.from_min_extent(const(0, size.dtype), size) if is_const_int(r.min, 0) and r.extent is extent
                      else Range.from_min_extent(self._from(low, r.min), r.extent)
                      for r, low, size, extent in zip(region.region, corner, new.shape, region.buffer.shape))
        return region.replace(buffer=new, region=moved)

    def _access(self, node):
        node = self.generic_visit(node)
        found = self.known.get(id(node.buffer))
        if found is None:
            return node
        new, corner = found
        return node.replace(buffer=new, indices=tuple(map(self._from, corner, node.indices)))

    visit_BufferLoad = visit_BufferStore = _access
