"""InjectPTXAsyncCopy: copies from global to shared memory in an asynchronous scope become cp.async."""
from __future__ import annotations

from functools import reduce

from ...arith import Analyzer
from ...expr import And, Broadcast, Call, FloatImm, IntImm, Ramp, Range, const, free_vars, is_const_int, substitute
from ...node import Mutator, collect
from ...tir.intrin import address_of
from ...tir.lanes import weak_alignments
from ...tir.stmt import AttrStmt, BufferLoad, BufferStore, Evaluate, seq
from ..walk import StmtMutator
from .barriers import ASYNC_COMMIT, ASYNC_IN_FLIGHT, ASYNC_SCOPE, ASYNC_WAIT

CP_ASYNC, COMMIT, WAIT = "tir.ptx_cp_async", "tir.ptx_commit_group", "tir.ptx_wait_group"
SIZES = (4, 8, 16)  # bytes that one copy may move


def inject_ptx_async_copy(func, offsets=False):
    """Requires flat buffers and no vectorized loops. Ensures that no attribute says `async_scope`,
    `async_commit_queue_scope` or `async_wait_queue_scope`: groups are committed, and waited for, by calls; all of them,
    where there are groups of several stages, which hardware does not tell apart. In an `async_scope`, stores to
    shared memory of 4, 8 or 16 bytes that neighbours in global memory hold, or zeros where a condition fails, are
    tir.ptx_cp_async(to, from, bytes[, condition]); other stores stay, and are done when they are run. What one copy
    moves lies on a multiple of its bytes, if buffers do. offsets: what a call copies is said by pointers and offsets in
    elements, as in TVM: tir.ptx_cp_async(to, offset, from, offset, bytes[, condition])."""
    stages = {s.value.value for s in collect(func.body, AttrStmt) if s.attr_key == ASYNC_COMMIT}
    body = _Inject(weak_alignments(func), len(stages) > 1).visit(func.body)
    return func.replace(body=_Offsets().visit(body) if offsets else body)


class _Offsets(Mutator):
    """Pointers and offsets in the place of addresses."""

    def visit_Call(self, call):
        call = self.generic_visit(call)
        if call.op != CP_ASYNC or len(call.args) > 4:
            return call
        places = []
        for load in (address.args[0] for address in call.args[:2]):
            index, start = load.indices[0], load.buffer.elem_offset
            places += [load.buffer.data, index if is_const_int(start, 0) else index + start]
        return call.replace(args=(*places, *call.args[2:]))


class _Inject(StmtMutator):
    def __init__(self, weak, several):
        self.inside, self.an, self.weak, self.several = False, Analyzer(), weak, several

    def visit_For(self, loop):
        """A loop over neighbours, of a dtype that has no vectors, is one copy too."""
        store, v = loop.body, loop.loop_var
        if self.inside and loop.kind in ("serial", "unrolled") and isinstance(store, BufferStore) and isinstance(
                loop.extent, IntImm) and is_const_int(loop.min, 0):
            lanes = Ramp(const(0, v.dtype), const(1, v.dtype), loop.extent.value)
            copy = _copied_together(store, v, lanes, self.an, self.weak)
            if copy is not None:
                return copy
        self.an.bind(v, Range(loop.min, loop.extent), allow_override=True)
        return super().visit_For(loop)

    def visit_AttrStmt(self, stmt):
        if stmt.attr_key == ASYNC_COMMIT:
            return seq(self.visit(stmt.body), Evaluate(Call("void", COMMIT, ())))
        if stmt.attr_key == ASYNC_WAIT:
            return self.waiting(stmt.body)
        if stmt.attr_key != ASYNC_SCOPE:
            return stmt.replace(body=self.visit(stmt.body))
        around, self.inside = self.inside, True
        body, self.inside = self.visit(stmt.body), around
        return body

    def waiting(self, body):
        """What waits until so few groups are under way as an attribute says; none, where that is no number."""
        pending = const(0)
        if isinstance(body, AttrStmt) and body.attr_key == ASYNC_IN_FLIGHT:
            value, body = self.an.simplify(body.value), body.body
            pending = value if isinstance(value, IntImm) and not self.several else pending
        return seq(Evaluate(Call("void", WAIT, (pending,))), self.visit(body))

    def visit_BufferStore(self, store):
        return (self.inside and copied(store, self.an, self.weak)) or store


def _copied_together(store, v, lanes, an, weak):
    """The copy that the iterations of a loop over v are; None where they are none."""
    def ramp(access):
        start = substitute(access.indices[-1], {v: const(0, v.dtype)})
        if not an.can_prove_equal(access.indices[-1], start + v):
            return None
        return access.replace(indices=(Ramp(start, const(1, start.dtype), lanes.lanes),))

    value, condition = guarded(store.value)
    if not isinstance(value, BufferLoad) or condition is not None and v in free_vars(condition):
        return None
    an.bind(v, Range(const(0, v.dtype), const(lanes.lanes, v.dtype)), allow_override=True)
    to, source = ramp(BufferLoad(store.buffer, store.indices)), ramp(value)
    if to is None or source is None:
        return None
    if condition is not None:
        source = Call(source.dtype, "tir.if_then_else", (condition, source, const(0, source.dtype)))
    return copied(store.replace(indices=to.indices, value=source), an, weak)


def copied(store, an, weak):
    """The asynchronous copy that a store is; None where it is none. weak: {pointer: bytes that it is a multiple of,
    where these are less than 16}."""
    value, condition = guarded(store.value)
    if not (isinstance(value, BufferLoad) and store.buffer.scope.startswith("shared") and value.buffer.scope == "global"
            and value.buffer.dtype == store.buffer.dtype and not store.buffer.strides):
        return None
    start, source = _start(store.indices), _start(value.indices)
    size = store.buffer.dtype.bytes * value.dtype.lanes
    if start is None or source is None or size not in SIZES or weak.get(value.buffer.data, 16) % size or not all(
            an.can_prove_equal(i % value.dtype.lanes, 0) for i in (start, source)):
        return None
    to, of = (address_of(BufferLoad(b, (i,))) for b, i in ((store.buffer, start), (value.buffer, source)))
    more = () if condition is None else (condition,)
    return Evaluate(Call(store.buffer.dtype, CP_ASYNC, (to, of, const(size), *more)))


def guarded(value):
    """(what a value is where conditions hold, these as one; None without any), of one that is 0 elsewhere."""
    found = []
    while isinstance(value, Call) and value.op == "tir.if_then_else" and _is_zero(value.args[2]):
        found.append(value.args[0])
        value = value.args[1]
    return value, reduce(And, found) if found else None


def _start(indices):
    """The first of neighbouring elements; None where they are none."""
    index = indices[-1]
    if not isinstance(index, Ramp):
        return index
    return index.base if is_const_int(index.stride, 1) and index.count is None else None


def _is_zero(value):
    value = value.value if isinstance(value, Broadcast) else value
    return isinstance(value, (IntImm, FloatImm)) and value.value == 0


__all__ = ["CP_ASYNC", "copied", "guarded", "inject_ptx_async_copy"]
