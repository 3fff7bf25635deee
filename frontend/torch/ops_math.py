"""Elementwise operators."""
from __future__ import annotations

import math
import operator
from functools import partial

from ...ir.dtype import DataType
from ...ir.expr import Max, Min, PrimExpr, binary as prim_binary
from ...ir.relax.expr import const
from ..shapes import same, simplify
from .dtypes import category, dtype_of
from .table import ATEN, CONVERTERS, FUNCTIONS, converts

# ---------------------------------------------------------------- of one tensor

_FLOATS = """acos acosh asin asinh atan atanh cos cosh digamma erf erfinv exp lgamma log rsqrt sigmoid sin sinh sqrt tan
tanh arccos:acos arccosh:acosh arcsin:asin arcsinh:asinh arctan:atan arctanh:atanh special_erf:erf
special_expit:sigmoid special_gammaln:lgamma special_digamma:digamma special_psi:digamma special_erfinv:erfinv"""
_SAME = """abs absolute:abs ceil floor neg:negative negative square trunc
fix:trunc relu:nn.relu selu:nn.selu silu:nn.silu mish:nn.mish softsign:nn.softsign"""
_UNCHANGED = """clone contiguous detach lift_fresh lift_fresh_copy alias positive pos resolve_conj resolve_neg cpu
requires_grad_ stochastic_depth dropout1d dropout2d dropout3d"""


def _unary(relax, floats):
    def convert(b, x, inplace=False, **options):
        _no_options(options)
        return b.op(relax, b.floats(x) if floats else x)
    return convert


def _no_options(options):
    for name, value in options.items():
        if name == "out" and value is not None:
            raise ValueError("out= is not supported: use the result")


for _names, _is_float in ((_FLOATS, True), (_SAME, False)):
    for _name in _names.split():
        _torch, _, _relax = _name.partition(":")
        CONVERTERS[_torch] = _unary(_relax or _torch, _is_float)


@converts(*_UNCHANGED.split())
def unchanged(b, x, *args, **kwargs):
    """What inference, and a program without memory of its own, leave as it is."""
    return x


def _log_by(base):
    def convert(b, x):
        x = b.floats(x)
        return b.op("divide", b.made("log", x), b.const_like(math.log(base), x))
    return convert


CONVERTERS.update({"log2": _log_by(2), "log10": _log_by(10)})


@converts("log1p")
def log1p(b, x):
    x = b.floats(x)
    return b.op("log", b.made("add", x, b.const_like(1, x)))


@converts("expm1")
def expm1(b, x):
    x = b.floats(x)
    return b.op("subtract", b.made("exp", x), b.const_like(1, x))


@converts("exp2")
def exp2(b, x):
    x = b.floats(x)
    return b.op("exp", b.made("multiply", x, b.const_like(math.log(2), x)))


@converts("reciprocal")
def reciprocal(b, x):
    x = b.floats(x)
    return b.op("divide", b.const_like(1.0, x), x)


@converts("round")
def round_(b, x, decimals=0):
    if decimals:
        scale = b.const_like(10.0 ** decimals, x)
        return b.op("divide", b.made("round", b.made("multiply", x, scale)), scale)
    return b.op("round", x)


@converts("frac")
def frac(b, x):
    return b.op("subtract", x, b.made("trunc", x))


@converts("celu")
def celu(b, x, alpha=1.0, inplace=False):
    """max(0, x) + alpha min(0, e / alpha - 1), of e = alpha exp(x / alpha)."""
    a = b.const_like(alpha, x)
    raised = b.made("exp", x) if alpha == 1 else b.made("multiply", a, b.made("exp", b.made("divide", x, a)))
    below = b.made("subtract", b.made("divide", raised, a), b.const_like(1, x))
    return b.op("add", b.made("multiply", a, b.made("minimum", b.const_like(0, x), below)), b.made("nn.relu", x))


@converts("elu")
def elu(b, x, alpha=1.0, scale=1.0, input_scale=1.0, inplace=False):
    if scale != 1.0 or input_scale != 1.0:
        raise ValueError("elu's scale and input_scale must be 1")
    below = b.made("nn.relu", b.made("subtract", b.const_like(1, x), b.made("exp", x)))
    return b.op("add", b.made("multiply", b.const_like(-alpha, x), below), b.made("nn.relu", x))


@converts("gelu")
def gelu(b, x, approximate="none"):
    if approximate not in ("none", "tanh"):
        raise ValueError(f"gelu's approximate must be none or tanh, not {approximate!r}")
    return b.op("nn.gelu_tanh" if approximate == "tanh" else "nn.gelu", x)


@converts("hardsigmoid")
def hardsigmoid(b, x, inplace=False):
    return b.op("divide", _relu6(b, x), b.const_like(6, x))


@converts("hardswish")
def hardswish(b, x, inplace=False):
    return b.op("multiply", x, b.made("divide", _relu6(b, x), b.const_like(6, x)))


def _relu6(b, x):
    """relu6(x + 3)"""
    return b.made("clip", b.made("add", x, b.const_like(3, x)), 0, 6)


@converts("hardtanh")
def hardtanh(b, x, min_val=-1.0, max_val=1.0, inplace=False):
    return b.op("clip", x, min_val, max_val)


@converts("relu6")
def relu6(b, x, inplace=False):
    return b.op("clip", x, 0, 6)


@converts("leaky_relu")
def leaky_relu(b, x, negative_slope=0.01, inplace=False):
    return b.op("nn.leakyrelu", x, negative_slope)


@converts("prelu")
def prelu(b, x, weight):
    return b.op("nn.prelu", x, weight, 1 if b.rank(x) > 1 else 0)


@converts("softplus")
def softplus(b, x, beta=1.0, threshold=20.0):
    return b.op("nn.softplus", x, beta, threshold)


@converts("softshrink")
def softshrink(b, x, lambd=0.5):
    """(x - l) (x > l) + (x + l) (x < -l)"""
    limit, dtype = b.const_like(lambd, x), b.dtype(x)
    above = b.made("multiply", b.made("subtract", x, limit), b.made("astype", b.made("greater", x, limit), dtype))
    below = b.made("astype", b.made("less", x, b.made("negative", limit)), dtype)
    return b.op("add", above, b.made("multiply", b.made("add", x, limit), below))


@converts("hardshrink")
def hardshrink(b, x, lambd=0.5):
    return b.op("where", b.made("greater", b.made("abs", x), b.const_like(lambd, x)), x, b.const_like(0, x))


@converts("tanhshrink")
def tanhshrink(b, x):
    return b.op("subtract", x, b.made("tanh", x))


@converts("threshold")
def threshold_(b, x, threshold, value, inplace=False):
    """NaN, which is not below, stays."""
    return b.op("where", b.made("less_equal", x, b.const_like(threshold, x)), b.const_like(value, x), x)


@converts("logsigmoid", "log_sigmoid")
def logsigmoid(b, x):
    return b.op("negative", b.made("nn.softplus", b.made("negative", x)))


@converts("glu")
def glu(b, x, dim=-1):
    parts = b.op("split", x, 2, dim)
    return b.op("multiply", b.emit(parts[0]), b.made("sigmoid", b.emit(parts[1])))


def _softmax_int(relax):
    def convert(b, x, dim=-1, dtype=None):
        return b.op(relax, x if dtype is None else b.cast(x, dtype_of(dtype)), dim)
    return convert


def _softmax_function(relax):
    def convert(b, x, dim=None, _stacklevel=3, dtype=None):
        dim = dim if dim is not None else 0 if b.rank(x) in (0, 1, 3) else 1
        return b.op(relax, x if dtype is None else b.cast(x, dtype_of(dtype)), dim)
    return convert


for _name in ("softmax", "log_softmax"):
    ATEN[f"{_name}.int"] = _softmax_int(f"nn.{_name}")
    ATEN[f"_{_name}.default"] = lambda b, x, dim, half_to_float=False, relax=f"nn.{_name}": b.op(relax, x, dim)
    FUNCTIONS[_name] = _softmax_function(f"nn.{_name}")


@converts("softmin")
def softmin(b, x, dim=-1, _stacklevel=3, dtype=None):
    return b.op("nn.softmax", b.made("negative", x), dim)


# ---------------------------------------------------------------- clamping

@converts("clamp", "clip")
def clamp(b, x, min=None, max=None):  # noqa: A002 (torch's names)
    if category(b.dtype(x)) != 2 or not all(map(partial(_is_limit, b, x), (min, max))):
        return _clamp_by(b, x, min, max)
    for relax, bound in (("maximum", min), ("minimum", max)):
        if b.is_tensor(bound):
            x = b.op(relax, x, b.op("broadcast_to", bound, b.shape_of(x)))
    low, high = (limit if bound is None or b.is_tensor(bound) else bound
                 for bound, limit in ((min, -math.inf), (max, math.inf)))
    return b.op("clip", x, low, high)


def _is_limit(b, x, bound):
    """Whether a bound is a number, or a tensor that broadcasts to x's shape, of its dtype."""
    if not b.is_tensor(bound):
        return not isinstance(bound, PrimExpr)
    dims, shape = b.dims(bound), b.dims(x)
    return b.dtype(bound) == b.dtype(x) and len(dims) <= len(shape) and all(
        same(d, 1) or same(d, s) for d, s in zip(dims[::-1], shape[::-1]))


def _clamp_by(b, x, low, high):
    """By what broadcasts or promotes, and of integers, which have no infinity."""
    for name, bound in (("maximum", low), ("minimum", high)):
        if bound is not None:
            x = CONVERTERS[name](b, x, bound)
    return x


@converts("clamp_min")
def clamp_min(b, x, min):  # noqa: A002
    return clamp(b, x, min)


@converts("clamp_max")
def clamp_max(b, x, max):  # noqa: A002
    return clamp(b, x, None, max)


# ---------------------------------------------------------------- of two

# torch's names: (relax.op's, the same of numbers)
_BINARY = {
    "add iadd": ("add", operator.add), "sub subtract isub": ("subtract", operator.sub),
    "mul multiply imul": ("multiply", operator.mul),
    "floor_divide floordiv ifloordiv": ("floor_divide", operator.floordiv),
    "remainder mod imod": ("floor_mod", operator.mod), "fmod": ("mod", math.fmod),
    "maximum sym_max": ("maximum", max), "minimum sym_min": ("minimum", min),
    "eq": ("equal", operator.eq), "ne not_equal": ("not_equal", operator.ne),
    "lt less": ("less", operator.lt), "le less_equal": ("less_equal", operator.le),
    "gt greater": ("greater", operator.gt), "ge greater_equal": ("greater_equal", operator.ge),
    "bitwise_and and_ __and__ iand": ("bitwise_and", operator.and_),
    "bitwise_or or_ __or__ ior": ("bitwise_or", operator.or_),
    "bitwise_xor xor __xor__ ixor": ("bitwise_xor", operator.xor),
    "lshift bitwise_left_shift __lshift__": ("left_shift", operator.lshift),
    "rshift bitwise_right_shift __rshift__": ("right_shift", operator.rshift),
}
_OF_BOOL = {"bitwise_and": "logical_and", "bitwise_or": "logical_or", "bitwise_xor": "logical_xor",
            "add": "logical_or", "multiply": "logical_and", "maximum": "logical_or", "minimum": "logical_and"}
_ORDER = ("less", "less_equal", "greater", "greater_equal")
_OF_DIMS = {max: lambda x, y: prim_binary(Max, x, y), min: lambda x, y: prim_binary(Min, x, y)}


def _binary(relax, of_numbers):
    def convert(b, x, y, alpha=1, out=None):
        _no_options({"out": out})
        if not b.is_tensor(x) and not b.is_tensor(y):
            dims = isinstance(x, PrimExpr) or isinstance(y, PrimExpr)
            return simplify((_OF_DIMS.get(of_numbers, of_numbers) if dims else of_numbers)(x, y))
        x, y = b.common(x, y)
        if alpha != 1:
            y = b.op("logical_and" if b.dtype(y) == "bool" else "multiply", y, b.const_like(alpha, y))
        if b.dtype(x) == "bool" and relax in _ORDER:
            x, y = b.cast(x, "uint8"), b.cast(y, "uint8")
        return b.op(_OF_BOOL.get(relax, relax) if b.dtype(x) == "bool" else relax, x, y)
    return convert


for _names, (_relax, _of_numbers) in _BINARY.items():
    CONVERTERS.update(dict.fromkeys(_names.split(), _binary(_relax, _of_numbers)))


@converts("rsub")
def rsub(b, x, y, alpha=1):
    return CONVERTERS["sub"](b, y, x, alpha)


@converts("div", "divide", "true_divide", "truediv", "itruediv")
def div(b, x, y, rounding_mode=None, out=None):
    if not b.is_tensor(x) and not b.is_tensor(y):
        return x / y if rounding_mode is None else CONVERTERS["floor_divide"](b, x, y)
    x, y = b.common(x, y)
    if rounding_mode == "floor":
        return b.op("floor_divide", x, y)
    whole = category(b.dtype(x)) != 2
    if rounding_mode == "trunc" and whole:
        return b.op("divide", x, y)
    if whole:
        x, y = b.as_operand(x, "float32"), b.as_operand(y, "float32")
    return b.op("divide", x, y) if rounding_mode is None else b.op("trunc", b.made("divide", x, y))


@converts("float_power")
def float_power(b, x, exponent):
    return b.op("power", *(b.as_operand(v, "float64") for v in (x, exponent)))


@converts("pow", "ipow")
def power(b, x, exponent):
    if not b.is_tensor(x) and not b.is_tensor(exponent):
        return x ** exponent
    x, y = b.common(x, exponent)
    return b.op("power", x, y)


@converts("logical_and")
def logical_and(b, x, y):
    return b.op("logical_and", _truth(b, x), _truth(b, y))


@converts("logical_or")
def logical_or(b, x, y):
    return b.op("logical_or", _truth(b, x), _truth(b, y))


@converts("logical_xor")
def logical_xor(b, x, y):
    return b.op("logical_xor", _truth(b, x), _truth(b, y))


@converts("logical_not")
def logical_not(b, x):
    return b.op("logical_not", x) if b.dtype(x) == "bool" else b.op("equal", x, b.const_like(0, x))


@converts("bitwise_not", "invert")
def bitwise_not(b, x):
    return b.op("logical_not" if b.dtype(x) == "bool" else "bitwise_not", x)


def _truth(b, x):
    return x if b.dtype(x) == "bool" else b.made("not_equal", x, b.const_like(0, x))


@converts("where")
def where(b, condition, x, y):
    return b.op("where", condition, *b.common(x, y))


@converts("lerp")
def lerp(b, start, end, weight):
    if not b.is_tensor(weight):
        weight = b.const_like(weight, start)
    return b.op("add", start, b.made("multiply", weight, b.made("subtract", end, start)))


@converts("addcmul")
def addcmul(b, x, y, z, value=1):
    product = b.made("multiply", y, z)
    return b.op("add", x, product if value == 1 else b.made("multiply", product, b.const_like(value, x)))


@converts("addcdiv")
def addcdiv(b, x, y, z, value=1):
    quotient = b.made("divide", y, z)
    return b.op("add", x, quotient if value == 1 else b.made("multiply", quotient, b.const_like(value, x)))


@converts("atan2", "arctan2")
def atan2(b, y, x):
    """The angle of (x, y), from that of their sizes and the signs, also those of zeros."""
    y, x = b.common(b.floats(y), b.floats(x))
    up, right, zero = b.op("abs", y), b.op("abs", x), b.const_like(0, x)
    same = b.made("where", b.made("equal", up, zero), zero, b.const_like(1, x))  # of zeros, and of infinities
    ratio = b.made("where", b.made("equal", up, right), same, b.made("divide", up, right))
    angle = b.op("atan", ratio)
    angle = b.op("where", signbit(b, x), b.made("subtract", b.const_like(math.pi, x), angle), angle)
    return b.op("where", signbit(b, y), b.made("negative", angle), angle)


def _asks(relax, of_whole):
    """What only floats can be asked; whole numbers all answer alike."""
    def convert(b, x):
        if category(b.dtype(x)) == 2:
            return b.op(relax, x)
        return b.op("full", b.shape_of(x), const(of_whole, "bool"), "bool")
    return convert


CONVERTERS.update({"isfinite": _asks("isfinite", True), "isinf": _asks("isinf", False),
                   "isnan": _asks("isnan", False)})


@converts("sign", "sgn")
def sign(b, x):
    return x if b.dtype(x) == "bool" else b.op("sign", x)


@converts("ldexp")
def ldexp(b, x, exponent):
    """x times a power of 2: by whole exponents of x's dtype, in two steps, as the power alone may be infinite."""
    x = b.floats(x)
    if category(b.dtype(exponent)) == 2:
        return CONVERTERS["mul"](b, x, CONVERTERS["exp2"](b, exponent))
    two = const(2, "float64")
    exponent = b.op("clip", b.cast(exponent, "float64"), -2046, 2046)
    half = b.op("floor", b.made("multiply", exponent, const(0.5, "float64")))
    scaled = b.op("multiply", b.cast(x, "float64"), b.made("power", two, half))
    return b.cast(b.op("multiply", scaled, b.made("power", two, b.made("subtract", exponent, half))), b.dtype(x))


@converts("signbit")
def signbit(b, x):
    """Whether a number is negative, or the zero that is."""
    if category(b.dtype(x)) != 2:
        return CONVERTERS["lt"](b, x, 0)
    dtype = f"int{DataType(b.dtype(x)).bits}"
    return b.op("less", b.made("bitcast", x, dtype), const(0, dtype))


@converts("copysign")
def copysign(b, x, y):
    x, y = b.common(b.floats(x), y)
    size = b.op("abs", x)
    return b.op("where", signbit(b, y), b.made("negative", size), size)


@converts("hypot")
def hypot(b, x, y):
    """The length of (x, y), whose squares may be beyond the dtype; by an infinity that, also where the other is NaN."""
    x, y = (b.op("abs", v) for v in b.common(x, y))
    most, one = b.op("maximum", x, y), b.const_like(1, x)
    part = b.op("divide", b.made("minimum", x, y), most)
    length = b.op("multiply", most, b.made("sqrt", b.made("add", one, b.made("multiply", part, part))))
    length = b.op("where", b.made("equal", most, b.const_like(0, x)), most, length)
    infinite = b.made("logical_or", b.made("isinf", x), b.made("isinf", y))
    return b.op("where", infinite, b.const_like(math.inf, x), length)


@converts("erfc", "special_erfc")
def erfc(b, x):
    x = b.floats(x)
    return b.op("subtract", b.const_like(1, x), b.made("erf", x))


def _ignoring_nan(relax):
    def convert(b, x, y):
        x, y = b.common(x, y)
        both = CONVERTERS[relax](b, x, y)
        if category(b.dtype(x)) != 2:
            return both
        return b.op("where", b.made("isnan", x), y, b.made("where", b.made("isnan", y), x, both))
    return convert


CONVERTERS.update({"fmax": _ignoring_nan("maximum"), "fmin": _ignoring_nan("minimum")})


@converts("rrelu", "rrelu_with_noise")
def rrelu(b, x, *args, lower=1 / 8, upper=1 / 3, training=False, **options):
    """Of inference: a leaky ReLU by the middle of both slopes."""
    args = [a for a in args if not b.is_tensor(a)]
    lower, upper, training = (*args, *(lower, upper, training)[len(args):])[:3]
    if training:
        raise ValueError("rrelu of training mode draws its slopes; call model.eval() before the export")
    return b.op("nn.leakyrelu", x, (lower + upper) / 2)


# ---------------------------------------------------------------- numbers and dimensions

@converts("sym_float")
def sym_float(b, x):
    return float(x) if isinstance(x, (int, float)) else x


@converts("sym_int", "sym_sqrt")
def sym_int(b, x):
    return int(x) if isinstance(x, (int, float)) else x


@converts("_assert", "_assert_scalar", "_assert_tensor_metadata", "_assert_async", "sym_constrain_range",
          "sym_constrain_range_for_size", "_check", "_check_is_size", "manual_seed", "_set_grad_enabled",
          "_exit_autocast", "_enter_autocast", "_autocast_to_full_precision")
def nothing(b, *args, **kwargs):
    """Checks of torch's own, which a graph of these shapes has passed."""
    return None
