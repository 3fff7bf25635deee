"""InjectSoftwarePipeline and InjectDoubleBuffer: a loop works on what earlier iterations have fetched.

    for k, annotated with stages [0, 1] and order [0, 1]:
        copy(k)
        work(k)
becomes
    copy(0)
    for k in range(n - 1):
        copy(k + 1)
        work(k)
    work(n - 1)
where what `copy` fills has a version for each iteration whose values are alive, along a new first dimension.
"""
from __future__ import annotations

from dataclasses import dataclass

from ...arith import Analyzer
from ...expr import Call, IntImm, Max, Range, Var, const, is_const_int
from ...names import unique_name
from ...node import Mutator, collect
from ...tir.buffer import decl_buffer
from ...tir.hints import ASYNC_STAGES, DOUBLE_BUFFER, LAG, ORDER, STAGES
from ...tir.region import access_regions
from ...tir.renew import renew_defs
from ...tir.stmt import (AttrStmt, Block, BlockRealize, BufferLoad, BufferStore, Evaluate, For, IfThenElse, SeqStmt,
                         seq)
from ..walk import StmtMutator, blocks, without
from .async_copy import COMMIT, WAIT
from .barriers import ASYNC_SCOPE


class PipelineError(ValueError):
    """Annotations of a loop that no pipeline can follow."""


def inject_double_buffer(func):
    """Requires opaque blocks. Ensures that no block says `double_buffer_scope`: the loop around the statement that
    fills such a buffer is annotated to fill it one iteration ahead."""
    if not any(DOUBLE_BUFFER in block.annotations for block in blocks(func.body)):
        return func
    return func.replace(body=_DoubleBuffer().visit(func.body))


class _DoubleBuffer(StmtMutator):
    def visit_For(self, loop):
        allocs, children = statements_in(loop.body)
        ahead = [_fills_twice(child, set(map(id, allocs))) for child in children]
        loop = loop.replace(body=self.visit(loop.body))
        if not any(ahead) or all(ahead) or STAGES in loop.annotations or loop.kind not in ("serial", "unrolled"):
            return loop
        stages = tuple(0 if a else 1 for a in ahead)
        order = sorted(range(len(stages)), key=stages.__getitem__)
        places = tuple(order.index(n) for n in range(len(stages)))
        return loop.replace(annotations={**loop.annotations, STAGES: stages, ORDER: places})

    def visit_Block(self, block):
        return without(super().visit_Block(block), DOUBLE_BUFFER)


def _fills_twice(stmt, allocs):
    """Whether a statement has a block that fills a double buffer, one of those that a loop around allocates."""
    found = ((block, block.annotations[DOUBLE_BUFFER]) for block in blocks(stmt) if DOUBLE_BUFFER in block.annotations)
    return any(id(r.buffer) in allocs for block, place in found for r in block.writes[int(place):int(place) + 1])


def inject_software_pipeline(func, is_async=True):
    """Requires opaque blocks. Ensures that no loop says `software_pipeline_...`: its statements run in the stages and
    the order that it says. is_async: whether stages that it calls asynchronous are copied by cp.async, in groups, of
    which statements wait for what they read; else they are as the others.

    Raises PipelineError where an order would use values before they are there.
    """
    if not any(STAGES in loop.annotations or ORDER in loop.annotations for loop in collect(func.body, For)):
        return func
    return func.replace(body=_Inject(func, is_async).visit(func.body))


class _Inject(StmtMutator):
    def __init__(self, func, is_async):
        self.func, self.is_async = func, is_async
        self.names = {block.name_hint for block in blocks(func.body)}

    def visit_For(self, loop):
        loop = loop.replace(body=self.visit(loop.body))
        if STAGES not in loop.annotations and ORDER not in loop.annotations:
            return loop
        return Pipeline(loop, self.func, self.is_async, self.names).build()


@dataclass(frozen=True)
class _Part:
    """A statement of the loop: where it stands in it, its stage, its place in a turn, what it reads and writes, and
    whether its copies are asynchronous."""

    stmt: object
    place: int
    stage: int
    order: int
    reads: frozenset
    writes: frozenset
    is_async: bool = False


class Pipeline:
    """One loop. A turn t runs a statement of stage s for iteration t - s, where there is such an iteration."""

    def __init__(self, loop, func, is_async, names):
        self.loop, self.func, self.an = loop, func, Analyzer()
        self.names, self.copied = names, set()  # names of blocks; those that stand in a turn already
        self.allocs, children = statements_in(loop.body)
        if len(children) < len(_numbers(loop.annotations.get(STAGES)) or ()):
            self.allocs, children = _statements_inside(self.allocs, children)
        self.parts = self._parts(children, is_async)
        self.turn = sorted(self.parts, key=lambda p: p.order)
        self.last = max(p.stage for p in self.parts)
        self.extent = loop.extent.value if isinstance(loop.extent, IntImm) else None
        self.groups = self._groups()
        # Copies alone run ahead: they may as well be left out of the last turns, which then are as the others.
        self.uniform = bool(self.groups) and all(p.is_async for p in self.parts if p.stage < self.last) and (
            self.extent is None or self.extent > self.last)
        self._check()
        self.versions = {id(b): self.versioned(b) for b in self.allocs}
        self.data = {b.data: self.versions[id(b)][0].data for b in self.allocs if b.data is not None}

    def fail(self, what):
        raise PipelineError(f"{self.func.title}: software pipeline of loop {self.loop.loop_var.name}: {what}")

    def _parts(self, children, is_async):
        stages, order = (_numbers(self.loop.annotations.get(key)) for key in (STAGES, ORDER))
        late = _numbers(self.loop.annotations.get(ASYNC_STAGES, ())) if is_async else ()
        if stages is None or order is None:
            self.fail(f"{STAGES} and {ORDER} go together")
        if not len(stages) == len(order) == len(children):
            self.fail(f"it has {len(children)} statements, {STAGES} tells of {len(stages)}, {ORDER} of {len(order)}")
        if sorted(order) != list(range(len(order))):
            self.fail(f"{ORDER} {list(order)} does not give each statement a place from 0 to {len(order) - 1}")
        if min(stages) < 0:
            self.fail(f"{STAGES} {list(stages)} has a negative stage")
        least = min(stages)
        return [_Part(child, n, stage - least, place, *_touched(child), stage in late and _fetches(child))
                for n, (child, stage, place) in enumerate(zip(children, stages, order))]

    def _check(self):
        own = set(map(id, self.allocs))
        for a in self.parts:
            for b in self.parts[a.place + 1:]:
                for key in (a.writes & (b.reads | b.writes)) | (a.reads & b.writes):
                    early = b.stage < a.stage or b.stage == a.stage and b.order < a.order
                    if early or key not in own and a.stage != b.stage:
                        name = next(x.name for x in _buffers(self.loop.body) if id(x) == key)
                        self.fail(f"statement {b.place} would run before statement {a.place} is done with {name}"
                                  if early else f"statements {a.place} and {b.place} of different stages hand on "
                                                f"{name}, which is allocated outside of the loop")

    # ------------------------------------------------------------ versions

    def versioned(self, buffer):
        """(the buffer with a version per iteration that is alive at once, how many): the buffer itself where one is."""
        key = id(buffer)
        first = [p for p in self.parts if key in p.writes]
        used = [p for p in self.parts if key in p.reads | p.writes]
        if not first or not used:
            return buffer, 1
        begins, ends = min(p.stage for p in first), max(p.stage for p in used)
        count = ends - begins + 1 + (ends > begins) * int(self.loop.annotations.get(LAG, 0))
        if count == 2 and all(r.order < w.order or self.disjoint(w, r, buffer) for r in used if r.stage == ends
                              for w in first if w.stage == begins):
            count = 1  # each turn reads the last time before it writes
        return (buffer, 1) if count == 1 else self.in_versions(buffer, count)

    def disjoint(self, writer, user, buffer):
        """Whether a part surely uses other elements of a buffer than another one writes, whatever their iterations."""
        return False

    def in_versions(self, buffer, count):
        """(a buffer with so many versions of another along a new first dimension, how many)."""
        strides = buffer.strides and (buffer.strides[0] * buffer.shape[0], *buffer.strides)
        shape = (const(count, buffer.shape[0].dtype) if buffer.shape else const(count), *buffer.shape)
        return decl_buffer(shape, buffer.dtype, buffer.name, buffer.scope, strides,
                           data_alignment=buffer.data_alignment), count

    # ------------------------------------------------------------ groups of asynchronous copies

    def _groups(self):
        """The parts in groups: runs of neighbours in a turn whose copies are of one asynchronous stage."""
        groups = []
        for p in self.turn:
            last = groups[-1][-1] if groups else None
            if p.is_async and last is not None and last.order == p.order - 1 and last.stage == p.stage:
                groups[-1].append(p)
            elif p.is_async:
                groups.append([p])
        return groups

    def _exists(self, stage, turn):
        """Whether a stage has an iteration in a turn, a number. Where the extent is no number, groups are committed in
        every turn, empty ones too, and where turns are uniform."""
        return self.uniform or self.extent is None or 0 <= turn - stage < self.extent

    def _wanted(self, part, turn):
        """The last group, as (its turn, its place there), that a part reads from in a turn; None without one."""
        made = [(turn - part.stage + p.stage, g[-1].order) for g in self.groups for p in g if p.writes & part.reads]
        return max(made, default=None)

    def _pending(self, wanted, now):
        """How many groups may be under way at a place, as (turn, order), that waits for one."""
        return sum(wanted < (t, g[-1].order) < now and self._exists(g[0].stage, t)
                   for t in range(wanted[0], now[0] + 1) for g in self.groups)

    # ------------------------------------------------------------ statements

    def build(self):
        loop, last = self.loop, self.last
        dtype = loop.loop_var.dtype
        known = self.extent is not None
        out = [self._turn(t, const(t, dtype)) for t in range(last)]
        if not known or self.extent > last:
            rest = self._steady_turns()
            var = Var(loop.loop_var.name, dtype)
            body = self._turn(last, var + last, steady=True)
            kept = without(loop, STAGES, ORDER, ASYNC_STAGES, LAG)
            out.append(kept.replace(loop_var=var, min=const(0, dtype), extent=rest, body=body))
        if self.uniform:
            pass  # the loop goes on to the end
        elif known:
            out += [self._turn(t, const(t, dtype)) for t in range(max(last, self.extent), self.extent + last)]
        else:
            out += [self._last_turn(k) for k in range(last)]
        body = seq(*out)
        allocs = tuple(self.versions[id(b)][0] for b in self.allocs)
        if not allocs:
            return body
        reads, writes = access_regions(body, exclude=allocs)
        name = unique_name(f"{loop.loop_var.name}_pipeline", self.names)
        block = Block((), reads, writes, name, allocs, (), {}, None, body)
        return BlockRealize((), const(True), block)

    def _steady_turns(self):
        """How many turns the loop has."""
        dtype, extent = self.loop.loop_var.dtype, self.loop.extent
        if self.uniform:
            return extent
        if self.extent is not None:
            return const(self.extent - self.last, dtype)
        return self.an.simplify(Max(extent - self.last, const(0, dtype)))

    def _last_turn(self, k):
        """Turn extent + k of a loop whose extent is no number; before that, the first turns have done it all."""
        dtype, extent = self.loop.loop_var.dtype, self.loop.extent
        body = self._turn(None, extent + k, ends=k)
        return IfThenElse(extent + k >= const(self.last, dtype), body)

    def _turn(self, number, t, steady=False, ends=None):
        """The statements of a turn. number: which one it is, for a steady one the first of its kind; t: its expression;
        ends: how many iterations it is behind the last one, where the extent is no number.

        A turn begins with waiting for what earlier ones have copied: one barrier then stands for this, and before what
        new copies overwrite."""
        out = []
        at = self.last + (ends or 0) if number is None else number  # any turn, where each commits its groups
        runs_now = {p.place: p.stage > ends if ends is not None else steady or (
            p.stage <= number and (self.extent is None or number - p.stage < self.extent)) for p in self.turn}
        wanted = {p.place: self._wanted(p, at) if runs_now[p.place] else None for p in self.turn}
        waited = max((w for w in wanted.values() if w is not None and w[0] < at), default=None)
        if waited is not None:
            out.append(_wait(self._pending(waited, (at, -1))))
        for p in self.turn:
            runs, need = runs_now[p.place], wanted[p.place]
            group = next((g for g in self.groups if p in g), None)
            if runs:
                if need is not None and (waited is None or need > waited):
                    out.append(_wait(self._pending(need, (at, p.order))))
                    waited = need
                first = self.extent is None and not steady and ends is None  # of which there may be fewer
                late = self.uniform and steady and p.stage < self.last
                out.append(self._copy(p, self.an.simplify(t - p.stage), first or late))
            if group is not None and group[-1] is p and (runs or self.extent is None):
                out.append(Evaluate(Call("void", COMMIT, ())))
        return seq(*out)

    def _copy(self, part, iteration, maybe):
        """A part for one iteration, counted from 0; maybe: which may be none of the loop's."""
        loop = self.loop
        value = iteration if is_const_int(loop.min, 0) else self.an.simplify(loop.min + iteration)
        stmt = _Turn({loop.loop_var: value, **self.data}, self, iteration).visit(renew_defs(part.stmt))
        if part.is_async:
            stmt = AttrStmt(const(0), ASYNC_SCOPE, const(1), stmt)
        if maybe:
            stmt = IfThenElse(iteration < loop.extent, stmt)
        return stmt


def _wait(pending):
    """The statement that waits until so many groups are under way."""
    return Evaluate(Call("void", WAIT, (const(pending),)))


class _Turn(Mutator):
    """A part for one iteration: variables take their values, and buffers are their versions of that iteration."""

    def __init__(self, values, pipeline, iteration):
        self.values, self.pipeline, self.iteration = values, pipeline, iteration

    def visit_Var(self, v):
        return self.values.get(v, v)

    def version(self, buffer):
        """(the buffer with versions, the one of this iteration); None where a buffer has one alone."""
        new, count = self.pipeline.versions.get(id(buffer), (None, 1))
        return None if count == 1 else (new, self.pipeline.an.simplify(self.iteration % count))

    def visit_Block(self, block):
        names, copied = self.pipeline.names, self.pipeline.copied
        name = unique_name(block.name_hint, names) if block.name_hint in copied else block.name_hint
        copied.add(block.name_hint)
        return self.generic_visit(block).replace(name_hint=name)

    def _access(self, n):
        found = self.version(n.buffer)
        n = self.generic_visit(n)
        return n if found is None else n.replace(buffer=found[0], indices=(found[1], *n.indices))

    visit_BufferLoad = visit_BufferStore = _access

    def visit_BufferRegion(self, r):
        found = self.version(r.buffer)
        r = self.generic_visit(r)
        if found is None:
            return r
        one = Range.from_min_extent(found[1], const(1, found[1].dtype))
        return r.replace(buffer=found[0], region=(one, *r.region))


# ---------------------------------------------------------------- statements of a loop

def statements_in(body):
    """(buffers that a loop's body allocates, its statements)."""
    allocs = []
    while isinstance(body, BlockRealize) and is_const_int(body.predicate, 1) and not (
            body.block.iter_vars or body.block.match_buffers or body.block.init) and (
            body.block.alloc_buffers or isinstance(body.block.body, (SeqStmt, BlockRealize))):
        allocs += body.block.alloc_buffers
        body = body.block.body
    return allocs, body.seq if isinstance(body, SeqStmt) else (body,)


def _statements_inside(allocs, children):
    """The same with the statements in blocks that only group some, such as pipelines of their own, in their place."""
    found = [statements_in(child) for child in children]
    return [*allocs, *(b for more, _ in found for b in more)], [stmt for _, stmts in found for stmt in stmts]


def _numbers(values):
    return None if values is None else tuple(map(int, values))


def _buffers(stmt):
    yield from (n.buffer for n in collect(stmt, (BufferLoad, BufferStore)))
    for block in blocks(stmt):
        yield from (r.buffer for r in (*block.reads, *block.writes))


def _fetches(stmt):
    """Whether a statement fills shared memory, and from elsewhere: what cp.async can do."""
    read, written = ({n.buffer.scope for n in collect(stmt, kind)} for kind in (BufferLoad, BufferStore))
    return bool(written) and all(s.startswith("shared") for s in written) and not any(
        s.startswith("shared") for s in read)


def _touched(stmt):
    """(ids of the buffers that a statement reads, of those that it writes), by accesses and by what blocks state, whose
    calls may touch more."""
    found = list(blocks(stmt))
    opaque = [b for b in found if b.match_buffers or collect(b.body, Call)]
    reads = {id(n.buffer) for n in collect(stmt, BufferLoad)} | {id(r.buffer) for b in opaque for r in b.reads}
    writes = {id(n.buffer) for n in collect(stmt, BufferStore)} | {id(r.buffer) for b in opaque for r in b.writes}
    return frozenset(reads), frozenset(writes)


__all__ = ["Pipeline", "PipelineError", "inject_double_buffer", "inject_software_pipeline", "statements_in"]
