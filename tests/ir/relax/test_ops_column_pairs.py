"""pair_scales, pair_columns and pair_offsets: an activation's columns as matmul_pairs reads them."""
import numpy as np
import pytest
from ops_nn_check import array, call_of, check, evaluate, lower

from interp import run

from ingot.ir.expr import Var
from ingot.ir.op import InferError
from ingot.ir.relax.ops.matmul_pairs import pack_columns, third, unpack_columns


def packed(w):
    """(columns, scales, offsets), each by the reference and by the lowered program, which is interpreted."""
    _, scales = check("pair_scales", [w], 0, batch_axes=[None])
    _, columns = check("pair_columns", [w, scales], 1e-6, batch_axes=[None, None])
    _, offsets = check("pair_offsets", [columns, scales], 1e-5, batch_axes=[None, None])
    return columns, scales, offsets


@pytest.mark.parametrize("depth", [16, 40, 64, 96, 100, 192])
def test_columns_and_scales_stand_for_the_matrix(depth):
    """What a constant becomes when it is packed, but for the scale."""
    w = array((depth, 48)) * (10.0 ** np.random.default_rng(1).integers(-3, 3, 48)).astype(np.float32)
    w[:, 2] = 0
    columns, scales, offsets = packed(w)
    expected, _, _ = pack_columns(w)
    assert columns.shape == (3, third(depth), 3, 16) == expected.shape and np.abs(columns).max() <= 1 + 1e-6
    np.testing.assert_array_equal(np.signbit(columns)[columns != 0], np.signbit(expected)[columns != 0])
    np.testing.assert_allclose(unpack_columns(columns, scales, depth), w, rtol=3e-7)
    own = (columns[:, :, 0].astype(np.float64) * columns[:, :, 1]).sum(axis=1).reshape(-1)
    np.testing.assert_allclose(offsets, -own * scales, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_column_that_is_not_finite_has_no_result(value):
    """Neither by the reference nor by the lowered programs, one after the other; others are as they were."""
    a, w = array((3, 64)), array((64, 32), 1)
    w[3, 7] = value
    with np.errstate(invalid="ignore"):
        scales = evaluate("pair_scales", [w])
        columns = evaluate("pair_columns", [w, scales])
        results = [evaluate("matmul_pairs", [a, columns, scales, evaluate("pair_offsets", [columns, scales])])]
        made = w
        for name in ("pair_scales", "pair_columns", "pair_offsets", "matmul_pairs"):
            operands = {"pair_scales": [w], "pair_columns": [w, scales], "pair_offsets": [columns, scales],
                        "matmul_pairs": [a, columns, scales, made]}[name]
            call = call_of(name, [x.shape for x in operands], {})
            made = np.empty(call.struct_info.static_shape, np.float32)
            run(lower(call), *operands, made)
            scales, columns = made if name == "pair_scales" else scales, made if name == "pair_columns" else columns
    known, exact = np.arange(32) != 7, a.astype(np.float64) @ w
    for result in (*results, made):
        assert np.isnan(result[:, 7]).all()
        np.testing.assert_allclose(result[:, known], exact[:, known], atol=1e-5)


W, C, S = (64, 32), (2, 22, 3, 16), (32,)


@pytest.mark.parametrize("name, shapes, dtypes, message", [
    ("pair_scales", [(2, 64, 32)], ["float32"], r"argument 0 must have 2 dimensions, its shape is \(2, 64, 32\)"),
    ("pair_scales", [(64, Var("n", "int64"))], ["float32"], r"matrix \(64, n\) must be static"),
    ("pair_scales", [(64, 40)], ["float32"], r"matrix \(64, 40\) must have terms, and columns in whole panels of 16"),
    ("pair_scales", [(0, 32)], ["float32"], r"matrix \(0, 32\) must have terms"),
    ("pair_scales", [W], ["float64"], r"matrix \(64, 32\) must be float32, not float64"),
    ("pair_columns", [W, (31,)], ["float32"] * 2, r"scales \(31,\) must be of as many columns as the matrix"),
    ("pair_columns", [W, S], ["float32", "int8"], r"scales \(32,\) must be float32, not int8"),
    ("pair_offsets", [C, (31,)], ["float32"] * 2, r"columns \(2, 22, 3, 16\) must be static, in panels of as many as"),
    ("pair_offsets", [C, S], ["float64", "float32"], r"columns \(2, 22, 3, 16\) must be float32, not float64"),
])
def test_what_does_not_fit_is_refused(name, shapes, dtypes, message):
    with pytest.raises(InferError, match=f"{name}: .*{message}"):
        call_of(name, shapes, {}, dtypes)
