"""Products and convolutions of quantized tensors: sums of (x - zero point) * (w - zero point) as 32-bit integers.

Where constant weights say that no sum reaches 2^24, below which float32 holds every integer, the sums are of floats:
these are the same numbers, and processors have more of their multiplications.
"""
from __future__ import annotations

import numpy as np

from ...ir.relax.expr import Constant
from ..shapes import dims_of
from .converter import converts
from .ops_nn import add_bias, convolved


EXACT = 1 << 24  # float32 holds all integers up to this one


def shifted(node, x, zero, axis, dtype="int32"):
    """x - zero point in `dtype`; a vector of zero points goes along `axis`, counted from the end."""
    x = node.astype(x, dtype)
    if zero is None:
        return x
    return node.call("subtract", x, along(node, node.astype(zero, dtype), axis))


def product(node, x, x_zero, w, w_zero):
    """The sums of a matrix product in int32. Vectors of zero points: of x for rows, of w for columns."""
    return _sums(node, lambda a, b: node.call("matmul", a, b), (x, x_zero, -2), shifted(node, w, w_zero, -1), -2)


def convolution(node, x, x_zero, w, w_zero):
    """The sums of a convolution in int32. A vector of zero points is of w, for output channels. Padding is the zero
    point of x: 0 once that is subtracted."""
    rank = x.struct_info.ndim
    return _sums(node, lambda a, b: convolved(node, a, b), (x, x_zero, -rank), shifted(node, w, w_zero, -rank),
                 tuple(range(1, rank)))


def _sums(node, combine, x, weight, terms):
    """combine(x - zero point, weight) in int32. x: shifted's arguments; terms: the axes of `weight` along which
    products are added."""
    if not isinstance(weight, Constant) or weight.data.ndim < 2:
        return combine(shifted(node, *x), weight)
    most = np.abs(weight.data.astype(np.int64)).sum(axis=terms).max(initial=0)
    if int(most) * _reach(*x[:2]) >= EXACT:
        return combine(shifted(node, *x), weight)
    total = combine(shifted(node, *x, "float32"), node.astype(weight, "float32"))
    return node.astype(total, "int32")


def _reach(x, zero):
    """The largest magnitude of x - zero point."""
    least, most = map(int, x.struct_info.dtype.finite_range())
    if zero is None:
        return max(-least, most)
    if not isinstance(zero, Constant):
        return most - least
    return max(most - int(zero.data.min()), int(zero.data.max()) - least)


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
    return product(node, a, a_zero, b, b_zero)


@converts("QLinearMatMul", 10)
def qlinear_matmul(node):
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = node.inputs
    if any(dims_of(v) not in ([], [1]) for v in (a_scale, a_zero, y_scale, y_zero)):
        raise node.error("scales and zero points of a and y must be one number each")
    total = product(node, a, a_zero, b, b_zero)
    return requantized(node, total, ratio(node, a_scale, b_scale, y_scale), y_zero, -1)


@converts("ConvInteger", 10)
def conv_integer(node):
    x, w, x_zero, w_zero = (node.input(k) for k in range(4))
    return convolution(node, x, x_zero, w, w_zero)


@converts("QLinearConv", 10)
def qlinear_conv(node):
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = node.inputs[:8]
    rank = x.struct_info.ndim
    total = convolution(node, x, x_zero, w, w_zero)
    total = add_bias(node, total, node.input(8), rank - 2)
    return requantized(node, total, ratio(node, x_scale, w_scale, y_scale), y_zero, 1 - rank)
