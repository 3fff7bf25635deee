"""The functions that build calls of intrinsics (intrinsics.py), and other expressions that are calls."""
from __future__ import annotations

from functools import cache, reduce

from ..dtype import DataType
from ..expr import (Call, Div, FloatImm, FloorDiv, FloorMod, IntImm, Max, Min, Mod, Not, Select, StringImm, as_expr,
                    binary, cast, const, logical_and, logical_or, match_all, match_dtype)
from ..folding import folded, folded_call
from ..module import GlobalVar
from ..upper import provides
from .device_ops import DEVICE_OPS, SHUFFLES
from .intrinsics import (BIT_INTRINSICS, INTEGER_INTRINSICS, INTRINSICS, SCALAR_INTRINSICS,  # noqa: F401
                         VECTOR_INTRINSICS, integer_power)

# What a call gives where it is not of its first argument's dtype
_BY_LANE = {f"tir.{name}": row.result for name, row in SCALAR_INTRINSICS.items() if row.result}
_RESULTS = {**_BY_LANE, "tir.likely": "bool", "tir.ignore_loop_partition": "bool", "tir.assume": "bool",
            "tir.vscale": "int32", "tir.address_of": "handle", "tir.tvm_call_packed": "int32",
            "tir.tvm_stack_make_array": "handle", "tir.tvm_stack_make_shape": "handle", "tir.tvm_tuple": "handle",
            **{f"tir.{name}": row.dtype for name, row in DEVICE_OPS.items() if row.dtype}}
_AS_FIRST = frozenset(["tir.ret", *(f"tir.{name}" for name in SCALAR_INTRINSICS)])


def result_dtype(op, args):
    """The dtype that the builder of a call gives it; None for an op without one (call_extern, call_intrin)."""
    if isinstance(op, GlobalVar):
        return None
    if op in _RESULTS:
        lanes = args[0].dtype.lanes if args and op in _BY_LANE else 1
        return DataType(_RESULTS[op]).with_lanes(lanes)
    if op == "tir.if_then_else" and len(args) == 3:
        return args[1].dtype
    if op.removeprefix("tir.") in VECTOR_INTRINSICS and args:
        return args[0].dtype.element if op.startswith("tir.reduce_") else args[0].dtype
    if op.removeprefix("tir.") in SHUFFLES and len(args) > 1:
        return args[1].dtype
    return args[0].dtype if op in _AS_FIRST and args else None


# what functions are of integers: None these themselves
_WHOLE = {**dict.fromkeys(("floor", "ceil", "round", "trunc", "nearbyint")), "isnan": False, "isinf": False}


class OperandError(TypeError, RuntimeError):
    """An operation of what it does not take; scripts of TVM's, whose errors are RuntimeErrors, expect such."""


@provides("intrinsic")
def intrinsic(name, *args):
    """The call of a row of SCALAR_INTRINSICS, or the number that it gives of numbers: operands meet in one dtype.
    TypeError for what the row does not take."""
    row = SCALAR_INTRINSICS[name]
    count = row.arity
    if len(args) != count:
        raise TypeError(f"{name} takes {count} argument{'s' if count > 1 else ''}, got {len(args)}")
    floats = count - row.integers
    args = tuple(map(as_expr, args)) if row.operands else (*match_all(args[:floats]), *map(as_expr, args[floats:]))
    dtype = args[0].dtype
    if [a for want, a in zip(row.operands, args) if want not in (None, a.dtype.element)]:
        wanted = ", ".join(want or "a number" for want in row.operands)
        raise TypeError(f"{name} takes {wanted}, not {', '.join(str(a.dtype) for a in args)}")
    is_whole = dtype.is_int or dtype.is_bool and name.startswith("bitwise")
    if name in INTEGER_INTRINSICS and not row.takes and not is_whole:
        raise OperandError(f"{name} takes integers, not {dtype}")
    if row.takes and dtype.element not in row.takes:
        raise TypeError(f"{name} takes {' or '.join(row.takes)}, not {dtype}")
    if floats < count and not args[-1].dtype.is_int:
        raise TypeError(f"{name} takes an integer last, not {args[-1].dtype}")
    if dtype == "handle":
        raise TypeError(f"{name} takes numbers, not a handle")
    if name in _WHOLE and (dtype.is_int or dtype.is_bool):  # what is whole already
        return args[0] if _WHOLE[name] is None else const(_WHOLE[name], DataType("bool").with_lanes(dtype.lanes))
    constant = _constant(name, dtype, args)
    return Call(result_dtype("tir." + name, args), "tir." + name, args) if constant is None else constant


def _constant(name, dtype, args):
    """The immediate that a call of immediates gives; None where there is none."""
    value = None
    if len(args) == 1 and type(args[0]) is FloatImm:
        value = folded_call(name, dtype, args[0].value)
    elif len(args) == 2 and dtype.is_int and type(args[0]) is type(args[1]) is IntImm:
        value = folded(name, dtype, args[0].value, args[1].value)
    return None if value is None else const(value, dtype)


def vector_intrinsic(name, *args):
    """The call of a row of VECTOR_INTRINSICS."""
    op, args = "tir." + name, tuple(map(as_expr, args))
    return Call(result_dtype(op, args), op, args)


def _builder(name):
    def build(*args):
        return intrinsic(name, *args)
    build.__name__ = name
    count = SCALAR_INTRINSICS[name].arity
    build.__doc__ = f"{name}({', '.join('xyz'[:count])}), elementwise in the operands' common dtype."
    return build


globals().update((name, _builder(name)) for name in SCALAR_INTRINSICS)  # exp, log, sqrt and so on
power, fabs = pow, abs


def isfinite(x):
    """Whether x is a number that is neither an infinity nor NaN."""
    return Not(logical_or(intrinsic("isnan", x), intrinsic("isinf", x)))


def max(*values):  # noqa: A001
    """The greatest of two expressions or more."""
    return reduce(lambda a, b: binary(Max, as_expr(a), b), values)


def min(*values):  # noqa: A001
    """The least of two expressions or more."""
    return reduce(lambda a, b: binary(Min, as_expr(a), b), values)


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


def _conditions(name, values):
    if not values:
        raise ValueError(f"{name} takes a condition at least")
    values = [as_expr(v) for v in values]
    for v in values:
        if not v.dtype.is_bool:
            raise OperandError(f"{name} takes conditions, not {v}, which is of {v.dtype}: compare it")
    return values


def all(*conditions):  # noqa: A001
    """Whether all of the conditions hold; ValueError without one, TypeError for what is no bool."""
    return reduce(logical_and, _conditions("all", conditions))


def any(*conditions):  # noqa: A001
    """Whether any of the conditions holds; ValueError without one, TypeError for what is no bool."""
    return reduce(logical_or, _conditions("any", conditions))


def if_then_else(condition, true_value, false_value):
    """true_value where condition holds, else false_value; only the taken side is evaluated (unlike Select). TypeError
    for a condition that is no bool."""
    true_value, false_value = match_dtype(as_expr(true_value), as_expr(false_value))
    condition, = _conditions("if_then_else", (condition,))
    if isinstance(condition, IntImm):
        return true_value if condition.value else false_value
    return Call(true_value.dtype, "tir.if_then_else", (condition, true_value, false_value))


def select(condition, true_value, false_value):
    """Select: both sides may be evaluated."""
    return Select(as_expr(condition), *match_dtype(as_expr(true_value), as_expr(false_value)))


def q_multiply_shift(x, y, q, s):
    """The int32 x * y * 2**(s - q), halves rounded up, computed in int64: a scale of quantized numbers, y / 2**q, and a
    power of two. q and s are numbers."""
    left, right = max(int(s), 0), max(-int(s), 0)
    return q_multiply_shift_per_axis(x, y, left, right, q, left > 0, right > 0)


def q_multiply_shift_per_axis(x, y, ls, rs, q, is_lshift_required, is_rshift_required):
    """The int32 x * 2**ls * y * 2**-(q + rs), halves rounded up, computed in int64; without is_lshift_required ls does
    not count, and rs is 0 without is_rshift_required."""
    wide = cast(as_expr(x), "int64")
    wide = (wide << cast(as_expr(ls), "int64") if is_lshift_required else wide) * cast(as_expr(y), "int64")
    right = cast(as_expr(rs) + q, "int64")
    return cast((wide + (const(1, "int64") << (right - 1))) >> right, "int32")


def likely(cond):
    """Marks a condition that holds almost always: loop partitioning peels it away."""
    return Call("bool", "tir.likely", (as_expr(cond),))


def ignore_loop_partition(predicate):
    """Marks a condition that LoopPartition splits no loop for."""
    return Call("bool", "tir.ignore_loop_partition", (as_expr(predicate),))


def assume(condition):
    """What the simplifier may take for granted from here on: a statement, as tir.Evaluate(tir.assume(condition))."""
    return Call("bool", "tir.assume", (as_expr(condition),))


def undef(dtype="float32"):
    """A value that nobody needs: passes may put any in its place."""
    return Call(dtype, "tir.undef", ())


def get_active_lane_mask(dtype, base, limit):
    """The mask of the lanes n for which base + n < limit: the predicate of a load or store of a vector at `base`.
    dtype: of the mask, as "uint1x4"."""
    return Call(dtype, "tir.get_active_lane_mask", match_all((base, limit)))


@provides("vscale")
@cache
def vscale():
    """How many times 128 bits a vector register of the machine has, where only that knows; one expression, always.
    C for such machines has vectors of a known length; what is left of this one is an error there."""
    return Call("int32", "tir.vscale", ())


@provides("address_of")
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


def device_op(name, *args):
    """The call of a row of DEVICE_OPS, or of SHUFFLES; where the row leaves the dtype open, that comes first."""
    row = DEVICE_OPS.get(name)
    dtype, *args = (None, *args) if row is None or row.dtype else args
    args = tuple(as_expr(a.data if hasattr(a, "access_ptr") else a) for a in (row.filled(args) if row else args))
    return Call(dtype or result_dtype(f"tir.{name}", args), f"tir.{name}", args)


def reinterpret(dtype, value):
    """The number of `dtype` that has the bits of `value`. TypeError when they have not as many."""
    value, dtype = as_expr(value), DataType(dtype)
    if dtype == "handle" and value.dtype in ("uint64", "int64"):  # an address
        return Call(dtype, "tir.reinterpret", (value,))
    if "handle" in (dtype, value.dtype) or value.dtype.bits * value.dtype.lanes != dtype.bits * dtype.lanes:
        raise TypeError(f"reinterpret takes a number of as many bits as the result: {value.dtype} is not {dtype}")
    return value if value.dtype == dtype else Call(dtype, "tir.reinterpret", (value,))


def call_extern(dtype, name, *args):
    """A call of the C function `name`."""
    return Call(dtype, "tir.call_extern", (StringImm(name), *map(as_expr, args)))


def call_pure_extern(dtype, name, *args):
    """A call of the C function `name`, which has no effect but its result."""
    return Call(dtype, "tir.call_pure_extern", (StringImm(name), *map(as_expr, args)))


def _of_llvm(op, doc):
    def build(dtype, name, *args):
        if not isinstance(name, str):
            raise TypeError(f"{op}: an instruction of LLVM's goes by its name, not by the number {name}")
        return Call(dtype, f"tir.{op}", (StringImm(name), *map(as_expr, args)))
    build.__name__, build.__doc__ = op, doc
    return build


call_llvm_intrin = _of_llvm("call_llvm_intrin", "A call of an instruction of LLVM's, which has no C: for passes alone.")
call_llvm_pure_intrin = _of_llvm("call_llvm_pure_intrin", "call_llvm_intrin of one without an effect but its result.")


def call_packed(*args):
    """A call of the packed function that the first argument names, with tensors, numbers and texts; Buffers are tensors."""
    return Call("int32", "tir.tvm_call_packed", tuple(
        stack_make_array(a) if hasattr(a, "access_ptr") else as_expr(a) for a in args))


def stack_make_array(buffer):
    """The tensor that a packed function gets for a compact Buffer: tir.tvm_stack_make_array(address of its first
    element, shape, strides, ndim, a number of its dtype, offset), strides and offset 0."""
    if buffer.strides:
        raise TypeError(f"packed functions get compact buffers; {buffer.name} has strides: pass a copy")
    first = address_of(buffer[tuple(const(0, e.dtype) for e in buffer.shape)])
    shape = Call("handle", "tir.tvm_stack_make_shape", tuple(buffer.shape))
    return Call("handle", "tir.tvm_stack_make_array", (
        first, shape, const(0), const(len(buffer.shape)), const(0, buffer.dtype), const(0)))


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
