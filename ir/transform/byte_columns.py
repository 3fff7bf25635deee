"""ByteColumns: scaled sums of vectors of int32, and vectors that are rounded to bytes, are one call."""
from __future__ import annotations

from ..dtype import DataType
from ..expr import Add, Broadcast, Call, FloatImm, IntImm, Max, Min, Mul, const
from ..node import Mutator
from ..tir.intrin import vector_intrinsic
from ..tir.intrinsics import ROUNDS


def byte_columns(func, lanes=0):
    """Requires flat buffers, vectors and tir.fma (LowerIntrin). Ensures that vectors of int32 of so many lanes

        c + a * broadcast(x)                                                    are add_scaled(a, x, c)
        nearest_f32(min(255 - zero, max(0 - zero, x))) + zero, stored as uint8      round_u8(x, zero), and so of int8
    where machines have these; lanes is 0 elsewhere."""
    return func.replace(body=_ByteColumns(DataType("int32").with_lanes(lanes)).visit(func.body)) if lanes else func


class _ByteColumns(Mutator):
    def __init__(self, dtype):
        self.dtype = dtype

    def visit_Add(self, e):
        e = self.generic_visit(e)
        if e.dtype == self.dtype and isinstance(e.b, Mul):
            for vector, number in ((e.b.a, e.b.b), (e.b.b, e.b.a)):
                if isinstance(number, Broadcast):
                    return vector_intrinsic("add_scaled", vector, number.value, e.a)
        return e

    def visit_Cast(self, e):
        e = self.generic_visit(e)
        name = ROUNDS.get(str(e.dtype.element)) if e.value.dtype == self.dtype else None
        x, zero = _between(e.value, *map(int, e.dtype.finite_range())) if name else (None, 0)
        return e if x is None else e.replace(value=Call(self.dtype, f"tir.{name}", (x, const(zero, "int32"))))


def _between(e, least, most):
    """(x, an integer) of nearest_f32 of x cut off at two limits less the integer, which is added; (None, 0) for another
    expression."""
    zero, limits = 0, {}
    if isinstance(e, Add) and isinstance(e.b, Broadcast) and isinstance(e.b.value, IntImm):
        e, zero = e.a, e.b.value.value
    x = e.args[0] if isinstance(e, Call) and e.op == "tir.nearest_f32" else None
    while isinstance(x, (Min, Max)) and type(x) not in limits and isinstance(x.a, Broadcast) and isinstance(
            x.a.value, FloatImm):
        limits[type(x)], x = x.a.value.value + zero, x.b
    return (x, zero) if limits == {Max: least, Min: most} else (None, 0)
