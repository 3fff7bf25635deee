"""Reductions: interpreted lowering against the numpy reference."""
import numpy as np
import pytest
from ops_basic_check import N, call_of, check, floats, interpret, ints, lower

from ingot.ir.node import collect
from ingot.ir.op import InferError
from ingot.ir.relax.ops import reduce
from ingot.ir.tir import Block

X = floats(2, 3, 4, low=-1.5, high=1.5)
FIRST = {(0, 0): N}


@pytest.mark.parametrize("row", reduce.ROWS, ids=lambda r: r[0])
@pytest.mark.parametrize("axis", [None, 1, (-1,), (0, 2), (0, 1, 2), ()])
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions(row, axis, keepdims):
    attrs = {"axis": axis, "keepdims": keepdims}
    result, = check(row[0], X, attrs=attrs, symbolic=FIRST)
    check(row[0], ints(2, 3, 4), attrs=attrs)
    numpy_axis = tuple(axis) if isinstance(axis, tuple) else axis
    np.testing.assert_allclose(result, getattr(np, row[0])(X, axis=numpy_axis, keepdims=keepdims), rtol=1e-5)


def test_mean_of_integers_truncates():
    assert check("mean", np.array([[1, 2], [-1, -2]], np.int32), attrs={"axis": 1})[0].tolist() == [1, -1]


def test_half_precision_accumulates_in_single():
    check("sum", floats(4, 8).astype(np.float16), attrs={"axis": 1}, tolerance=1e-3)
    check("mean", floats(4, 8).astype(np.float16), attrs={"axis": 1}, tolerance=1e-3)


def test_extremes_of_booleans():
    x = np.array([[True, False], [False, False]])
    assert check("max", x, attrs={"axis": 1})[0].tolist() == [True, False]
    assert check("min", x, attrs={"axis": 1})[0].tolist() == [False, False]


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("last", [False, True])
def test_arg_reductions(name, axis, last):
    ties = ints(2, 3, 4, low=0, high=3)
    for x in (X, ties):
        for keepdims in (False, True):
            check(name, x, attrs={"axis": axis, "keepdims": keepdims, "select_last_index": last}, symbolic=FIRST)


def test_arg_reduction_of_nan_stays_in_range():
    x = np.array([[1.0, np.nan, 0.5]], np.float32)
    call = call_of("argmax", [x], {"axis": 1})
    out, = interpret(call, [x], [np.zeros(1, np.int64)])
    assert 0 <= out[0] < 3


def test_stages_of_mean():
    func = lower(call_of("mean", [X], {"axis": 1}))
    assert [b.name_hint for b in collect(func, Block)][:2] == ["mean_sum", "mean"]


@pytest.mark.parametrize("name, args, attrs, message", [
    ("sum", [X], {"axis": 3}, r"sum: axis 3 is outside a tensor of 3 dimensions"),
    ("sum", [X], {"axis": (1, -2)}, r"sum: axes \(1, -2\) name one axis twice"),
    ("sum", [X > 0], {}, r"sum: takes a tensor of numbers, got bool"),
    ("max", [np.zeros((2, 0), np.float32)], {"axis": 1}, r"max: nothing to choose from: \(2, 0\) is empty .* 1"),
    ("argmax", [np.zeros((2, 0), np.float32)], {"axis": 1}, r"argmax: nothing to choose from"),
    ("argmin", [X > 0], {"axis": 0}, r"argmin: takes a tensor of numbers"),
])
def test_errors(name, args, attrs, message):
    with pytest.raises(InferError, match=message):
        call_of(name, args, attrs)
