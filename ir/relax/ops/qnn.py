"""Products of quantized tensors, as in TVM's qnn dialect: qnn.matmul, qnn.conv2d, qnn.conv3d are the sums of (data -
input_zero_point) * (weight - kernel_zero_point) in int32.

Data and weights are int8 or uint8; zero points are integers of either, one number each; that of a matmul's data may be
one for each row, that of weights one for each column, or output channel: they broadcast. QnnCanonicalize says by what
products of the target they are computed; no kernel is made of these operators themselves.
"""
from __future__ import annotations

import numpy as np

from ...op import get, register
from ..expr import TensorStructInfo
from .common import fail, tensor

BYTES = ("int8", "uint8")
SUMS = "int32"
PLAIN = {"qnn.matmul": "matmul", "qnn.conv2d": "nn.conv2d", "qnn.conv3d": "nn.conv3d"}


def _infer(name):
    def infer(call):
        for n, what in ((0, "data"), (1, "weight")):
            if tensor(call, n).dtype not in BYTES:
                fail(call, f"{what} must be int8 or uint8, not {tensor(call, n).dtype}")
        for n, what in ((2, "input_zero_point"), (3, "kernel_zero_point")):
            if not tensor(call, n).dtype.is_int:
                fail(call, f"{what} must be an integer, not {tensor(call, n).dtype}")
        attrs = {**get(name).attrs, **call.attrs, "out_dtype": SUMS}
        info = get(name).infer(call.replace(op=name, args=call.args[:2], attrs=attrs))
        return TensorStructInfo(info.shape, SUMS)
    return infer


def _evaluate(name):
    def evaluate(args, attrs):
        """In float64, which holds the sums."""
        x, w, x_zero, w_zero = (np.asarray(a, np.float64) for a in args)
        total = get(name).evaluate([x - x_zero, w - w_zero], {**get(name).attrs, **attrs})
        return np.asarray(total).astype(np.int64).astype(np.int32)
    return evaluate


for _name, _plain in PLAIN.items():
    _attrs = {k: v for k, v in get(_plain).attrs.items() if k in ("strides", "padding", "dilation", "groups")}
    register(_name, _infer(_plain), None, _evaluate(_plain), "opaque", (4, 4), **_attrs)
