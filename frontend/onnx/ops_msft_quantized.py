"""Quantized operators of the domain com.microsoft, as onnxruntime's quantization tools write them.

What maps one tensor of bytes to another becomes a table of 256 where scales and zero points are constant; sums and
products are the formulas, and the roundings, that onnxruntime computes.
"""
from __future__ import annotations

import numpy as np

from ...ir.relax.expr import Constant
from ...ir.relax.ops.qnn import BYTES, WORDS
from ..shapes import dims_of
from ..shapes import product as size_of
from .converter import microsoft
from .ops_integer import along, product, qlinear_conv, ratio, requantized, shifted
from .ops_math import scalar_like
from .ops_pool import average_pool, max_pool
from .ops_quantize import dynamically_quantized


# ---------------------------------------------------------------- bytes and floats

def zero_of(node, zero, dtype):
    """The zero point, 0 of `dtype` where it is absent."""
    return node.const(0, dtype) if zero is None else one_number(node, zero)


def one_number(node, value):
    """A scale or zero point of a whole tensor."""
    if dims_of(value) not in ([], [1]):
        raise node.error("scales and zero points must be one number each")
    return node.reshape(value, [])


def dequantized(node, x, scale, zero):
    x = node.call("subtract", node.astype(x, "float32"), node.astype(zero, "float32"))
    return node.call("multiply", x, one_number(node, scale))


def quantized(node, x, scale, zero):
    x = node.call("round", node.call("divide", x, one_number(node, scale)))
    return _saturated(node, node.call("add", x, node.astype(zero, "float32")), zero.struct_info.dtype)


def _saturated(node, x, dtype):
    """Whole numbers as `dtype`, as far as that holds them."""
    number = float if x.struct_info.dtype.is_float else int
    least, most = map(number, dtype.finite_range())
    return node.astype(node.call("clip", x, min=least, max=most), dtype)


def mapped(node, x, function):
    """function(x), elementwise, of a quantized tensor: looked up, of bytes and where function of constants is one."""
    dtype = x.struct_info.dtype
    if str(dtype) in WORDS:
        return function(x)
    if str(dtype) not in BYTES:
        raise node.error(f"takes tensors of {', '.join((*BYTES, *WORDS))}, not of {dtype}")
    first = int(dtype.finite_range()[0])
    table = function(node.const(np.arange(first, first + 256), dtype))
    if not isinstance(table, Constant):
        return function(x)
    return node.call("lookup", x, table)


# ---------------------------------------------------------------- elementwise

def _unary(op_type, function):
    @microsoft(op_type)
    def convert(node):
        x, x_scale, x_zero, y_scale, y_zero = (node.input(k) for k in range(5))
        dtype = x.struct_info.dtype
        x_zero, y_zero = zero_of(node, x_zero, dtype), zero_of(node, y_zero, dtype)
        return mapped(node, x, lambda v: quantized(
            node, function(node, dequantized(node, v, x_scale, x_zero)), y_scale, y_zero))


_unary("QLinearSigmoid", lambda node, x: node.call("sigmoid", x))
_unary("QLinearLeakyRelu", lambda node, x: node.call("nn.leaky_relu", x, alpha=float(node.attr("alpha"))))


def _pair(node):
    """(a, b, c) of (tensor or None, scale, zero point)."""
    a, a_scale, a_zero, b, b_scale, b_zero, c_scale, c_zero = (node.input(k) for k in range(8))
    dtype = a.struct_info.dtype
    scales = (one_number(node, s) for s in (a_scale, b_scale, c_scale))
    zeros = (zero_of(node, z, dtype) for z in (a_zero, b_zero, c_zero))
    return zip((a, b, None), scales, zeros)


@microsoft("QLinearAdd")
def qlinear_add(node):
    """a * (a_scale / c_scale) + b * (b_scale / c_scale) and what the zero points add to that, rounded once."""
    (a, a_scale, a_zero), (b, b_scale, b_zero), (_, c_scale, c_zero) = _pair(node)
    a_scale, b_scale = (node.bind(node.call("divide", s, c_scale)) for s in (a_scale, b_scale))
    shift = node.call("add", *(node.call("multiply", s, node.astype(z, "float32"))
                               for s, z in ((a_scale, a_zero), (b_scale, b_zero))))
    shift = node.call("subtract", node.astype(c_zero, "float32"), shift)
    a, b = (node.call("multiply", node.astype(x, "float32"), s) for x, s in ((a, a_scale), (b, b_scale)))
    total = node.call("round", node.call("add", a, node.call("add", b, shift)))
    return _saturated(node, total, c_zero.struct_info.dtype)


@microsoft("QLinearMul")
def qlinear_mul(node):
    """The product of integers by one scale, rounded after the zero point is added. What saturates anyway is clipped
    between the two: fused to one operation, multiplication and addition would round differently."""
    (a, a_scale, a_zero), (b, b_scale, b_zero), (_, c_scale, c_zero) = _pair(node)
    values = node.call("multiply", shifted(node, a, a_zero, -1), shifted(node, b, b_zero, -1))
    values = node.call("multiply", node.astype(values, "float32"), ratio(node, a_scale, b_scale, c_scale))
    values = node.call("add", node.call("clip", values, min=-1024.0, max=1024.0), node.astype(c_zero, "float32"))
    return _saturated(node, node.call("round", values), c_zero.struct_info.dtype)


def _moved(node, x, of, to):
    """x of scale and zero point `of` with those of `to`: as it is where both are equal constants."""
    if all(isinstance(a, Constant) and isinstance(b, Constant) and np.array_equal(a.data, b.data)
           for a, b in zip(of, to)):
        return x
    return mapped(node, x, lambda v: quantized(node, dequantized(node, v, *of), *to))


@microsoft("QLinearConcat")
def qlinear_concat(node):
    scale, zero, *inputs = node.inputs
    if len(inputs) % 3 or any(v is None for v in inputs):
        raise node.error("takes a scale and a zero point with each input")
    to = one_number(node, scale), one_number(node, zero)
    parts = [_moved(node, x, (one_number(node, s), one_number(node, z)), to)
             for x, s, z in zip(inputs[::3], inputs[1::3], inputs[2::3])]
    axis = node.axis(node.attr("axis"), parts[0].struct_info.ndim)
    return parts[0] if len(parts) == 1 else node.call("concat", *parts, axis=axis)


@microsoft("QLinearWhere")
def qlinear_where(node):
    condition, x, x_scale, x_zero, y, y_scale, y_zero, *to = node.inputs
    to = [one_number(node, v) for v in to]
    x, y = (_moved(node, v, (one_number(node, s), one_number(node, z)), to)
            for v, s, z in ((x, x_scale, x_zero), (y, y_scale, y_zero)))
    return node.call("where", condition, x, y)


# ---------------------------------------------------------------- windows and planes

def _channels_first(node):
    """Take the input's channels, which are last, first; a function that takes those of the result back."""
    rank = node.input(0).struct_info.ndim
    node.inputs[0] = node.bind(node.transpose(node.input(0), (0, rank - 1, *range(1, rank - 1))))
    return lambda y: node.transpose(y, (0, *range(2, rank), 1))


def _same(y):
    return y


@microsoft("QLinearConv")
def conv_by_layout(node):
    last = _channels_first(node) if node.attr("channels_last", 0) else _same
    return last(qlinear_conv(node))


@microsoft("NhwcMaxPool")
def nhwc_max_pool(node):
    last = _channels_first(node)
    return last(max_pool(node))


@microsoft("QLinearAveragePool")
def qlinear_average_pool(node):
    """The average of floats; its quotient by the scale is rounded after the zero point is added."""
    last = _channels_first(node) if node.attr("channels_last", 0) else _same
    x, x_scale, x_zero, y_scale, y_zero = (node.input(k) for k in range(5))
    dtype = x.struct_info.dtype
    node.inputs[0] = node.bind(dequantized(node, x, x_scale, zero_of(node, x_zero, dtype)))
    zero = zero_of(node, y_zero, dtype)
    result = node.call("divide", average_pool(node), one_number(node, y_scale))
    result = node.call("add", result, node.astype(zero, "float32"))
    return last(_saturated(node, node.call("round", result), dtype))


@microsoft("QLinearGlobalAveragePool")
def qlinear_global_average_pool(node):
    """A sum of integers, by a scale that the number of elements divides."""
    last = _channels_first(node) if node.attr("channels_last", 0) else _same
    x, x_scale, x_zero, y_scale, y_zero = node.inputs
    axes = tuple(range(2, x.struct_info.ndim))
    count = size_of(dims_of(x)[2:])
    if not axes:
        raise node.error("takes an input with spatial dimensions")
    if not isinstance(count, int):
        mean = node.call("mean", dequantized(node, x, x_scale, x_zero), axis=axes, keepdims=True)
        return last(quantized(node, mean, y_scale, y_zero))
    total = node.call("sum", shifted(node, x, one_number(node, x_zero), -1), axis=axes, keepdims=True)
    whole = node.call("multiply", one_number(node, y_scale), node.const(count, "float32"))
    scale = node.call("divide", one_number(node, x_scale), whole)
    return last(requantized(node, total, scale, one_number(node, y_zero), -1))


@microsoft("QLinearSoftmax")
def qlinear_softmax(node):
    """Quotients of integers: exp(scale * (x - largest x)) in fixed point, from a table of 256, by their sum."""
    x, x_scale, x_zero, y_scale, y_zero = node.inputs
    dims = dims_of(x)
    axis = node.axis(node.attr("axis"), len(dims))
    axes = tuple(range(axis, len(dims))) if node.attr("opset") < 13 else (axis,)
    count = size_of([dims[a] for a in axes])
    if not isinstance(count, int) and len(axes) == 1:
        zero = zero_of(node, x_zero, x.struct_info.dtype)
        return quantized(node, node.call("nn.softmax", dequantized(node, x, x_scale, zero), axis=axis), y_scale, y_zero)
    if not isinstance(count, int) or not isinstance(x_scale, Constant) or not isinstance(y_scale, Constant):
        raise node.error("needs constant scales and a static size of what it normalizes; pin it with dims")
    most = min((2 ** 32 - 1) / count, float(0x7fffff))
    steps = np.arange(-255, 1) * np.float64(x_scale.data.reshape(()))
    table = node.const(np.rint(most * np.exp(steps)).astype(np.int64), "int64")
    wide = node.astype(x, "int32")
    place = node.call("subtract", wide, node.call("max", wide, axis=axes, keepdims=True))
    value = node.bind(node.call("take", table, node.call("add", place, node.const(255, "int32")), axis=0))
    total = node.bind(node.call("sum", value, axis=axes, keepdims=True))
    parts = int(np.floor(np.float32(1) / np.float32(y_scale.data.reshape(()))))
    half = node.call("right_shift", total, node.const(1, "int64"))
    share = node.call("add", node.call("multiply", value, node.const(parts, "int64")), half)
    result = node.call("add", node.call("floor_divide", share, total), node.astype(one_number(node, y_zero), "int64"))
    return _saturated(node, result, y_zero.struct_info.dtype)


# ---------------------------------------------------------------- products

@microsoft("QGemm")
def qgemm(node):
    """In integers, with C; rounded to bytes where y has a scale, else floats."""
    a, a_scale, a_zero, b, b_scale, b_zero, c, y_scale, y_zero = (node.input(k) for k in range(9))
    if a.struct_info.ndim != 2 or b.struct_info.ndim != 2:
        raise node.error("takes matrices: A and B must have 2 dimensions")
    a, b = (node.transpose(v, (1, 0) if node.attr(name) else (0, 1)) for v, name in ((a, "transA"), (b, "transB")))
    total = product(node, a, one_number(node, a_zero), b, b_zero, c)
    scale = node.call("multiply", scalar_like(node, node.attr("alpha"), a_scale), one_number(node, a_scale))
    scale = node.call("multiply", scale, b_scale)
    if y_scale is None:
        return node.call("multiply", node.astype(total, "float32"), along(node, scale, -1))
    scale = node.call("divide", scale, one_number(node, y_scale))
    zero = zero_of(node, y_zero, node.input(0).struct_info.dtype)
    return requantized(node, total, scale, zero, -1)


def integer_product(node, a, a_scale, a_zero, b, b_scale, b_zero, bias=None):
    """The product of tensors of bytes as floats, with a bias."""
    total = product(node, a, a_zero, b, b_zero)
    scale = node.call("multiply", along(node, a_scale, -2), along(node, b_scale, -1))
    result = node.call("multiply", node.astype(total, b_scale.struct_info.dtype), scale)
    return result if bias is None else node.call("add", result, bias)


@microsoft("MatMulIntegerToFloat")
def matmul_integer_to_float(node):
    a, b, a_scale, b_scale, a_zero, b_zero, bias = (node.input(k) for k in range(7))
    return integer_product(node, a, a_scale, a_zero, b, b_scale, b_zero, bias)


@microsoft("DynamicQuantizeMatMul")
def dynamic_quantize_matmul(node):
    a, b, b_scale, b_zero, bias = (node.input(k) for k in range(5))
    return integer_product(node, *dynamically_quantized(node, a), b, b_scale, b_zero, bias)
