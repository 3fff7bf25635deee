"""Dimension inference, and inputs that nobody gave."""
import numpy as np
import pytest
from sample_network import tensor

from ingot.ir.expr import Var
from ingot.runtime.sample import sample_inputs
from ingot.runtime.shapes import InputError, TensorSpec, check_inputs, shape_text

N, M = Var("n", "int64"), Var("m", "int64")


def spec(*args):
    return TensorSpec(tensor(*args))


def zeros(*shape):
    return np.zeros(shape, np.float32)


def test_concrete_shapes():
    assert spec("x", "float32", 2 * N + 1, N // 2, M, 4).concrete({"n": 3, "m": 5}) == (7, 1, 5, 4)


def test_dimensions_are_inferred_and_compared():
    specs = [spec("a", "float32", N, 2), spec("b", "float32", M, N), spec("c", "float32", 2 * N)]
    _, values = check_inputs(specs, ("n", "m"), [zeros(3, 2), zeros(4, 3), zeros(6)])
    assert values == {"n": 3, "m": 4}
    with pytest.raises(InputError, match="input 'b': dimension n is 5, but 3 in input 'a'"):
        check_inputs(specs, ("n", "m"), [zeros(3, 2), zeros(4, 5), zeros(6)])
    with pytest.raises(InputError, match=r"input 'c': shape \(7,\), expected \(.*n.*,\)"):
        check_inputs(specs, ("n", "m"), [zeros(3, 2), zeros(4, 3), zeros(7)])


def test_a_dimension_that_no_input_has():
    with pytest.raises(InputError, match="no input has the dimension k"):
        check_inputs([spec("a", "float32", 2)], ("k",), [zeros(2)])


def test_scalars_stay_scalars():
    arrays, _ = check_inputs([spec("a", "float32")], (), [np.float32(3)])
    assert arrays[0].shape == () and shape_text(()) == "()"


def test_sample_inputs():
    descs = [tensor("ids", "int64", M, 8), tensor("x", "float32", M, 2 * N, 3), tensor("m", "bool", N)]
    feeds = sample_inputs(descs, {"n": 4})
    assert {name: (array.shape, array.dtype.name) for name, array in feeds.items()} == {
        "ids": ((1, 8), "int64"), "x": ((1, 8, 3), "float32"), "m": ((4,), "bool")}
    assert feeds["ids"].max() <= 1 and 0 <= feeds["x"].min() and feeds["x"].max() < 1
    assert all(np.array_equal(feeds[name], array) for name, array in sample_inputs(descs, {"n": 4}).items())
