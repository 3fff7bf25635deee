"""Products and convolutions of quantized tensors, in 32-bit integers: sums of (x - zero point) * (w - zero point)."""
from __future__ import annotations

from ..shapes import dims_of
from .converter import converts
from .ops_nn import add_bias, convolved


def shifted(node, x, zero, axis):
    """x - zero point in int32; a vector of zero points goes along `axis`, counted from the end."""
    x = node.astype(x, "int32")
    if zero is None:
        return x
    return node.call("subtract", x, along(node, node.astype(zero, "int32"), axis))


def along(node, values, axis):
    """A number, or a vector along an axis counted from the end."""
    dims = dims_of(values)
    if dims in ([], [1]):
        return node.reshape(values, [])
    return node.reshape(values, [*dims, *[1] * (-1 - axis)]) if len(dims) == 1 else values


def requantized(node, total, scale, zero, axis):
    """round(total * scale) + zero point in the zero point's dtype, as far as that holds it."""
    dtype = zero.struct_info.dtype
    result = node.call("round", node.call("multiply", node.astype(total, "float32"), along(node, scale, axis)))
    result = node.call("add", result, along(node, node.astype(zero, "float32"), axis))
    least, most = map(float, dtype.finite_range())
    return node.astype(node.call("clip", result, min=least, max=most), dtype)


def ratio(node, a, b, y):
    """a * b / y of scales, in float32."""
    a, b, y = (node.astype(v, "float32") for v in (a, b, y))
    return node.call("divide", node.call("multiply", a, b), y)


@converts("MatMulInteger", 10)
def matmul_integer(node):
    a, b, a_zero, b_zero = (node.input(k) for k in range(4))
    return node.call("matmul", shifted(node, a, a_zero, -2), shifted(node, b, b_zero, -1))


@converts("QLinearMatMul", 10)
def qlinear_matmul(node):
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = node.inputs
    if any(dims_of(v) not in ([], [1]) for v in (a_scale, a_zero, y_scale, y_zero)):
        raise node.error("scales and zero points of a and y must be one number each")
    total = node.call("matmul", shifted(node, a, a_zero, -2), shifted(node, b, b_zero, -1))
    return requantized(node, total, ratio(node, a_scale, b_scale, y_scale), y_zero, -1)


@converts("ConvInteger", 10)
def conv_integer(node):
    """Padding is the zero point: 0 once that is subtracted."""
    x, w, x_zero, w_zero = (node.input(k) for k in range(4))
    rank = x.struct_info.ndim
    return convolved(node, shifted(node, x, x_zero, -rank), shifted(node, w, w_zero, -rank))


@converts("QLinearConv", 10)
def qlinear_conv(node):
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = node.inputs[:8]
    rank = x.struct_info.ndim
    total = convolved(node, shifted(node, x, x_zero, -rank), shifted(node, w, w_zero, -rank))
    total = add_bias(node, total, node.input(8), rank - 2)
    return requantized(node, total, ratio(node, x_scale, w_scale, y_scale), y_zero, 1 - rank)
