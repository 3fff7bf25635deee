"""SplitVectors: vectors that a program spells, and that no target has, are computed lane by lane."""
from __future__ import annotations

from ..dtype import ScalableLanes
from ..expr import BinaryExpr, Broadcast, Call, Cast, CompareExpr, IntImm, PrimExpr, Ramp, Select, Var, as_expr
from ..node import Mutator, collect, structural_equal
from ..target import VECTOR_LANES
from ..tir.effects import has_effect
from ..tir.intrinsics import NARROW, NEAREST_HALVES, SCALAR_INTRINSICS, VECTOR_CALLS, VECTOR_CALLS_OF_INTEGERS
from ..tir.shuffle import Shuffle
from ..tir.stmt import BufferLoad, BufferStore, LetStmt, seq
from .vectorize import forms_of

_STORED = (*NARROW, *NEAREST_HALVES)  # narrower numbers, which are loaded, converted and stored as vectors
_OF_LANES = {*(f"tir.{name}" for name in SCALAR_INTRINSICS), "tir.if_then_else", "tir.likely", "tir.reinterpret"}


class _NoLanes(Exception):
    """A vector whose lanes have no expressions of their own."""


def split_vectors(func, simd=True):
    """B[ramp(0, 1, 2)] = Shuffle([A[0:4]], [3, 0])  ->  B[0] = A[3]; B[1] = A[0]

    Requires flat buffers. Lanes are all computed before the first is stored, where the buffer is read too; what has an
    effect is called once for all of them. simd: whether arithmetic of vectors that simd.h has stays as it is; else all
    does, but what Shuffles, and what overwrites what it reads."""
    if not collect(func.body, (Broadcast, Ramp, Shuffle)):
        return func
    return func.replace(body=_SplitVectors(forms_of(func).arithmetic if simd else None).visit(func.body))


class _SplitVectors(Mutator):
    """simd: {dtype: operators of its vectors}; None: no store is looked at for that."""

    def __init__(self, simd):
        self.simd = simd

    def visit_Shuffle(self, e):
        """A single lane; vectors are of stores."""
        e = self.generic_visit(e)
        try:
            return OneLane(0).visit(e) if e.dtype.lanes == 1 else e
        except _NoLanes:
            return e

    def visit_BufferStore(self, store):
        store = self.generic_visit(store)
        lanes = store.value.dtype.lanes
        if lanes == 1 or store.buffer.dtype.lanes > 1 or isinstance(lanes, ScalableLanes):
            return store
        reads = _reads_what_it_stores(store)
        stays = _is_simd(store.value, self.simd) if self.simd else not reads and not collect(store.value, Shuffle)
        try:
            return store if stays and isinstance(store.indices[-1], Ramp) else _by_lanes(store, lanes, reads)
        except _NoLanes:
            return store


def _reads_what_it_stores(store):
    """Whether a lane may read what another one stores, or what is stored to one place by several lanes."""
    own = [load for load in collect((store.value, store.indices), BufferLoad)
           if load.buffer.data is store.buffer.data]
    stride = getattr(store.indices[-1], "stride", None)
    return bool(own) and (
        not isinstance(stride, IntImm) or stride.value == 0
        or any(not structural_equal(load.indices, store.indices) for load in own)
        or any(load.buffer.data is store.buffer.data for load in collect(collect(store.value, Shuffle), BufferLoad)))


def _by_lanes(store, lanes, reads):
    """A store of a vector as stores of its lanes. reads: all that they read is read before the first is stored."""
    store, calls = _calls_named(store)
    made, named = [], []
    for k in range(lanes):
        *indices, value = (OneLane(k).visit(e) for e in (*store.indices, store.value))
        if reads:
            value = _named(f"{store.buffer.name}_{k}", value, named)
            indices = [_named(f"{store.buffer.name}_{k}_place", i, named) if collect(i, BufferLoad) else i
                       for i in indices]
        made.append(BufferStore(store.buffer, value, tuple(indices)))
    made = seq(*made)
    for var, value in reversed([*calls, *named]):
        made = LetStmt(var, value, made)
    return made


def _named(name, value, named):
    var = Var(name, value.dtype)
    named.append((var, value))
    return var


def _calls_named(store):
    """(a store, [(variable, value)]) where what all lanes have of a call with an effect is a variable: it is called
    once. Raises _NoLanes for other calls with effects."""
    found = []
    named = _Once(found).visit(store)
    if has_effect(named):
        raise _NoLanes
    return named, found


class _Once(Mutator):
    def __init__(self, found):
        self.found = found

    def visit_Broadcast(self, e):
        return e.replace(value=_named("of_all_lanes", e.value, self.found)) if has_effect(e.value) else e


class OneLane(Mutator):
    """Vectors as the element that a lane, a number, has of them. Raises _NoLanes where it has no expression."""

    def __init__(self, lane):
        self.lane = lane

    def visit_Ramp(self, ramp):
        if ramp.count is not None:
            raise _NoLanes
        return ramp.base + ramp.stride * self.lane

    def visit_Broadcast(self, e):
        return e.value

    def visit_Shuffle(self, e):
        lane = e.indices[self.lane if len(e.indices) > 1 else 0].value
        for vector in e.vectors:
            if lane < vector.dtype.lanes:
                return OneLane(lane).visit(vector) if vector.dtype.lanes > 1 else vector
            lane -= vector.dtype.lanes
        raise AssertionError("a Shuffle has no such lane")

    def visit_BufferLoad(self, load):
        if load.buffer.dtype.lanes > 1:
            raise _NoLanes
        return load if load.dtype.lanes == 1 else self.generic_visit(load)

    def visit_Cast(self, e):
        return Cast(e.dtype.element, self.visit(e.value))

    def visit_Call(self, e):
        if e.dtype.lanes == 1:
            return e
        if e.op not in _OF_LANES:
            raise _NoLanes
        return Call(e.dtype.element, e.op, tuple(as_expr(self.visit(a)) for a in e.args))

    def visit_Var(self, var):
        if var.dtype.lanes > 1:
            raise _NoLanes
        return var

    def visit_Let(self, e):
        raise _NoLanes


def _is_simd(value, arithmetic):
    """Whether simd.h has all of what is stored: numbers that are converted when they are loaded are not just copied."""
    copied = isinstance(value, BufferLoad) and str(value.dtype.element) not in arithmetic
    return not copied and _has_simd(value, arithmetic)


def _has_simd(e, arithmetic):
    """Whether simd.h has all of a vector: the operators and the types."""
    if e.dtype.lanes == 1:
        return True
    if isinstance(e, BufferLoad):
        return (e.buffer.dtype.lanes > 1 or isinstance(e.indices[-1], Ramp)) and _has_type(e, arithmetic, _STORED)
    below = [x for f in e._fields if isinstance(x := getattr(e, f), PrimExpr)]
    if isinstance(e, Select):
        compared, *below = below
        if not hasattr(compared, "b") or compared.a.dtype != e.dtype or not e.dtype.is_float:
            return False
        below += [compared.a, compared.b]
    elif isinstance(e, Call):
        name, below = e.op.removeprefix("tir."), e.args
        known = VECTOR_CALLS_OF_INTEGERS if e.dtype.is_int else VECTOR_CALLS
        if name in SCALAR_INTRINSICS and name not in known and e.dtype.element not in _STORED:
            return False
    elif isinstance(e, (CompareExpr, Ramp, Shuffle)) or isinstance(e, BinaryExpr) and not isinstance(
            e, arithmetic.get(str(e.dtype.element), ())):
        return False
    more = _STORED if isinstance(e, (Cast, Call)) else ()
    return _has_type(e, arithmetic, more) and all(_has_simd(x, arithmetic) for x in below)


def _has_type(e, arithmetic, more):
    return e.dtype.lanes in VECTOR_LANES and (e.dtype.element in arithmetic or e.dtype.element in more)


__all__ = ["split_vectors"]
