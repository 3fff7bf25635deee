"""Conversions between floats and small integers, as elementwise operators: products take them into their kernels."""
from __future__ import annotations

import numpy as np

from ...ir.dtype import DataType
from ...ir.relax.expr import Constant
from .converter import converts
from .load import dtype_of

UINT8 = 2  # TensorProto's number of it


@converts("DequantizeLinear", 10)
def dequantize(node):
    """(x - zero point) * scale."""
    x, scale, zero = _operands(node)
    x = node.astype(x, scale.struct_info.dtype)
    if zero is not None:
        x = node.call("subtract", x, node.astype(zero, scale.struct_info.dtype))
    result = node.call("multiply", x, scale)
    wanted = node.attr("output_dtype", 0)
    return node.astype(result, dtype_of(wanted, f"{node.title}: attribute output_dtype")) if wanted else result


@converts("QuantizeLinear", 10)
def quantize(node):
    """round(x / scale) + zero point, at most and at least what the integers hold."""
    x, scale, zero = _operands(node)
    dtype = _quantized(node)
    precision = node.attr("precision", 0)
    if precision and dtype_of(precision, f"{node.title}: attribute precision") != scale.struct_info.dtype:
        raise node.error("attribute precision must name the dtype of the scale; others are not supported")
    x = node.call("round", node.call("divide", node.astype(x, scale.struct_info.dtype), scale))
    if zero is not None:
        x = node.call("add", x, node.astype(zero, scale.struct_info.dtype))
    limits = np.iinfo(dtype.numpy)
    return node.astype(node.call("clip", x, min=float(limits.min), max=float(limits.max)), dtype)


def _quantized(node):
    """The dtype of the result: that of the zero point, or attribute output_dtype, or uint8."""
    if node.input(2) is not None:
        dtype = node.input(2).struct_info.dtype
    else:
        dtype = DataType(dtype_of(node.attr("output_dtype", 0) or UINT8, f"{node.title}: attribute output_dtype"))
    if str(dtype) not in ("int8", "uint8", "int16", "uint16"):
        raise node.error(f"quantizes to {dtype}; int8, uint8, int16 and uint16 are supported")
    return dtype


def _operands(node):
    """(x, scale, zero point or None), the last two in a shape that x's broadcasts with: one number, or one for each
    element of dimension `axis`."""
    x, scale, zero = node.input(0), node.input(1), node.input(2)
    if node.attr("block_size", 0):
        raise node.error("attribute block_size: only one scale for a tensor, or for each element of an axis, is "
                         "supported")
    if isinstance(zero, Constant) and not zero.data.any():
        zero = None
    return x, *(None if v is None else _along_axis(node, x, v) for v in (scale, zero))


def _along_axis(node, x, values):
    if values.struct_info.ndim == 0:
        return values
    if values.struct_info.ndim > 1:
        raise node.error("scale and zero point must be one number, or a vector")
    if isinstance(values, Constant) and values.data.size == 1:
        return node.call("reshape", values, [])
    rank = x.struct_info.ndim
    axis = node.axis(node.attr("axis", 1), rank)
    return node.call("reshape", values, [values.struct_info.shape[0] if d == axis else 1 for d in range(rank)])
