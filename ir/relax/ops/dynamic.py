"""Tensors and dimensions, each made of the other: shape_to_tensor."""
from __future__ import annotations

import numpy as np

from ... import te
from ...expr import Select, cast, const
from ...op import register
from ..expr import TensorStructInfo
from .common import shape_argument


def _infer_shape_to_tensor(call):
    """int64 [number of dimensions]."""
    return TensorStructInfo((len(shape_argument(call, 0)),), "int64")


def _lower_shape_to_tensor(args, attrs, out):
    values = [cast(v, "int64") for v in args[0]]

    def element(i):
        chosen = values[-1] if values else const(0, "int64")
        for k, v in reversed(list(enumerate(values[:-1]))):
            chosen = Select(i == k, v, chosen)
        return chosen

    return te.compute((len(values),), element, name="shape")


register("shape_to_tensor", _infer_shape_to_tensor, _lower_shape_to_tensor,
         lambda args, attrs: np.array(args[0], np.int64), "opaque")
