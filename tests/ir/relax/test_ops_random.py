"""Random numbers: kernels draw what the reference draws, and those are spread as they should be."""
import numpy as np
import pytest
from ops_basic_check import check, evaluate

from ingot.ir.op import InferError


@pytest.mark.parametrize("name, attrs", [
    ("random_uniform", {}), ("random_uniform", {"low": -2.0, "high": 3.0, "dtype": "float64"}),
    ("random_normal", {}), ("random_normal", {"mean": 1.0, "scale": 0.5, "dtype": "float16"})])
def test_kernels_draw_what_the_reference_draws(name, attrs):
    check(name, (3, 4, 5), attrs={"seed": 7, **attrs}, tolerance=1e-3 if attrs.get("dtype") == "float16" else 1e-5)


def test_uniform_numbers_are_spread():
    x, = evaluate("random_uniform", [(200, 500)], {"seed": 3})
    assert 0 <= x.min() < 1e-4 and 1 - 1e-4 < x.max() < 1
    counts = np.histogram(x, 100, (0, 1))[0]
    assert ((counts - 1000) ** 2 / 1000).sum() < 150  # chi squared of 99 degrees of freedom
    assert abs(np.corrcoef(x.ravel()[:-1], x.ravel()[1:])[0, 1]) < 0.01
    other, = evaluate("random_uniform", [(200, 500)], {"seed": 4})
    assert abs(np.corrcoef(x.ravel(), other.ravel())[0, 1]) < 0.01


def test_normal_numbers_have_their_moments():
    x, = evaluate("random_normal", [(100, 1000)], {"seed": 11, "mean": 2.0, "scale": 3.0})
    z = (x.astype(np.float64) - 2) / 3
    assert abs(z.mean()) < 0.01 and abs(z.std() - 1) < 0.01 and abs((z ** 3).mean()) < 0.03
    assert abs((z ** 4).mean() - 3) < 0.1


def test_a_seed_is_of_32_bits():
    with pytest.raises(InferError, match="seed -1 must be an integer of 32 bits"):
        evaluate("random_uniform", [(2,)], {"seed": -1})
