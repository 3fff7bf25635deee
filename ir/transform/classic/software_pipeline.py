"""InjectSoftwarePipeline as scripts know it: a block for what runs before a pipelined loop, for the loop, and for what
runs after it, and attributes for copies that are asynchronous. The form that builds use is gpu/software_pipeline.py."""
from __future__ import annotations

from dataclasses import dataclass, field

from ...arith import Analyzer
from ...expr import EQ, Call, Max, Not, Range, Var, as_expr, const, free_vars, is_const_int, logical_and, substitute
from ...node import Mutator, collect
from ...tir.block_access import block_reads_writes
from ...tir.hints import ASYNC_STAGES, DOUBLE_BUFFER, ORDER, STAGES
from ...tir.renew import renew_defs
from ...tir.stmt import AttrStmt, Block, BlockRealize, Evaluate, For, SeqStmt
from ..gpu.barriers import ASYNC_COMMIT, ASYNC_IN_FLIGHT, ASYNC_SCOPE, ASYNC_WAIT
from ..gpu.software_pipeline import Pipeline
from ..walk import StmtMutator, blocks, without


def inject_software_pipeline(func):
    """Requires opaque blocks without matched buffers. Ensures that no loop says `software_pipeline_...`: in the place
    of one stands a block that allocates what the loop did, with a first dimension of versions where iterations overlap,
    and has three others: the turns before all stages run, the loop of those in which they do, and the turns after it.
    What fills a buffer of an asynchronous stage is within attributes `async_commit_queue_scope` and `async_scope`, what
    reads it within `async_wait_queue_scope` and `async_wait_inflight_count`: how many fills may be under way.

    Raises PipelineError where an order would use values before they are there."""
    if not any(STAGES in loop.annotations or ORDER in loop.annotations for loop in collect(func.body, For)):
        return func
    doubled = {b.writes[int(b.annotations[DOUBLE_BUFFER])].buffer for b in blocks(func.body)
               if DOUBLE_BUFFER in b.annotations}
    return func.replace(body=_Inject(func, doubled).visit(func.body))


class _Inject(StmtMutator):
    def __init__(self, func, doubled):
        self.func, self.doubled = func, doubled

    def visit_For(self, loop):
        loop = loop.replace(body=self.visit(loop.body))
        if STAGES not in loop.annotations and ORDER not in loop.annotations:
            return loop
        return _Classic(loop, self.func, self.doubled).build()


def _block(stmt, allocs=()):
    """The block that a statement is, or one around it."""
    if isinstance(stmt, BlockRealize) and is_const_int(stmt.predicate, 1) and not (stmt.iter_values or allocs):
        return stmt.block
    block = Block((), (), (), "", tuple(allocs), (), {}, None, stmt)
    reads, writes = block_reads_writes(block)
    return block.replace(reads=tuple(reads), writes=tuple(writes))


def _realized(block, predicate=True):
    return BlockRealize((), as_expr(predicate), block)


@dataclass
class _Turns:
    """What is known of an asynchronous stage in some turns. groups: positions of the blocks whose fills are committed
    together; head: the iteration that the last one fills; consumed: whether something has read since that began; wait:
    (position of the first block that waits, how many fills may be under way there)."""

    groups: list = field(default_factory=list)
    of: dict = field(default_factory=dict)  # buffer -> its group
    seen: set = field(default_factory=set)
    head: object = None
    predicate: object = None
    consumed: bool = False
    wait: tuple = None


class _Classic(Pipeline):
    """One loop, each of whose statements is a block."""

    def __init__(self, loop, func, doubled):
        self.doubled, self.asynchronous = doubled, set(map(int, loop.annotations.get(ASYNC_STAGES, ())))
        super().__init__(loop, func, True, set())
        self.filled = {}  # asynchronous stage -> the buffers that it fills
        self.heads = {}   # asynchronous stage -> the last iteration whose fill is committed; None: not known

    def versioned(self, buffer):
        new, count = super().versioned(buffer)
        return self.in_versions(buffer, 2) if count == 1 and buffer in self.doubled else (new, count)

    def disjoint(self, writer, user, buffer):
        (_, writes), (reads, more) = (block_reads_writes(Block((), body=p.stmt)) for p in (writer, user))
        return all(self._apart(a.region, b.region) for a in writes if a.buffer is buffer
                   for b in (*reads, *more) if b.buffer is buffer)

    def _apart(self, a, b):
        """Whether two regions have no element in common in any two iterations: in some dimension, which the loop does
        not decide, one ends before the other begins."""
        return any(self.loop.loop_var not in free_vars((x.min, x.extent, y.min, y.extent)) and (
            self.an.can_prove(x.min + x.extent <= y.min) or self.an.can_prove(y.min + y.extent <= x.min))
            for x, y in zip(a, b))

    def in_versions(self, buffer, count):
        """(the buffer with so many versions, how many)."""
        dtype = buffer.shape[0].dtype if buffer.shape else "int32"
        strides = buffer.strides and (buffer.strides[0] * buffer.shape[0], *buffer.strides)
        return buffer.replace(shape=(const(count, dtype), *buffer.shape), strides=strides), count

    def build(self):
        loop, last, dtype = self.loop, self.last, self.loop.loop_var.dtype
        least, end = loop.min, self.an.simplify(loop.min + loop.extent)
        full = self.an.simplify(least + const(last, dtype))
        lower, after = None, end
        if last > 1 and not self.an.can_prove(loop.extent >= last):
            if self.extent is not None and is_const_int(end):
                after = self.an.simplify(Max(end, full))
            else:
                lower = full
        turns = SeqStmt((self.turns(least, full, True), self.turns(full, end, False),
                         self.turns(after, self.an.simplify(end + const(last, dtype)), True, lower)))
        return _realized(_block(turns, [self.versions[id(b)][0] for b in self.allocs]))

    def turns(self, start, end, unrolled, lower=None):
        """The turns from `start` up to `end`, in a block. lower: before which turns none run."""
        an, loop = self.an, self.loop
        extent = an.simplify(end - start)
        if an.can_prove(extent <= 0):
            return _realized(_block(Evaluate(const(0))))
        var = Var(loop.loop_var.name, loop.loop_var.dtype)
        known = Analyzer()
        single = an.can_prove_equal(extent, 1)
        if not single:
            an.bind(var, Range(start, extent))
            known.bind(var, Range(loop.min, extent))
        made, states = [], {}
        for part in self.turn:
            found = self.in_turn(part, start, start if single else var, single, lower)
            if found is not None:
                predicate, iteration, block = found
                self.note(part, predicate, iteration, block, len(made), states, known)
                made.append((part, predicate, block, iteration))
        stmts = self.finished(made, states, known)
        body = stmts[0] if len(stmts) == 1 else SeqStmt(tuple(stmts))
        if not single:
            kept = without(loop, STAGES, ORDER, ASYNC_STAGES)
            body = kept.replace(loop_var=var, min=loop.min, extent=extent, body=body,
                                kind="unrolled" if unrolled else loop.kind)
        for stage, state in states.items():
            sure = state.predicate is not None and known.can_prove(state.predicate)
            before = self.heads.get(stage, const(-1, var.dtype))
            self.heads[stage] = before + extent if sure and before is not None else None
        return _realized(_block(body))

    def in_turn(self, part, start, turn, single, lower):
        """(when a part runs in turns, its iteration, its block); None where it never does."""
        loop = self.loop
        iteration = turn - part.stage
        predicate = logical_and(self.has_begun(part, turn), iteration < loop.min + loop.extent)
        if lower is not None:
            predicate = self.an.simplify(logical_and(predicate, turn >= lower))
        if self.an.can_prove(Not(predicate)):
            return None
        if not single:  # the loop begins where the old one did
            shift = self.an.simplify(start - loop.min)
            predicate = substitute(predicate, {turn: turn + shift})
            iteration = iteration + shift
        stmt = renew_defs(part.stmt)
        block = _Versions(self, loop.loop_var - loop.min).visit(_block(stmt))
        return predicate, iteration, substitute(block, {loop.loop_var: iteration})

    def has_begun(self, part, turn):
        """Whether a part has an iteration in a turn, of those that are not behind the last one."""
        first = self.an.simplify(self.loop.min + const(part.stage, turn.dtype))
        if self.an.can_prove(turn >= first):
            return as_expr(True)
        return EQ(turn, first) if self.an.can_prove(turn <= first) else first <= turn

    # ------------------------------------------------------------ asynchronous stages

    def note(self, part, predicate, iteration, block, position, states, known):
        """Enter the block of a part into the states of the stages that it fills for, or waits for."""
        if part.stage in self.asynchronous:
            state = states.setdefault(part.stage, _Turns())
            if not state.groups or state.consumed or state.groups[-1][-1] != position - 1:
                state.groups.append([])
                state.consumed = False
            state.groups[-1].append(position)
            for region in block.writes:
                self.filled.setdefault(part.stage, set()).add(region.buffer)
                state.of[region.buffer] = len(state.groups) - 1
            state.head = iteration
            if state.predicate is None or known.can_prove(state.predicate):
                state.predicate = predicate
            else:
                state.predicate = known.simplify(logical_and(state.predicate, predicate))
        for stage, _ in self.read_stages(part, block):
            states.setdefault(stage, _Turns()).consumed = True

    def read_stages(self, part, block):
        """[(an asynchronous stage up to a part's own, the buffers of it that the part's block reads)]."""
        found = ((stage, [r.buffer for r in block.reads if r.buffer in buffers])
                 for stage, buffers in sorted(self.filled.items()) if stage <= part.stage)
        return [(stage, buffers) for stage, buffers in found if buffers]

    def waits(self, made, states, known):
        """Find out which blocks wait, and for how many fills."""
        for position, (part, _, block, iteration) in enumerate(made):
            if part.stage in self.asynchronous:
                states[part.stage].seen.update(r.buffer for r in block.writes)
            found = self.read_stages(part, block)
            if len(found) > 1:
                self.fail(f"statement {part.place} reads what several asynchronous stages fill")
            for stage, buffers in found:
                state = states[stage]
                count = self.in_flight(stage, state, buffers, iteration, known)
                if state.wait is None:
                    state.wait = position, count
                elif self.an.can_prove(count < state.wait[1]):
                    state.wait = state.wait[0], count

    def in_flight(self, stage, state, buffers, iteration, known):
        """How many fills of a stage may be under way when an iteration reads some of its buffers; 0 where that is not
        known."""
        if not state.groups:
            heads = [self.heads.get(stage)]
        else:
            first = {state.of[b]: b for b in reversed(buffers)}  # group -> the first buffer of it
            heads = [state.head if b in state.seen else state.head - 1 for b in first.values()]
        if not all(h is not None and known.can_prove(h >= 0) for h in heads):
            return const(0)
        return sum((self.an.simplify(h - iteration) for h in heads[1:]), self.an.simplify(heads[0] - iteration))

    def finished(self, made, states, known):
        """The statements of turns: groups are committed, and blocks wait."""
        self.waits(made, states, known)
        bodies = {n: block for n, (_, _, block, _) in enumerate(made)}
        committed = {n: stage for stage, state in states.items() for group in state.groups for n in group}
        for n, stage in committed.items():
            bodies[n] = bodies[n].replace(body=AttrStmt(const(0), ASYNC_SCOPE, const(1), bodies[n].body))
        for stage, state in states.items():
            if state.wait is not None:
                n, count = state.wait
                if state.predicate is not None and not known.can_prove(state.predicate):
                    count = Call("int32", "tir.if_then_else", (state.predicate, count, const(0)))
                within = AttrStmt(const(0), ASYNC_IN_FLIGHT, count, bodies[n].body)
                bodies[n] = bodies[n].replace(body=AttrStmt(const(0), ASYNC_WAIT, const(stage), within))
        return list(self.in_groups(made, bodies, committed))

    def in_groups(self, made, bodies, committed):
        position = 0
        while position < len(made):
            predicate, stage = made[position][1], committed.get(position)
            if stage is None:
                yield _realized(bodies[position], predicate)
                position += 1
                continue
            group = [position]
            while committed.get(group[-1] + 1) == stage:
                group.append(group[-1] + 1)
            body = bodies[position].body if len(group) == 1 else SeqStmt(tuple(bodies[n].body for n in group))
            yield _realized(_block(AttrStmt(const(0), ASYNC_COMMIT, const(stage), body)), predicate)
            position = group[-1] + 1


class _Versions(Mutator):
    """Makes a part access the version of an iteration, counted from 0."""

    def __init__(self, pipeline, iteration):
        self.pipeline, self.iteration, self.whole = pipeline, iteration, pipeline.last != 1
        self.listing = False  # within the regions of a signature, which cover all versions where there are many stages

    def version(self, buffer):
        """(the buffer with versions, how many, the one that is accessed); None of a buffer with one alone."""
        new, count = self.pipeline.versions.get(id(buffer), (None, 1))
        return None if count == 1 else (new, count, self.iteration % const(count, self.iteration.dtype))

    def visit_Block(self, block):
        self.listing = True
        reads, writes = self.visit(block.reads), self.visit(block.writes)
        self.listing = False
        return self.generic_visit(block.replace(reads=(), writes=())).replace(reads=reads, writes=writes)

    def visit_BufferRegion(self, r):
        found = self.version(r.buffer)
        r = self.generic_visit(r)
        if found is None:
            return r
        new, count, one = found
        every = self.whole and self.listing
        first = Range(const(0, one.dtype), const(count, one.dtype)) if every else Range(one, const(1, one.dtype))
        return r.replace(buffer=new, region=(first, *r.region))

    def _access(self, access):
        found = self.version(access.buffer)
        access = self.generic_visit(access)
        return access if found is None else access.replace(buffer=found[0], indices=(found[2], *access.indices))

    visit_BufferLoad = visit_BufferStore = _access

    def visit_Call(self, call):
        for b in self.pipeline.allocs:
            if any(a is b.data for a in call.args) and self.version(b) is not None:
                self.pipeline.fail(f"{call.op} takes the pointer {b.name}.data, which says nothing of versions; use "
                                   f"T.address_of({b.name}[...])")
        return self.generic_visit(call)


__all__ = ["inject_software_pipeline"]
