"""Operators that say where values lie in memory. No kernel computes them: what they name is already in its place.

memory.join is concat of tensors that lie side by side inside its result, memory.part a slice that stays where it is,
memory.inlay a tensor that lies inside a memory.border, which is computed: its kernel writes all around, nothing inside.
Passes make them; their references are those of concat, slicing and padding. ir/relax/memory.py says which are well
formed.
"""
from __future__ import annotations

import numpy as np

from ... import te
from ...expr import IntImm
from ...op import REQUIRED, register
from ..expr import TensorStructInfo
from .common import (as_dim, fail, need_same_dtype, normalize_axis, same_shape, shape_argument, shape_text, te_shape,
                     tensor, tensors)
from .copies import lower_border, lower_concat
from .injective import infer_concat


# ---------------------------------------------------------------- memory.part

def _infer_part(call):
    x, begin, extent = tensor(call), call.attrs["begin"], call.attrs["extent"]
    axis = normalize_axis(call, call.attrs["axis"], x.ndim)
    size = x.shape[axis]
    if begin < 0 or extent < 0 or (isinstance(size, IntImm) and begin + extent > size.value):
        fail(call, f"{extent} elements from {begin} on leave axis {axis} of {shape_text(x)}")
    return TensorStructInfo((*x.shape[:axis], as_dim(extent), *x.shape[axis + 1:]), x.dtype)


def _lower_part(args, attrs, out):
    x, = args
    axis = attrs["axis"] % x.ndim
    return te.compute(te_shape(out), lambda *i: x[(*i[:axis], i[axis] + attrs["begin"], *i[axis + 1:])], name="part")


def _evaluate_part(args, attrs):
    x, = args
    index = [slice(None)] * x.ndim
    index[attrs["axis"]] = slice(attrs["begin"], attrs["begin"] + attrs["extent"])
    return x[tuple(index)].copy()


# ---------------------------------------------------------------- memory.border and memory.inlay

def pads_of(attrs):
    """[(before, after)] of each axis."""
    return list(zip(attrs["pad_width"][::2], attrs["pad_width"][1::2]))


def _infer_border(call):
    shape, pads = shape_argument(call, 0), pads_of(call.attrs)
    if len(call.attrs["pad_width"]) != 2 * len(shape) or any(min(p) < 0 for p in pads):
        fail(call, f"pad_width {tuple(call.attrs['pad_width'])} must be a pair of numbers, none below 0, for each "
                   f"dimension of {shape_text(shape)}")
    return TensorStructInfo(shape, call.attrs["dtype"])


def _infer_inlay(call):
    border, x = tensors(call)
    need_same_dtype(call, (border, x))
    pads = pads_of(call.attrs)
    if len(call.attrs["pad_width"]) != 2 * x.ndim or not same_shape(
            border.shape, [d + (b + a) for d, (b, a) in zip(x.shape, pads)]):
        fail(call, f"{shape_text(x)} with {tuple(call.attrs['pad_width'])} around it is not {shape_text(border)}")
    return border


def _evaluate_inlay(args, attrs):
    border, x = args
    result = border.copy()
    result[tuple(slice(before, before + n) for (before, _), n in zip(pads_of(attrs), x.shape))] = x
    return result


register("memory.border", _infer_border, lower_border,
         lambda args, attrs: np.full(args[0], attrs["pad_value"], attrs["dtype"]), "opaque", pad_width=REQUIRED,
         pad_value=0.0, dtype="float32")
register("memory.inlay", _infer_inlay, None, _evaluate_inlay, "view", arity=(2, 2), pad_width=REQUIRED)
register("memory.join", infer_concat, lower_concat, lambda args, attrs: np.concatenate(args, axis=attrs["axis"]),
         "view", arity=(1, None), axis=REQUIRED)
register("memory.part", _infer_part, _lower_part, _evaluate_part, "view", axis=REQUIRED, begin=REQUIRED,
         extent=REQUIRED)
