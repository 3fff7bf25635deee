"""Elementwise operators: one-to-one tables first, then those with attributes or several operands."""
from __future__ import annotations

import math
from functools import reduce

import numpy as np

from ...ir.relax.expr import Constant
from .converter import converts
from .load import dtype_of

# ONNX operator -> graph operator with the same meaning and no attributes.
UNARY = {
    "Relu": "nn.relu", "Erf": "erf", "Tanh": "tanh", "Sigmoid": "sigmoid", "Exp": "exp", "Log": "log", "Sqrt": "sqrt",
    "Reciprocal": "reciprocal", "Abs": "abs", "Neg": "negative", "Floor": "floor", "Ceil": "ceil", "Round": "round",
    "Sign": "sign", "Sin": "sin", "Cos": "cos", "Tan": "tan", "Asin": "asin", "Acos": "acos", "Atan": "atan",
    "Sinh": "sinh", "Cosh": "cosh", "Asinh": "asinh", "Acosh": "acosh", "Atanh": "atanh", "Not": "logical_not",
    "Softplus": "nn.softplus", "Softsign": "nn.softsign", "Mish": "nn.mish", "HardSwish": "nn.hard_swish",
    "IsNaN": "isnan",
}
# ONNX operator -> (graph operator, its attributes, which ONNX names the same).
UNARY_WITH_ATTRIBUTES = {
    "LeakyRelu": ("nn.leaky_relu", ("alpha",)), "Elu": ("nn.elu", ("alpha",)),
    "HardSigmoid": ("nn.hard_sigmoid", ("alpha", "beta")),
}
BINARY = {
    "Add": "add", "Sub": "subtract", "Mul": "multiply", "Div": "divide", "Equal": "equal", "Less": "less",
    "LessOrEqual": "less_equal", "Greater": "greater", "GreaterOrEqual": "greater_equal", "And": "logical_and",
    "Or": "logical_or", "Xor": "logical_xor",
}
VARIADIC = {"Sum": "add", "Max": "maximum", "Min": "minimum"}


def _register_tables():
    def unary(op):
        return lambda node: node.call(op, node.input(0))

    def with_attributes(op, names):
        return lambda node: node.call(op, node.input(0), **{n: float(node.attr(n)) for n in names})

    def binary(op):
        return lambda node: node.call(op, node.input(0), node.input(1))

    def variadic(op):
        return lambda node: reduce(lambda a, b: node.call(op, a, b), node.inputs)

    for name, op in UNARY.items():
        converts(name)(unary(op))
    for name, (op, names) in UNARY_WITH_ATTRIBUTES.items():
        converts(name)(with_attributes(op, names))
    for name, op in BINARY.items():
        converts(name)(binary(op))
    for name, op in VARIADIC.items():
        converts(name)(variadic(op))


_register_tables()


def scalar_like(node, value, x):
    """A scalar constant of x's dtype."""
    return node.const(value, x.struct_info.dtype)


@converts("Mean")
def mean(node):
    total = reduce(lambda a, b: node.call("add", a, b), node.inputs)
    count = len(node.inputs)
    return total if count == 1 else node.call("multiply", total, scalar_like(node, 1 / count, node.input(0)))


@converts("Pow")
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
def mod(node):
    if node.attr("fmod", 0):
        return node.call("mod", node.input(0), node.input(1))
    if node.input(0).struct_info.dtype.is_float:
        raise node.error("attribute fmod must be 1 for floating-point tensors")
    return node.call("floor_mod", node.input(0), node.input(1))


@converts("Where", 9)
def where(node):
    return node.call("where", node.input(0), node.input(1), node.input(2))


@converts("Clip", 6)
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


@converts("PRelu")
def prelu(node):
    x, slope = node.input(0), node.input(1)
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
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1)) is alpha * elu(x / alpha)."""
    x = node.input(0)
    alpha = scalar_like(node, node.attr("alpha"), x)
    return node.call("multiply", node.call("nn.elu", node.call("divide", x, alpha), alpha=1.0), alpha)


@converts("ThresholdedRelu", 10)
def thresholded_relu(node):
    x = node.input(0)
    above = node.call("greater", x, scalar_like(node, node.attr("alpha"), x))
    return node.call("where", above, x, scalar_like(node, 0, x))


@converts("Shrink", 9)
def shrink(node):
    """x + bias below -lambd, x - bias above lambd, else 0."""
    x = node.input(0)
    bias, bound, zero = (scalar_like(node, v, x) for v in (node.attr("bias"), node.attr("lambd"), 0))
    low = node.call("less", x, scalar_like(node, -node.attr("lambd"), x))
    inner = node.call("where", node.call("greater", x, bound), node.call("subtract", x, bias), zero)
    return node.call("where", low, node.call("add", x, bias), inner)


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


@converts("Cast")
def cast(node):
    dtype = dtype_of(node.attr("to"), f"{node.title}: attribute to")
    return node.astype(node.input(0), dtype)


@converts("CastLike", 15)
def cast_like(node):
    return node.astype(node.input(0), node.input(1).struct_info.dtype)


@converts("MatMul")
def matmul(node):
    return node.call("matmul", node.input(0), node.input(1))


@converts("Gemm", 7)
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
