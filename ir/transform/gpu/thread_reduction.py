"""LowerCrossThreadReduction: reductions whose loops are bound to threads of a block.

Each thread reduces what is its own into a register. Threads of a warp then hand registers down by shuffles, the first
ones of several warps through shared memory; rows of threads that lie across warps, and those that some threads skip,
join in shared memory alone. Barriers come later, from ThreadSync, which sees plain loads and stores here.
"""
from __future__ import annotations

from math import prod

from ...arith import Analyzer
from ...expr import EQ, Call, IntImm, Select, Var, cast, const, free_vars, logical_and, substitute
from ...names import unique_name
from ...schedule.combiner import combiner_of
from ...tir.buffer import decl_buffer
from ...tir.region import access_regions
from ...tir.stmt import (
    Block, BlockRealize, BufferLoad, BufferStore, For, IfThenElse, LetStmt, for_, seq)
from ..walk import StmtMutator, blocks
from .threads import AXES, WARP, Kernels, Threads, is_bound

FULL = 0xffffffff


class ThreadReductionError(ValueError):
    """A reduction that threads cannot do together."""


def lower_cross_thread_reduction(func, shuffles=True):
    """Requires blocks, with their inits. Ensures that no block with an iterator of type "reduce" runs on several
    threads of a block: what these reduced on their own is joined, and the first of them stores it; where the result
    lies in scope "local", each of them does. shuffles: whether threads of a warp can hand registers on; else all join
    in shared memory.

    Sums of floats of 16 bits and fewer are of float32. Raises ThreadReductionError where the terms of a reduction may
    not be regrouped, or where its loops run spatial and reduce iterators at once.
    """
    names = {b.name_hint for b in blocks(func.body)}
    kernels = Kernels(lambda kernel: _Rewrite(kernel, func, names, shuffles).visit(kernel))
    return func.replace(body=kernels.visit(func.body))


class _Rewrite(StmtMutator):
    """Finds the reductions of a kernel, each with the loops right around it."""

    def __init__(self, kernel, func, names, shuffles):
        self.threads, self.func, self.names, self.shuffles = Threads.of(kernel), func, names, shuffles
        self.varying = set()  # variables that differ between threads
        self.inside = False   # of something that some threads skip
        self.around = ()      # loops

    def visit_For(self, loop):
        around, chain, end = (self.inside, self.around), [], loop
        while isinstance(end, For):
            chain.append(end)
            end = end.body
        if isinstance(end, BlockRealize) and _on_threads(end, (*self.around, *chain)):
            return _Reduction(self, end, chain).statement()
        if is_bound(loop, "threadIdx") or self.differs((loop.min, loop.extent)):
            self.varying.add(loop.loop_var)
        self.inside, self.around = self.inside or self.skipped(loop), (*self.around, loop)
        loop, (self.inside, self.around) = loop.replace(body=self.visit(loop.body)), around
        return loop

    def visit_IfThenElse(self, branch):
        around, self.inside = self.inside, self.inside or self.differs(branch.condition)
        branch, self.inside = super().visit_IfThenElse(branch), around
        return branch

    def visit_BlockRealize(self, realize):
        if _on_threads(realize, self.around):
            return _Reduction(self, realize, []).statement()
        around, self.inside = self.inside, self.inside or self.differs(realize.predicate)
        for iv, value in zip(realize.block.iter_vars, realize.iter_values):
            if self.differs(value):
                self.varying.add(iv.var)
                if iv.iter_type == "reduce":
                    raise ThreadReductionError(
                        f"{self.func.title}: block {realize.block.name_hint} is reduced by threads, but "
                        f"{'its init is a block of its own' if realize.block.init is None else 'so is one around it'}; "
                        "bind the loops of a block that has an init and stands in no other one")
        realize, self.inside = super().visit_BlockRealize(realize), around
        return realize

    def skipped(self, loop):
        """Whether some threads do not run a loop, or not as often as others."""
        return self.threads.holds_back(loop) if is_bound(loop, "threadIdx") else self.differs((loop.min, loop.extent))

    def differs(self, e):
        return not self.varying.isdisjoint(free_vars(e))


def driven(realize, kind):
    """The variables that the iterators of a type depend on."""
    return {v for iv, value in zip(realize.block.iter_vars, realize.iter_values) if iv.iter_type == kind
            for v in free_vars(value)}


def _on_threads(realize, loops):
    """Whether loops bound to threads drive the reduction of a block."""
    reduced = driven(realize, "reduce") if realize.block.init is not None else ()
    return any(is_bound(loop, "threadIdx") and loop.loop_var in reduced for loop in loops)


class _Reduction:
    """One block, with the loops right around it, outermost first."""

    def __init__(self, rewrite, realize, chain):
        self.rewrite, self.realize, self.block = rewrite, realize, realize.block
        self.reduced = driven(realize, "reduce")
        first = next((n for n, x in enumerate(chain) if not is_bound(x) and x.loop_var in self.reduced), len(chain))
        self.inner = [x for x in chain[first:] if not is_bound(x)]
        self.outer = [x for x in chain if x not in self.inner]
        self.spatial = [x for x in self.inner if x.loop_var not in self.reduced]  # a register for each iteration
        self.bound = {x.thread_binding: x for x in (*rewrite.around, *self.outer) if is_bound(x, "threadIdx")}
        self.joining = [a for a in AXES if a in self.bound and self.bound[a].loop_var in self.reduced]
        self._check()
        self.combiner, why = combiner_of(self.block)
        if why:
            self._refuse(f"threads cannot join it: {why}")
        self.binding = dict(zip((iv.var for iv in self.block.iter_vars), realize.iter_values))
        self.shape = tuple(x.extent for x in self.spatial) or (const(1),)
        self.own = [self._buffer(b, "partial") for b in self.combiner.buffers]
        self.other = [self._buffer(b, "other", (const(1),)) for b in self.combiner.buffers]
        scopes = {b.scope == "local" for b in self.combiner.buffers}
        if len(scopes) > 1:
            self._refuse("some of its results have the scope \"local\", and others have not; give all the same")
        self.local = scopes == {True}
        self.memory = []

    def _check(self):
        both = self.reduced & driven(self.realize, "spatial")
        if both:
            self._refuse(f"loop {next(iter(both)).name} runs spatial and reduce iterators of it; split the loop")
        for loop in (*self.inner, *self.bound.values()):
            used = set(free_vars((loop.min, loop.extent)))
            if loop in self.spatial and not isinstance(loop.extent, IntImm) or used & {x.loop_var for x in self.inner}:
                self._refuse(f"loop {loop.loop_var.name} has no constant extent; bind the loops around it first")
        if any(not isinstance(x.extent, IntImm) for x in self.bound.values()):
            self._refuse("its threads are no constant number")

    def _refuse(self, why):
        block = self.block.name_hint
        raise ThreadReductionError(f"{self.rewrite.func.title}: block {block} is reduced by threads, but {why}")

    def _buffer(self, b, what, shape=None):
        dtype = "float32" if b.dtype.is_float and b.dtype.bits < 32 else b.dtype
        return decl_buffer(shape or self.shape, dtype, f"{b.name}_{what}", "local")

    # ------------------------------------------------------------ where threads are

    def index(self, axes):
        """The number of a thread along some axes, the first of which is the fastest."""
        number, scale = const(0), 1
        for axis in axes:
            loop = self.bound[axis]
            number = number + cast(loop.loop_var - loop.min, "int32") * scale
            scale *= loop.extent.value
        return number

    @property
    def count(self):
        """How many threads join."""
        return prod(self.bound[a].extent.value for a in self.joining)

    def in_warps(self):
        """Whether the threads that join are neighbours that fill warps, or whole parts of one, and all there."""
        threads = self.rewrite.threads
        if not self.rewrite.shuffles or self.rewrite.inside or set(threads.variables) != set(self.bound) or any(
                self.rewrite.skipped(x) for x in self.outer):
            return False
        if self.joining != [a for a in AXES if a in self.bound][:len(self.joining)]:
            return False
        return self.count % WARP == 0 or self.count < WARP and WARP % self.count == 0 or threads.count == self.count

    # ------------------------------------------------------------ statements

    def statement(self):
        """The reduction: registers, then what joins them."""
        update = self.combiner.joined([self._element(b) for b in self.own], self._terms())
        body = [self._nest(self.inner, self._block("partial", self._assigned(self.own, update),
                                                   self.realize.predicate, self.block.annotations))]
        start = [cast(init, b.dtype) for init, b in zip(self.combiner.inits, self.own)]
        body.insert(0, self._fresh(self._block("start", self._assigned(self.own, start))))
        joined = seq(*(self._in_warps() if self.in_warps() else self._in_memory()))
        loops = (*self.inner, *self.outer, *self.rewrite.around)
        first = {x.loop_var: x.min for x in loops if x.loop_var in self.reduced}
        runs = Analyzer().simplify(substitute(self.realize.predicate, first))
        body.append(self._fresh(seq(self._block("join", joined), self._block("result", self._result(), runs))))
        allocated = (*self.own, *self.other, *self.memory)
        out = self._block("threads", seq(*body), allocated=allocated)
        for loop in reversed(self.outer):
            out = loop.replace(body=out)
        return out

    def _result(self):
        """Stores of what all have; joined to what is there where loops further out reduce, too."""
        buffers, indices = self.combiner.buffers, substitute(self.combiner.indices, self.binding)
        own = [self._element(b) for b in self.own]
        stores = self._assigned(buffers, [cast(e, b.dtype) for e, b in zip(own, buffers)], indices)
        further = [x for x in self.rewrite.around if x.loop_var in self.reduced and not is_bound(x, "threadIdx")]
        if further:
            old = [cast(BufferLoad(b, indices), e.dtype) for e, b in zip(own, buffers)]
            more = [cast(e, b.dtype) for e, b in zip(self.combiner.joined(old, own), buffers)]
            stores = IfThenElse(_all([EQ(x.loop_var, x.min) for x in further]), stores,
                                self._assigned(buffers, more, indices))
        return stores if self.local else self._guarded(self.is_first(), stores)

    def is_first(self):
        """The condition that a thread is the first of those that join."""
        return _all([EQ(self.bound[a].loop_var, self.bound[a].min) for a in self.joining])

    def _terms(self):
        return [cast(substitute(t, self.binding), b.dtype) for t, b in zip(self.combiner.terms, self.own)]

    def _element(self, buffer):
        return BufferLoad(buffer, self._place())

    def _place(self):
        return tuple(x.loop_var - x.min for x in self.spatial) or (const(0),)

    def _assigned(self, buffers, values, indices=None):
        """Statements that store values, none of which sees what another one stored."""
        indices = self._place() if indices is None else indices
        if len(buffers) == 1:
            return BufferStore(buffers[0], values[0], indices)
        lets = [Var(f"{b.name}_next", b.dtype) for b in buffers]
        out = seq(*(BufferStore(b, v, indices) for b, v in zip(buffers, lets)))
        for v, value in reversed(list(zip(lets, values))):
            out = LetStmt(v, value, out)
        return out

    def _guarded(self, condition, stmt):
        return stmt if isinstance(condition, IntImm) else IfThenElse(condition, stmt)

    def _nest(self, loops, body):
        for loop in reversed(loops):
            body = loop.replace(body=body)
        return body

    def _fresh(self, body):
        """A statement for each register, in loops of its own."""
        for loop in reversed(self.spatial):
            v = Var(loop.loop_var.name, loop.loop_var.dtype)
            body = for_(v, loop.extent, substitute(body, {loop.loop_var: v}), "serial", loop.min)
        return body

    def _block(self, what, body, predicate=None, annotations=None, allocated=()):
        """A block without iterators around statements."""
        name = unique_name(f"{self.block.name_hint}_{what}", self.rewrite.names)
        reads, writes = access_regions(body, exclude=allocated)
        block = Block((), reads, writes, name, tuple(allocated), (), annotations or {}, None, body)
        return BlockRealize((), const(True) if predicate is None else predicate, block)

    # ------------------------------------------------------------ joining

    def _in_warps(self):
        """Statements after which the first thread has the whole result, and all have it where that is asked for."""
        count, number = self.count, self.index(self.joining)
        warps = -(-count // WARP)
        width = min(WARP, 1 << (count - 1).bit_length())
        step = width // 2
        while step:
            inside = None if count % width == 0 else number + step < count
            yield from self._handed("down", step, width, inside)
            step //= 2
        if warps == 1:
            if self.local:
                yield from self._shuffled("", 0, width)
                yield self._assigned(self.own, [BufferLoad(b, (const(0),)) for b in self.other])
            return
        rows = [a for a in AXES if a in self.bound and a not in self.joining]
        row, size = self.index(rows), warps * prod(self.bound[a].extent.value for a in rows)
        memory = self._shared(size)
        place = (row * warps + number // WARP,)
        yield self._guarded(EQ(number % WARP, const(0)), seq(*(
            BufferStore(m, self._element(b), place) for m, b in zip(memory, self.own))))
        w = Var("warp")
        more = for_(w, warps - 1, self._joined_with([BufferLoad(m, (row * warps + w + 1,)) for m in memory]),
                    "unrolled")
        more = seq(self._assigned(self.own, [BufferLoad(m, (row * warps,)) for m in memory]), more)
        yield more if self.local else self._guarded(self.is_first(), more)

    def _in_memory(self):
        """Statements that join in shared memory, as a tree."""
        count, number = self.count, self.index(self.joining)
        rows = [a for a in AXES if a in self.bound and a not in self.joining]
        row, several = self.index(rows), prod(self.bound[a].extent.value for a in rows)
        memory = self._shared(count * several)

        def at(n):
            """Where thread n of a row has what is its own: neighbours of a warp side by side, in banks of their own."""
            return row * count + n if AXES[0] in self.joining else n * several + row

        place = (at(number),)
        yield seq(*(BufferStore(m, self._element(b), place) for m, b in zip(memory, self.own)))
        step = (1 << (count - 1).bit_length()) // 2
        while step:
            own, other = ([BufferLoad(m, (at(number + further),)) for m in memory] for further in (0, step))
            runs = number < min(step, count - step)
            yield self._guarded(runs, self._assigned(memory, self.combiner.joined(own, other), place))
            step //= 2
        read = self._assigned(self.own, [BufferLoad(m, (at(const(0)),)) for m in memory])
        yield read if self.local else self._guarded(self.is_first(), read)

    def _shared(self, size):
        """Shared memory of so many elements for each of the results."""
        self.memory = [decl_buffer((size,), b.dtype, f"{b.name}_shared", "shared") for b in self.own]
        return self.memory

    def _handed(self, how, step, width, inside=None):
        """Join what another thread has, where there is that thread."""
        yield from self._shuffled(how, step, width)
        yield self._joined_with([BufferLoad(b, (const(0),)) for b in self.other], inside)

    def _joined_with(self, others, inside=None):
        own = [self._element(b) for b in self.own]
        values = self.combiner.joined(own, others)
        if inside is not None:
            values = [Select(inside, value, e) for value, e in zip(values, own)]
        return self._assigned(self.own, values)

    def _shuffled(self, how, by, width):
        """Stores of what another lane has to `other`. Shuffles stand alone: no thread may skip one."""
        for own, other in zip(self.own, self.other):
            dtype = own.dtype if own.dtype.bits >= 32 else "int32"
            value = Call(dtype, f"tir.tvm_warp_shuffle{how and '_' + how}", (
                self._mask(), cast(self._element(own), dtype), const(by), const(width), const(WARP)))
            yield BufferStore(other, cast(value, own.dtype), (const(0),))

    def _mask(self):
        """The lanes of a thread's warp that exist."""
        total = self.rewrite.threads.count
        full, rest = IntImm("uint32", FULL), IntImm("uint32", (1 << total % WARP) - 1)
        if total % WARP == 0 or total < WARP:
            return full if total % WARP == 0 else rest
        every = [a for a in AXES if a in self.bound]
        return Select(self.index(every) < total // WARP * WARP, full, rest)


def _all(conditions):
    out = const(True)
    for c in conditions:
        out = logical_and(out, c)
    return out
