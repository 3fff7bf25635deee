"""Elementwise operators of one tensor: output[i] depends on input[i] alone. One row each.

A row: name, the kind of dtype it takes (see common.need_dtype), te(x, **attrs) -> expression,
numpy(x, **attrs) -> array, attribute defaults.
"""
from __future__ import annotations

import math
from functools import partial

import numpy as np

from ... import te, tir
from ...dtype import DataType
from ...expr import Not, Select, const, logical_or
from ...op import REQUIRED, register
from ..expr import TensorStructInfo
from .common import axis_names, fail, need_dtype, short_name, te_shape, tensor
from .special import ARRAYS, SPECIAL, TE

_SQRT_HALF = math.sqrt(0.5)
_SQRT_2_OVER_PI = math.sqrt(2 / math.pi)
_SELU_SCALE, _SELU_ALPHA = 1.0507009873554805, 1.6732632423543772  # Klambauer et al. 2017


def _of(x, value):
    """`value` in x's dtype."""
    return const(value, x.dtype)


def _choose(condition, true_value, false_value):
    return Select(condition, true_value, false_value)


# ---------------------------------------------------------------- expressions that need more than a line

def _gelu(x, approximate):
    """x Phi(x), with Phi the normal distribution; "tanh": x (1 + tanh(y)) / 2 is x / (1 + exp(-2 y))."""
    if approximate == "tanh":
        return x / (1.0 + tir.exp(x * (-2 * _SQRT_2_OVER_PI - 2 * 0.044715 * _SQRT_2_OVER_PI * x * x)))
    return tir.gelu(x)


def _numpy_gelu(x, approximate):
    half = x.dtype.type(0.5)
    if approximate == "tanh":
        return half * x * (1 + np.tanh(_SQRT_2_OVER_PI * (x + 0.044715 * x * x * x))).astype(x.dtype)
    return half * x * (1 + _erf(x * x.dtype.type(_SQRT_HALF)))


def _selu(x):
    return _of(x, _SELU_SCALE) * _choose(x > _of(x, 0), x, _of(x, _SELU_ALPHA) * (tir.exp(x) - 1.0))


def _numpy_selu(x):
    return x.dtype.type(_SELU_SCALE) * np.where(x > 0, x, x.dtype.type(_SELU_ALPHA) * np.expm1(x))


def _softplus(x):
    """max(x, 0) + log(1 + exp(-|x|)): the plain formula overflows."""
    return tir.max(x, _of(x, 0)) + tir.log(1.0 + tir.exp(_of(x, 0) - tir.abs(x)))


def _numpy_softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _sign(x, keep_nan):
    """Of NaN 0, as torch and TVM have it; keep_nan: NaN, as ONNX has it."""
    rest = x if keep_nan else _of(x, 0)
    negative = rest if x.dtype.code == "uint" else _choose(x < _of(x, 0), _of(x, -1), rest)
    return _choose(x > _of(x, 0), _of(x, 1), negative)


def _numpy_sign(x, keep_nan):
    return np.sign(x) if keep_nan else np.where(x == x, np.sign(x), x.dtype.type(0))


def _hard_sigmoid(x, alpha=1 / 6, beta=0.5):
    return tir.max(_of(x, 0), tir.min(_of(x, 1), x * _of(x, alpha) + _of(x, beta)))


def _numpy_hard_sigmoid(x, alpha=1 / 6, beta=0.5):
    return np.clip(x * x.dtype.type(alpha) + x.dtype.type(beta), 0, 1).astype(x.dtype)


def _absolute(x):
    if x.dtype.code == "uint":
        return x
    return tir.abs(x) if x.dtype.is_float else tir.max(x, _of(x, 0) - x)


def clip_bounds(dtype, low, high):
    """Clip bounds as numbers of the dtype, infinite where they are beyond those of floats; None where absent or not
    binding (infinite on integers)."""
    dtype = DataType(dtype)
    pair = [None if b is None or (math.isinf(b) and dtype.is_int) else b for b in (low, high)]
    if dtype.is_float:
        return [b if b is None else _nearest(dtype, b) for b in pair]
    return [b if b is None else min(max(int(b), dtype.min_value()), dtype.max_value()) for b in pair]


def _nearest(dtype, number):
    """A number, or what a float dtype has for one that is out of its range: an infinity, or its last number."""
    least, most = dtype.finite_range()
    if math.isinf(number) or least <= number <= most:
        return number
    with np.errstate(over="ignore"):
        rounded = float(np.asarray(number).astype(dtype.numpy))
    return rounded if rounded == rounded else math.copysign(float(most), number)


def _clip(x, min, max):  # noqa: A002
    low, high = clip_bounds(x.dtype, min, max)
    x = x if low is None else tir.max(_of(x, low), x)
    return x if high is None else tir.min(_of(x, high), x)


def _numpy_clip(x, min, max):  # noqa: A002
    low, high = clip_bounds(x.dtype.name, min, max)
    x = x if low is None else np.maximum(x, x.dtype.type(low))
    return x if high is None else np.minimum(x, x.dtype.type(high))


def _sigmoid(x):
    """Without overflow: exp only of numbers below 0."""
    e = np.exp(-np.abs(x))
    top = np.where(x >= 0, e.dtype.type(1), e)
    top /= 1 + e
    return top.astype(x.dtype, copy=False)


_erf = tir.INTRINSICS["erf"].numpy
_F, _N, _B = "float", "number", "bool"

# name, dtypes, te, numpy, attribute defaults
ROWS = [
    ("nn.relu", _N, lambda x: tir.max(_of(x, 0), x), lambda x: np.maximum(x, x.dtype.type(0)), {}),
    ("nn.leaky_relu", _F, lambda x, alpha: _choose(x < _of(x, 0), x * _of(x, alpha), x),
     lambda x, alpha: np.where(x < 0, x * x.dtype.type(alpha), x), {"alpha": 0.01}),
    ("nn.elu", _F, lambda x, alpha: _choose(x < _of(x, 0), _of(x, alpha) * (tir.exp(x) - 1.0), x),
     lambda x, alpha: np.where(x < 0, x.dtype.type(alpha) * np.expm1(x), x), {"alpha": 1.0}),
    ("nn.gelu", _F, _gelu, _numpy_gelu, {"approximate": "none"}),
    ("nn.silu", _F, tir.silu, lambda x: x * _sigmoid(x), {}),
    ("nn.hard_sigmoid", _F, _hard_sigmoid, _numpy_hard_sigmoid, {"alpha": 0.2, "beta": 0.5}),
    ("nn.hard_swish", _F, lambda x: x * _hard_sigmoid(x), lambda x: x * _numpy_hard_sigmoid(x), {}),
    ("nn.softplus", _F, _softplus, _numpy_softplus, {}),
    ("nn.softsign", _F, lambda x: x / (1.0 + tir.abs(x)), lambda x: x / (1 + np.abs(x)), {}),
    ("nn.mish", _F, lambda x: x * tir.tanh(_softplus(x)), lambda x: x * np.tanh(_numpy_softplus(x)), {}),
    ("sigmoid", _F, tir.sigmoid, _sigmoid, {}),
    ("rsqrt", _F, lambda x: 1.0 / tir.sqrt(x), lambda x: 1 / np.sqrt(x), {}),
    ("reciprocal", _F, lambda x: 1.0 / x, lambda x: 1 / x, {}),
    ("square", _N, lambda x: x * x, np.square, {}),
    ("abs", _N, _absolute, np.abs, {}),
    ("negative", _N, lambda x: _of(x, 0) - x if x.dtype.is_int else _of(x, -1) * x, np.negative, {}),
    ("sign", _N, _sign, _numpy_sign, {"keep_nan": False}),
    ("clip", _N, _clip, _numpy_clip, {"min": None, "max": None}),
    ("copy", "any", lambda x: x, np.copy, {}),  # a tensor of its own, where its source's memory will not do
    ("logical_not", _B, Not, np.logical_not, {}),
    ("bitwise_not", "int", tir.bitwise_not, np.invert, {}),
    ("isnan", _F, tir.isnan, np.isnan, {}),
    ("isinf", _F, tir.isinf, np.isinf, {}),
    ("isfinite", _F, lambda x: Not(logical_or(tir.isnan(x), tir.isinf(x))), np.isfinite, {}),
    ("nn.selu", _F, _selu, _numpy_selu, {}),
]
# operators that are one intrinsic: the reference is the intrinsic's own
_OF_WHOLE = ("floor", "ceil", "round", "trunc")  # of integers these are the integers


def _rounded(function):
    return lambda x: x if x.dtype.kind in "iu" else function(x)


ROWS += [(name, _N, getattr(tir, name), _rounded(row.numpy), {}) if name in _OF_WHOLE else
         (name, _F, getattr(tir, name), row.numpy, {}) for name, row in tir.INTRINSICS.items() if row.operator]

ROWS += [(name, _F, partial(formula, TE), partial(formula, ARRAYS), {}) for name, formula in SPECIAL.items()]

_RETURNS_BOOL = ("logical_not", "isnan", "isinf", "isfinite")


def _infer(call, dtypes, result):
    x = tensor(call)
    need_dtype(call, x, dtypes)
    return TensorStructInfo(x.shape, result or x.dtype)


def _infer_gelu(call, dtypes, result):
    if call.attrs["approximate"] not in ("none", "tanh"):
        fail(call, f"approximate={call.attrs['approximate']!r} is neither 'none' nor 'tanh'")
    return _infer(call, dtypes, result)


def _infer_clip(call, dtypes, result):
    for key in ("min", "max"):
        bound = call.attrs[key]
        if bound is not None and (not isinstance(bound, (int, float)) or math.isnan(bound)):
            fail(call, f"{key}={bound!r} is not a number")
    return _infer(call, dtypes, result)


def _lower(args, attrs, out, name, build):
    x, = args
    return te.compute(te_shape(out), lambda *i: build(x[i], **attrs), name=name, varargs_names=axis_names(out.ndim, x))


def _evaluate(args, attrs, function):
    x = np.asarray(args[0])
    with np.errstate(all="ignore"):
        result = np.asarray(function(x, **attrs))
    return result if result.dtype == bool else result.astype(x.dtype, copy=False)


_INFER = {"nn.gelu": _infer_gelu, "clip": _infer_clip}

for _name, _dtypes, _te, _numpy, _attrs in ROWS:
    _result = "bool" if _name in _RETURNS_BOOL else None
    register(_name, partial(_INFER.get(_name, _infer), dtypes=_dtypes, result=_result),
             partial(_lower, name=short_name(_name), build=_te), partial(_evaluate, function=_numpy), "elementwise",
             **_attrs)


# ---------------------------------------------------------------- astype: the result's dtype is an attribute

def _infer_astype(call):
    try:
        dtype = DataType(call.attrs["dtype"])
    except ValueError as error:
        fail(call, str(error))
    return TensorStructInfo(tensor(call).shape, dtype)


def _lower_astype(args, attrs, out):
    x, = args
    to_bool = out.dtype.is_bool and not x.dtype.is_bool
    return te.compute(te_shape(out), lambda *i: x[i] != _of(x, 0) if to_bool else x[i].astype(out.dtype), name="astype",
                      varargs_names=axis_names(out.ndim, x))


def _evaluate_astype(args, attrs):
    with np.errstate(all="ignore"):
        return np.asarray(args[0]).astype(DataType(attrs["dtype"]).numpy)


def _infer_bitcast(call):
    x, result = tensor(call), _infer_astype(call)
    if x.dtype.bits != result.dtype.bits:
        fail(call, f"{x.dtype} of {x.dtype.bits} bits has no {result.dtype} of the same bits")
    return result


def _lower_bitcast(args, attrs, out):
    """A bool is the number 0 or 1."""
    x, = args

    def element(*i):
        if out.dtype.is_bool and not x.dtype.is_bool:
            return x[i] != _of(x, 0)
        value = x[i].astype("uint8") if x.dtype.is_bool else x[i]
        return value if out.dtype.is_bool else tir.reinterpret(out.dtype, value)

    return te.compute(te_shape(out), element, name="bitcast", varargs_names=axis_names(out.ndim, x))


def _evaluate_bitcast(args, attrs):
    return np.array(args[0], order="C").view(DataType(attrs["dtype"]).numpy)


register("bitcast", _infer_bitcast, _lower_bitcast, _evaluate_bitcast, "elementwise", dtype=REQUIRED)
register("astype", _infer_astype, _lower_astype, _evaluate_astype, "elementwise", dtype=REQUIRED)
