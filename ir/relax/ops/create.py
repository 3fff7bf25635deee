"""Operators that make tensors from shapes and numbers: full, arange, one_hot; and tril and triu, which clear a part."""
from __future__ import annotations

from functools import partial

import numpy as np

from ... import te, tir
from ...dtype import DataType
from ...expr import FloatImm, IntImm, cast, const
from ...op import REQUIRED, register
from ..expr import PrimValue, TensorStructInfo
from .common import as_dim, fail, need_dtype, normalize_axis, shape_argument, shape_text, simplify, te_shape, tensor


def _dtype(call, name="dtype"):
    try:
        return DataType(call.attrs[name])
    except ValueError as error:
        return fail(call, str(error))


# ---------------------------------------------------------------- full and arange

def _infer_full(call):
    """full(shape, value): value is a tensor without dimensions. dtype None: the value's."""
    shape, value = shape_argument(call, 0), tensor(call, 1)
    if value.ndim:
        fail(call, f"the value must have no dimensions, its shape is {shape_text(value)}")
    return TensorStructInfo(shape, value.dtype if call.attrs["dtype"] is None else _dtype(call))


def _lower_full(args, attrs, out):
    return te.compute(te_shape(out), lambda *i: cast(args[1][()], out.dtype), name="full")


def _evaluate_full(args, attrs):
    value = np.asarray(args[1])
    return np.full(args[0], value, DataType(attrs["dtype"] or value.dtype.name).numpy)


def _infer_arange(call):
    """arange(start, stop, step): numbers, or dimensions for start and stop."""
    for a, what in zip(call.args, ("start", "stop", "step")):
        if not isinstance(a, PrimValue):
            fail(call, f"{what} must be a number or a dimension, it is a {type(a).__name__}")
    start, stop, step = (a.value for a in call.args)
    if not isinstance(step, (IntImm, FloatImm)) or step.value == 0:
        fail(call, f"step must be a number other than 0, it is {step}")
    numbers = [v.value for v in (start, stop, step) if isinstance(v, (IntImm, FloatImm))]
    if len(numbers) == 3:
        extent = max(0, int(np.ceil((numbers[1] - numbers[0]) / numbers[2])))
    elif any(v.dtype.is_float for v in (start, stop, step)):
        fail(call, "a symbolic start or stop takes integers only")
    elif step.value > 0:
        extent = (as_dim(stop) - as_dim(start) + (step.value - 1)) // step.value
    else:
        extent = (as_dim(start) - as_dim(stop) + (-step.value - 1)) // -step.value
    return TensorStructInfo((simplify(as_dim(extent)),), _dtype(call))


def _lower_arange(args, attrs, out):
    start, _, step = args
    wide = start.dtype if start.dtype.is_float or step.dtype.is_int else step.dtype
    if out.dtype.is_float:
        wide = out.dtype
    return te.compute(te_shape(out), lambda i: cast(cast(start, wide) + cast(i, wide) * cast(step, wide), out.dtype),
                      name="arange")


def _evaluate_arange(args, attrs):
    return np.arange(*args).astype(DataType(attrs["dtype"]).numpy)


register("full", _infer_full, _lower_full, _evaluate_full, "injective", arity=(2, 2), dtype=None)
register("arange", _infer_arange, _lower_arange, _evaluate_arange, "injective", arity=(3, 3), dtype=REQUIRED)


# ---------------------------------------------------------------- one_hot

def _infer_one_hot(call):
    """Add an axis of extent `depth` at `axis` to indices of any shape: on_value where it equals the index."""
    indices = tensor(call)
    need_dtype(call, indices, "int")
    if call.attrs["depth"] < 1:
        fail(call, f"depth={call.attrs['depth']} must be at least 1")
    axis = normalize_axis(call, call.attrs["axis"], indices.ndim + 1)
    shape = indices.shape
    return TensorStructInfo((*shape[:axis], as_dim(call.attrs["depth"]), *shape[axis:]), _dtype(call))


def _lower_one_hot(args, attrs, out):
    indices, axis = args[0], attrs["axis"] % out.ndim
    on, off = (const(attrs[k], out.dtype) for k in ("on_value", "off_value"))
    return te.compute(te_shape(out), lambda *i: tir.select(
        indices[i[:axis] + i[axis + 1:]] == cast(i[axis], indices.dtype), on, off), name="one_hot")


def _evaluate_one_hot(args, attrs):
    indices, rank = np.asarray(args[0]), np.ndim(args[0]) + 1
    axis = attrs["axis"] % rank
    depth = np.arange(attrs["depth"]).reshape([-1 if k == axis else 1 for k in range(rank)])
    return np.where(np.expand_dims(indices, axis) == depth, attrs["on_value"], attrs["off_value"]).astype(
        DataType(attrs["dtype"]).numpy)


register("one_hot", _infer_one_hot, _lower_one_hot, _evaluate_one_hot, "injective", depth=REQUIRED, on_value=1.0,
         off_value=0.0, axis=-1, dtype="float32")


# ---------------------------------------------------------------- tril and triu

def _infer_triangle(call):
    x = tensor(call)
    if x.ndim < 2:
        fail(call, f"takes a tensor of at least 2 dimensions, got {shape_text(x)}")
    return x


def _lower_triangle(args, attrs, out, name, inside):
    x, k = args[0], attrs["k"]
    return te.compute(te_shape(out), lambda *i: tir.select(inside(i[-1] - cast(i[-2], i[-1].dtype), k), x[i],
                                                           const(0, x.dtype)), name=name)


for _name, _inside, _numpy in (("tril", lambda d, k: d <= k, np.tril), ("triu", lambda d, k: d >= k, np.triu)):
    register(_name, _infer_triangle, partial(_lower_triangle, name=_name, inside=_inside),
             partial(lambda args, attrs, function: function(args[0], attrs["k"]), function=_numpy), "injective", k=0)
