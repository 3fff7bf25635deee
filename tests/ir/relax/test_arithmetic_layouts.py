"""Particulars of arithmetics: signs of pairs, parts and even rows of slices, blocks of compressed weights."""
import numpy as np
import pytest
from ops_nn_check import array, check

from ingot.ir.relax.arithmetic import compressed, split_integer
from ingot.ir.relax.arithmetic.inner_product import pack_columns, padded, sign_of, third, unpack_columns

# ---------------------------------------------------------------- inner products


@pytest.mark.parametrize("depth, thirds, room, negative", [
    (16, 6, 32, 0), (48, 16, 48, 0), (64, 22, 80, 0), (96, 32, 96, 1), (192, 64, 192, 2), (768, 256, 768, 8)])
def test_every_other_block_of_the_first_third_changes_its_sign(depth, thirds, room, negative):
    assert (third(depth), padded(depth)) == (thirds, room)
    assert (sign_of(depth) == -1).sum() == 16 * negative
    assert (sign_of(depth)[thirds:] == 1).all()


def test_scales_of_columns_are_powers_of_two():
    """Largest magnitudes are between a half and the whole of their scale: columns lose nothing."""
    w = array((100, 33)) * np.float32(10) ** np.arange(-16, 17, dtype=np.float32)
    columns, scales, _ = pack_columns(w)
    np.testing.assert_array_equal(np.exp2(np.round(np.log2(scales))), scales)
    np.testing.assert_array_equal(unpack_columns(columns, scales, 100), w.astype(np.float64))
    assert 0.5 <= np.abs(columns).max() <= 1


# ---------------------------------------------------------------- split integers

@pytest.mark.parametrize("rows, cut", [(97, 98), (98, 98), (95, 95), ("n", "n")])
def test_many_rows_are_even(rows, cut):
    assert split_integer.even_rows(rows) == cut


@pytest.mark.parametrize("rows", [(5,), (2, 3)])
def test_the_last_of_odd_rows_is_there_twice(rows, monkeypatch):
    monkeypatch.setattr(split_integer, "ODD", 2)
    a, w = array((*rows, 64)), array((64, 32), 1) / 8
    check("matmul", [a, *split_integer.split_columns(w)], 1e-5, arithmetic="split_integer", b_layout="operands",
          n_size=32)


def test_terms_in_parts(monkeypatch):
    monkeypatch.setattr(split_integer, "RESIDENT", 5 * 64 * 3)
    monkeypatch.setattr(split_integer, "PART", 1)
    a, w = array((5, 192)), array((192, 40), 1) / 16
    assert split_integer.parts_of_terms(5, 3) == 3
    check("matmul", [a, *split_integer.split_columns(w)], 1e-5, arithmetic="split_integer", b_layout="operands",
          n_size=40)


@pytest.mark.parametrize("rows, terms, parts", [
    (128, 768, 1), (128, 3072, 2), (197, 1536, 1), (512, 4096, 8), (4096, 1024, 2), (64, 64, 1), (512, 64 * 13, 1),
    (512, 768, 1)])
def test_parts_keep_slices_of_rows_resident(rows, terms, parts):
    assert split_integer.parts_of_terms(rows, terms // 64) == parts


# ---------------------------------------------------------------- compressed weights

def test_the_largest_of_both_signs():
    w = np.ones((8, 4), np.float32)
    for signs in (1, -1, np.resize([1, -1], 8)[:, None]):
        kept = compressed.unpack_columns(*compressed.pack_columns(signs * w, 4, 4))
        np.testing.assert_allclose(kept, signs * w, rtol=0.6 * 2.0 ** -19)


@pytest.mark.parametrize("change, kept", [
    (lambda w: w, True), (lambda w: 0 * w, True), (lambda w: 1e30 * w, True), (lambda w: w[:-2], False),
    (lambda w: 1e-20 * w, False), (lambda w: 1e37 * w, False), (lambda w: w.astype(np.float64), False)])
def test_what_fits(change, kept):
    assert compressed.fits(change(array((128, 16)))) == kept


@pytest.mark.parametrize("largest, kept", [(8.0, True), (200.0, False), (np.inf, False), (np.nan, False)])
def test_numbers_that_stand_out(largest, kept):
    """One in each block of a column: what is off for the others is as much as they are of it."""
    w = array((1024, 16))
    w[5::compressed.BLOCK, 3] = largest
    assert compressed.fits(w) == kept
    if kept:
        a = np.maximum(array((8, 1024), 1), 0)
        a[:, 5::compressed.BLOCK] = 0  # as if the large ones were not there
        errors = compressed.unpack_columns(*compressed.pack_columns(w, 16, 16)) - w.astype(np.float64)
        off = a.astype(np.float64) @ errors
        assert np.abs(off).max() <= 1e-5 * np.abs(a @ w).max()


@pytest.mark.parametrize("panel, lanes", [(8, 4), (16, 8), (16, 16)])
@pytest.mark.parametrize("magnitude", [1e-30, 1.0, 1e30])
def test_rows_of_any_size(magnitude, panel, lanes):
    """Weights as integers would make their sums infinite."""
    a, w = array((2, 64)) * np.float32(magnitude), array((64, 8), 1)
    _, result = check("matmul", [a, *compressed.pack_columns(w, panel, lanes)], 1e-5, arithmetic="compressed",
                      b_layout="operands", n_size=8)
    exact = a.astype(np.float64) @ w
    assert np.abs(result - exact).max() <= 5e-6 * np.abs(exact).max()
