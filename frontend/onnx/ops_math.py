"""Elementwise operators: one-to-one tables first, then those with attributes or several operands."""
from __future__ import annotations

import math
from functools import reduce

import numpy as np
from onnx import TensorProto

from ...ir.dtype import DataType
from ...ir.relax.expr import Constant
from ..shapes import dims_of, same_dims
from .converter import converts
from .load import dtype_of

# ONNX operator -> graph operator with the same meaning and no attributes.
UNARY = {
    "Relu": "nn.relu", "Erf": "erf", "Tanh": "tanh", "Sigmoid": "sigmoid", "Exp": "exp", "Log": "log", "Sqrt": "sqrt",
    "Reciprocal": "reciprocal", "Abs": "abs", "Neg": "negative", "Floor": "floor", "Ceil": "ceil", "Round": "round",
    "Sin": "sin", "Cos": "cos", "Tan": "tan", "Asin": "asin", "Acos": "acos", "Atan": "atan",
    "Sinh": "sinh", "Cosh": "cosh", "Asinh": "asinh", "Acosh": "acosh", "Atanh": "atanh", "Not": "logical_not",
    "Softplus": "nn.softplus", "Softsign": "nn.softsign", "Mish": "nn.mish", "HardSwish": "nn.hard_swish",
    "IsNaN": "isnan", "BitwiseNot": "bitwise_not",
}
# ONNX operator -> (graph operator, its attributes, which ONNX names the same).
UNARY_WITH_ATTRIBUTES = {
    "LeakyRelu": ("nn.leaky_relu", ("alpha",)), "Elu": ("nn.elu", ("alpha",)),
    "HardSigmoid": ("nn.hard_sigmoid", ("alpha", "beta")),
}
BINARY = {
    "Add": "add", "Sub": "subtract", "Mul": "multiply", "Div": "divide", "Equal": "equal", "Less": "less",
    "LessOrEqual": "less_equal", "Greater": "greater", "GreaterOrEqual": "greater_equal", "And": "logical_and",
    "Or": "logical_or", "Xor": "logical_xor", "BitwiseAnd": "bitwise_and", "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor",
}
VARIADIC = {"Sum": "add", "Max": "maximum", "Min": "minimum"}


def _register_tables():
    def unary(op):
        return lambda node: node.call(op, node.input(0))

    def with_attributes(op, names):
        return lambda node: node.call(op, node.input(0), **{n: float(node.attr(n)) for n in names})

    def binary(op):
        return lambda node: node.call(op, node.input(0), node.input(1))

    def binary_v1(op):
        return lambda node: node.call(op, node.input(0), legacy_operand(node))

    def variadic(op):
        return lambda node: reduce(lambda a, b: node.call(op, a, b), node.inputs)

    for name, op in UNARY.items():
        converts(name)(unary(op))
    for name, (op, names) in UNARY_WITH_ATTRIBUTES.items():
        converts(name)(with_attributes(op, names))
    for name, op in BINARY.items():
        converts(name, 1)(binary_v1(op))
        converts(name, 7)(binary(op))
    for name, op in VARIADIC.items():
        converts(name)(variadic(op))


def legacy_operand(node):
    """The second operand of opsets 1 to 6, whose axes are those of the first from attribute `axis` on (by default the
    last ones): as numpy broadcasts it."""
    x, y = node.input(0), node.input(1)
    rank, own = x.struct_info.ndim, y.struct_info.ndim
    if not node.attr("broadcast", 0):
        if not same_dims(dims_of(x), dims_of(y)):
            raise node.error("attribute broadcast is 0, and the shapes of the operands differ")
        return y
    start = node.attr("axis", rank - own)
    start = start + rank if start < 0 else start
    if not 0 <= start <= rank - own:
        raise node.error(f"attribute axis {start}: the second operand does not fit inside the first")
    return node.reshape(y, [*dims_of(y), *[1] * (rank - own - start)])


_register_tables()


def scalar_like(node, value, x):
    """A scalar constant of x's dtype."""
    return node.const(value, x.struct_info.dtype)


@converts("Sign")
def _sign(node):
    return node.call("sign", node.input(0), keep_nan=True)


@converts("Mean")
def mean(node):
    total = reduce(lambda a, b: node.call("add", a, b), node.inputs)
    count = len(node.inputs)
    return total if count == 1 else node.call("multiply", total, scalar_like(node, 1 / count, node.input(0)))


@converts("Pow", 1)
def power_v1(node):
    return node.call("power", node.input(0), legacy_operand(node))


@converts("Pow", 7)
def power(node):
    """The result has the base's dtype; the exponent may be of another one (opset 12). An integer to the power of a
    float is computed in float64."""
    base, exponent = node.input(0), node.input(1)
    scalar = isinstance(exponent, Constant) and exponent.data.size == 1 and exponent.data.ndim <= base.struct_info.ndim
    if scalar and exponent.data.reshape(()) in (2, 3):  # products are exact where pow() is slow
        square = node.call("square", base)
        return square if exponent.data.reshape(()) == 2 else node.call("multiply", square, base)
    dtype = base.struct_info.dtype
    if dtype.is_int:
        wide = "float64" if exponent.struct_info.dtype.is_float else "int64"
        return node.astype(node.call("power", node.astype(base, wide), node.astype(exponent, wide)), dtype)
    return node.call("power", base, node.astype(exponent, dtype))


@converts("Mod", 10)
def mod_v10(node):
    if not node.attr("fmod", 0) and node.input(0).struct_info.dtype.is_float:
        raise node.error("attribute fmod must be 1 for floating-point tensors")
    return mod_v28(node)


@converts("Mod", 28)
def mod_v28(node):
    """fmod: the remainder with the dividend's sign; else with the divisor's, whose sign a zero has too."""
    a, b = node.input(0), node.input(1)
    if node.attr("fmod", 0):
        return node.call("mod", a, b)
    return node.call("floor_mod", a, b)


@converts("BitShift", 11)
def bit_shift(node):
    """By as many bits as there are, or a negative number, nothing but the sign is left."""
    x, y = node.input(0), node.input(1)
    dtype = x.struct_info.dtype
    right = node.choice("direction", "LEFT", "RIGHT") == "RIGHT"
    inside = node.call("less", y, scalar_like(node, dtype.bits, y))
    if dtype.code == "int":
        inside = node.call("logical_and", inside, node.call("greater_equal", y, scalar_like(node, 0, y)))
    by = node.call("where", inside, y, scalar_like(node, 0, y))
    shifted = node.call("right_shift" if right else "left_shift", x, by)
    rest = scalar_like(node, 0, x)
    if right and dtype.code == "int":
        rest = node.call("right_shift", x, scalar_like(node, dtype.bits - 1, x))
    return node.call("where", inside, shifted, rest)


@converts("BitCast", 26)
def bit_cast(node):
    return node.call("bitcast", node.input(0), dtype=dtype_of(node.attr("to"), f"{node.title}: attribute to"))


@converts("Swish", 24)
def swish(node):
    """x sigmoid(alpha x)."""
    return _swish(node, node.input(0))


@converts("SwiGLU", 28)
def swiglu(node):
    return node.call("multiply", _swish(node, node.input(0)), node.input(1))


def _swish(node, x):
    alpha = node.attr("alpha", 1.0)
    if alpha == 1.0:
        return node.call("nn.silu", x)
    return node.call("multiply", x, node.call("sigmoid", node.call("multiply", x, scalar_like(node, alpha, x))))


@converts("Where", 9)
def where(node):
    return node.call("where", node.input(0), node.input(1), node.input(2))


@converts("Clip", 1, 6)
def clip_v6(node):
    """Bounds are attributes; their defaults, the least and greatest float, bound nothing."""
    most = float(np.finfo(np.float32).max)
    low, high = node.attr("min"), node.attr("max")
    return _clip(node, None if low is None or low <= -most else low, None if high is None or high >= most else high)


@converts("Clip", 11)
def clip_v11(node):
    """Bounds are optional scalar inputs: constants become attributes, others maximum and minimum."""
    x, low, high = node.input(0), node.input(1), node.input(2)
    if x.struct_info.dtype.is_float and all(b is None or isinstance(b, Constant) for b in (low, high)):
        low, high = (None if b is None else float(_single(node, b)) for b in (low, high))
        if not (low is not None and high is not None and low > high):
            return _clip(node, low, high)
        low, high = (scalar_like(node, b, x) for b in (low, high))
    if low is not None:
        x = node.call("maximum", x, low)
    return x if high is None else node.call("minimum", x, high)


def _single(node, constant):
    if constant.data.size != 1:
        raise node.error("min and max must be scalars")
    return constant.data.reshape(()).item()


def _clip(node, low, high):
    bounds = [None if b is None or math.isinf(b) else b for b in (low, high)]
    return node.input(0) if bounds == [None, None] else node.call("clip", node.input(0), min=bounds[0], max=bounds[1])


@converts("PRelu", 1)
def prelu_v1(node):
    """A slope for each channel, or one for all."""
    x, slope = node.input(0), node.input(1)
    dims = dims_of(slope)
    if len(dims) == 1 and dims != [1] and x.struct_info.ndim > 1:
        slope = node.reshape(slope, [*dims, *[1] * (x.struct_info.ndim - 2)])
    return _prelu(node, x, slope)


@converts("PRelu", 7)
def prelu(node):
    return _prelu(node, node.input(0), node.input(1))


def _prelu(node, x, slope):
    return node.call("where", node.call("less", x, scalar_like(node, 0, x)), node.call("multiply", x, slope), x)


@converts("Gelu", 20)
def gelu(node):
    return node.call("nn.gelu", node.input(0), approximate=node.choice("approximate", "none", "tanh"))


@converts("Selu")
def selu(node):
    x = node.input(0)
    return node.call("multiply", node.call("nn.elu", x, alpha=float(node.attr("alpha"))),
                     scalar_like(node, node.attr("gamma"), x))


@converts("Celu", 12)
def celu(node):
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1)), one of them zero: x / alpha of a large x may be infinite."""
    x = node.input(0)
    alpha, zero, one = (scalar_like(node, v, x) for v in (node.attr("alpha"), 0, 1))
    below = node.call("subtract", node.call("exp", node.call("divide", x, alpha)), one)
    return node.call("where", node.call("greater", x, zero), x, node.call("multiply", below, alpha))


@converts("ThresholdedRelu", 10)
def thresholded_relu(node):
    x = node.input(0)
    above = node.call("greater", x, scalar_like(node, node.attr("alpha"), x))
    return node.call("where", above, x, scalar_like(node, 0, x))


@converts("Shrink", 9)
def shrink(node):
    """x + bias below -lambd, x - bias above lambd, else 0. Of integers too the two are floats, and the sum is cut."""
    x, dtype = node.input(0), node.input(0).struct_info.dtype
    x = x if dtype.is_float else node.astype(x, "float64")
    bias, bound, zero = (scalar_like(node, v, x) for v in (node.attr("bias"), node.attr("lambd"), 0))
    low = node.call("less", x, scalar_like(node, -node.attr("lambd"), x))
    inner = node.call("where", node.call("greater", x, bound), node.call("subtract", x, bias), zero)
    shrunk = node.call("where", low, node.call("add", x, bias), inner)
    return shrunk if dtype.is_float else node.astype(shrunk, dtype)


@converts("IsInf", 10)
def isinf(node):
    x = node.input(0)
    found = node.call("isinf", x)
    positive, negative = node.attr("detect_positive", 1), node.attr("detect_negative", 1)
    if positive and negative:
        return found
    if not positive and not negative:
        raise node.error("detect_positive and detect_negative are both 0: nothing is detected")
    sign = node.call("greater" if positive else "less", x, scalar_like(node, 0, x))
    return node.call("logical_and", found, sign)


@converts("Cast", 1)
def cast_v1(node):
    """The dtype is its name."""
    number = TensorProto.DataType.items()
    found = dict(number).get(node.attr("to"))
    if found is None:
        raise node.error(f"attribute to is {node.attr('to')!r}, which names no dtype")
    return _cast(node, dtype_of(found, f"{node.title}: attribute to"))


@converts("Cast", 6)
def cast(node):
    return _cast(node, dtype_of(node.attr("to"), f"{node.title}: attribute to"))


@converts("CastLike", 15)
def cast_like(node):
    return _cast(node, node.input(1).struct_info.dtype)


def _cast(node, dtype):
    """Numbers too great for a float of 8 bits become its greatest, unless attribute saturate is 0."""
    x, dtype = node.input(0), DataType(dtype)
    if x.struct_info.dtype == dtype or not dtype.startswith("float8"):
        return node.astype(x, dtype)
    x = x if x.struct_info.dtype.is_float else node.astype(x, "float32")
    saturate = node.attr("saturate", 1)
    if dtype == "float8_e8m0fnu":
        return _cast_to_powers(node, x, saturate)
    if saturate:
        least, most = dtype.finite_range()
        x = node.call("clip", x, min=least, max=most)
    return node.astype(x, dtype)


def _cast_to_powers(node, x, saturate):
    """To float8_e8m0fnu, which holds powers of two: the one above, below or nearest, whose exponent the bits say."""
    mode = node.choice("round_mode", "up", "down", "nearest")
    x = node.astype(x, "float32")
    if saturate:
        x = node.call("clip", x, min=2.0 ** -127, max=2.0 ** 127)
    if mode != "nearest":
        bits = node.call("bitcast", x, dtype="int32")
        fraction = node.const(0x007fffff, "int32")
        if mode == "up":
            bits = node.call("add", bits, fraction)
        whole = node.call("bitwise_and", bits, node.call("bitwise_not", fraction))
        tiny = node.const(0x00400000, "int32")  # 2^-127, which has no exponent of its own
        small = node.call("less_equal", node.call("bitcast", x, dtype="int32"), tiny)
        x = node.call("where", node.call("isfinite", x), node.call("bitcast", node.call("where", small, tiny, whole),
                                                                   dtype="float32"), x)
    return node.astype(x, "float8_e8m0fnu")


@converts("MatMul")
def matmul(node):
    return node.call("matmul", node.input(0), node.input(1))


@converts("Gemm", 1, 7)
def gemm(node):
    """alpha * A' @ B' + beta * C, where ' transposes when transA (transB) is set."""
    a, b, c = node.input(0), node.input(1), node.input(2)
    for x in (a, b):
        if x.struct_info.ndim != 2:
            raise node.error("Gemm takes matrices: A and B must have 2 dimensions")
    a = node.call("permute_dims", a, axes=(1, 0)) if node.attr("transA") else a
    b = node.call("permute_dims", b, axes=(1, 0)) if node.attr("transB") else b
    result = node.call("matmul", a, b)
    if node.attr("alpha") != 1.0:
        result = node.call("multiply", result, scalar_like(node, node.attr("alpha"), result))
    if c is None or node.attr("beta") == 0.0:
        return result
    if node.attr("beta") != 1.0:
        c = node.call("multiply", c, scalar_like(node, node.attr("beta"), c))
    return node.call("add", result, c)
