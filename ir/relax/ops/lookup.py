"""qnn.lookup: what a table of 256 says of each 8-bit integer, elementwise. table[0] is of the least one: of 0 or of -128.

A function of quantized numbers alone is such a table, whatever it takes to compute it (ir/transform/lookup_tables.py).
"""
from __future__ import annotations

from ... import te
from ...expr import is_const_int
from ...op import register
from ..expr import TensorStructInfo
from .common import axis_names, fail, shape_text, te_shape, tensor
from .qnn import BYTES

SIZE = 256


def least(dtype):
    """The number that the first element of a table is of."""
    return -128 if dtype == "int8" else 0


def _infer(call):
    x, table = tensor(call, 0), tensor(call, 1)
    if x.dtype not in BYTES:
        fail(call, f"takes int8 or uint8, not {x.dtype}")
    if table.ndim != 1 or not is_const_int(table.shape[0], SIZE):
        fail(call, f"table {shape_text(table)} must have {SIZE} elements")
    return TensorStructInfo(x.shape, table.dtype)


def _lower(args, attrs, out):
    x, table = args
    first = least(x.dtype)

    def element(*i):
        place = x[i].astype("int32")
        return table[place - first if first else place]

    return te.compute(te_shape(out), element, name="lookup", varargs_names=axis_names(out.ndim, x))


def _evaluate(args, attrs):
    x, table = args
    return table[x.astype(int) - least(x.dtype.name)]


register("qnn.lookup", _infer, _lower, _evaluate, "elementwise", (2, 2))
