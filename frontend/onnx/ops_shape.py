"""Operators that make or read shapes, and constants: evaluated while importing."""
from __future__ import annotations

import math

import numpy as np

from ...ir.expr import PrimExpr
from ...ir.relax.expr import Constant
from ..shapes import broadcast_dims, dims_of, may_be_same, product, quotient, settle, shape_text
from . import load
from .converter import converts
from .run_shapes import expand_by_run, is_known, range_by_dims, reshape_by_run, run_dims


def _tensor_attribute(node, tensor):
    return load.array_of(tensor, None, f"{node.title}: attribute value")


@converts("Constant")
def constant(node):
    """From opset 12 also plain numbers and lists of them."""
    given = {k: v for k, v in node.attrs.items() if v is not None}
    if len(given) != 1:
        raise node.error(f"must have one of the attributes {', '.join(node.attrs)}, it has {len(given)}")
    (name, value), = given.items()
    if name == "value":
        return Constant(_tensor_attribute(node, value))
    kinds = {"value_float": "float32", "value_floats": "float32", "value_int": "int64", "value_ints": "int64"}
    if name not in kinds:
        raise node.error(f"attribute {name} is not supported; supported are value, {', '.join(kinds)}")
    return node.const(value, kinds[name])


def _shape_input(node, index):
    """An input that is a shape, without negative dimensions."""
    dims = run_dims(node, index, "the shape")
    if any(isinstance(d, int) and d < 0 for d in dims) or len(dims) > 64:
        raise node.error(f"the shape {shape_text(dims)} is none: it has a negative dimension or is too long")
    return dims


@converts("ConstantOfShape", 9)
def constant_of_shape(node):
    dims = _shape_input(node, 0)
    value = node.attr("value")
    value = np.zeros(1, np.float32) if value is None else _tensor_attribute(node, value)
    if value.size != 1:
        raise node.error(f"attribute value must hold one element, it holds {value.size}")
    return node.filled(dims, value.reshape(()), value.dtype.name)


@converts("Shape", 1, 15)
def shape(node):
    """From opset 15 a part of the shape, `start` to `end`, both clamped."""
    dims = dims_of(node.input(0))
    part = np.empty(len(dims), object)
    part[:] = dims
    return settle(part[slice(node.attr("start", 0), node.attr("end"))], "int64")


@converts("Size")
def size(node):
    return settle(np.array(product(dims_of(node.input(0))), object), "int64")


@converts("Range", 11)
def range_(node):
    if not all(isinstance(x, Constant) for x in node.inputs):
        return range_by_dims(node)
    given = [node.constant(i, what) for i, what in enumerate(("start", "limit", "delta"))]
    if any(v.size != 1 for v in given):
        raise node.error("start, limit and delta must be scalars")
    start, limit, delta = (v.reshape(()).item() for v in given)
    if delta == 0:
        raise node.error("delta is 0")
    if not all(map(math.isfinite, (start, limit, delta))):
        raise node.error(f"start {start}, limit {limit} and delta {delta} must be finite")
    count = max(math.ceil((limit - start) / delta) if isinstance(delta, float) else -((start - limit) // delta), 0)
    node.check_size([count], given[0].itemsize)
    return node.const(np.arange(count, dtype=given[0].dtype) * given[2].reshape(()) + given[0].reshape(()),
                      given[0].dtype.name)


@converts("EyeLike", 9)
def eye_like(node):
    x = node.input(0)
    dims = dims_of(x)
    if len(dims) != 2 or not all(isinstance(d, int) for d in dims):
        raise node.error("takes a matrix of static shape")
    dtype = x.struct_info.dtype if node.attr("dtype") is None else load.dtype_of(node.attr("dtype"), node.title)
    node.check_size(dims, 8)
    shift = min(max(node.attr("k", 0), -dims[0]), dims[1])  # beyond these the diagonal is outside
    return node.const(np.eye(*dims, k=shift), dtype)


@converts("Identity")
def identity(node):
    return node.input(0)


def _reshape_dims(shape, target, allow_zero):
    """The dims that ONNX Reshape means: 0 copies (unless allow_zero), one -1 takes what is left.

    Raises ValueError where the number of elements cannot stay the same. Where it does so for some sizes of the symbolic
    dimensions, a run checks that it does (codegen/dim_checks.py).
    """
    dims = []
    for i, t in enumerate(target):
        if not isinstance(t, PrimExpr) and t == 0 and not allow_zero:
            if i >= len(shape):
                raise ValueError(f"0 at position {i} copies a dimension that shape {shape_text(shape)} does not have")
            t = shape[i]
        elif not isinstance(t, PrimExpr) and t < -1:
            raise ValueError(f"{t} is no dimension")
        dims.append(t)
    unknown = [i for i, t in enumerate(dims) if not isinstance(t, PrimExpr) and t == -1]
    if len(unknown) > 1:
        raise ValueError(f"-1 occurs {len(unknown)} times in {shape_text(target)}")
    if unknown:
        rest = dims[:unknown[0]] + dims[unknown[0] + 1:]
        size = quotient(shape, rest)
        if size is None:
            raise ValueError(f"shape {shape_text(shape)} cannot become {shape_text(target)}")
        dims[unknown[0]] = size
    elif not may_be_same(product(shape), product(dims)):
        raise ValueError(f"shape {shape_text(shape)} cannot become {shape_text(target)}: the numbers of elements "
                         "differ")
    return dims


@converts("Reshape", 1)
def reshape_v1(node):
    return _reshape(node, list(node.attr("shape")))


@converts("Reshape", 5, 14)
def reshape(node):
    """0 copies a dimension (unless allowzero, opset 14), one -1 takes what is left."""
    if not is_known(node.input(1)):
        return reshape_by_run(node)
    return _reshape(node, node.dims(1, "the shape"))


def _reshape(node, target):
    x = node.input(0)
    try:
        dims = _reshape_dims(dims_of(x), target, bool(node.attr("allowzero", 0)))
    except ValueError as error:
        raise node.error(str(error)) from error
    return node.reshape(x, dims)


@converts("Flatten")
def flatten(node):
    dims = dims_of(node.input(0))
    axis = node.attr("axis", 1)
    if not -len(dims) <= axis <= len(dims):
        raise node.error(f"axis {axis} is outside a tensor of {len(dims)} dimensions")
    axis = axis + len(dims) if axis < 0 else axis
    return node.reshape(node.input(0), [product(dims[:axis]), product(dims[axis:])])


@converts("Expand", 8)
def expand(node):
    x = node.input(0)
    if not is_known(node.input(1)):
        return expand_by_run(node)
    try:
        dims = broadcast_dims(dims_of(x), _shape_input(node, 1))
    except ValueError as error:
        raise node.error(str(error)) from error
    return node.broadcast(x, dims)


@converts("Unsqueeze", 1)
def unsqueeze_v1(node):
    return _unsqueeze(node, node.attr("axes"))


@converts("Unsqueeze", 13)
def unsqueeze_v13(node):
    return _unsqueeze(node, node.ints(1, "axes"))


def _unsqueeze(node, axes):
    """Axes count in the result. One reshape, whatever their number."""
    dims = dims_of(node.input(0))
    found = node.axes(axes, len(dims) + len(axes))
    rest = iter(dims)
    return node.reshape(node.input(0), [1 if i in found else next(rest) for i in range(len(dims) + len(axes))])


@converts("Squeeze", 1)
def squeeze_v1(node):
    return _squeeze(node, node.attr("axes"))


@converts("Squeeze", 13)
def squeeze_v13(node):
    return _squeeze(node, node.ints(1, "axes"))


def _squeeze(node, axes):
    """A run checks that squeezed dimensions are 1 where only it knows."""
    dims = dims_of(node.input(0))
    if axes is None:
        axes = [i for i, d in enumerate(dims) if isinstance(d, int) and d == 1]
    found = node.axes(axes, len(dims))
    for i in found:
        if not may_be_same(dims[i], 1):
            raise node.error(f"axis {i} has extent {dims[i]}, only axes of extent 1 can be squeezed")
    return node.reshape(node.input(0), [d for i, d in enumerate(dims) if i not in found])
