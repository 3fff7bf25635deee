"""Floats of 16 bits and fewer: arithmetic in float32, storage as the unsigned integers that hold their bits.

One mechanism for bfloat16, float16, float8 and float4: BF16ComputeLegalize and its like are these functions for some.
"""
from __future__ import annotations

from functools import partial

import numpy as np

from ..dtype import DataType
from ..expr import Broadcast, Call, Cast, FloatImm, IntImm, Var, cast
from ..node import Mutator, Visitor
from ..tir.halves import computed_in_halves

FLOAT8 = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn")
SMALL_FLOATS = ("bfloat16", "float16", *FLOAT8)
_OF_BITS = ("tir.call_extern", "tir.call_pure_extern", "tir.reinterpret")  # they take and give the bits


def compute_legalize(func, dtypes=SMALL_FLOATS, promoted="float32"):
    """Requires flat buffers. Ensures widened arithmetic: nothing is computed in `dtypes`, only in `promoted`. Values are
    widened where they are loaded and rounded where they are stored, or where the program casts. Temporaries whose
    address is not taken hold float32. Of functions that are computed in float16 SmallFloatScalars does the same when
    vectors are made."""
    return func if computed_in_halves(func) else _if_used(func, dtypes, partial(_Compute, wide=DataType(promoted)))


def storage_legalize(func, dtypes=SMALL_FLOATS):
    """Requires widened arithmetic. Ensures no small floats: buffers hold unsigned integers of their bits, which
    tir.reinterpret turns into the float that is widened, and back."""
    return _if_used(func, dtypes, _Storage)


def legalize_scalars(func):
    """Requires flat buffers. Ensures widened arithmetic of the single numbers of a function that is computed in
    float16, when its vectors are made, which stay what they are."""
    return _if_used(func, SMALL_FLOATS, _Compute) if computed_in_halves(func) else func


def _if_used(func, dtypes, rewriter):
    scan = _Scan(frozenset(dtypes), vectors=not computed_in_halves(func))
    scan.visit((func.params, list(func.buffer_map.values()), func.body))
    if not scan.used:
        return func
    rewrite = rewriter(scan)
    buffer_map = {p: rewrite.parameter(b) for p, b in func.buffer_map.items()}
    return func.replace(buffer_map=buffer_map, body=rewrite.visit(func.body))


class _Scan(Visitor):
    """Whether a function uses one of the dtypes, and the buffers whose address is taken. vectors: whether those of the
    dtypes are legalized, too."""

    def __init__(self, dtypes, vectors=True):
        self.dtypes, self.vectors, self.used, self.addressed = dtypes, vectors, False, set()

    def small(self, dtype):
        return dtype.bits <= 16 and dtype.element in self.dtypes and (self.vectors or dtype.lanes == 1)

    def _leaf(self, node):
        self.used = self.used or self.small(node.dtype)

    visit_Var = visit_Buffer = visit_FloatImm = _leaf

    def visit_Cast(self, e):
        self._leaf(e)
        self.visit(e.value)

    def visit_Call(self, call):
        self._leaf(call)
        if call.op == "tir.address_of":
            self.addressed.add(id(call.args[0].buffer))
        self.visit(call.args)


class _Compute(Mutator):
    def __init__(self, scan, wide=DataType("float32")):
        self.small, self.addressed, self.vectors, self.computed = scan.small, scan.addressed, scan.vectors, wide
        self.promoted = {}  # id(buffer) -> the float32 buffer in its place
        self.wide = {}      # variable of a let -> the float32 one in its place

    def parameter(self, buffer):
        return buffer

    def _wide(self, dtype):
        return self.computed.with_lanes(dtype.lanes)

    # ------------------------------------------------ what is wide afterwards

    def visit_Var(self, v):
        if v in self.wide:
            return self.wide[v]
        return Cast(self._wide(v.dtype), v) if self.small(v.dtype) else v

    def visit_FloatImm(self, e):
        return FloatImm(self.computed, e.value) if self.small(e.dtype) else e

    def visit_Cast(self, e):
        value = self.visit(e.value)
        return Cast(self._wide(e.dtype), self._rounded(value, e.dtype)) if self.small(e.dtype) else cast(value, e.dtype)

    def visit_Call(self, call):
        if call.op == "tir.address_of":
            load = call.args[0]
            return call.replace(args=(load.replace(indices=self.visit(load.indices)),))
        args = self.visit(call.args)
        if call.op in _OF_BITS:
            args = tuple(self._rounded(new, old.dtype) if self.small(old.dtype) else new
                         for new, old in zip(args, call.args))
            call = call.replace(args=args)
            return Cast(self._wide(call.dtype), call) if self.small(call.dtype) else call
        return call.replace(args=args, dtype=self._wide(call.dtype) if self.small(call.dtype) else call.dtype)

    def visit_BufferLoad(self, load):
        load = load.replace(buffer=self.promoted.get(id(load.buffer), load.buffer), indices=self.visit(load.indices))
        return Cast(self._wide(load.dtype), load) if self.small(load.dtype) else load

    def visit_Broadcast(self, e):
        value = self.visit(e.value)
        kept = self.small(e.value.dtype) and not self.small(e.dtype)
        return e.replace(value=self._rounded(value, e.value.dtype) if kept else value)

    # ------------------------------------------------ statements

    def visit_BufferStore(self, store):
        value, buffer = self.visit(store.value), self.promoted.get(id(store.buffer), store.buffer)
        if self.small(buffer.dtype):
            kept = self._kept(value, store.value.dtype) if buffer.scope.startswith("shared") else None
            value = self._rounded(value, store.value.dtype) if kept is None else kept
        return store.replace(buffer=buffer, value=value, indices=self.visit(store.indices))

    def visit_LetStmt(self, let):
        value = self.visit(let.value)
        if self.small(let.var.dtype):
            self.wide[let.var] = Var(let.var.name, self._wide(let.var.dtype))
        return let.replace(var=self.wide.get(let.var, let.var), value=value, body=self.visit(let.body))

    visit_Let = visit_LetStmt

    def visit_DeclBuffer(self, decl):
        b = decl.buffer
        if self.small(b.dtype) and id(b) not in self.addressed and self.vectors:
            self.promoted[id(b)] = b.replace(dtype=self._wide(b.dtype), data=Var(b.name, "handle"))
        return decl.replace(buffer=self.promoted.get(id(b), b), body=self.visit(decl.body))

    def _kept(self, value, dtype):
        """A float32 value as one of `dtype` where it is a number, or one of several, that was widened from it: those
        that only move to shared memory may be copied asynchronously. None for others."""
        if isinstance(value, Call) and value.op == "tir.if_then_else":
            kept = [self._kept(v, dtype) for v in value.args[1:]]
            return None if None in kept else value.replace(dtype=dtype, args=(value.args[0], *kept))
        same = isinstance(value, Cast) and value.value.dtype == dtype
        return self._rounded(value, dtype) if same or isinstance(value, FloatImm) else None

    def _rounded(self, value, dtype):
        """A float32 value as one of `dtype`: what was widened from it is as it was."""
        if isinstance(value, Cast) and value.value.dtype == dtype:
            return value.value
        if value.dtype.is_int or value.dtype.is_bool:
            value = cast(value, "float64" if value.dtype.bits > 16 else "float32")
        return cast(value, dtype) if not isinstance(value, FloatImm) or dtype.holds(value.value) else Cast(dtype, value)


# ---------------------------------------------------------------- storage

class _Storage(Mutator):
    def __init__(self, scan):
        self.small, self.vectors, self.stored = scan.small, scan.vectors, {}

    def parameter(self, buffer):
        """The buffer of unsigned integers in a buffer's place."""
        if not self.small(buffer.dtype):
            return buffer
        if id(buffer) not in self.stored:
            self.stored[id(buffer)] = buffer.replace(dtype=_bits(buffer.dtype))
        return self.stored[id(buffer)]

    def visit_BufferLoad(self, load):
        dtype, small = load.dtype, self.small(load.buffer.dtype)
        load = load.replace(buffer=self.parameter(load.buffer), indices=self.visit(load.indices))
        return Call(dtype, "tir.reinterpret", (load,)) if small else load

    def visit_Call(self, call):
        if call.op == "tir.reinterpret" and self.small(call.args[0].dtype) and call.dtype == _bits(call.args[0].dtype):
            return _as_bits(self.visit(call.args[0]))
        if call.op != "tir.address_of":
            call = self.generic_visit(call)
            if call.op == "tir.reinterpret" and self.small(call.args[0].dtype):
                bits = _as_bits(call.args[0])
                return bits if bits.dtype == call.dtype else call.replace(args=(bits,))
            return call
        load = call.args[0]
        return call.replace(args=(load.replace(buffer=self.parameter(load.buffer), indices=self.visit(load.indices)),))

    def visit_BufferStore(self, store):
        value = self.visit(store.value)
        if self.small(store.buffer.dtype):
            whole = value.dtype.lanes == 1 or self.vectors
            value = _as_bits(value) if whole else Call(_bits(value.dtype), "tir.reinterpret", (value,))
        return store.replace(buffer=self.parameter(store.buffer), value=value, indices=self.visit(store.indices))

    def visit_DeclBuffer(self, decl):
        return decl.replace(buffer=self.parameter(decl.buffer), body=self.visit(decl.body))


def _bits(dtype):
    return DataType(f"uint{8 * dtype.element.bytes}").with_lanes(dtype.lanes)


def _as_bits(value):
    """The bits of a small float."""
    if isinstance(value, Call) and value.op == "tir.reinterpret" and value.args[0].dtype == _bits(value.dtype):
        return value.args[0]
    if isinstance(value, Call) and value.op == "tir.if_then_else":
        condition, *values = value.args
        return value.replace(dtype=_bits(value.dtype), args=(condition, *map(_as_bits, values)))
    if isinstance(value, FloatImm):
        bits = np.asarray(value.value, value.dtype.numpy).view(_bits(value.dtype).numpy)
        return IntImm(_bits(value.dtype), int(bits))
    if isinstance(value, Broadcast):
        return Broadcast(_as_bits(value.value), value.lanes)
    if isinstance(value, Call) and value.op == "tir.if_then_else":
        condition, *results = value.args
        return value.replace(dtype=_bits(value.dtype), args=(condition, *map(_as_bits, results)))
    return Call(_bits(value.dtype), "tir.reinterpret", (value,))
