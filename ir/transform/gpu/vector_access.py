"""VectorizeAccess: vectorized loops of kernels for GPUs move several elements at once."""
from __future__ import annotations

from functools import reduce

from ...arith import Analyzer
from ...expr import And, Broadcast, Call, FloatImm, IntImm, Ramp, Range, Var, const
from ...node import Mutator, Node, collect, structural_equal
from ...tir.buffer import decl_buffer
from ...tir.hints import REDUCE_LANES
from ...tir.lanes import BYTES, Lanes, is_choice, loads_of, weak_alignments
from ...tir.stmt import BufferLoad, BufferStore, DeclBuffer, For, IfThenElse, SeqStmt, seq
from ..walk import StmtMutator, without
from .barriers import ASYNC_SCOPE

MOST_UNROLLED = 16  # lanes that are copies of what one does


def vectorize_access(func, enable_vectorize=True):
    """Requires flat buffers. Ensures no vectorized loops: in those over neighbours in memory whose addresses are
    multiples of 8 or 16 bytes these are moved together, by a BufferStore of a Ramp. Its value is a BufferLoad of a
    Ramp, the same where a condition holds and zeros elsewhere (tir.if_then_else), or a constant (Broadcast). What is
    computed lies in an array of the thread, element by element, and so does what it is computed of. All other loops
    become unrolled ones, long ones serial, as all do unless enable_vectorize. So do loops with annotation REDUCE_LANES,
    whose lanes add up one after the other what is moved together."""
    return func.replace(body=_VectorizeAccess(weak_alignments(func), enable_vectorize).visit(func.body))


class _VectorizeAccess(StmtMutator):
    def __init__(self, weak, enabled):
        self.an, self.weak, self.sizes = Analyzer(), weak, BYTES if enabled else ()
        self.asynchronous = False

    def visit_AttrStmt(self, stmt):
        around, self.asynchronous = self.asynchronous, self.asynchronous or stmt.attr_key == ASYNC_SCOPE
        body, self.asynchronous = self.visit(stmt.body), around
        return stmt.replace(body=body)

    def visit_For(self, loop):
        self.an.bind(loop.loop_var, Range(loop.min, loop.extent), allow_override=True)
        if loop.kind != "vectorized" and REDUCE_LANES not in loop.annotations:
            return super().visit_For(loop)
        loop = without(loop, REDUCE_LANES)
        if not isinstance(loop.extent, IntImm):
            return loop.replace(kind="serial", body=self.visit(loop.body))
        return self.whole(loop)

    def visit_BufferStore(self, store):
        """A store of a vector that a program spells, as the loop over its lanes."""
        index = store.indices[-1]
        if not isinstance(index, Ramp):
            return store
        lane = Var("lane", index.base.dtype)
        one = _OneLane(lane)
        body = BufferStore(store.buffer, one.visit(store.value), tuple(map(one.visit, store.indices)))
        return self.visit(For(lane, const(0, lane.dtype), const(index.lanes, lane.dtype), "vectorized", body))

    def whole(self, loop):
        """A vectorized loop as one or several accesses; unrolled, where that may not be."""
        stores = collect(loop.body, BufferStore)
        size = min((s.buffer.dtype.bytes for s in stores), default=16)
        for lanes in (b // size for b in self.sizes):
            turns, rest = divmod(loop.extent.value, lanes)
            if lanes < 2 or rest or not turns:
                continue
            v, outer = loop.loop_var, Var(f"{loop.loop_var.name}_0", loop.loop_var.dtype)
            start = loop.min if turns == 1 else loop.min + outer * lanes
            self.an.bind(outer, Range(const(0, v.dtype), const(turns, v.dtype)), allow_override=True)
            found = _Widen(self, v, start, lanes, loop.kind != "vectorized").stmt(loop.body)
            if found is not None:
                zero = const(0, v.dtype)
                return found if turns == 1 else For(outer, zero, const(turns, v.dtype), "unrolled", found)
        kind = "unrolled" if loop.extent.value <= MOST_UNROLLED else "serial"
        return loop.replace(kind=kind, body=self.visit(loop.body))


class _Widen(Lanes):
    """Makes accesses of so many lanes of the statements in a loop over v, whose iterations begin at `start`.
    in_order: they depend on each other, one after the other."""

    def __init__(self, outer, v, start, lanes, in_order):
        super().__init__(outer.an, v, start, lanes, outer.weak)
        self.asynchronous, self.in_order = outer.asynchronous, in_order

    def stmt(self, stmt):
        """Several lanes of a statement; None where it has no access for them."""
        if isinstance(stmt, SeqStmt):
            parts = [] if self.in_order else [self.stmt(s) for s in stmt.seq]
            if not any(p is not None for p in parts):
                return None
            return seq(*(self.apart(s) if p is None else p for s, p in zip(stmt.seq, parts)))
        if isinstance(stmt, IfThenElse) and stmt.else_case is None and self.is_one(stmt.condition):
            body = self.stmt(stmt.then_case)
            return body and stmt.replace(condition=self.at_start(stmt.condition), then_case=body)
        return self.store(stmt) if isinstance(stmt, BufferStore) else None

    def apart(self, stmt):
        """The lanes of a statement one by one."""
        return For(self.lane, const(0, self.v.dtype), const(self.lanes, self.v.dtype), "unrolled", self.in_lane(stmt))

    def store(self, store):
        to = self.ramp(store)
        value = self.moved(store.value, store.buffer) if to is not None else None
        if value is not None and (_is_memory(store.buffer) or any(
                _is_memory(load.buffer) for load in collect(value, BufferLoad))):
            return BufferStore(store.buffer, value, (to,))
        return None if self.asynchronous else self.computed(store, to if _is_memory(store.buffer) else None)

    def computed(self, store, to):
        """What is read in a row is moved to arrays, what is written comes from one; to: its Ramp, None where it is
        written element by element. None where nothing is moved."""
        reads, arrays, moves = self.reads(store.value, None if to is not None else store.buffer), [], []
        value = store.value
        for load, (buffer, vectors) in reads.items():
            array = self.array(buffer, "")
            arrays.append(array)
            each = self.lanes // len(vectors)
            moves += [BufferStore(array, vector, (self.lanes_of(array, n * each, each),))
                      for n, vector in enumerate(vectors)]
            value = _Replace(load, BufferLoad(array, (self.v - self.start,))).visit(value)
        if not arrays and to is None:
            return None
        if to is not None:
            made = self.array(store.buffer, "_out")
            arrays.append(made)
            each = self.apart(BufferStore(made, value, (self.v - self.start,)))
            moves += [each, BufferStore(store.buffer, BufferLoad(made, (self.lanes_of(made),)), (to,))]
        else:
            moves.append(self.apart(store.replace(value=value)))
        body = _Simple(self.an).visit(seq(*moves))
        for array in reversed(arrays):
            body = DeclBuffer(array, body)
        return body

    def array(self, buffer, suffix):
        return decl_buffer((const(self.lanes),), buffer.dtype, f"{buffer.name}{suffix}_{self.lanes}", "local")

    def lanes_of(self, array, first=0, count=None):
        dtype = array.shape[0].dtype
        return Ramp(const(first, dtype), const(1, dtype), count or self.lanes)

    def reads(self, value, own):
        """{load, or choice between one and zero: (its buffer, the vectors of its lanes)} of what is read in a row:
        elements that are wider than those that are written take several vectors. What is read where a condition holds
        for all lanes is zeros elsewhere. own: the buffer of a sum, which lanes add to one after the other."""
        found = {}
        for e, load, conditions in loads_of(value):
            ramps = self.ramps(load) if _is_memory(load.buffer) and load.buffer is not own and all(
                map(self.is_one, conditions)) else ()
            if not ramps or any(structural_equal(e, other) for other in found):
                continue
            vectors = [BufferLoad(load.buffer, (index,)) for index in ramps]
            if conditions:
                condition = self.at_start(reduce(And, conditions))
                zero = Broadcast(const(0, load.dtype), ramps[0].lanes)
                vectors = [Call(v.dtype, "tir.if_then_else", (condition, v, zero)) for v in vectors]
            found[e] = load.buffer, vectors
        return found

    def ramps(self, load):
        """The Ramps of as many vectors as the lanes of a load are; none where they are no whole ones."""
        each = max(BYTES) // load.buffer.dtype.bytes
        if self.lanes <= each or self.lanes % each:
            index = self.ramp(load)
            return () if index is None else (index,)
        parts = [Lanes(self.an, self.v, self.start + n * each if n else self.start, each, self.weak).ramp(load)
                 for n in range(self.lanes // each)]
        return () if any(p is None for p in parts) else tuple(parts)

    def moved(self, value, to):
        """The vector that a value is where lanes are moved to a buffer; None where they are computed."""
        if isinstance(value, (FloatImm, IntImm)):
            return Broadcast(value, self.lanes) if _is_memory(to) else None
        if isinstance(value, BufferLoad):
            index = self.ramp(value) if value.dtype == to.dtype else None
            return None if index is None else BufferLoad(value.buffer, (index,))
        if is_choice(value) and isinstance(value.args[1], BufferLoad) and self.is_one(value.args[0]) and (
                load := self.moved(value.args[1], to)) is not None:
            condition, zero = self.at_start(value.args[0]), Broadcast(value.args[2], self.lanes)
            return Call(load.dtype, "tir.if_then_else", (condition, load, zero))
        return None


class _OneLane(Mutator):
    """Vectors as the element that a lane has of them."""

    def __init__(self, lane):
        self.lane = lane

    def visit_Ramp(self, ramp):
        return ramp.base + ramp.stride * self.lane

    def visit_Broadcast(self, e):
        return self.visit(e.value)


class _Replace(Mutator):
    def __init__(self, old, new):
        self.old, self.new = old, new

    def visit(self, value):
        if isinstance(value, Node) and type(value) is type(self.old) and structural_equal(value, self.old):
            return self.new
        return super().visit(value)


class _Simple(Mutator):
    """Simplifies indices."""

    def __init__(self, an):
        self.an = an

    def visit_BufferLoad(self, load):
        return load.replace(indices=tuple(map(self._index, load.indices)))

    def visit_BufferStore(self, store):
        return store.replace(value=self.visit(store.value), indices=tuple(map(self._index, store.indices)))

    def _index(self, index):
        return index if isinstance(index, Ramp) else self.an.simplify(self.visit(index))


def _is_memory(buffer):
    """Whether a buffer lies in memory, not in the registers of a thread."""
    return buffer.scope != "local"


__all__ = ["vectorize_access"]
