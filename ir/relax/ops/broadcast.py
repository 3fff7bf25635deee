"""Operators of several tensors with numpy broadcasting. One row each."""
from __future__ import annotations

from functools import partial

import numpy as np

from ... import te, tir
from ...expr import Select, const, is_const_int, logical_and, logical_or
from ...op import register
from ...tir.intrin import integer_power
from ..expr import TensorStructInfo
from .common import (axis_names, broadcast_index, broadcast_shapes, need_dtype, need_same_dtype, te_shape,
                     tensors)
from .precision import is_float


def _whole(function, a, b):
    """An integer division; 0 where the divisor is the constant 0, which expressions do not have."""
    return const(0, a.dtype) if is_const_int(b, 0) else function(a, b)


def _divide(a, b):
    """Integers truncate toward zero, as C does and ONNX asks. By 0 they are 0, as numpy has it."""
    return _whole(tir.truncdiv, a, b) if a.dtype.is_int else a / b


def _numpy_divide(a, b):
    if is_float(a):
        return a / b
    quotient, rest = np.floor_divide(a, b), np.fmod(a, b)
    return (quotient + ((rest != 0) & ((a < 0) != (b < 0)))).astype(a.dtype)


def _floor_divide(a, b):
    return _whole(tir.floordiv, a, b) if a.dtype.is_int else tir.floor(a / b)


def _numpy_floor_divide(a, b):
    return np.floor(a / b) if is_float(a) else np.floor_divide(a, b)


def _floor_mod(a, b):
    """The remainder with the divisor's sign."""
    if a.dtype.is_int:
        return _whole(tir.floormod, a, b)
    rest, zero = tir.fmod(a, b), const(0, a.dtype)
    return Select(logical_and(rest != zero, (rest < zero) != (b < zero)), rest + b, rest)


def _mod(a, b):
    """The remainder with the dividend's sign."""
    return _whole(tir.truncmod, a, b) if a.dtype.is_int else tir.fmod(a, b)


def _power(a, b):
    """Integers wrap around; to a power below 0 they are what 1 / a ** -b is rounded to towards zero, 0 to it is 0."""
    if a.dtype.is_int:
        return tir.power(a.astype("int64"), b.astype("int64")).astype(a.dtype)
    return tir.power(a, b)


def _numpy_power(a, b):
    if is_float(a):
        root = np.isneginf(a) & (b == 0.5)  # of which numpy takes the square root where all exponents are 0.5
        return np.where(root, a.dtype.type(np.inf), np.power(a, b))
    return integer_power(a.astype(np.int64), b.astype(np.int64)).astype(a.dtype)


# name, dtypes taken, dtype returned (None: the operands'), te, numpy
ROWS = [
    ("add", "number", None, lambda a, b: a + b, np.add),
    ("subtract", "number", None, lambda a, b: a - b, np.subtract),
    ("multiply", "number", None, lambda a, b: a * b, np.multiply),
    ("divide", "number", None, _divide, _numpy_divide),
    ("power", "number", None, _power, _numpy_power),
    ("maximum", "number", None, tir.max, np.maximum),
    ("minimum", "number", None, tir.min, np.minimum),
    ("floor_divide", "number", None, _floor_divide, _numpy_floor_divide),
    ("floor_mod", "number", None, _floor_mod, np.mod),
    ("mod", "number", None, _mod, np.fmod),
    ("bitwise_and", "int", None, tir.bitwise_and, np.bitwise_and),
    ("bitwise_or", "int", None, tir.bitwise_or, np.bitwise_or),
    ("bitwise_xor", "int", None, tir.bitwise_xor, np.bitwise_xor),
    ("left_shift", "int", None, tir.shift_left, np.left_shift),
    ("right_shift", "int", None, tir.shift_right, np.right_shift),
    ("equal", "any", "bool", lambda a, b: a == b, np.equal),
    ("not_equal", "any", "bool", lambda a, b: a != b, np.not_equal),
    ("less", "number", "bool", lambda a, b: a < b, np.less),
    ("less_equal", "number", "bool", lambda a, b: a <= b, np.less_equal),
    ("greater", "number", "bool", lambda a, b: a > b, np.greater),
    ("greater_equal", "number", "bool", lambda a, b: a >= b, np.greater_equal),
    ("logical_and", "bool", "bool", logical_and, np.logical_and),
    ("logical_or", "bool", "bool", logical_or, np.logical_or),
    ("logical_xor", "bool", "bool", lambda a, b: a != b, np.logical_xor),
]


def _infer(call, dtypes, result):
    infos = tensors(call)
    for info in infos:
        need_dtype(call, info, dtypes)
    dtype = need_same_dtype(call, infos, strictly=not result)
    return TensorStructInfo(broadcast_shapes(call, *(i.shape for i in infos)), result or dtype)


def _infer_where(call):
    condition, x, y = tensors(call)
    need_dtype(call, condition, "bool")
    dtype = need_same_dtype(call, [x, y])
    return TensorStructInfo(broadcast_shapes(call, condition.shape, x.shape, y.shape), dtype)


def _lower(args, attrs, out, name, build):
    return te.compute(te_shape(out), lambda *i: build(*(a[broadcast_index(i, a.shape, out.shape)] for a in args)),
                      name=name, varargs_names=axis_names(out.ndim, *args))


def _evaluate(args, attrs, function):
    with np.errstate(all="ignore"):
        return np.asarray(function(*(np.asarray(a) for a in args)))


for _name, _dtypes, _result, _te, _numpy in ROWS:
    register(_name, partial(_infer, dtypes=_dtypes, result=_result), partial(_lower, name=_name, build=_te),
             partial(_evaluate, function=_numpy), "broadcast", arity=(2, 2))

register("where", _infer_where, partial(_lower, name="where", build=Select), partial(_evaluate, function=np.where),
         "broadcast", arity=(3, 3))
