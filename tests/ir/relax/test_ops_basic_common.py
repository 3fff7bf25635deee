"""Errors and helpers that all operators share."""
import pytest
from ops_basic_check import N

from ingot.ir.expr import Var, const
from ingot.ir.op import InferError
from ingot.ir.relax import RelaxVar, TensorStructInfo, call_op
from ingot.ir.relax.ops import common


def test_unknown_shape_is_an_error_that_says_what_to_do():
    x = RelaxVar("x", TensorStructInfo(None, "float32"))
    with pytest.raises(InferError, match=r"exp: argument 0 has an unknown shape; give the model's input shapes"):
        call_op("exp", x)


def test_shape_text():
    assert common.shape_text((N, const(3), N * 4)) == "(n, 3, n * 4)"
    assert common.shape_text((const(3),)) == "(3,)"
    assert common.shape_text(TensorStructInfo(None, "float32")) == "(unknown)"


def test_same_dim_sees_through_arithmetic():
    m = Var("m", "int64")
    assert common.same_dim(N + N, N * 2)
    assert not common.same_dim(N, m)
    assert not common.same_dim(N, 3)


def test_flat_and_back():
    shape = (2, 3, 4)
    indices = tuple(const(i) for i in (1, 2, 3))
    flat = common.flat_index(indices, shape)
    assert flat.value == 23
    assert [i.value for i in common.unflatten_index(flat, shape)] == [1, 2, 3]


def test_symbolic_te_shapes_keep_expressions():
    info = TensorStructInfo((N, 3), "float32")
    assert common.te_shape(info) == (N, 3)
