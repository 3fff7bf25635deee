"""Arithmetic on the numbers of immediates, as the machine computes it in their dtype. No nodes here: numbers alone."""
from __future__ import annotations

import math

import numpy as np

_COMPARED = {"EQ": lambda a, b: a == b, "NE": lambda a, b: a != b, "LT": lambda a, b: a < b,
             "LE": lambda a, b: a <= b, "GT": lambda a, b: a > b, "GE": lambda a, b: a >= b}
_SUMS = {"Add": lambda a, b: a + b, "Sub": lambda a, b: a - b, "Mul": lambda a, b: a * b}
INTEGERS = {
    **_COMPARED, **_SUMS, "FloorDiv": lambda a, b: a // b, "FloorMod": lambda a, b: a % b,
    "Div": lambda a, b: _truncdiv(a, b), "Mod": lambda a, b: a - b * _truncdiv(a, b), "Min": min, "Max": max,
    "bitwise_and": lambda a, b: a & b, "bitwise_or": lambda a, b: a | b, "bitwise_xor": lambda a, b: a ^ b,
    "shift_left": lambda a, b: a << b, "shift_right": lambda a, b: a >> b}
_FLOATS = {**_COMPARED, **_SUMS, "Div": lambda a, b: a / b, "Min": min, "Max": max}
_WHOLE = {"floor": np.floor, "ceil": np.ceil, "round": np.rint, "nearbyint": np.rint, "trunc": np.trunc, "abs": np.abs}
_SHIFTS = ("shift_left", "shift_right")
_INDICES = ("int32", "int64")  # what sizes are counted in: no sum of these wraps around, but is left to wider ones


def folded(name, dtype, a, b):
    """The number that an operation on numbers of `dtype` gives: wrapped around, or rounded, as that dtype holds it.

    name: of the class of nodes, "Add", or of the intrinsic, "bitwise_and". A bool for comparisons. None for what is
    left to a run: other operations, what an int32 or int64 does not hold, shifts by more bits than there are or by less
    than 0, floats divided by 0, the lesser of NaN and a number, or of 0.0 and -0.0.
    """
    if dtype.is_float:
        return _folded_floats(name, dtype, a, b)
    if name in _SHIFTS and not 0 <= b < dtype.bits:
        return None
    value = INTEGERS[name](a, b) if name in INTEGERS else None
    if value is None or name in _COMPARED or dtype.holds(value):
        return value
    return None if dtype in _INDICES else wrapped(value, dtype)


def _folded_floats(name, dtype, a, b):
    if name not in _FLOATS or dtype.bits < 16:
        return None
    if name in ("Min", "Max") and (math.isnan(a + b) or a == b) or name == "Div" and b == 0:
        return None
    value = _FLOATS[name](_nearest(a, dtype), _nearest(b, dtype))  # of double precision: rounded once
    return value if name in _COMPARED else rounded(value, dtype)


def folded_call(name, dtype, value):
    """What floor, ceil, round, nearbyint, trunc or abs gives of a float; None for another function."""
    return rounded(float(_WHOLE[name](value)), dtype) if name in _WHOLE and dtype.bits >= 16 else None


def wrapped(value, dtype):
    """The integer of `dtype` that has the lowest bits of an integer."""
    value &= (1 << dtype.bits) - 1
    return value if dtype.holds(value) else value - (1 << dtype.bits)


def rounded(value, dtype):
    """The float of `dtype` that is nearest, with as few digits as name it; beyond its range an infinity."""
    near = _nearest(value, dtype)
    return float(str(np.float32(near))) if dtype == "float32" else near


def _nearest(value, dtype):
    if dtype.bits == 64:
        return value
    with np.errstate(over="ignore"):
        return float(np.float64(value).astype(dtype.numpy))


def _truncdiv(a, b):
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


__all__ = ["INTEGERS", "folded", "folded_call", "rounded", "wrapped"]
