"""Functions that are computed in float16: which are, and how they become so."""
from __future__ import annotations

from math import copysign, inf

from ..dtype import DataType
from ..expr import Add, Call, Cast, Div, FloatImm, Mul, Sub, Var
from ..node import Mutator, collect
from .buffer import Buffer

ATTRIBUTE = "computed_in"
HALF, WIDE = DataType("float16"), DataType("float32")
LANES = 8  # of a vector of halves (runtime_c/simd_f16.h)
# What may be called: other functions are float32's.
_CALLS = frozenset(f"tir.{name}" for name in ("if_then_else", "likely", "abs", "sqrt"))


def computed_in_halves(func):
    """Whether a function's attribute asks for vectors of float16."""
    return func.attrs.get(ATTRIBUTE) == str(HALF)


def in_halves(func):
    """The function with float16 where it has float32, sums among it, if all floats that it takes and gives are float16:
    not one that calls functions that are float32's, or has a constant that float16 does not hold."""
    floats = [b.dtype for b in func.buffers if b.dtype.is_float]
    computed = {id(c) for e in collect(func.body, (Add, Sub, Mul, Div)) for c in collect(e, FloatImm)}
    fits = floats and all(dtype == HALF for dtype in floats) and all(
        call.op in _CALLS for call in collect(func.body, Call)) and all(
        e.dtype in (HALF, WIDE) and _is_held(e.value, id(e) in computed) for e in collect(func.body, FloatImm)) and all(
        b.dtype in (HALF, WIDE) or not b.dtype.is_float for b in collect(func.body, Buffer))
    return func.replace(body=_Halves().visit(func.body)).with_attr(ATTRIBUTE, str(HALF)) if fits else func


def _is_held(value, is_computed):
    """Whether float16 has a number near to one. The least of float32, at which maxima begin, is infinite there: not so
    where numbers are computed of it, as 0 times it is 0."""
    beyond = abs(value) == inf or abs(value) > 3.4e38 and not is_computed
    return value == 0 or value != value or beyond or 2.0 ** -14 <= abs(value) <= 65504


class _Halves(Mutator):
    def __init__(self):
        self.buffers, self.vars = {}, {}

    def visit_Buffer(self, b):
        if b.dtype != WIDE:
            return b
        if id(b) not in self.buffers:
            self.buffers[id(b)] = b.replace(dtype=HALF, data=Var(b.name, "handle"))
        return self.buffers[id(b)]

    def visit_Var(self, v):
        if v.dtype != WIDE:
            return v
        return self.vars.setdefault(v, Var(v.name, HALF))

    def visit_FloatImm(self, e):
        beyond = abs(e.value) > 65504
        return FloatImm(HALF, copysign(inf, e.value) if beyond else e.value)

    def visit_Cast(self, e):
        value, dtype = self.visit(e.value), HALF if e.dtype == WIDE else e.dtype
        return value if value.dtype == dtype else Cast(dtype, value)

    def visit_Call(self, call):
        return call.replace(dtype=HALF if call.dtype == WIDE else call.dtype, args=self.visit(call.args))
