"""Conversions between floats and small integers, as elementwise operators: products take them into their kernels."""
from __future__ import annotations

from ...ir.dtype import DataType
from ...ir.relax.expr import Constant
from ..shapes import dims_of, same_dims, shape_text
from .converter import converts, microsoft
from .load import DOMAINS, dtype_of
from .ops_math import scalar_like

UINT8 = 2  # TensorProto's number of it


@converts("DequantizeLinear", 10)
@microsoft("DequantizeLinear")
def dequantize(node):
    """(x - zero point) * scale."""
    if isinstance(node.input(0), Constant) and _is_weight(node.scope, node.outputs[0]):
        node.fold_bytes = 0  # what reads it may take it as it is stored
    x, scale, zero = _operands(node)
    x = node.astype(x, scale.struct_info.dtype)
    if zero is not None:
        x = node.call("subtract", x, node.astype(zero, scale.struct_info.dtype))
    result = node.call("multiply", x, scale)
    wanted = node.attr("output_dtype", 0)
    return node.astype(result, dtype_of(wanted, f"{node.title}: attribute output_dtype")) if wanted else result


@converts("QuantizeLinear", 10)
@microsoft("QuantizeLinear")
def quantize(node):
    """round(x / scale) + zero point, at most and at least what the integers hold."""
    x, scale, zero = _operands(node)
    dtype = _quantized(node)
    precision = node.attr("precision", 0)
    if precision and dtype_of(precision, f"{node.title}: attribute precision") != scale.struct_info.dtype:
        raise node.error("attribute precision must name the dtype of the scale; others are not supported")
    x = node.call("divide", node.astype(x, scale.struct_info.dtype), scale)
    x = x if dtype.is_float else node.call("round", x)
    if zero is not None:
        x = node.call("add", x, node.astype(zero, scale.struct_info.dtype))
    least, most = map(float, dtype.finite_range())
    if dtype.is_float and not node.attr("saturate", 1):
        return node.astype(x, dtype)
    return node.astype(node.call("clip", x, min=least, max=most), dtype)


@converts("DynamicQuantizeLinear", 11)
def dynamic_quantize(node):
    """(x as uint8, its scale, its zero point), as the least and greatest of x and 0 want them. Zeros alone take scale
    1."""
    x = node.input(0)
    return dynamically_quantized(node, x)


def dynamically_quantized(node, x):
    """(x as uint8, scale, zero point) of a float tensor."""
    axes = tuple(range(x.struct_info.ndim))
    zero = scalar_like(node, 0, x)
    low = node.bind(node.call("minimum", node.call("min", x, axis=axes), zero))
    high = node.call("maximum", node.call("max", x, axis=axes), zero)
    span = node.bind(node.call("subtract", high, low))
    scale = node.call("divide", span, scalar_like(node, 255, x))
    scale = node.bind(node.call("where", node.call("equal", span, zero), scalar_like(node, 1, x), scale))
    first = node.call("divide", node.call("subtract", zero, low), scale)
    first = node.bind(node.call("round", node.call("clip", first, min=0.0, max=255.0)))
    values = node.call("add", node.call("round", node.call("divide", x, scale)), first)
    return node.astype(node.call("clip", values, min=0.0, max=255.0), "uint8"), scale, node.astype(first, "uint8")


def _is_weight(scope, name):
    """Whether all that reads a tensor multiplies by it, or takes rows of it, as it is or transposed."""
    readers = getattr(scope, "readers", {}).get(name, ())
    return bool(readers) and all(
        _is_weight(scope, reader.output[0]) if reader.op_type == "Transpose" else
        reader.domain in DOMAINS and (reader.op_type, list(reader.input).index(name)) in _WEIGHTS for reader in readers)


_WEIGHTS = {("MatMul", 1), ("Gemm", 1), ("Conv", 1), ("Gather", 0)}  # operators and their inputs


def _quantized(node):
    """The dtype of the result: that of the zero point, or attribute output_dtype, or uint8."""
    if node.input(2) is not None:
        dtype = node.input(2).struct_info.dtype
    else:
        dtype = DataType(dtype_of(node.attr("output_dtype", 0) or UINT8, f"{node.title}: attribute output_dtype"))
    if dtype.bits > (8 if dtype.is_float else 16) or dtype.is_bool:
        raise node.error(f"quantizes to {dtype}; integers of 16 bits and fewer and floats of 8 bits and fewer are "
                         "supported")
    return dtype


def _operands(node):
    """(x, scale, zero point or None), the last two in a shape that x's broadcasts with: one number, or one for each
    element of dimension `axis`, or for each block of as many elements as attribute block_size says."""
    x, scale, zero = node.input(0), node.input(1), node.input(2)
    if isinstance(zero, Constant) and not zero.data.any():
        zero = None
    along = _by_blocks if node.attr("block_size", 0) else _along_axis
    return x, *(None if v is None else along(node, x, v) for v in (scale, zero))


def _along_axis(node, x, values):
    if values.struct_info.ndim > 1:
        raise node.error("scale and zero point must be one number, or a vector")
    if values.struct_info.ndim == 0 or dims_of(values) == [1]:
        return node.reshape(values, [])
    rank = x.struct_info.ndim
    axis = node.axis(node.attr("axis", 1), rank)
    return node.call("reshape", values, [values.struct_info.shape[0] if d == axis else 1 for d in range(rank)])


def _by_blocks(node, x, values):
    """A value for each block along the axis, of which the last one may be shorter."""
    dims, size = dims_of(x), node.attr("block_size")
    axis = node.axis(node.attr("axis", 1), len(dims))
    wanted = [-(-d // size) if k == axis and isinstance(d, int) else d for k, d in enumerate(dims)]
    if size < 1 or not isinstance(dims[axis], int) or not same_dims(dims_of(values), wanted):
        raise node.error(f"attribute block_size {size} needs a scale and zero point of shape {shape_text(wanted)}")
    spread = node.call("repeat", values, repeats=size, axis=axis)
    if wanted[axis] * size == dims[axis]:
        return spread
    return node.call("strided_slice", spread, axes=(axis,), begin=(0,), end=(dims[axis],), strides=(1,))
