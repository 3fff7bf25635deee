"""Intrinsics: the table of scalar math that every backend can print, and the functions that build calls of it."""
from __future__ import annotations

import math

import numpy as np

from ..expr import Call, Max, Min, Select, as_expr, binary, cast, const, match_dtype
from ..expr import FloorDiv, FloorMod, Div, Mod


def _erf(x):
    return np.vectorize(math.erf, otypes=[np.float64])(x).astype(np.asarray(x).dtype)


# name -> (number of arguments, numpy reference). Printers map the same names to C (see codegen).
INTRINSICS = {
    "exp": (1, np.exp), "log": (1, np.log), "sqrt": (1, np.sqrt), "tanh": (1, np.tanh), "erf": (1, _erf),
    "sigmoid": (1, lambda x: 1 / (1 + np.exp(-x))), "floor": (1, np.floor), "ceil": (1, np.ceil),
    "round": (1, np.rint), "trunc": (1, np.trunc), "abs": (1, np.abs), "sin": (1, np.sin), "cos": (1, np.cos),
    "tan": (1, np.tan), "asin": (1, np.arcsin), "acos": (1, np.arccos), "atan": (1, np.arctan),
    "sinh": (1, np.sinh), "cosh": (1, np.cosh), "asinh": (1, np.arcsinh), "acosh": (1, np.arccosh),
    "atanh": (1, np.arctanh), "pow": (2, np.power), "fmod": (2, np.fmod), "atan2": (2, np.arctan2),
    "isnan": (1, np.isnan), "isinf": (1, np.isinf),
}
_PREDICATES = ("isnan", "isinf")


def _unary(name):
    def build(x):
        x = as_expr(x)
        dtype = "bool" if name in _PREDICATES else x.dtype
        return Call(dtype, "tir." + name, (x,))
    build.__name__ = name
    build.__doc__ = f"{name}(x), elementwise in x's dtype."
    return build


exp, log, sqrt, tanh, erf, sigmoid = (_unary(n) for n in ("exp", "log", "sqrt", "tanh", "erf", "sigmoid"))
floor, ceil, round, trunc, abs = (_unary(n) for n in ("floor", "ceil", "round", "trunc", "abs"))  # noqa: A001
sin, cos, tan, asin, acos, atan = (_unary(n) for n in ("sin", "cos", "tan", "asin", "acos", "atan"))
sinh, cosh, asinh, acosh, atanh = (_unary(n) for n in ("sinh", "cosh", "asinh", "acosh", "atanh"))
isnan, isinf = _unary("isnan"), _unary("isinf")


def _binary_call(name):
    def build(x, y):
        x, y = match_dtype(as_expr(x), as_expr(y))
        return Call(x.dtype, "tir." + name, (x, y))
    build.__name__ = name
    build.__doc__ = f"{name}(x, y), elementwise in the operands' common dtype."
    return build


power, fmod, atan2 = _binary_call("pow"), _binary_call("fmod"), _binary_call("atan2")


def max(a, b):  # noqa: A001
    """The greater of two expressions."""
    return binary(Max, as_expr(a), b)


def min(a, b):  # noqa: A001
    """The lesser of two expressions."""
    return binary(Min, as_expr(a), b)


def floordiv(a, b):
    return binary(FloorDiv, as_expr(a), b)


def floormod(a, b):
    return binary(FloorMod, as_expr(a), b)


def truncdiv(a, b):
    return binary(Div, as_expr(a), b)


def truncmod(a, b):
    return binary(Mod, as_expr(a), b)


def if_then_else(condition, true_value, false_value):
    """true_value where condition holds, else false_value; only the taken side is evaluated (unlike Select)."""
    true_value, false_value = match_dtype(as_expr(true_value), as_expr(false_value))
    return Call(true_value.dtype, "tir.if_then_else", (as_expr(condition), true_value, false_value))


def select(condition, true_value, false_value):
    """Select: both sides may be evaluated."""
    return Select(as_expr(condition), *match_dtype(as_expr(true_value), as_expr(false_value)))


def likely(condition):
    """Marks a condition that holds almost always: loop partitioning peels it away."""
    return Call("bool", "tir.likely", (as_expr(condition),))


def address_of(load):
    """Where an element of a buffer lies in memory: what a C function takes as its pointer argument."""
    return Call("handle", "tir.address_of", (load,))


def call_extern(dtype, name, *args):
    """A call of the C function `name`."""
    return Call(dtype, "tir.call_extern", (as_expr(name), *(as_expr(a) for a in args)))


def min_value(dtype):
    """The least finite value of a dtype as an immediate (-inf for floats): the identity of max."""
    from ..dtype import DataType
    return const(DataType(dtype).min_value(), dtype)


def max_value(dtype):
    """The greatest value of a dtype as an immediate (inf for floats): the identity of min."""
    from ..dtype import DataType
    return const(DataType(dtype).max_value(), dtype)


__all__ = [n for n in dir() if not n.startswith("_") and n not in ("annotations", "math", "np", "Call", "Max", "Min",
           "Select", "as_expr", "binary", "cast", "const", "match_dtype", "FloorDiv", "FloorMod", "Div", "Mod")]
