"""column_scales and column_digits: an activation's columns in digits, as split_columns cuts those of a constant."""
import numpy as np
import pytest
from interp import run
from ops_nn_check import array, call_of, check, evaluate, lower

from ingot.ir.expr import Var
from ingot.ir.op import InferError
from ingot.ir.relax.ops.matmul_digits import join_columns, split_columns


def lowered_digits(w, scales):
    """What the lowered program, which is interpreted, makes of columns."""
    call = call_of("column_digits", [w.shape, scales.shape], {})
    digits = np.full(call.struct_info.static_shape, 77, np.int8)
    run(lower(call), w, scales, digits)
    return digits


@pytest.mark.parametrize("shape", [(64, 32), (128, 40), (64, 5)])
def test_digits_stand_for_the_columns(shape):
    w = array(shape) * (10.0 ** np.random.default_rng(1).integers(-9, 9, shape[1])).astype(np.float32)
    w[:, 2] = 0
    _, scales = check("column_scales", [w], 1e-6, batch_axes=[None])
    np.testing.assert_allclose(scales, split_columns(w)[1], rtol=1e-6)
    for digits in (evaluate("column_digits", [w, scales]), lowered_digits(w, scales)):
        assert (np.abs(join_columns(digits, scales) - w) <= np.abs(w).max(axis=0) * 2.0 ** -22).all()
        assert not join_columns(digits, np.ones(len(digits) * 32))[:, shape[1]:].any()


def test_columns_that_are_not_finite_have_no_scale():
    w = array((64, 32))
    w[3, 0], w[63, 7], w[0, 31] = np.nan, np.inf, -np.inf
    _, scales = check("column_scales", [w], 1e-6, batch_axes=[None])
    assert np.flatnonzero(np.isnan(scales)).tolist() == [0, 7, 31]
    known = ~np.isnan(scales)
    for digits in (evaluate("column_digits", [w, scales]), lowered_digits(w, scales)):
        error = np.abs(join_columns(digits, scales) - w)[:, known]
        assert (error <= np.abs(w).max(axis=0)[known] * 2.0 ** -22).all()


@pytest.mark.parametrize("name, shapes, dtypes, message", [
    ("column_scales", [(2, 64, 32)], ["float32"], r"argument 0 must have 2 dimensions, its shape is \(2, 64, 32\)"),
    ("column_scales", [(64, Var("n", "int64"))], ["float32"], r"matrix \(64, n\) must be static"),
    ("column_scales", [(65, 32)], ["float32"], r"matrix \(65, 32\) must have columns of whole steps of 64 terms"),
    ("column_scales", [(64 * 513, 32)], ["float32"], "must have columns of whole steps of 64 terms, 32768 at most"),
    ("column_scales", [(64, 32)], ["float64"], r"matrix \(64, 32\) must be float32, not float64"),
    ("column_digits", [(64, 32), (31,)], ["float32"] * 2, r"scales \(31,\) must be of as many columns as the matrix"),
    ("column_digits", [(64, 32), (32,)], ["float32", "int8"], r"scales \(32,\) must be float32, not int8"),
])
def test_what_does_not_fit_is_refused(name, shapes, dtypes, message):
    with pytest.raises(InferError, match=message):
        call_of(name, shapes, {}, dtypes)
