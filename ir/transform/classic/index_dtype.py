"""ForceNarrowIndexToInt32: indices are int32, proved or not."""
from __future__ import annotations

from ...dtype import DataType
from ...expr import Call, IntImm, Sub, Var, as_expr, cast, const
from ...node import Mutator, collect
from ...tir.buffer import Buffer

INT32, INT64 = DataType("int32"), DataType("int64")


def force_narrow_index_to_int32(func):
    """Ensures that all that is int64 is int32: loops, parameters, shapes and expressions. Raises ValueError for a
    buffer that holds int64, and for a number that is more."""
    held = [b for b in (*func.buffer_map.values(), *collect(func.body, Buffer)) if b.dtype.element == INT64]
    if held:
        raise ValueError(f"ForceNarrowIndexToInt32: buffer {held[0].name} holds int64, which is more than an index")
    narrow = _Narrow()
    return func.replace(params=tuple(map(narrow.visit, func.params)), body=narrow.visit(func.body),
                        buffer_map={narrow.visit(p): narrow.visit(b) for p, b in func.buffer_map.items()})


class _Narrow(Mutator):
    def __init__(self):
        self.variables, self.buffers = {}, {}

    def visit_Var(self, v):
        if v.dtype != INT64:
            return v
        if v not in self.variables:
            self.variables[v] = v.renewed(dtype=INT32)
        return self.variables[v]

    def visit_IntImm(self, e):
        return const(e.value, INT32) if e.dtype == INT64 else e

    def visit_Buffer(self, b):
        if id(b) not in self.buffers:
            self.buffers[id(b)] = b.replace(**{f: self.visit(getattr(b, f)) for f in (
                "shape", "strides", "elem_offset")})
        return self.buffers[id(b)]

    def visit_Cast(self, e):
        return cast(self.visit(e.value), INT32.with_lanes(e.dtype.lanes) if e.dtype.element == INT64 else e.dtype)

    def visit_Call(self, call):
        args = self.visit(call.args)
        if call.op == "tir.clz" and call.args[0].dtype == INT64:  # of the 64 bits, 32 are gone
            return Sub(call.replace(args=args), as_expr(32)) + 64
        return Call(INT32, call.op, args) if call.dtype == INT64 else call.replace(args=args)

    def generic_visit(self, n):
        new = super().generic_visit(n)
        if new is not n and hasattr(new, "a") and hasattr(new, "b") and isinstance(new.a, IntImm) and isinstance(
                new.b, IntImm) and new.a.dtype != new.b.dtype:
            return new.replace(b=const(new.b.value, new.a.dtype))
        return new
