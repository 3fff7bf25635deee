"""Products of quantized tensors, as in TVM's qnn dialect: qnn.matmul, qnn.conv2d, qnn.conv3d are the sums of (data -
input_zero_point) * (weight - kernel_zero_point) in out_dtype, int32 or int64.

Data and weights are integers of 8 or 16 bits; zero points are integers of either, one number each; that of a matmul's
data may be one for each row, that of weights one for each column, or output channel: they broadcast. QnnCanonicalize
says by what products of the target they are computed; no kernel is made of these operators themselves.
"""
from __future__ import annotations

import numpy as np

from ...op import get, register
from ..expr import TensorStructInfo
from .common import fail, tensor

BYTES = ("int8", "uint8")
WORDS = ("int16", "uint16")
OTHER = {"int8": "uint8", "uint8": "int8", "int16": "uint16", "uint16": "int16"}
# What numbers of the other dtype are more, whose highest bit is turned.
MORE = {"int8": 128, "uint8": -128, "int16": 32768, "uint16": -32768}
SUMS, WIDE_SUMS = "int32", "int64"
PLAIN = {"qnn.matmul": "matmul", "qnn.conv2d": "nn.conv2d", "qnn.conv3d": "nn.conv3d"}


def sums_dtype(dtype, zero, weight, columns, bias=0):
    """The dtype of the sums of (data of a dtype - zero) * weight + bias: WIDE_SUMS where those of 16 bits may not fit
    in SUMS. Of 8 bits they are SUMS, as operators of quantized tensors have it.

    zero: a number, None where it is not known; weight: an array, less its zero point, whose `columns` are the axes
    along which no sum goes; None where it is not known; bias: an array, one for each column.
    """
    if dtype in BYTES:
        return SUMS
    if zero is None or weight is None:
        return WIDE_SUMS
    least, most = (int(limit) - zero for limit in (np.iinfo(dtype).min, np.iinfo(dtype).max))
    axes = tuple(a for a in range(weight.ndim) if a not in {c % weight.ndim for c in columns})
    weight, bias = weight.astype(np.int64), np.asarray(bias, np.int64)
    up, down = (part.sum(axis=axes) for part in (np.maximum(weight, 0), np.minimum(weight, 0)))
    fits = np.iinfo(SUMS)
    high, low = up * most + down * least + bias, up * least + down * most + bias
    return SUMS if fits.min <= low.min(initial=0) and high.max(initial=0) <= fits.max else WIDE_SUMS


def _infer(name):
    def infer(call):
        for n, what in ((0, "data"), (1, "weight")):
            if tensor(call, n).dtype not in (*BYTES, *WORDS):
                fail(call, f"{what} must be {', '.join(OTHER)}, not {tensor(call, n).dtype}")
        for n, what in ((2, "input_zero_point"), (3, "kernel_zero_point")):
            if not tensor(call, n).dtype.is_int:
                fail(call, f"{what} must be an integer, not {tensor(call, n).dtype}")
        if call.attrs["out_dtype"] not in (SUMS, WIDE_SUMS):
            fail(call, f"out_dtype must be {SUMS} or {WIDE_SUMS}, not {call.attrs['out_dtype']}")
        attrs = {**get(name).attrs, **call.attrs}
        return get(name).infer(call.replace(op=name, args=call.args[:2], attrs=attrs))
    return infer


def _evaluate(name):
    def evaluate(args, attrs):
        """In float64, which holds the sums."""
        x, w, x_zero, w_zero = (np.asarray(a, np.float64) for a in args)
        attrs = {**get(name).attrs, **attrs}
        total = get(name).evaluate([x - x_zero, w - w_zero], {**attrs, "out_dtype": "float64"})
        return np.asarray(total).astype(np.int64).astype(attrs["out_dtype"])
    return evaluate


for _name, _plain in PLAIN.items():
    _attrs = {k: v for k, v in get(_plain).attrs.items() if k in ("strides", "padding", "dilation", "groups")}
    register(_name, _infer(_plain), None, _evaluate(_plain), "opaque", (4, 4), out_dtype=SUMS, **_attrs)
