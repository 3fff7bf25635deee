"""The dtype sums run in: small floats accumulate in float32, everything else in its own dtype."""
from __future__ import annotations

import numpy as np

from ...dtype import DataType
from ...te import compute


def sum_dtype(dtype):
    """The dtype in which values of `dtype` are added up."""
    dtype = DataType(dtype)
    return DataType("float32") if dtype.is_float and dtype.bits <= 16 else dtype


def narrow(result, dtype):
    """The tensor `result` in `dtype`: itself, or one more stage `<name>_cast`."""
    if result.dtype == DataType(dtype):
        return result
    return compute(result.shape, lambda *i: result[i].astype(dtype), name=result.name + "_cast")


def is_float(x):
    """Whether a numpy array holds floats, also ml_dtypes' ones."""
    return DataType(x.dtype.name).is_float


def of_few_bits(x, w, dtype):
    """Whether the products of arrays, added up in a dtype, are those of integers whose sums float64 holds, which BLAS
    has products of."""
    return np.dtype(dtype) in (np.int32, np.int64) and all(
        a.dtype.kind in "iu" and a.dtype.itemsize <= 2 for a in (x, w))


def as_dtype(sums, dtype):
    """Sums in a dtype, in which integers wrap around."""
    if sums.dtype.kind == "f" and np.dtype(dtype).kind == "i":
        sums = sums.astype(np.int64)
    return sums.astype(dtype, copy=False)


def widen_array(x):
    """A numpy array in the dtype its sums run in."""
    return x.astype(sum_dtype(x.dtype.name).numpy, copy=False)
