"""Intrinsics: the table of scalar math that every backend can print, and the functions that build calls of it."""
from __future__ import annotations

import math
from functools import reduce

import numpy as np

from ..dtype import DataType
from ..expr import (Call, Div, FloorDiv, FloorMod, Max, Min, Mod, Not, Select, StringImm, as_expr, binary, const,
                    logical_and, logical_or, match_all, match_dtype)


def _erf(x):
    return np.vectorize(math.erf, otypes=[np.float64])(x).astype(np.asarray(x).dtype)


def _gelu(x):
    """x Phi(x), with Phi the normal distribution; its limit, 0, at minus infinity."""
    half_erfc = np.vectorize(lambda v: math.erfc(-v * math.sqrt(0.5)) / 2, otypes=[np.float64])(x)
    with np.errstate(invalid="ignore"):
        return np.where(np.isneginf(x), 0, np.asarray(x) * half_erfc).astype(np.asarray(x).dtype)


def integer_power(a, b):
    """a ** b of integers, wrapping around; to a power below 0, 1 and -1 stay what they are and all else becomes 0."""
    a, b = np.broadcast_arrays(a, b)
    with np.errstate(over="ignore"):
        power = np.power(a, np.maximum(b, 0))
    inverse = np.where(a == 1, 1, np.where(a == -1, np.where(b % 2 == 0, 1, -1), 0))
    return np.where(b < 0, inverse, power).astype(a.dtype)[()]


def _power(a, b):
    return np.power(a, b) if np.asarray(a).dtype.kind == "f" else integer_power(a, b)


def _popcount(x):
    bits = np.asarray(x).view(f"u{np.asarray(x).dtype.itemsize}")
    return np.vectorize(lambda v: int(v).bit_count(), otypes=[np.asarray(x).dtype])(bits)[()]


def _clz(x):
    bits = np.asarray(x).view(f"u{np.asarray(x).dtype.itemsize}")
    return np.vectorize(lambda v: 8 * bits.dtype.itemsize - int(v).bit_length(), otypes=[np.int32])(bits)[()]


def _bits(x):
    return np.ascontiguousarray(x, np.float32).view(np.uint32).reshape(np.shape(x))


def _greater(a, b):
    return np.where(_bits(a).view(np.int32) > _bits(b).view(np.int32), a, b)[()]


def _fixed(a, b, n):
    both = _bits(a).astype(np.uint64) << np.uint64(32) | _bits(b)
    return (both << np.uint64(n) >> np.uint64(32)).astype(np.uint32).view(np.int32).astype(np.float32)[()]


# name -> (number of arguments, numpy reference), of floats. Printers map the same names to C (see codegen).
INTRINSICS = {
    "exp": (1, np.exp), "log": (1, np.log), "sqrt": (1, np.sqrt), "tanh": (1, np.tanh), "erf": (1, _erf),
    "sigmoid": (1, lambda x: 1 / (1 + np.exp(-x))), "silu": (1, lambda x: x / (1 + np.exp(-x))), "gelu": (1, _gelu),
    "floor": (1, np.floor), "ceil": (1, np.ceil),
    "round": (1, np.rint), "trunc": (1, np.trunc), "abs": (1, np.abs), "sin": (1, np.sin), "cos": (1, np.cos),
    "tan": (1, np.tan), "asin": (1, np.arcsin), "acos": (1, np.arccos), "atan": (1, np.arctan),
    "sinh": (1, np.sinh), "cosh": (1, np.cosh), "asinh": (1, np.arcsinh), "acosh": (1, np.arccosh),
    "atanh": (1, np.arctanh), "pow": (2, _power), "fmod": (2, np.fmod), "atan2": (2, np.arctan2),
    "isnan": (1, np.isnan), "isinf": (1, np.isinf), "exp2": (1, np.exp2), "exp10": (1, lambda x: np.power(10.0, x)),
    "log2": (1, np.log2), "log10": (1, np.log10), "log1p": (1, np.log1p), "nearbyint": (1, np.rint),
    "rsqrt": (1, lambda x: 1 / np.sqrt(x)), "hypot": (2, np.hypot), "copysign": (2, np.copysign),
    "fma": (3, lambda x, y, z: x * y + z),
}
# the same, of integers. Shifts to the right keep the sign; clz counts the zeros above the highest bit set.
INTEGER_INTRINSICS = {
    "bitwise_and": (2, np.bitwise_and), "bitwise_or": (2, np.bitwise_or), "bitwise_xor": (2, np.bitwise_xor),
    "bitwise_not": (1, np.invert), "shift_left": (2, np.left_shift), "shift_right": (2, np.right_shift),
    "popcount": (1, _popcount), "clz": (1, _clz),
}
# the same, of the bits of float32. fixed(a, b, n): the integer, with its sign, that the 32 bits from the
# n-th on of a and then b are, where n is a multiple of 4 below 32; greater(a, b): that whose bits are the greater
# integer, of magnitudes the greater number, of which NaN is the greatest.
BIT_INTRINSICS = {"fixed": (3, _fixed), "greater": (2, _greater)}
_INTEGERS = {"fixed": 1}  # how many of the last arguments are integers
# name -> (number of arguments, numpy reference), of float vectors: what VectorizeLoop makes of reductions over lanes
# and of stores to the first lanes, LoadLanes and HoldLoads of operands in vectors, and TransposeSquares. first_n(a, b,
# n): n lanes of a, then those of b; evens(a, b, w), of blocks of w lanes: a's even ones, each followed by b's; odds(a,
# b, w): a's odd ones, each followed by b's; lane(a, l): lane l of a, in all lanes; fma_lane(a, l, b, c): lane(a, l) * b
# + c; fma_at(a, x, n, c): a * x + c, with x, the n-th such operand, an element of a buffer; accumulate(a, b, c): a * b
# + c, in the register of c; held(a): a, in a register. The order of reduce_add is a tree.
VECTOR_INTRINSICS = {
    "reduce_add": (1, np.sum), "reduce_min": (1, np.min), "reduce_max": (1, np.max),
    "reduce_greater": (1, lambda a: reduce(_greater, a)),
    "first_n": (3, lambda a, b, n: np.where(np.arange(len(a)) < n, a, b)),
    "evens": (3, lambda a, b, w: np.where(np.arange(len(a)) & w, np.roll(b, w), a)),
    "odds": (3, lambda a, b, w: np.where(np.arange(len(a)) & w, b, np.roll(a, -w))),
    "lane": (2, lambda a, l: np.full_like(a, a[l])), "fma_lane": (4, lambda a, l, b, c: a[l] * b + c),
    "fma_at": (4, lambda a, x, n, c: a * x + c), "accumulate": (3, lambda a, b, c: a * b + c), "held": (1, lambda a: a),
}
# What a call gives where it is not of its first argument's dtype
_RESULTS = {"tir.isnan": "bool", "tir.isinf": "bool", "tir.likely": "bool", "tir.clz": "int32",
            "tir.address_of": "handle", "tir.tvm_call_packed": "int32"}
_SCALAR = {**INTRINSICS, **INTEGER_INTRINSICS, **BIT_INTRINSICS}
_AS_FIRST = frozenset(["tir.ret", *(f"tir.{name}" for name in _SCALAR)])


def result_dtype(op, args):
    """The dtype that the builder of a call gives it; None for an op without one (call_extern, call_intrin)."""
    if op in _RESULTS:
        lanes = args[0].dtype.lanes if args and op in ("tir.isnan", "tir.isinf", "tir.clz") else 1
        return DataType(_RESULTS[op]).with_lanes(lanes)
    if op == "tir.if_then_else" and len(args) == 3:
        return args[1].dtype
    if op.removeprefix("tir.") in VECTOR_INTRINSICS and args:
        return args[0].dtype.element if op.startswith("tir.reduce_") else args[0].dtype
    return args[0].dtype if op in _AS_FIRST and args else None


def intrinsic(name, *args):
    """The call of a row of the tables above: operands meet in one dtype. TypeError for what the row does not take."""
    count = _SCALAR[name][0]
    if len(args) != count:
        raise TypeError(f"{name} takes {count} argument{'s' if count > 1 else ''}, got {len(args)}")
    floats = count - _INTEGERS.get(name, 0)
    args = (*match_all(args[:floats]), *map(as_expr, args[floats:]))
    dtype = args[0].dtype
    if name in INTEGER_INTRINSICS and not (dtype.is_int or dtype.is_bool and name.startswith("bitwise")):
        raise TypeError(f"{name} takes integers, not {dtype}")
    if name in BIT_INTRINSICS and dtype.element != "float32":
        raise TypeError(f"{name} takes float32, not {dtype}")
    if floats < count and not args[-1].dtype.is_int:
        raise TypeError(f"{name} takes an integer last, not {args[-1].dtype}")
    if dtype == "handle":
        raise TypeError(f"{name} takes numbers, not a handle")
    return Call(result_dtype("tir." + name, args), "tir." + name, args)


def vector_intrinsic(name, *args):
    """The call of a row of VECTOR_INTRINSICS."""
    op, args = "tir." + name, tuple(map(as_expr, args))
    return Call(result_dtype(op, args), op, args)


def _builder(name):
    def build(*args):
        return intrinsic(name, *args)
    build.__name__ = name
    count = _SCALAR[name][0]
    build.__doc__ = f"{name}({', '.join('xyz'[:count])}), elementwise in the operands' common dtype."
    return build


exp, log, sqrt, tanh, erf = map(_builder, ("exp", "log", "sqrt", "tanh", "erf"))
sigmoid, silu, gelu = map(_builder, ("sigmoid", "silu", "gelu"))
floor, ceil, round, trunc, abs = map(_builder, ("floor", "ceil", "round", "trunc", "abs"))  # noqa: A001
sin, cos, tan, asin, acos, atan = map(_builder, ("sin", "cos", "tan", "asin", "acos", "atan"))
sinh, cosh, asinh, acosh, atanh = map(_builder, ("sinh", "cosh", "asinh", "acosh", "atanh"))
isnan, isinf, exp2, exp10, log2, log10 = map(_builder, ("isnan", "isinf", "exp2", "exp10", "log2", "log10"))
log1p, nearbyint, rsqrt, fma = map(_builder, ("log1p", "nearbyint", "rsqrt", "fma"))
power, fmod, atan2, hypot, copysign = map(_builder, ("pow", "fmod", "atan2", "hypot", "copysign"))
bitwise_and, bitwise_or, bitwise_xor, bitwise_not = map(
    _builder, ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not"))
shift_left, shift_right, popcount, clz = map(_builder, ("shift_left", "shift_right", "popcount", "clz"))
fixed, greater = map(_builder, ("fixed", "greater"))
pow, fabs = power, abs  # noqa: A001


def isfinite(x):
    """Whether x is a number that is neither an infinity nor NaN."""
    return Not(logical_or(isnan(x), isinf(x)))


def max(a, b):  # noqa: A001
    """The greater of two expressions."""
    return binary(Max, as_expr(a), b)


def min(a, b):  # noqa: A001
    """The lesser of two expressions."""
    return binary(Min, as_expr(a), b)


def _operator(cls, doc):
    def build(a, b):
        return binary(cls, as_expr(a), b)
    build.__doc__ = doc
    return build


floordiv, floormod = _operator(FloorDiv, "a / b rounded down."), _operator(FloorMod, "What floordiv leaves.")
truncdiv, truncmod = _operator(Div, "a / b rounded toward zero."), _operator(Mod, "What truncdiv leaves.")
indexdiv, indexmod = floordiv, floormod


def div(a, b):
    """a / b as C divides: integers toward zero."""
    return binary(Div, as_expr(a), b)


def ceildiv(a, b):
    """a / b rounded up, of integers; b must be positive."""
    return floordiv(as_expr(a) + b - 1, b)


def all(*conditions):  # noqa: A001
    """Whether all of the conditions hold."""
    return reduce(logical_and, map(as_expr, conditions))


def any(*conditions):  # noqa: A001
    """Whether any of the conditions holds."""
    return reduce(logical_or, map(as_expr, conditions))


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


def prefetch(load, ahead=0):
    """Asks for the cache line of an element that will be read soon, or of what lies `ahead` bytes behind it, which need
    not exist: a statement, as tir.Evaluate(tir.prefetch(A[i], 256))."""
    return Call("int32", "tir.prefetch", (address_of(load), *((as_expr(ahead),) if ahead else ())))


def ret(value):
    """The value that the function returns: a statement, as tir.Evaluate(tir.ret(value))."""
    value = as_expr(value)
    return Call(value.dtype, "tir.ret", (value,))


def call_intrin(dtype, op, *args):
    """A call of the intrinsic `op`, such as "tir.exp"."""
    return Call(dtype, op if op.startswith("tir.") else "tir." + op, tuple(map(as_expr, args)))


def reinterpret(dtype, value):
    """The number of `dtype` that has the bits of `value`. TypeError when they have not as many."""
    value, dtype = as_expr(value), DataType(dtype)
    if "handle" in (dtype, value.dtype) or (value.dtype.bits, value.dtype.lanes) != (dtype.bits, dtype.lanes):
        raise TypeError(f"reinterpret takes a number of as many bits as the result: {value.dtype} is not {dtype}")
    return value if value.dtype == dtype else Call(dtype, "tir.reinterpret", (value,))


def call_extern(dtype, name, *args):
    """A call of the C function `name`."""
    return Call(dtype, "tir.call_extern", (StringImm(name), *map(as_expr, args)))


def call_pure_extern(dtype, name, *args):
    """A call of the C function `name`, which has no effect but its result."""
    return Call(dtype, "tir.call_pure_extern", (StringImm(name), *map(as_expr, args)))


def call_packed(*args):
    """A call of the packed function that the first argument names; buffers pass as their data."""
    return Call("int32", "tir.tvm_call_packed", tuple(
        as_expr(a.data if hasattr(a, "access_ptr") else a) for a in args))


def min_value(dtype):
    """The least value of a dtype as an immediate (-inf for floats that have it): the identity of max."""
    return const(DataType(dtype).min_value(), dtype)


def max_value(dtype):
    """The greatest value of a dtype as an immediate (inf for floats that have it): the identity of min."""
    return const(DataType(dtype).max_value(), dtype)


def infinity(dtype):
    """The infinity of a float dtype as an immediate."""
    return const(float("inf"), dtype)


__all__ = ["BIT_INTRINSICS", "INTEGER_INTRINSICS", "INTRINSICS", "VECTOR_INTRINSICS", *(
    n for n, f in list(globals().items()) if getattr(f, "__module__", None) == __name__ and not n.startswith("_"))]
