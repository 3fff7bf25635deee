"""The dtype sums run in: 16-bit floats accumulate in float32, everything else in its own dtype."""
from __future__ import annotations

import numpy as np

from ...dtype import DataType
from ...te import compute


def sum_dtype(dtype):
    """The dtype in which values of `dtype` are added up."""
    dtype = DataType(dtype)
    return DataType("float32") if dtype.is_float and dtype.bits == 16 else dtype


def narrow(result, dtype):
    """The tensor `result` in `dtype`: itself, or one more stage `<name>_cast`."""
    if result.dtype == DataType(dtype):
        return result
    return compute(result.shape, lambda *i: result[i].astype(dtype), name=result.name + "_cast")


def widen_array(x):
    """A numpy array in the dtype its sums run in."""
    return x.astype(np.float32) if x.dtype == np.float16 else x
