"""Operators that say where values lie in memory. No kernel computes them: what they name is already in its place.

memory.join is concat of tensors that lie side by side inside its result, memory.part a slice that stays where it is,
memory.inlay a tensor that lies inside a memory.border, which is computed: its kernel writes all around, nothing inside.
memory.update is an input of the network in which some rows are overwritten: the update lies there, the result is the
input's memory. Passes make them; their references are those of concat, slicing, padding and update_slice.
ir/relax/memory.py says which are well formed.

update_slice is x with `update` from `begin` on, along one axis (XLA's DynamicUpdateSlice). With in_place, x is an input
that the caller lets the run overwrite, and update_in_place makes it a memory.update.
"""
from __future__ import annotations

import numpy as np

from ... import te, tir
from ...expr import IntImm
from ...op import REQUIRED, register
from ...tir import intrin
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
    if all(isinstance(n, int) for n in (begin, extent)) and (
            begin < 0 or extent < 0 or (isinstance(size, IntImm) and begin + extent > size.value)):
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


# ---------------------------------------------------------------- memory.update and update_slice

def _infer_update(call):
    x, update = tensors(call)
    need_same_dtype(call, (x, update))
    axis = normalize_axis(call, call.attrs["axis"], x.ndim)
    others = [d for k, d in enumerate(x.shape) if k != axis]
    if update.ndim != x.ndim or not same_shape(others, [d for k, d in enumerate(update.shape) if k != axis]):
        fail(call, f"{shape_text(update)} does not fit into {shape_text(x)} along axis {axis}")
    return x


def _lower_update(args, attrs, out):
    x, update = args
    axis, begin = attrs["axis"] % x.ndim, attrs["begin"]

    def element(*i):
        k = i[axis] - begin
        inside = tir.all(k >= 0, k < update.shape[axis])
        return intrin.if_then_else(inside, update[(*i[:axis], k, *i[axis + 1:])], x[i])

    return te.compute(te_shape(out), element, name="update_slice")


def _evaluate_update(args, attrs):
    x, update = args
    axis, begin = attrs["axis"] % x.ndim, int(attrs["begin"])
    result, index = x.copy(), [slice(None)] * x.ndim
    index[axis] = slice(begin, begin + update.shape[axis])
    result[tuple(index)] = update
    return result


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
register("memory.update", _infer_update, None, _evaluate_update, "view", arity=(2, 2), axis=REQUIRED, begin=REQUIRED)
register("update_slice", _infer_update, _lower_update, _evaluate_update, "opaque", arity=(2, 2), axis=REQUIRED,
         begin=REQUIRED, in_place=False)
register("memory.inlay", _infer_inlay, None, _evaluate_inlay, "view", arity=(2, 2), pad_width=REQUIRED)
register("memory.join", infer_concat, lower_concat, lambda args, attrs: np.concatenate(args, axis=attrs["axis"]),
         "view", arity=(1, None), axis=REQUIRED)
register("memory.part", _infer_part, _lower_part, _evaluate_part, "view", axis=REQUIRED, begin=REQUIRED,
         extent=REQUIRED)
