"""SplitVectors: vectors that a program spells, and that no target has, are computed lane by lane."""
from __future__ import annotations

from ..dtype import ScalableLanes
from ..expr import BinaryExpr, Call, Cast, CompareExpr, PrimExpr, Ramp, Select, Var, as_expr
from ..node import Mutator, collect, structural_equal
from ..target import VECTOR_LANES
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

    Requires flat buffers. Lanes are all computed before the first is stored, where the buffer is read too. simd:
    whether arithmetic of vectors that simd.h has stays as it is; else all does, but what Shuffles, and what overwrites
    what it reads."""
    if not collect(func.body, (Ramp, Shuffle)):
        return func
    return func.replace(body=_SplitVectors(forms_of(func).arithmetic if simd else None).visit(func.body))


class _SplitVectors(Mutator):
    """simd: {dtype: operators of its vectors}; None: no store is looked at for that."""

    def __init__(self, simd):
        self.simd = simd

    def visit_Shuffle(self, e):
        """A single lane; vectors are of stores."""
        try:
            return OneLane(0).visit(e) if e.dtype.lanes == 1 else self.generic_visit(e)
        except _NoLanes:
            return e

    def visit_BufferStore(self, store):
        lanes = store.value.dtype.lanes
        reads = any(load.buffer.data is store.buffer.data and not structural_equal(load.indices, store.indices)
                    for load in collect(store.value, BufferLoad))
        stays = _has_simd(store.value, self.simd) if self.simd else not reads and not collect(store.value, Shuffle)
        if lanes == 1 or stays or isinstance(lanes, ScalableLanes):
            return self.generic_visit(store)
        try:
            return _by_lanes(store, lanes, reads)
        except _NoLanes:
            return store


def _by_lanes(store, lanes, reads):
    """A store of a vector as stores of its lanes; reads: also other places of what it stores to."""
    parts = [(tuple(map(OneLane(k).visit, store.indices)), OneLane(k).visit(store.value)) for k in range(lanes)]
    if not reads:
        return seq(*(BufferStore(store.buffer, value, indices) for indices, value in parts))
    names = [Var(f"{store.buffer.name}_{k}", value.dtype) for k, (_, value) in enumerate(parts)]
    made = seq(*(BufferStore(store.buffer, var, indices) for var, (indices, _) in zip(names, parts)))
    for var, (_, value) in reversed([*zip(names, parts)]):
        made = LetStmt(var, value, made)
    return made


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


def _has_simd(e, arithmetic):
    """Whether simd.h has all of a vector: the operators and the types."""
    if e.dtype.lanes == 1:
        return True
    if isinstance(e, BufferLoad):
        return _has_type(e, arithmetic, _STORED)
    below = [x for f in e._fields if isinstance(x := getattr(e, f), PrimExpr)]
    if isinstance(e, Select):
        compared, *below = below
        if compared.dtype.lanes > 1:
            if not hasattr(compared, "b") or compared.a.dtype != e.dtype or not e.dtype.is_float:
                return False
            below += [compared.a, compared.b]
    elif isinstance(e, Call):
        name, below = e.op.removeprefix("tir."), e.args
        known = VECTOR_CALLS_OF_INTEGERS if e.dtype.is_int else VECTOR_CALLS
        if name in SCALAR_INTRINSICS and name not in known and e.dtype.element not in _STORED:
            return False
    elif isinstance(e, (CompareExpr, Shuffle)) or isinstance(e, BinaryExpr) and not isinstance(
            e, arithmetic.get(str(e.dtype.element), ())):
        return False
    more = _STORED if isinstance(e, (Cast, Call)) else ()
    return _has_type(e, arithmetic, more) and all(_has_simd(x, arithmetic) for x in below)


def _has_type(e, arithmetic, more):
    return e.dtype.lanes in VECTOR_LANES and (e.dtype.element in arithmetic or e.dtype.element in more)


__all__ = ["split_vectors"]
