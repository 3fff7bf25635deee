"""matmul_pairs: packed columns, and products by pairs against products of floats."""
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ops_nn_check import array, call_of, check, lower

from interp import run

from ingot.ir.expr import Var
from ingot.ir.op import InferError
from ingot.ir.relax.ops.matmul_pairs import TINY, pack_columns, padded, sign_of, third, unpack_columns

EXACT = 1e-6  # of the largest result: what products of floats keep, but where these are better than usual


def compiled(a, w):
    """The lowered product, interpreted in float32."""
    operands = [a, *pack_columns(w)]
    call = call_of("matmul_pairs", [x.shape for x in operands], {})
    result = np.empty(call.struct_info.static_shape, np.float32)
    run(lower(call), *operands, result)
    return result


@given(st.integers(0, 2 ** 32 - 1), st.sampled_from([(16, 16), (48, 40), (64, 1), (112, 33)]),
       st.lists(st.sampled_from([1e-30, 1e-3, 1.0, 7e4, 1e30]), min_size=1, max_size=4))
def test_columns_keep_their_numbers(seed, shape, magnitudes):
    """Scales are powers of two, of which the largest magnitudes are between a half and the whole."""
    rng = np.random.default_rng(seed)
    w = (rng.uniform(-1, 1, shape) * rng.choice(magnitudes, shape[1])).astype(np.float32)
    columns, scales, offsets = pack_columns(w)
    assert columns.shape == (-(-shape[1] // 16), third(shape[0]), 3, 16) and columns.dtype == np.float32
    assert scales.shape == offsets.shape == shape[1:] and np.abs(columns).max() <= 1
    np.testing.assert_array_equal(np.exp2(np.round(np.log2(scales))), scales)
    np.testing.assert_array_equal(unpack_columns(columns, scales, shape[0]), w.astype(np.float64))


@pytest.mark.parametrize("depth, thirds, room, negative", [
    (16, 6, 32, 0), (48, 16, 48, 0), (64, 22, 80, 0), (96, 32, 96, 1), (192, 64, 192, 2), (768, 256, 768, 8)])
def test_every_other_block_of_the_first_third_changes_its_sign(depth, thirds, room, negative):
    assert (third(depth), padded(depth)) == (thirds, room)
    assert (sign_of(depth) == -1).sum() == 16 * negative
    assert (sign_of(depth)[thirds:] == 1).all()


@pytest.mark.parametrize("rows, depth, columns", [((5,), 64, 32), ((2, 3), 96, 40), ((1,), 16, 100), ((4,), 144, 7)])
def test_results_are_those_of_matmul(rows, depth, columns):
    """Of the reference, and of the lowered program, which is interpreted."""
    a, w = array((*rows, depth)), array((depth, columns), 1)
    _, result = check("matmul_pairs", [a, *pack_columns(w)], 1e-5)
    exact = a.astype(np.float64) @ w.astype(np.float64)
    assert np.abs(result - exact).max() <= EXACT * np.abs(exact).max()


@pytest.mark.parametrize("depth", [33, 40, 47, 100])
def test_what_fills_up_the_last_block_of_rows(depth):
    """Zeros, of which no more than three thirds are read."""
    a, w = array((5, depth)), array((depth, 20), 1)
    filled = np.pad(a, ((0, 0), (0, -depth % 16)))
    _, result = check("matmul_pairs", [filled, *pack_columns(w)], 1e-5)
    exact = a.astype(np.float64) @ w.astype(np.float64)
    assert np.abs(result - exact).max() <= EXACT * np.abs(exact).max()


def test_rows_that_are_not_finite_zero_tiny_and_huge():
    a, w = array((7, 64)), array((64, 32), 1)
    a[0, 3], a[1, 60], a[2, 0], a[3] = np.nan, np.inf, -np.inf, 0
    a[4] *= 10 * TINY
    a[5] *= np.float32(1e36)
    with np.errstate(invalid="ignore", over="ignore"):
        result = compiled(a, w)
    assert np.isnan(result[:3]).all() and not result[3].any()
    exact = a[4:].astype(np.float64) @ w.astype(np.float64)
    assert (np.abs(result[4:] - exact) <= EXACT * np.abs(exact).max(axis=1, keepdims=True)).all()


def chained(a, w):
    """The product whose terms float32 adds up one by one, which is the same on every machine; numpy's is not."""
    total = np.zeros((len(a), w.shape[1]), np.float32)
    for k in range(len(w)):
        total += a[:, k, None] * w[k]
    return total


@pytest.mark.parametrize("kind", ["normal", "relu", "mean", "signs", "outliers", "rows"])
def test_accuracy(kind):
    """On data as it comes, and on data made to be hard: about as near to the exact product as float32 is, also of one
    row beside others whose numbers are a million times as large."""
    rng = np.random.default_rng(0)
    a, w = rng.standard_normal((8, 512)), rng.standard_normal((512, 64))
    if kind == "relu":
        a = np.maximum(a, 0)
    if kind == "mean":
        a += 1000
    if kind == "signs":
        a, w = np.sign(a), np.abs(w)
    if kind == "outliers":
        a[:, rng.integers(0, 512, 4)] *= 1000
        w *= 10.0 ** rng.integers(-3, 3, 64)
    if kind == "rows":
        a *= 10.0 ** np.arange(-3, 5)[:, None]
    a, w = a.astype(np.float32), w.astype(np.float32)
    exact = a.astype(np.float64) @ w.astype(np.float64)
    largest = np.abs(exact).max(axis=1, keepdims=True)
    mine, usual = ((np.abs(found - exact) / largest).max() for found in (compiled(a, w), chained(a, w)))
    assert mine <= max(4 * usual, EXACT)


A, C, S = (4, 48), (4, 16, 3, 16), (64,)


@pytest.mark.parametrize("shapes, dtypes, message", [
    (((48,), C, S, S), {}, r"takes rows of at least 2 dimensions, the last one static, got \(48,\)"),
    (((4, Var("k", "int64")), C, S, S), {}, "takes rows of at least 2 dimensions, the last one static"),
    (((4, 40), C, S, S), {}, r"rows \(4, 40\) must be of whole blocks of 16 terms, filled up with zeros"),
    ((A, C, S, S), {0: "float16"}, r"rows \(4, 48\) must be float32, not float16"),
    ((A, C, S, S), {1: "float64"}, r"columns \(4, 16, 3, 16\) must be float32, not float64"),
    ((A, C, S, S), {2: "int32"}, r"scales \(64,\) must be float32, not int32"),
    ((A, C, S, S), {3: "int32"}, r"offsets \(64,\) must be float32, not int32"),
    ((A, (4, 17, 3, 16), S, S), {}, r"columns \(4, 17, 3, 16\) must be \(4, 16, 3, 16\) for 64 scales and 48 terms"),
    ((A, (4, 10, 3, 16), S, S), {}, r"columns \(4, 10, 3, 16\) must be \(4, 16, 3, 16\) for 64 scales and 48 terms"),
    ((A, C, (65,), S), {}, r"must be \(5, 16, 3, 16\) for 65 scales and 48 terms"),
    ((A, C, S, (60,)), {}, r"offsets \(60,\) must be as many as scales \(64,\)"),
    ((A, C, (Var("n", "int64"),), S), {}, "must be static"),
])
def test_what_does_not_fit_is_refused(shapes, dtypes, message):
    with pytest.raises(InferError, match="matmul_pairs: .*" + message):
        call_of("matmul_pairs", shapes, {}, [dtypes.get(k, "float32") for k in range(4)])
