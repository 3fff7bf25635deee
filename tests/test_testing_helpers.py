"""tvm.testing.assert_allclose: tolerances, shapes, NDArrays and small floats."""
import ml_dtypes
import numpy as np
import pytest

import ingot as tvm


def test_within_and_beyond_the_tolerance():
    x = np.array([1.0, np.nan, np.inf])
    tvm.testing.assert_allclose(x, x + 5e-8)
    tvm.testing.assert_allclose(tvm.nd.array(np.float32([1, 2])), [1, 2])
    tvm.testing.assert_allclose(1.0, 1.05, rtol=0.1)
    tvm.testing.assert_allclose([0.0], [1e-3], atol=1e-2)
    with pytest.raises(AssertionError, match="Mismatched elements: 1 / 2"):
        tvm.testing.assert_allclose([1.0, 2.0], [1.0, 2.1], rtol=1e-3)
    with pytest.raises(AssertionError, match="Not equal to tolerance rtol=1e-07, atol=1e-07"):
        tvm.testing.assert_allclose(1.0, 1.000001)


def test_shapes_must_be_equal():
    with pytest.raises(AssertionError, match=r"shapes differ: actual \(2, 1\), desired \(2,\)"):
        tvm.testing.assert_allclose(np.ones((2, 1)), np.ones(2))


def test_small_floats():
    x = np.array([1.5, -2.0]).astype(ml_dtypes.bfloat16)
    tvm.testing.assert_allclose(x, [1.5, -2.0])
    with pytest.raises(AssertionError):
        tvm.testing.assert_allclose(x, [1.5, -2.5])
