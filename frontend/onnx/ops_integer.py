"""Products and convolutions of quantized tensors: sums of (x - zero point) * (w - zero point) as 32-bit integers, or as
64-bit ones of 16 bits that may ask for these; ir/transform/qnn_canonicalize.py says how to compute them."""
from __future__ import annotations

from ...ir.relax.expr import Constant
from ...ir.relax.ops.qnn import sums_dtype
from ..shapes import dims_of
from .converter import converts
from .ops_nn import add_bias, convolved


def shifted(node, x, zero, axis, dtype="int32"):
    """x - zero point in `dtype`; a vector of zero points goes along `axis`, counted from the end."""
    x = node.astype(x, dtype)
    if zero is None:
        return x
    return node.call("subtract", x, along(node, node.astype(zero, dtype), axis))


def product(node, x, x_zero, w, w_zero, bias=None):
    """The sums of a matrix product, and a bias. Vectors of zero points: of x for rows, of w for columns."""
    zeros = _zero(node, x, x_zero, -2), _zero(node, w, w_zero, -1)
    columns = (*range(w.struct_info.ndim - 2), -1)
    total = node.call("qnn.matmul", x, w, *zeros, out_dtype=_sums(x, w, zeros, columns, bias))
    return total if bias is None else node.call("add", total, node.astype(bias, total.struct_info.dtype))


def convolution(node, x, x_zero, w, w_zero, bias=None):
    """The sums of a convolution, and a bias. A vector of zero points is of w, for output channels. Padding is the zero
    point of x: 0 once that is subtracted."""
    rank = x.struct_info.ndim
    zeros = _zero(node, x, x_zero, -rank), _zero(node, w, w_zero, -rank)
    total = convolved(node, x, w, zeros, _sums(x, w, zeros, (0,), bias))
    return add_bias(node, total, None if bias is None else node.astype(bias, total.struct_info.dtype), rank - 2)


def _sums(x, w, zeros, columns, bias):
    """The dtype that sums along all axes of w but `columns` are in."""
    known = [v.data if isinstance(v, Constant) else None for v in (w, *zeros, bias)]
    weight, x_zero, w_zero, own = known
    weight = None if weight is None or w_zero is None else weight.astype("int64") - w_zero
    zero = None if x_zero is None or x_zero.size != 1 else int(x_zero.reshape(()))
    if bias is not None and own is None:
        zero = None  # as little is known of the sums
    return sums_dtype(str(x.struct_info.dtype), zero, weight, columns, 0 if own is None else own)


def _zero(node, x, zero, axis):
    return node.const(0, x.struct_info.dtype) if zero is None else along(node, zero, axis)


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
    total = convolution(node, x, x_zero, w, w_zero, node.input(8))
    return requantized(node, total, ratio(node, x_scale, w_scale, y_scale), y_zero, 1 - rank)
