"""matmul_short: weights of 20 bits, eight in five words, and products of them against products of floats."""
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ops_nn_check import array, call_of, check

from ingot.ir.expr import Var
from ingot.ir.op import InferError
from ingot.ir.relax.ops.matmul_short import BLOCK, fits, pack_columns, unpack_columns

DIGIT = 2.0 ** -19  # of the largest weight of a block; floats add a tenth of it


def largest_of_blocks(w):
    """The largest magnitude of a weight's block, of each weight."""
    starts = range(0, len(w), BLOCK)
    return np.concatenate([np.broadcast_to(np.abs(w[s:s + BLOCK]).max(axis=0), w[s:s + BLOCK].shape) for s in starts])


@given(st.integers(0, 2 ** 32 - 1), st.sampled_from([(8, 8), (64, 5), (72, 16), (200, 20)]),
       st.lists(st.sampled_from([0.0, 1e-6, 1.0, 7e4, 1e30]), min_size=1, max_size=4), st.sampled_from([(8, 4), (16, 16)]))
def test_weights_are_off_by_little_more_than_half_a_digit(seed, shape, magnitudes, panel):
    rng = np.random.default_rng(seed)
    w = (rng.uniform(-1, 1, shape) * rng.choice(magnitudes, shape)).astype(np.float32)
    words, scales = pack_columns(w, *panel)
    panels = -(-shape[1] // panel[0])
    assert words.shape == (panels, shape[0] // 8, panel[0] // panel[1], 5, panel[1]) and words.dtype == np.float32
    assert scales.shape == (panels, -(-shape[0] // BLOCK), panel[0]) and scales.dtype == np.float32
    kept = unpack_columns(words, scales).astype(np.float64)
    assert not kept[:, shape[1]:].any()
    assert (np.abs(kept[:, :shape[1]] - w) <= 0.6 * DIGIT * largest_of_blocks(w)).all()


def test_the_largest_of_both_signs():
    w = np.ones((8, 4), np.float32)
    for signs in (1, -1, np.resize([1, -1], 8)[:, None]):
        kept = unpack_columns(*pack_columns(signs * w, 4, 4))
        np.testing.assert_allclose(kept, signs * w, rtol=0.6 * DIGIT)


@pytest.mark.parametrize("change, kept", [
    (lambda w: w, True), (lambda w: 0 * w, True), (lambda w: 1e30 * w, True), (lambda w: w[:-2], False),
    (lambda w: 1e-20 * w, False), (lambda w: 1e37 * w, False), (lambda w: w.astype(np.float64), False)])
def test_what_fits(change, kept):
    assert fits(change(array((128, 16)))) == kept


@pytest.mark.parametrize("largest, kept", [(8.0, True), (200.0, False), (np.inf, False), (np.nan, False)])
def test_numbers_that_stand_out(largest, kept):
    """One in each block of a column: what is off for the others is as much as they are of it."""
    w = array((1024, 16))
    w[5::BLOCK, 3] = largest
    assert fits(w) == kept
    if kept:
        a = np.maximum(array((8, 1024), 1), 0)
        a[:, 5::BLOCK] = 0  # as if the large ones were not there
        off = a.astype(np.float64) @ (unpack_columns(*pack_columns(w, 16, 16)) - w.astype(np.float64))
        assert np.abs(off).max() <= 1e-5 * np.abs(a @ w).max()


@pytest.mark.parametrize("rows, depth, columns, panel, lanes", [
    ((1,), 8, 8, 8, 4), ((3,), 16, 20, 16, 8), ((2, 3), 80, 5, 8, 8)])
def test_products(rows, depth, columns, panel, lanes):
    """Of the reference, and of the lowered program, which is interpreted."""
    a, w = array((*rows, depth)), array((depth, columns), 1)
    _, result = check("matmul_short", [a, *pack_columns(w, panel, lanes)], 1e-5, n_size=columns)
    exact = a.astype(np.float64) @ w
    assert np.abs(result - exact).max() <= 5e-6 * np.abs(exact).max()


@pytest.mark.parametrize("magnitude", [1e-30, 1e30])
def test_rows_of_any_size(magnitude):
    """Weights as integers would make their sums infinite."""
    a, w = array((2, 64)) * np.float32(magnitude), array((64, 8), 1)
    _, result = check("matmul_short", [a, *pack_columns(w, 8, 4)], 1e-5, n_size=8)
    exact = a.astype(np.float64) @ w
    assert np.abs(result - exact).max() <= 5e-6 * np.abs(exact).max()


FORM = r"they must be \(panels, {0} / 8, panel / lanes, 5, lanes\) and \(panels, terms / 64, panel\)"


@pytest.mark.parametrize("shapes, dtype, n_size, message", [
    ([(2, 24), (2, 2, 2, 5, 4), (2, 1, 8)], "float32", 12,
     r"words \(2, 2, 2, 5, 4\) and scales \(2, 1, 8\) do not hold 24 terms of 12 columns: " + FORM.format(24)),
    ([(2, 16), (2, 2, 2, 5, 4), (2, 2, 8)], "float32", 12, "do not hold 16 terms of 12 columns"),
    ([(2, 16), (2, 2, 1, 5, 4), (2, 1, 8)], "float32", 12, "do not hold 16 terms of 12 columns"),
    ([(2, 16), (2, 2, 2, 3, 4), (2, 1, 8)], "float32", 12, "do not hold 16 terms of 12 columns"),
    ([(2, 16), (2, 2, 2, 5, 4), (2, 1, 8)], "float32", 17, "do not hold 16 terms of 17 columns"),
    ([(2, 16), (2, 2, 2, 5, 4), (2, 1, 8)], "float32", 8, "do not hold 16 terms of 8 columns"),
    ([(16,), (2, 2, 2, 5, 4), (2, 1, 8)], "float32", 12, r"rows of at least 2 dimensions, not \(16,\)"),
    ([(2, 16), (2, 2, 2, 5, 4), (2, 1, 8)], "float32", None, "attribute n_size"),
    ([(2, 16), (2, 2, 2, 5, 4), (2, Var("n"), 8)], "float32", 12, "must be static"),
    ([(2, 16), (2, 2, 2, 5, 4), (2, 1, 8)], ["float64", "float32", "float32"], 12, "rows .* must be float32"),
])
def test_errors(shapes, dtype, n_size, message):
    with pytest.raises(InferError, match=message):
        call_of("matmul_short", shapes, {"n_size": n_size}, dtype)
