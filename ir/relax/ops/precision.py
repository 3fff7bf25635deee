"""The dtype sums run in: small floats accumulate in float32, everything else in its own dtype."""
from __future__ import annotations

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


def widen_array(x):
    """A numpy array in the dtype its sums run in."""
    return x.astype(sum_dtype(x.dtype.name).numpy, copy=False)
