"""SpecializeWarps and SplitWarpRoles: a warp that only copies, by the tensor memory accelerator, beside those that
multiply (sm_90a).

    for k, annotated with a ring of 4 stages:
        a_shared, b_shared = tiles of a and b
        work(a_shared, b_shared)
becomes
    a warp of its own, one thread of it:              the others:
        for k:                                            for k:
            wait until stage k % 4 is empty                   wait until stage k % 4 is full
            expect the bytes of both tiles at full            work(stage k % 4)
            start both copies                                 tell that stage (k - 1) % 4 is empty

full and empty are mbarriers, one a stage each. A wait for a phase names its parity: turn k is phase k // 4 of a stage.
Of work that the hardware goes on with for a turn (wgmma) the stage of the turn before is empty after it, else its own.
Copies that are bound to threads, of so many warps, are cp.async of these: they gather what no tensor map can say, and
each of their threads arrives at full when its own are done.
"""
from __future__ import annotations

from ...arith import Analyzer
from ...arith.pattern import conjuncts
from ...expr import EQ, Call, Cast, FloorDiv, FloorMod, IntImm, Range, Var, cast, const, is_const_int, substitute
from ...node import Mutator, collect, structural_equal
from ...tir.buffer import decl_buffer
from ...tir.hints import RING, SWIZZLE, UNROLL
from ...tir.intrin import address_of, call_extern
from ...tir.lanes import weak_alignments
from ...tir.stmt import (AttrStmt, Block, BlockRealize, BufferLoad, BufferStore, DeclBuffer, Evaluate, For, IfThenElse,
                         LetStmt, SeqStmt, seq)
from ..walk import StmtMutator, without
from .async_copy import guarded
from .barriers import ASYNC_SCOPE, BESIDE, SYNC, TENSOR_MAP, WGMMA, barrier, is_beside
from .software_pipeline import statements_in
from .threads import WARP, bound_loops, is_bound

CHUNK = 16                  # bytes of which rows of a matrix are a multiple
MOST = 256                  # rows of a tile
ROW = 128                   # bytes of a row of a tile, as its swizzle has them
NAMED = 1                   # the barrier of those that multiply: 0 is that of the whole block


class WarpRoleError(ValueError):
    """A loop that no ring can serve; the message names the loop and the reason."""


def specialize_warps(func):
    """Requires opaque blocks. Ensures that no loop says `software_pipeline_ring`: what fills shared memory in it is
    copies by tensor maps, which stand in an attribute `warps_beside` before all else that threads do, and wait for what
    reads it as that waits for them.

    The loop stands in one bound to threadIdx.y of constant extent, in no other serial one. Copies are of tiles of
    matrices whose rows, without gaps, are multiples of 16 bytes, to swizzled rows of 128 bytes; where a tile ends they
    may have guards at the ends of the matrix. Those bound to threadIdx.y and x are left to as many warps, by cp.async.
    Raises WarpRoleError for others.
    """
    if not any(RING in loop.annotations for loop in collect(func.body, For)):
        return func
    return func.replace(body=_Specialize(func).visit(func.body))


class _Specialize(StmtMutator):
    def __init__(self, func):
        self.func, self.weak, self.an = func, weak_alignments(func), Analyzer()
        self.around = None  # the loop over warps
        self.found = None   # the ring in it

    def fail(self, loop, what):
        raise WarpRoleError(f"{self.func.title}: ring of loop {loop.loop_var.name}: {what}")

    def visit_For(self, loop):
        self.an.bind(loop.loop_var, Range(loop.min, loop.extent), allow_override=True)
        if RING in loop.annotations:
            return self.ring(loop)
        serial = not is_bound(loop) and not is_const_int(loop.extent, 1)
        if serial and (inner := next((x for x in collect(loop.body, For) if RING in x.annotations), None)):
            self.fail(inner, f"it stands in the loop {loop.loop_var.name}, and its phases are counted once")
        if not is_bound(loop, "threadIdx.y") or self.around is not None:
            return loop.replace(body=self.visit(loop.body))
        self.around, self.found = loop, None
        body = self.visit(loop.body)
        body = body if self.found is None else self.found.begun(body)
        self.around = None
        return loop.replace(body=body)

    def ring(self, loop):
        if self.around is None or not isinstance(self.around.extent, IntImm) or self.found is not None:
            self.fail(loop, "it has to stand in one loop bound to threadIdx.y, of constant extent, with no other ring")
        if any(x.thread_binding == "threadIdx.z" or x.thread_binding == "threadIdx.x" and not is_const_int(
                x.extent, WARP) for x in bound_loops(self.around)):
            self.fail(loop, f"the threads of its block are not warps: bind {WARP} lanes to threadIdx.x, and none to z")
        if not is_const_int(loop.min, 0):
            self.fail(loop, f"it begins at {loop.min}, not at 0")
        self.found = _Ring(self, loop)
        return self.found.consumer()


class _Ring:
    """What both sides of a ring do."""

    def __init__(self, outer, loop):
        self.outer, self.loop, self.an = outer, loop, outer.an
        self.stages, self.warps = int(loop.annotations[RING]), outer.around.extent.value
        allocs, children = statements_in(loop.body)
        self.allocs = {b: decl_buffer((const(self.stages), *b.shape), b.dtype, b.name, "shared.dyn")
                       for b in allocs if b.scope.startswith("shared")}
        if len(self.allocs) != len(allocs):
            outer.fail(loop, "it allocates more than shared memory")
        self.full, self.empty = (decl_buffer((const(self.stages),), "uint64", name, "shared.dyn")
                                 for name in ("full", "empty"))
        filled = [s for s in children if {b.buffer for b in collect(s, BufferStore)} & set(self.allocs)]
        self.gathered = [s for s in filled if bound_loops(s)]
        self.copies = [_Box(outer, loop, s, self.allocs) for s in filled if s not in self.gathered]
        self.beside = self._beside()
        self.work = [s for s in children if s not in filled]
        products = [c for s in self.work for c in collect(s, Call) if c.op == WGMMA]
        self.lag = int(any(not is_const_int(c.args[5], 0) for c in products))
        self.together = bool(products)  # lanes, which wait for products as one

    def _beside(self):
        """How many warps copy: those that copies are bound to, one where all are by tensor maps."""
        found = [x.extent for s in self.gathered for x in bound_loops(s) if x.thread_binding == "threadIdx.y"]
        if not found:
            return 1
        if not all(isinstance(n, IntImm) and n.value == found[0].value for n in found):
            self.outer.fail(self.loop, "its copies are bound to different numbers of warps")
        return found[0].value

    def stage(self, k):
        return self.an.simplify(k % self.stages)

    def wait(self, bar, k, phase):
        """The statement that waits for the end of a phase of the stage of turn k, of which it gives the parity."""
        return _call("ingot_mbarrier_wait_parity", self.at(bar, k), phase % 2)

    def at(self, bar, k):
        return address_of(BufferLoad(bar, (self.stage(k),)))

    def turns(self, body, k):
        return without(self.loop, RING).replace(loop_var=k, body=seq(*body), annotations={UNROLL: 1})

    def producer(self):
        """Of a stage that nobody used yet the phase before the first counts as over."""
        k, old = Var(self.loop.loop_var.name, self.loop.loop_var.dtype), self.loop.loop_var
        boxes = [box.copy(self.allocs[box.buffer], self.stage(old), self.at(self.full, old)) for box in self.copies]
        if boxes:
            expected = const(sum(box.bytes for box in self.copies))
            boxes.insert(0, _call("ingot_mbarrier_arrive_expect_tx", self.at(self.full, old), expected))
        body = boxes
        if self.gathered:
            copies = seq(*(_Staged(self.allocs, self.stage(old)).visit(s) for s in self.gathered))
            body = [*([_first_warp(self.beside, _first_lane(seq(*boxes)))] if boxes else []),
                    AttrStmt(const(0), ASYNC_SCOPE, const(1), copies),
                    _call("ingot_mbarrier_arrive_cp_async", self.at(self.full, old))]
        body = [self.wait(self.empty, k, k // self.stages + 1), *(substitute(s, {old: k}) for s in body)]
        turns = self.turns(body, k)
        return AttrStmt(const(0), BESIDE, const(self.beside), turns if self.gathered else _first_lane(turns))

    def consumer(self):
        k = self.loop.loop_var
        done = _first_lane(_call("ingot_mbarrier_arrive", self.at(self.empty, k - self.lag)))
        if not self.together:
            done = seq(barrier("warp"), done)
        if self.lag:
            done = IfThenElse(k >= const(self.lag, k.dtype), done)
        work = [_Staged(self.allocs, self.stage(k)).visit(s) for s in self.work]
        seen = [_call("ingot_fence_proxy_async")] * bool(self.gathered)  # what threads wrote, and wgmma reads
        return self.turns([self.wait(self.full, k, k // self.stages), *seen, *work, done], k)

    def begun(self, body):
        """The body of the loop over warps: barriers first, then who copies."""
        bar, dtype = Var("stage", "int32"), self.outer.around.loop_var.dtype
        one = BufferLoad(self.full, (bar,)), BufferLoad(self.empty, (bar,))
        counts = const(bool(self.copies) + WARP * self.beside * bool(self.gathered)), const(self.warps)
        init = seq(*(_call("ingot_mbarrier_init", address_of(x), n) for x, n in zip(one, counts)))
        init = seq(For(bar, const(0), const(self.stages), "serial", init), _call("ingot_mbarrier_init_fence"))
        first = IfThenElse(EQ(self.outer.around.loop_var, const(0, dtype)), _first_lane(init))
        body = seq(first, barrier(), self.producer(), body)
        allocs = (*self.allocs.values(), self.full, self.empty)
        block = Block((), (), (), f"{self.loop.loop_var.name}_ring", allocs, (), {}, None, body)
        return BlockRealize((), const(True), block)


def _call(name, *args):
    return Evaluate(call_extern("void", name, *args))


def _first_lane(stmt):
    """What one lane of a warp does."""
    lane = Var("lane", "int32")
    return For(lane, const(0), const(WARP), "thread_binding", IfThenElse(EQ(lane, const(0)), stmt), "threadIdx.x")


def _first_warp(warps, stmt):
    """What the first of so many warps does."""
    warp = Var("warp", "int32")
    return For(warp, const(0), const(warps), "thread_binding", IfThenElse(EQ(warp, const(0)), stmt), "threadIdx.y")


class _Staged(Mutator):
    """A statement that works on a stage of what a ring has."""

    def __init__(self, buffers, stage):
        self.buffers, self.stage = buffers, stage

    def _access(self, n):
        new = self.buffers.get(n.buffer)
        n = self.generic_visit(n)
        return n if new is None else n.replace(buffer=new, indices=(self.stage, *n.indices))

    visit_BufferLoad = visit_BufferStore = _access

    def visit_BufferRegion(self, r):
        new = self.buffers.get(r.buffer)
        r = self.generic_visit(r)
        one = Range.from_min_extent(self.stage, const(1, self.stage.dtype))
        return r if new is None else r.replace(buffer=new, region=(one, *r.region))


# ---------------------------------------------------------------- copies of tiles

class _Box:
    """A statement that copies a tile of a matrix: `rows` of ROW bytes from a column and a row of it on."""

    def __init__(self, outer, loop, stmt, allocs):
        self.an, self.block = outer.an, None
        why = self._read(stmt, allocs, outer.weak)
        if why:
            outer.fail(loop, f"{stmt_name(stmt)} is no copy by a tensor map: {why}")

    def _read(self, stmt, allocs, weak):
        """Take a statement apart; returns why it is no copy of a tile."""
        conditions, loops = [], []
        while not isinstance(stmt, BufferStore):
            if isinstance(stmt, For) and stmt.kind in ("serial", "unrolled") and isinstance(stmt.extent, IntImm):
                loops.append(stmt)
                stmt = stmt.body
            elif isinstance(stmt, BlockRealize) and not stmt.block.alloc_buffers and not stmt.block.match_buffers:
                conditions.append(stmt.predicate)
                self.block, stmt = stmt.block, stmt.block.body
            else:
                return "it does more than to store in loops of constant extents"
        single = {x.loop_var: x.min for x in loops if is_const_int(x.extent, 1)}
        loops = [x for x in loops if x.loop_var not in single]
        value, condition = guarded(stmt.value)
        conditions += [] if condition is None else [condition]
        if self.block is None or SWIZZLE not in self.block.annotations:
            return "its rows are not swizzled"
        if not isinstance(value, BufferLoad) or value.buffer.scope != "global" or value.buffer.strides or (
                value.buffer.dtype != stmt.buffer.dtype):
            return "what it stores is not an element of global memory"
        self.buffer, self.source, shape = stmt.buffer, value.buffer, stmt.buffer.shape
        *outer, row, column = (self.an.simplify(substitute(i, single)) for i in stmt.indices)
        by_var = {x.loop_var: x for x in loops}
        if len(loops) != 2 or row not in by_var or column not in by_var or row is column or not all(
                is_const_int(i, 0) for i in outer) or any(not structural_equal(by_var[v].extent, n) or not is_const_int(
                    by_var[v].min, 0) for v, n in zip((row, column), shape[-2:])):
            return "it does not fill its tile row by row"
        self.rows, self.columns = shape[-2].value, shape[-1].value
        return self._matrix(value, row, column, [substitute(c, single) for c in conditions], single, weak)

    def _matrix(self, load, row, column, conditions, single, weak):
        """Where in the matrix the tile lies."""
        *shape, width = self.source.shape
        size = self.source.dtype.bytes
        if not isinstance(width, IntImm) or width.value * size % CHUNK or weak.get(self.source.data, CHUNK) % CHUNK:
            return f"rows of {self.source.name} are not on multiples of {CHUNK} bytes"
        if self.columns * size != ROW or self.rows > MOST:
            return f"a tile has rows of {ROW} bytes, and {MOST} of them at most"
        self._bind((row, self.rows), (column, self.columns))
        *outer, x = [_in_full(substitute(i, single)) for i in load.indices]
        y = self._joined(outer, shape) if outer else const(0)
        start = {row: const(0, row.dtype), column: const(0, column.dtype)}
        self.x, self.y = (self.an.simplify(substitute(e, start)) for e in (x, y))
        if not self.an.can_prove_equal(x, self.x + column) or not self.an.can_prove_equal(y, self.y + row):
            return f"neighbours in a tile are none in {self.source.name}"
        self.width, self.height = width, const(1)
        for n in shape:
            self.height = self.an.simplify(self.height * n)
        at = substitute(load.indices[-1], single)  # as guards have it
        ends = [self.an.simplify(e) for e in (*_below(x, width), *_below(at, width), *_below(y, self.height))]
        for c in (c for condition in conditions for c in conjuncts(condition)):
            c = self.an.simplify(c)
            if not is_const_int(c, 1) and not any(structural_equal(c, end) for end in ends):
                return f"it copies only where {c}, which is no end of {self.source.name}"
        return None

    def _joined(self, indices, shape):
        """Indices as one, of all dimensions together: those that are quotients and remainders of one index as that."""
        index, size = indices[-1], shape[-1]
        for high, extent in zip(reversed(indices[:-1]), reversed(shape[:-1])):
            low, index = index, high * size + index
            if isinstance(low, FloorMod) and structural_equal(low.b, size):
                quotient = high.a if isinstance(high, FloorMod) and structural_equal(high.b, extent) else high
                if isinstance(quotient, FloorDiv) and structural_equal(quotient.b, size) and self.an.can_prove_equal(
                        (quotient.a - low.a) % size, 0):
                    index = quotient.a if quotient is high else quotient.a % self.an.simplify(size * extent)
            size = self.an.simplify(size * extent)
        return index

    def _bind(self, *variables):
        for v, extent in variables:
            self.an.bind(v, Range(const(0, v.dtype), const(extent, v.dtype)), allow_override=True)

    @property
    def bytes(self):
        return self.rows * ROW

    def copy(self, ring, stage, bar):
        """The copy to a stage of the ring, in the block that says how that is swizzled."""
        zeros = [const(0) for _ in ring.shape[1:]]
        source = address_of(BufferLoad(self.source, tuple(const(0) for _ in self.source.shape)))
        matrix = Call("handle", TENSOR_MAP, (source, self.width, self.height, const(self.columns), const(self.rows)))
        call = _call("ingot_tma_load_2d", address_of(BufferLoad(ring, (stage, *zeros))), matrix, bar,
                     *(cast(i, "int32") for i in (self.x, self.y)))
        whole = [Range.from_min_extent(const(0), n) for n in ring.shape[1:]]
        one = Range.from_min_extent(stage, const(1, stage.dtype))
        region = self.block.writes[0].replace(buffer=ring, region=(one, *whole))
        block = self.block.replace(reads=(), writes=(region,), body=call)
        return BlockRealize((), const(True), block)


def _in_full(index):
    """An index before it was made narrower, which it fits."""
    return _in_full(index.value) if isinstance(index, Cast) and index.value.dtype.is_int else index


def _below(i, end):
    """The forms that a simplifier may give the condition i < end."""
    most = end.value & -end.value if isinstance(end, IntImm) else 1
    return [i // d < end // d if d > 1 else i < end for d in (1 << n for n in range(most.bit_length()))]


def stmt_name(stmt):
    names = [b.name_hint for b in collect(stmt, Block)]
    return names[0] if names else "a statement"



# ---------------------------------------------------------------- the warps of a launch

def split_warp_roles(func):
    """Requires flat buffers, barriers, and shared memory planned. Ensures that no attribute says `warps_beside`: loops
    over the warps of a kernel that has one are longer by these, which do that alone, while the others do what comes
    after it, and wait for each other by a barrier of their own."""
    return func.replace(body=_Split(func).visit(func.body))


class _Split(StmtMutator):
    def __init__(self, func):
        self.func = func

    def visit_For(self, loop):
        more = [s for s in collect(loop, AttrStmt) if is_beside(s)] if is_bound(loop, "threadIdx.y") else []
        if not more:
            return loop.replace(body=self.visit(loop.body))
        warps, count = loop.extent.value, more[0].value.value
        body = _Longer(warps, warps + count).visit(self.parted(loop.body, loop.loop_var, warps))
        return loop.replace(body=body, extent=const(warps + count, loop.extent.dtype))

    def parted(self, stmt, v, warps):
        """The body of the loop over warps, v, with those from `warps` on beside the others."""
        if isinstance(stmt, (DeclBuffer, LetStmt)):
            return stmt.replace(body=self.parted(stmt.body, v, warps))
        at = [n for n, s in enumerate(stmt.seq) if is_beside(s)] if isinstance(stmt, SeqStmt) else []
        if len(at) != 1:
            raise WarpRoleError(f"{self.func.title}: what warps do beside others does not stand once in the loop "
                                f"{v.name} itself")
        before, copies, rest = stmt.seq[:at[0]], stmt.seq[at[0]].body, seq(*stmt.seq[at[0] + 1:])
        late = next((s.buffer for s in collect(copies, BufferStore) if s.buffer.scope.startswith("shared")), None)
        if late is not None:
            raise WarpRoleError(f"{self.func.title}: the copies to {late.name} are not asynchronous, of 4, 8 or 16 "
                                "bytes each, and nothing tells those that wait when they are done")
        alone = _Alone(warps * WARP).visit(rest)
        return seq(*before, IfThenElse(v >= const(warps, v.dtype), _Beside(v, warps).visit(copies), alone))


class _Beside(StmtMutator):
    """Loops over warps that copy become those warps, of all of the block, v, from some on."""

    def __init__(self, v, warps):
        self.v, self.warps = v, warps

    def visit_For(self, loop):
        loop = loop.replace(body=self.visit(loop.body))
        if not is_bound(loop, "threadIdx.y"):
            return loop
        body = substitute(loop.body, {loop.loop_var: self.v - self.warps})
        return body.replace(condition=Analyzer().simplify(body.condition)) if isinstance(body, IfThenElse) else body


class _Alone(StmtMutator):
    """Barriers of a block become those of some of its threads."""

    def __init__(self, threads):
        self.threads = threads

    def visit_Evaluate(self, stmt):
        call = stmt.value
        if not isinstance(call, Call) or call.op != SYNC or call.args[0].value == "warp":
            return stmt
        return _call("ingot_barrier_sync", const(NAMED), const(self.threads))


class _Longer(StmtMutator):
    """Loops over the warps of a kernel, of so many iterations, get as many as it has now."""

    def __init__(self, before, now):
        self.before, self.now = before, now

    def visit_For(self, loop):
        loop = loop.replace(body=self.visit(loop.body))
        if not is_bound(loop, "threadIdx.y"):
            return loop
        body = loop.body if is_const_int(loop.extent, self.before) else IfThenElse(
            loop.loop_var < loop.min + loop.extent, loop.body)
        return loop.replace(body=body, extent=const(self.now, loop.extent.dtype))


__all__ = ["WarpRoleError", "specialize_warps", "split_warp_roles"]
