"""What is computed here and now: operations on immediates."""
from __future__ import annotations

import math

import numpy as np

from ...expr import (Add, And, BinaryExpr, Broadcast, Call, Cast, CompareExpr, Div, FloatImm, IntImm, Mul, Not, Or, Sub,
                     binary, const, logical_and, logical_or)
from ...folding import folded as numbers_folded, folded_call

JOINED = {And: logical_and, Or: logical_or}


def folded(e):
    """The immediate that `e` is, or an operand where the other is neutral among truths; None for the rest."""
    kind = type(e)
    if kind in JOINED:
        return _changed(e, JOINED[kind](e.a, e.b)) if IntImm in (type(e.a), type(e.b)) else None
    if kind is Not:
        return const(not e.a.value) if isinstance(e.a, IntImm) else None
    if kind is Cast:
        return _cast(e)
    if kind is Call:
        return _call(e)
    if not isinstance(e, (BinaryExpr, CompareExpr)):
        return None
    if type(e.a) is type(e.b) and isinstance(e.a, (IntImm, FloatImm)):
        return _changed(e, binary(kind, e.a, e.b))
    return _neutral(e) if e.dtype.is_float else None


def _neutral(e):
    """x - 0, x * 1, 1 * x and x / 1 as the float x, which they are of all x; x + 0 where x is no -0: a cast integer."""
    a, b, kind = e.a, e.b, type(e)
    if kind is Sub and _is_positive_zero(b) or kind in (Mul, Div) and _is_float(b, 1):
        return a
    if kind is Mul and _is_float(a, 1):
        return b
    for x, other in ((a, b), (b, a)) if kind is Add else ():
        if type(x) is Cast and not x.value.dtype.is_float and _is_float(other, 0):
            return x
    return None


def _is_float(e, value):
    """Whether a float, or all lanes of a vector of them, is a number."""
    e = e.value if isinstance(e, Broadcast) else e
    return isinstance(e, FloatImm) and e.value == value


def _is_positive_zero(e):
    return _is_float(e, 0) and math.copysign(1, (e.value if isinstance(e, Broadcast) else e).value) > 0


def _changed(e, new):
    return None if type(new) is type(e) and new.a is e.a and new.b is e.b else new


def _cast(e):
    """An immediate in another type, where that holds it."""
    value = e.value
    if isinstance(value, Broadcast) and value.lanes == e.dtype.lanes:
        return Broadcast(Cast(e.dtype.element, value.value), value.lanes)
    if e.dtype.lanes != 1 and value.dtype.lanes == 1:
        return Broadcast(value if value.dtype == e.dtype.element else Cast(e.dtype.element, value), e.dtype.lanes)
    if e.dtype == value.dtype:
        return value
    if not isinstance(value, (IntImm, FloatImm)):
        return None
    number = value.value
    if value.dtype == "float32":
        number = float(np.float32(number))  # it keeps the digits it was given
    if not e.dtype.is_float:
        if number != number or abs(number) == float("inf"):
            return None
        number = bool(number) if e.dtype.is_bool else int(number)
    return const(number, e.dtype) if e.dtype.holds(number) else None


def _call(e):
    if e.op == "tir.ceil" and isinstance(e.args[0], FloatImm):
        value = folded_call("ceil", e.dtype, e.args[0].value)
        return None if value is None else FloatImm(e.dtype, value)
    if not all(isinstance(a, IntImm) for a in e.args) or not e.dtype.is_int:
        return None
    numbers = [a.value for a in e.args]
    if e.op == "tir.clz" and numbers[0] >= 0:
        return const(e.args[0].dtype.bits - numbers[0].bit_length(), e.dtype)
    value = numbers_folded(e.op.removeprefix("tir."), e.dtype, *numbers) if len(numbers) == 2 else None
    return None if value is None else const(value, e.dtype)
