"""ThreadSync: barriers where threads of a block hand elements on through memory.

The pass runs over loops whose buffers still have their dimensions: indices then are sums of loops, where flat ones are
products with the extents of padded, swizzled and symbolic shapes.
"""
from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ...arith import Analyzer
from ...arith.int_set import _Lanes
from ...expr import (
    Call, IntImm, Not, PrimExpr, Range, StringImm, Var, const, free_vars, is_const_int, substitute)
from ...node import collect
from ...tir.device_ops import ALLREDUCE, allreduce_parts
from ...tir.stmt import (
    AttrStmt, Block, BufferLoad, BufferStore, DeclBuffer, Evaluate, For, SeqStmt, seq, statements)
from .room import BarrierError, Replace, before, sunk
from .threads import AXES, Agreed, Kernels, Threads, buffers_of, is_bound
from .touched import IN_BLOCK, IN_WARP, NOT, Access, handed_on, in_several_blocks, lacking, same_thread

SYNC = "tir.tvm_storage_sync"
WAITS = ("tir.ptx_wait_group", "tir.ptx_wait_barrier")
ASYNC_SCOPE, ASYNC_WAIT = "async_scope", "async_wait_queue_scope"  # attributes around copies, and around a wait
ASYNC_COMMIT, ASYNC_IN_FLIGHT = "async_commit_queue_scope", "async_wait_inflight_count"  # around a group, within a wait
# Hardware operations that write registers alone
_READS = ("tir.wgmma_sync", "tir.ptx_ldmatrix", "tir.ptx_mma", "tir.tvm_load_matrix_sync", "tir.tvm_mma_sync",
          "tir.tvm_fill_fragment", "tir.mma_fill")
# Those that store a tile: a warp to one of its own, since the loops around were proved to run in any order
WGMMA = "tir.wgmma_sync"
_TILES = ("tir.tvm_load_matrix_sync", "tir.tvm_store_matrix_sync", WGMMA)
_TILE_STORES = ("tir.tvm_store_matrix_sync", "tir.mma_store")
# A matrix that copies by the tensor memory accelerator read: (address of it, columns, rows, columns and rows of a tile)
TENSOR_MAP = "tir.tensor_map"
BESIDE = "warps_beside"  # attribute of what so many warps do, beside those of the block that do all else
_RINGS = ("ingot_mbarrier_", "ingot_tma_load")


def is_of_ring(call):
    """Whether a call is one of those that rings of copies consist of: threads meet at what these touch by mbarriers."""
    return call.op == TENSOR_MAP or call.op == "tir.call_extern" and call.args[0].value.startswith(_RINGS)


def is_beside(stmt):
    """Whether a statement is what warps do beside those of the block."""
    return isinstance(stmt, AttrStmt) and stmt.attr_key == BESIDE


def barrier(scope="shared"):
    """The statement in which all threads of a block wait for each other, for what lies in memory of a scope "shared" or
    also in "global" memory, or all threads of a warp ("warp")."""
    return Evaluate(Call("int32", SYNC, (StringImm(scope),)))


def thread_sync(func, warps=True):
    """Requires no blocks and shaped buffers. Ensures that what a thread of a kernel leaves in shared or global memory
    for another one of its block is complete when that one uses it: a barrier stands between the two, of the warp where
    it holds both. None stands where threads use what they wrote themselves, and none inside of what some threads skip:
    conditions around it move inside, to both sides of it. warps: whether 32 neighbours are one that can wait alone.

    Raises BarrierError where a loop of which threads run different numbers of iterations would need one.
    """
    _require_inside(func)
    return func.replace(body=Kernels(lambda kernel: _synchronized(kernel, func, warps)).visit(func.body))


def _require_inside(func):
    """Raises BarrierError where kernels hand on what lies in the memory of a block or a thread."""
    kernels = []
    Kernels(lambda kernel: kernels.append(kernel) or kernel).visit(func.body)
    inside = {d.buffer for d in collect(kernels, DeclBuffer)}
    for d in collect(func.body, DeclBuffer):
        b = d.buffer
        if b.scope != "global" and b not in inside and sum(
                any(a.buffer is b for a in collect(k, (BufferLoad, BufferStore))) for k in kernels) > 1:
            raise BarrierError(f"{func.title}: {b.name} has the scope \"{b.scope}\", but is used around the loops that "
                               "are bound to blocks and threads, where no such memory lives on; compute it inside of "
                               "these loops, or leave it in global memory")


def _synchronized(kernel, func, warps):
    if any(collect(kernel, Block)):
        raise ValueError("ThreadSync takes programs without blocks; run LowerOpaqueBlock first")
    while True:
        try:
            walk = _Kernel(kernel, func, warps)
            kernel = walk.visited(kernel)[0]
            walk.require_own()
            walk.require_own_sums()
            walk.require_blocks_apart(kernel)
            return kernel
        except _Divergent as at:
            kernel = Replace(at.outer, sunk(at.outer, at.buffer, kernel, func.title)).visit(kernel)


class _Divergent(Exception):
    """A barrier is needed inside of something that some threads skip."""

    def __init__(self, outer, buffer):
        self.outer, self.buffer = outer, buffer


@dataclass(frozen=True)
class _Summary:
    """What a statement touches before its first barrier and after its last one, as pairs (Access, whether a barrier of
    the warp lies between it and that end). synced, warped: whether there is a barrier that every run passes."""

    head: tuple = ()
    tail: tuple = ()
    synced: bool = False
    warped: bool = False

    def then(self, other):
        """The summary of this and then another."""
        head = self.head if self.synced else self.head + _passed(other.head, self.warped)
        tail = other.tail if other.synced else _passed(self.tail, other.warped) + other.tail
        return _Summary(head, tail, self.synced or other.synced, self.warped or other.warped)

    def maybe(self):
        """The summary of what may not run."""
        return _Summary(self.head, self.tail)


def _passed(items, warped):
    return tuple((access, True) for access, _ in items) if warped else items


_BARRIERS = {IN_WARP: _Summary(warped=True), IN_BLOCK: _Summary(synced=True, warped=True)}


class _Kernel:
    """One walk over a kernel: visited(stmt) is the statement with its barriers, and its summary."""

    def __init__(self, kernel, func, warps):
        self.threads, self.an, self.title = Threads.of(kernel), Analyzer(), func.title
        self.warps, self.dims = warps, {*free_vars([b.shape for b in func.buffer_map.values()])}
        declared, around = buffers_of(kernel, func)
        self.private = {b for b in declared | around if b.scope in ("local", "warp") or b.scope.startswith("wmma")}
        written = {s.buffer for s in collect(kernel, BufferStore)}
        self.pointers = {b.data: b for b in (*func.buffer_map.values(), *declared) if b.data is not None}
        self.pointers.update((b.data, b) for b in _buffers(func.body) if b.data is not None)
        addressed = {b for call in collect(kernel, Call) for b in self.pointed(call)}
        self.shared = (written | addressed) - self.private
        stores = Counter(s.buffer for s in collect(kernel, BufferStore))
        addresses = {c.args[0] for c in collect(kernel, Call) if c.op == "tir.address_of"}
        used = {load.buffer for load in collect(kernel, BufferLoad) if load not in addresses}.union(
            *(self.pointed(c) for c in collect(kernel, Call) if c.op not in _TILE_STORES))
        self.memory = "global" if any(b.scope == "global" and (b in used or stores[b] > 1)
                                      for b in self.shared) else "shared"
        self.late = {b for attr in collect(kernel, AttrStmt) if attr.attr_key == ASYNC_SCOPE
                     for b in {s.buffer for s in collect(attr, BufferStore)}}
        self.late |= {self.pointed(c)[0] for c in collect(kernel, Call) if c.op == "tir.ptx_cp_async"}
        self.agreed = Agreed(self.private)
        self.agreed.varying.update(self.threads.variables.values())
        for axis, v in self.threads.variables.items():
            extent = self.threads.extents[axis]
            extent = self.threads.symbolic.get(axis) if extent is None else const(extent, v.dtype)
            if extent is not None:
                self.an.bind(v, Range(const(0, v.dtype), extent))
        # buffer of scope "local" declared around loops over threads -> accesses
        self.own = {b: [] for b in around if b.scope == "local"}
        self.everything = []  # accesses to global memory
        self.loaded = set()  # variables that stand for what memory holds
        self.bound = {}      # loop variable or let -> what it is in terms of the block's threads
        self.blocks = {}     # "blockIdx.x" -> its variable
        self.loops, self.ranges, self.guards, self.axes = (), {}, (), {}
        self.inside = False  # of an asynchronous scope
        self.outer = None    # the innermost statement around that some threads skip

    def barrier(self, kind):
        """The barrier of a warp or a block; one of "global" memory, too, where threads may hand that on."""
        return barrier("warp" if kind == IN_WARP else self.memory)

    # ------------------------------------------------------------ accesses

    def pointed(self, call):
        """The buffers whose address a call takes."""
        if call.op == "tir.address_of":
            return []
        found = []
        for arg in call.args:
            if isinstance(arg, Call) and arg.op == "tir.address_of":
                found.append(arg.args[0].buffer)
            elif isinstance(arg, Var) and arg in self.pointers:
                found.append(self.pointers[arg])
        return found

    def tile(self, call, buffer):
        """(indices of the elements of a tile that a call moves or multiplies, ranges of their variables); None where
        they are not known."""
        for n, address in enumerate(call.args):
            load = address.args[0] if isinstance(address, Call) and address.op == "tir.address_of" else None
            if load is None or load.buffer is not buffer or len(load.indices) < 2:
                continue
            rows = buffer.strides[-2] if buffer.strides else buffer.shape[-1]
            if call.op != WGMMA and not self.an.can_prove_equal(rows, call.args[n + 1]):
                return None
            sizes = (16, 16) if call.op != WGMMA else (16, 64) if n == 2 else (call.args[4].value, 64)
            places = [Var(name, load.indices[-1].dtype) for name in ("row", "column")]
            indices = (*load.indices[:-2], *(i + v for i, v in zip(load.indices[-2:], places)))
            return indices, {v: Range(const(0, v.dtype), const(size, v.dtype)) for v, size in zip(places, sizes)}
        return None

    def access(self, node, kind, buffer, indices, ranges=None):
        lanes = dict(ranges or {})
        if indices is not None:
            indices = tuple(_Lanes(lanes).visit(substitute(i, self.bound)) for i in indices)
            known = {*self.threads.variables.values(), *self.ranges, *lanes}
            indices = tuple(None if any(v in self.loaded or v in self.agreed.varying and v not in known
                                        for v in free_vars(i)) else i for i in indices)
        found = Access(buffer, kind, indices, {**self.ranges, **lanes}, self.guards, self.axes, self.loops, node)
        if buffer.scope == "global":
            self.everything.append(found)
        return found

    def touching(self, *values):
        """The summary of evaluating expressions: what they load, and what calls among them may touch."""
        places = {id(c.args[0]) for c in collect(values, Call) if c.op == "tir.address_of"}  # of which nothing is read
        reduced = [load for c in collect(values, Call) if c.op == ALLREDUCE
                   for load in collect(allreduce_parts(c)[1], BufferLoad)]
        for load in reduced:
            if load.buffer in self.own:
                self.own[load.buffer].append(self.access(load, "write", load.buffer, load.indices))
        places |= set(map(id, reduced))
        items = [self.access(load, "read", load.buffer, load.indices) for load in collect(values, BufferLoad)
                 if load.buffer in self.shared and id(load) not in places]
        for load in collect(values, BufferLoad):
            if load.buffer in self.own and id(load) not in places:
                self.own[load.buffer].append(self.access(load, "read", load.buffer, load.indices))
        for call in collect(values, Call):
            found = [] if is_of_ring(call) else self.pointed(call)
            for n, b in enumerate(found):
                if b not in self.shared:
                    continue
                late = call.op == "tir.ptx_cp_async"
                reads = call.op not in _TILE_STORES and not (late and n == 0)
                writes = call.op not in _READS and not (late and n > 0)
                change = "start" if late or self.inside else "write"
                kinds = [kind for kind, does in (("read", reads), (change, writes)) if does]
                place = self.tile(call, b) if call.op in _TILES else None
                items += [self.access(call, kind, b, *(place or (None,))) for kind in kinds]
            if call.op in WAITS:
                items += self.arriving(call)
        items = tuple((x, False) for x in items)
        return _Summary(items, items)

    def arriving(self, node):
        return [self.access(node, "arrive", b, None) for b in self.late]

    def require_own(self):
        """Raises BarrierError where a thread reads what another one has for itself."""
        for b, accesses in self.own.items():
            read = lacking(accesses, self.threads, self.an)
            if read is not None:
                raise BarrierError(
                    f"{self.title}: a thread reads {b.name}[{', '.join(map(str, read.node.indices))}], which another "
                    f"thread of its block computed, but {b.name} has the scope \"local\", each thread's own; give it "
                    "the scope \"shared\"")

    def several_blocks(self):
        """{axis: variable} of the blocks of a launch."""
        return {axis: v for axis, v in self.blocks.items() if not self.an.can_prove_equal(v, 0)}

    def require_own_sums(self):
        """Raises BarrierError where blocks add to the same elements in global memory: each would begin anew what
        another one has added up, whenever that runs."""
        blocks = [*self.several_blocks().values()]
        variables = (*blocks, *self.threads.variables.values())
        ranges = {v: r for v, r in self.an.given.items() if v in variables and isinstance(r, Range)}
        for a in self.everything if blocks else ():
            if isinstance(a.node, BufferStore) and any(
                    load.buffer is a.buffer for load in collect(a.node.value, BufferLoad)) and in_several_blocks(
                        a, blocks, ranges, self.dims):
                raise BarrierError(
                    f"{self.title}: several blocks add to the same elements of {a.buffer.name}, and do not wait for "
                    "one another; give it the scope \"local\" or \"shared\", or compute it in a loop of its own before")

    def require_blocks_apart(self, kernel):
        """Raises BarrierError where one launch runs several statements on all blocks, one after the other, and one
        block uses what another one stored before."""
        if not _in_turn(kernel):
            return
        several = self.several_blocks()
        grid = Threads(several, {axis: None for axis in several})
        for a in self.everything:
            for b in self.everything if a.kind in ("write", "start") and a.buffer in self.shared else ():
                if a.buffer is b.buffer and (a.indices is None or b.indices is None or not same_thread(
                        a, b, grid, self.an)):
                    raise BarrierError(
                        f"{self.title}: blocks hand {a.buffer.name} on inside loop {kernel.loop_var.name}, and threads "
                        "wait for those of their own block alone; bind an outer loop to blocks, or compute the buffer "
                        "in a loop of its own before")

    # ------------------------------------------------------------ conflicts

    def need(self, before, after, later=None, synced=False):
        """(the barrier that must stand between two lists of a summary's pairs, the accesses of the second that need
        one). later: the loop whose iterations they belong to; synced: whether each of these passes a barrier."""
        worst, bad = NOT, []
        for a, passed in before:
            for b, passed_too in after:
                if a.buffer is not b.buffer and a.buffer.data is not b.buffer.data:
                    continue
                if a.node is b.node and getattr(a.node, "op", "") in _TILE_STORES:
                    continue
                found = handed_on(a, b, self.threads, self.an, later, later is not None)
                if found and later is not None and synced:
                    found = handed_on(a, b, self.threads, self.an, later)
                if found == IN_WARP and not self.warps:
                    found = IN_BLOCK
                if found == NOT or found == IN_WARP and (passed or passed_too):
                    continue
                worst = max(worst, found)
                bad.append(b)
        if worst and self.outer is not None:
            raise _Divergent(self.outer, bad[0].buffer)
        return worst, bad

    def joined(self, first, stmt, summary):
        """(stmt, summary of what was before and it), with a barrier inside where `stmt` must wait."""
        worst, bad = self.need(first.tail, summary.head)
        if worst:
            stmt, summary = self.visited(before(stmt, {id(b.node) for b in bad}, self.barrier(worst)))
        return stmt, first.then(summary)

    # ------------------------------------------------------------ statements

    def visited(self, stmt):
        method = getattr(self, "visit_" + type(stmt).__name__, None)
        if method is None:
            raise ValueError(f"ThreadSync has no rule for {type(stmt).__name__}")
        return method(stmt)

    def visit_SeqStmt(self, stmt):
        out, done = [], _Summary()
        for child in stmt.seq:
            child, summary = self.visited(child)
            worst, _ = self.need(done.tail, summary.head)
            if worst:
                out.append(self.barrier(worst))
                done = done.then(_BARRIERS[worst])
            out.append(child)
            done = done.then(summary)
        same = len(out) == len(stmt.seq) and all(a is b for a, b in zip(out, stmt.seq))
        return stmt if same else SeqStmt(tuple(out)), done

    def visit_BufferStore(self, stmt):
        read = self.touching(stmt.value, stmt.indices)
        if stmt.buffer in self.own:
            self.own[stmt.buffer].append(self.access(stmt, "write", stmt.buffer, stmt.indices))
        if stmt.buffer not in self.shared:
            return stmt, read
        kind = "start" if self.inside else "write"
        items = (*read.head, (self.access(stmt, kind, stmt.buffer, stmt.indices), False))
        return stmt, _Summary(items, items)

    def visit_Evaluate(self, stmt):
        call = stmt.value
        if isinstance(call, Call) and call.op == SYNC:
            return stmt, _BARRIERS[IN_WARP if call.args[0].value == "warp" else IN_BLOCK]
        return stmt, self.touching(call)

    def visit_DeclBuffer(self, stmt):
        inside = self.axes.keys() >= self.threads.variables.keys() and stmt.buffer.scope == "global"
        self.shared -= {stmt.buffer} if inside else set()
        if stmt.buffer.scope == "local" and not self.axes.keys() >= self.threads.variables.keys():
            self.own.setdefault(stmt.buffer, [])
        body, summary = self.visited(stmt.body)
        return stmt.replace(body=body), summary

    def visit_AttrStmt(self, stmt):
        if is_beside(stmt):  # mbarriers hand on what it fills
            return stmt, _Summary()
        value = self.touching(stmt.value) if isinstance(stmt.value, PrimExpr) else _Summary()
        if stmt.attr_key == ASYNC_WAIT:
            return self.waited(stmt, value)
        around, self.inside = self.inside, self.inside or stmt.attr_key == ASYNC_SCOPE
        body, summary = self.joined(value, *self.visited(stmt.body))
        self.inside = around
        return stmt.replace(body=body), summary

    def waited(self, stmt, value):
        """A wait for copies, with a barrier behind it where what follows uses what other threads have copied."""
        items = tuple((x, False) for x in self.arriving(stmt))
        arrived = _Summary(items, items)
        body, summary = self.visited(stmt.body)
        worst, _ = self.need(arrived.tail, summary.head)
        if worst:
            counted = isinstance(body, AttrStmt) and body.attr_key == ASYNC_IN_FLIGHT
            behind = seq(self.barrier(worst), body.body if counted else body)
            body, summary = body.replace(body=behind) if counted else behind, _BARRIERS[worst].then(summary)
        return stmt.replace(body=body), value.then(arrived).then(summary)

    def visit_AssertStmt(self, stmt):
        body, summary = self.joined(self.touching(stmt.condition), *self.visited(stmt.body))
        return stmt.replace(body=body), summary

    def visit_LetStmt(self, stmt):
        value = self.touching(stmt.value)
        self.agreed.bind(stmt.var, substitute(stmt.value, self.bound))
        if collect(stmt.value, BufferLoad) or not self.loaded.isdisjoint(free_vars(stmt.value)):
            self.loaded.add(stmt.var)
        else:
            self.bound[stmt.var] = substitute(stmt.value, self.bound)
        body, summary = self.joined(value, *self.visited(stmt.body))
        return stmt.replace(body=body), summary

    def visit_IfThenElse(self, stmt):
        condition = substitute(stmt.condition, self.bound)
        differs = self.agreed.differs(condition)
        guards, outer = self.guards, self.outer
        self.outer = stmt if differs else outer
        cases, summaries = [], []
        known = self.an.simplify(condition)
        for case, guard in ((stmt.then_case, known), (stmt.else_case, Not(known))):
            self.guards = (*guards, guard)
            found = (None, _Summary()) if case is None else self.visited(case)
            cases.append(found[0])
            summaries.append(found[1])
        if differs:  # some threads run the one while others run the other
            self.need(summaries[0].tail, summaries[1].head)
        self.guards, self.outer = guards, outer
        then, other = summaries
        both = _Summary(then.head + other.head, then.tail + other.tail, then.synced and other.synced,
                        then.warped and other.warped)
        stmt = stmt.replace(then_case=cases[0], else_case=cases[1])
        return self.joined(self.touching(stmt.condition), stmt, both) if collect(stmt.condition, (BufferLoad, Call)) \
            else (stmt, both)

    def visit_While(self, stmt):
        outer = self.outer
        if self.agreed.differs(substitute(stmt.condition, self.bound)):
            self.outer = stmt
        body, summary = self.visited(stmt.body)
        around = self.touching(stmt.condition)
        worst, bad = self.need(summary.then(around).tail, around.then(summary).head)
        if worst:
            body, summary = self.visited(before(body, {id(b.node) for b in bad}, self.barrier(worst)))
        self.outer = outer
        return stmt.replace(body=body), around.then(summary).then(around).maybe()

    def visit_For(self, stmt):
        if is_bound(stmt, "threadIdx") or is_bound(stmt, "blockIdx"):
            return self._bound_loop(stmt)
        around = self.touching(stmt.min, stmt.extent)
        v, bounds = stmt.loop_var, substitute((stmt.min, stmt.extent), self.bound)
        saved = self.loops, self.ranges, self.outer
        self.an.bind(v, Range(*bounds), allow_override=True)
        self.loops, self.ranges = (*self.loops, stmt), {**self.ranges, v: self._constant(*bounds)}
        if self.agreed.differs(bounds):
            self.agreed.varying.add(v)
            self.outer = stmt
        body, summary = self.visited(stmt.body)
        if not is_const_int(stmt.extent, 1):
            worst, bad = self.need(summary.tail, summary.head, stmt, summary.synced)
            if worst:
                body, summary = self.visited(before(body, {id(b.node) for b in bad}, self.barrier(worst)))
        self.loops, self.ranges, self.outer = saved
        runs = isinstance(stmt.extent, IntImm) and stmt.extent.value > 0
        return stmt.replace(body=body), around.then(summary if runs else summary.maybe())

    def _constant(self, least, extent):
        """A Range of constants that holds another one; that itself where none is known."""
        if isinstance(least, IntImm) and isinstance(extent, IntImm):
            return Range(least, extent)
        low, high = self.an.interval(least)[0], self.an.interval(least + extent)[1]
        if low is None or high is None:
            return Range(least, extent)
        return Range(const(low, least.dtype), const(max(high - low, 0), least.dtype))

    def _bound_loop(self, stmt):
        axis, saved = stmt.thread_binding, (self.axes, self.outer)
        self.axes = {**self.axes, axis: Range(stmt.min, stmt.extent)}
        if axis in AXES:
            self.bound[stmt.loop_var] = self.threads.variables[axis]
            if self.threads.holds_back(stmt):
                self.outer = stmt
        else:
            v = self.blocks.setdefault(axis, stmt.loop_var)
            self.an.bind(v, Range(stmt.min, stmt.extent), allow_override=True)
            self.bound[stmt.loop_var] = v
        body, summary = self.visited(stmt.body)
        self.axes, self.outer = saved
        return stmt.replace(body=body), summary


def _in_turn(stmt, around=False):
    """Whether several loops bound to blocks, or several iterations of a loop around one, come one after the other."""
    if is_bound(stmt, "blockIdx") and not is_const_int(stmt.extent, 1) and around:
        return True
    around = around or isinstance(stmt, SeqStmt) or isinstance(stmt, For) and not is_bound(stmt) and not is_const_int(
        stmt.extent, 1)
    return any(_in_turn(s, around) for s in statements(stmt))


def _buffers(stmt):
    """The buffers that loads and stores under a statement name."""
    return {a.buffer for a in collect(stmt, (BufferLoad, BufferStore))}
