"""Operators that say where values lie in memory. No kernel computes them: what they name is already in its place.

memory.join is concat of tensors that lie side by side inside its result, memory.part a slice that stays where it is.
Passes make them; their references are those of concat and slicing. ir/relax/memory.py says which are well formed.
"""
from __future__ import annotations

import numpy as np

from ... import te
from ...expr import IntImm
from ...op import REQUIRED, register
from ..expr import TensorStructInfo
from .common import as_dim, fail, normalize_axis, shape_text, te_shape, tensor
from .copies import lower_concat
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


register("memory.join", infer_concat, lower_concat, lambda args, attrs: np.concatenate(args, axis=attrs["axis"]),
         "view", arity=(1, None), axis=REQUIRED)
register("memory.part", _infer_part, _lower_part, _evaluate_part, "view", axis=REQUIRED, begin=REQUIRED,
         extent=REQUIRED)
