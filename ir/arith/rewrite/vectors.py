"""Rules for vectors: of ramps and broadcasts, one scalar for all lanes or a ramp of scalars."""
from __future__ import annotations

from math import gcd

from ...expr import (LE, Add, And, BinaryExpr, Broadcast, CompareExpr, Div, FloorDiv, FloorMod, IntImm, Max, Min, Mod,
                     Mul, Not, Or, Ramp, Sub, binary, const)
from ..canonical import INDEX_TYPES
from .folding import JOINED

TOWARD_ZERO = (Div, Mod)
DIVISIONS = (*TOWARD_ZERO, FloorDiv, FloorMod)
SUMS = (Add, Sub)


def rewritten(rewriter, e):
    """A vector after one rule, or None."""
    kind = type(e)
    if not isinstance(e, (BinaryExpr, CompareExpr)) or kind is Not:
        return None
    a, b = e.a, e.b
    if type(a) is Broadcast and type(b) is Broadcast and a.value.dtype == b.value.dtype:
        return Broadcast(_scalar(kind, a.value, b.value), a.lanes)
    if kind in (Min, Max, And, Or) and type(a) is kind and type(a.b) is Broadcast and type(b) is Broadcast:
        return kind(a.a, Broadcast(_scalar(kind, a.b.value, b.value), b.lanes))
    if e.dtype.element not in INDEX_TYPES or getattr(a, "count", None) or getattr(b, "count", None):
        return None
    if kind in SUMS:
        return _sum(kind, a, b)
    if kind is Mul and {type(a), type(b)} == {Ramp, Broadcast}:
        ramp, factor = (a, b.value) if type(a) is Ramp else (b, a.value)
        return Ramp(ramp.base * factor, ramp.stride * factor, ramp.lanes)
    if kind in DIVISIONS and type(a) is Ramp and type(b) is Broadcast and isinstance(a.stride, IntImm) and (
            isinstance(b.value, IntImm) and b.value.value > 0):
        return _divided(rewriter, kind, a, b.value)
    return None


def _scalar(kind, a, b):
    return JOINED[kind](a, b) if kind in JOINED else binary(kind, a, b)


def _sum(kind, a, b):
    """A sum or difference of ramps and broadcasts."""
    if Ramp not in (type(a), type(b)) or not {type(a), type(b)} <= {Ramp, Broadcast}:
        return None
    (base, stride), (other, step) = (_line(v) for v in (a, b))
    return Ramp(binary(kind, base, other), binary(kind, stride, step), a.lanes)


def _line(v):
    return (v.base, v.stride) if type(v) is Ramp else (v.value, const(0, v.value.dtype))


def _divided(rewriter, kind, ramp, divisor):
    """A ramp divided by a constant c: of strides that c divides; of lanes that lie in one block of c.

    Toward zero only where no lane is negative: there both kinds of division are one."""
    c, stride, whole = divisor.value, ramp.stride.value, kind in (FloorDiv, Div)
    if kind in TOWARD_ZERO and not (stride >= 0 and rewriter.proves(LE, 0, ramp.base)):
        return None
    first = binary(kind, ramp.base, divisor)
    if stride % c == 0:
        return Ramp(first, const(stride // c, first.dtype), ramp.lanes) if whole else Broadcast(first, ramp.lanes)
    coeff, base = rewriter.an.modular_set(ramp.base)
    block = gcd(coeff, c)
    low, high = sorted((base % block, base % block + (int(ramp.lanes) - 1) * stride))
    inside = ramp.lanes > 0 and 0 <= low and high < block
    if inside and whole:
        return Broadcast(first, ramp.lanes)
    start = first if block < c else const(base % c, first.dtype)
    if inside:
        return Ramp(start, ramp.stride, ramp.lanes)
    if whole or block < c or isinstance(ramp.base, IntImm) and ramp.base.value == start.value:
        return None
    return kind(Ramp(start, ramp.stride, ramp.lanes), Broadcast(divisor, ramp.lanes))
