"""matmul_digits: digits of columns, and products of digits against products of floats."""
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ops_nn_check import array, call_of, check, evaluate

from ingot.ir.expr import Var
from ingot.ir.op import InferError
from ingot.ir.relax.ops import matmul_digits
from ingot.ir.relax.ops.matmul_digits import TINY, join_columns, split_columns

EXACT = 1e-6  # of the largest result: what products of floats keep


@given(st.integers(0, 2 ** 32 - 1), st.sampled_from([(64, 32), (128, 40), (64, 1)]),
       st.lists(st.sampled_from([1e-30, 1e-3, 1.0, 7e4, 1e30]), min_size=1, max_size=4))
def test_digits_keep_23_bits_of_the_largest(seed, shape, magnitudes):
    rng = np.random.default_rng(seed)
    w = (rng.uniform(-1, 1, shape) * rng.choice(magnitudes, shape[1])).astype(np.float32)
    digits, scales = split_columns(w)
    assert digits.dtype == np.int8 and digits.shape[1:] == (shape[0] // 64, 3, 2, 16, 16, 4) and len(scales) == shape[1]
    largest = np.abs(w).max(axis=0)
    assert (np.abs(join_columns(digits, scales) - w) <= largest * 2.0 ** -23).all()


def test_digits_of_zeros_and_of_equal_numbers():
    w = np.zeros((64, 33), np.float32)
    w[:, 1], w[:, 32] = 3.5, -1e-20
    digits, scales = split_columns(w)
    np.testing.assert_allclose(join_columns(digits, scales), w, rtol=2e-7)
    assert not join_columns(digits, scales)[:, 0].any()


@pytest.mark.parametrize("rows, depth, columns", [((5,), 64, 32), ((2, 3), 128, 40), ((1,), 64, 100)])
def test_results_are_those_of_matmul(rows, depth, columns):
    """Of the reference, and of the lowered program, which is interpreted."""
    a, w = array((*rows, depth)), array((depth, columns), 1)
    _, result = check("matmul_digits", [a, *split_columns(w)], 1e-5)
    exact = a.astype(np.float64) @ w.astype(np.float64)
    assert np.abs(result - exact).max() <= EXACT * np.abs(exact).max()


@pytest.mark.parametrize("rows, cut", [(97, 98), (98, 98), (95, 95), ("n", "n")])
def test_many_rows_are_even(rows, cut):
    assert matmul_digits.even_rows(rows) == cut


@pytest.mark.parametrize("rows", [(5,), (2, 3)])
def test_the_last_of_odd_rows_is_there_twice(rows, monkeypatch):
    monkeypatch.setattr(matmul_digits, "ODD", 2)
    a, w = array((*rows, 64)), array((64, 32), 1) / 8
    check("matmul_digits", [a, *split_columns(w)], 1e-5)


def test_terms_in_parts(monkeypatch):
    monkeypatch.setattr(matmul_digits, "NEAR", 5 * 64 * 3)
    monkeypatch.setattr(matmul_digits, "PART", 1)
    a, w = array((5, 192)), array((192, 40), 1) / 16
    assert matmul_digits.parts_of_terms(5, 3) == 3
    check("matmul_digits", [a, *split_columns(w)], 1e-5)


@pytest.mark.parametrize("rows, terms, parts", [
    (128, 768, 1), (128, 3072, 2), (197, 1536, 1), (512, 4096, 8), (4096, 1024, 2), (64, 64, 1), (512, 64 * 13, 1),
    (512, 768, 1)])
def test_parts_keep_digits_of_rows_near(rows, terms, parts):
    assert matmul_digits.parts_of_terms(rows, terms // 64) == parts


def test_rows_that_are_not_finite_zero_tiny_and_huge():
    a, w = array((7, 64)), array((64, 32), 1)
    a[0, 3], a[1, 60], a[2, 0], a[3] = np.nan, np.inf, -np.inf, 0
    a[4] *= TINY
    a[5] *= np.float32(1e36)
    _, result = check("matmul_digits", [a, *split_columns(w)], 5e-3)
    assert np.isnan(result[:3]).all() and not result[3].any()
    exact = a[4:].astype(np.float64) @ w.astype(np.float64)
    assert (np.abs(result[4:] - exact) <= EXACT * np.abs(exact).max(axis=1, keepdims=True)).all()


@pytest.mark.parametrize("kind", ["normal", "mean", "signs", "outliers"])
def test_accuracy(kind):
    """On data as it comes, and on data made to be hard: as near to the exact product as float32 is, or to 1e-6."""
    rng = np.random.default_rng(0)
    a, w = rng.standard_normal((32, 512)), rng.standard_normal((512, 64))
    if kind == "mean":
        a += 1000
    if kind == "signs":
        a, w = np.sign(a), np.abs(w)
    if kind == "outliers":
        a[:, rng.integers(0, 512, 4)] *= 1000
        w *= 10.0 ** rng.integers(-3, 3, 64)
    a, w = a.astype(np.float32), w.astype(np.float32)
    exact = a.astype(np.float64) @ w.astype(np.float64)
    mine = evaluate("matmul_digits", [a, *split_columns(w)])
    errors = [np.abs(found - exact).max() / np.abs(exact).max() for found in (mine, a @ w)]
    assert errors[0] <= max(errors[1], EXACT)


A, D, S = (4, 128), (2, 2, 3, 2, 16, 16, 4), (64,)


@pytest.mark.parametrize("shapes, dtypes, message", [
    (((128,), D, S), {}, r"takes rows of at least 2 dimensions, the last one static, got \(128,\)"),
    (((4, Var("k", "int64")), D, S), {}, "takes rows of at least 2 dimensions, the last one static"),
    ((A, D, S), {0: "float16"}, r"rows \(4, 128\) must be float32, not float16"),
    ((A, D, S), {1: "uint8"}, r"digits \(2, 2, 3, 2, 16, 16, 4\) must be int8, not uint8"),
    ((A, D, S), {2: "float64"}, r"scales \(64,\) must be float32, not float64"),
    ((A, (2, 2, 2, 2, 16, 16, 4), S), {}, r"must be \(2, 2, 3, 2, 16, 16, 4\): panels of 32 columns, steps of 64"),
    (((4, 64), D, S), {}, r"rows \(4, 64\) have 64 terms, digits .* are of 128"),
    ((A, (2, 513, 3, 2, 16, 16, 4), S), {}, "digits .* are of 32832 terms; sums of more than 32768 may overflow"),
    ((A, D, (65,)), {}, "must be of as many columns as digits .*, whose panels of 32 have 64 of them or up to 31 less"),
    ((A, D, (32,)), {}, "must be of as many columns as digits"),
    ((A, D, (Var("n", "int64"),)), {}, "must be static"),
])
def test_what_does_not_fit_is_refused(shapes, dtypes, message):
    with pytest.raises(InferError, match=message):
        call_of("matmul_digits", shapes, {}, [dtypes.get(k, t) for k, t in enumerate(("float32", "int8", "float32"))])
