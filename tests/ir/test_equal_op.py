"""Python's `==` of expressions that have no dtype together: containers find by identity, expressions say why not."""
import pytest

from ingot.ir import tir
from ingot.ir.expr import Select, Var, cast


def test_containers_hold_variables_of_any_dtype():
    values = [Var("h", "handle"), Var("n"), Var("v", "float32x4"), Var("w", "float32x8")]
    for k, v in enumerate(values):
        assert v in values and v not in values[k + 1:] and values.index(v) == k and values.count(v) == 1
        assert all((v == u) is not None and bool(v != u) == (v is not u) for u in values)


def test_what_takes_an_expression_says_why():
    h, n = Var("h", "handle"), Var("n")
    for use in (lambda e: tir.all(e, n == 1), lambda e: tir.if_then_else(e, 1, 2), lambda e: e.dtype,
                lambda e: Select(e, n, n).condition.dtype):
        with pytest.raises(TypeError, match="operands of different dtype: handle and int32"):
            use(h == n)
    with pytest.raises(TypeError, match="different lanes: int32x4 and int32x8"):
        Var("v", "int32x4") + Var("w", "int32x8")
    with pytest.raises(TypeError, match="cannot cast int32x4 to int8x8: the lanes stay as many"):
        cast(Var("v", "int32x4"), "int8x8")
