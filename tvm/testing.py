"""Checks for tests of programs that were compiled: tvm.testing's names."""
from __future__ import annotations

import numpy as np


def assert_allclose(actual, desired, rtol=1e-7, atol=1e-7):
    """Raise AssertionError unless actual and desired are arrays (NDArrays, or what numpy takes) of one shape with
    |actual - desired| <= atol + rtol * |desired| everywhere; NaN equals NaN."""
    actual, desired = _array(actual), _array(desired)
    if actual.shape != desired.shape:
        raise AssertionError(f"shapes differ: actual {actual.shape}, desired {desired.shape}")
    np.testing.assert_allclose(actual, desired, rtol=rtol, atol=atol, verbose=True)


def _array(value):
    """A numpy array; small floats, which numpy cannot compare, as float32."""
    array = value.numpy() if hasattr(value, "numpy") else np.asanyarray(value)
    return array.astype(np.float32) if array.dtype.kind == "V" else array
