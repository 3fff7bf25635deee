"""Struct infos compared, joined and erased; functions that are reshapes."""
import copy
import pickle

import pytest

from ingot import relax, tir
from ingot.ir.node import load_json, save_json
from ingot.relax import FuncStructInfo, ObjectStructInfo, PrimStructInfo, ShapeStructInfo, TensorStructInfo
from ingot.relax.analysis import (BaseCheckResult, erase_to_well_defined, has_reshape_pattern, struct_info_base_check,
                                  struct_info_lca)
from ingot.script import relax as R, tir as T

n, m = tir.Var("n", "int64"), tir.Var("m", "int64")
TENSOR = TensorStructInfo((n, 4), "float32")


@pytest.mark.parametrize("base, derived, result", [
    (ObjectStructInfo(), TENSOR, "PASS"), (TENSOR, ObjectStructInfo(), "FAIL_L1"),
    (TensorStructInfo(None, "float32", 2), TENSOR, "PASS"), (TENSOR, TensorStructInfo(None, "float32", 2), "FAIL_L2"),
    (TENSOR, TensorStructInfo((n, 5), "float32"), "FAIL_L0"), (TENSOR, TensorStructInfo((m, 4), "float32"), "FAIL_L2"),
    (PrimStructInfo("int64"), PrimStructInfo(value=n), "PASS"),
    (FuncStructInfo.opaque_func(), FuncStructInfo([TENSOR], TENSOR), "PASS"),
])
def test_base(base, derived, result):
    assert struct_info_base_check(base, derived) == BaseCheckResult[result]
    assert base.is_base_of(derived) == (result == "PASS")


@pytest.mark.parametrize("a, b, both", [
    (TENSOR, TensorStructInfo((m, 4), "float32"), TensorStructInfo(None, "float32", 2)),
    (TENSOR, TensorStructInfo((n, 4), "int8"), TensorStructInfo((n, 4), "void")),
    (TENSOR, ShapeStructInfo((n,)), ObjectStructInfo()),
    (PrimStructInfo(value=n), PrimStructInfo(value=m), PrimStructInfo("int64")),
])
def test_what_two_have_in_common(a, b, both):
    assert struct_info_lca(a, b) == both == struct_info_lca(b, a)


def test_unknown_variables_are_erased():
    assert erase_to_well_defined(TENSOR) == TensorStructInfo(None, "float32", 2)
    assert erase_to_well_defined(TENSOR, {n: m + 1}) == TensorStructInfo((m + 1, 4), "float32")


def test_functions_and_values_are_saved_and_printed():
    info = FuncStructInfo([TENSOR], PrimStructInfo(value=n))
    assert load_json(save_json(ObjectStructInfo())) == ObjectStructInfo()
    assert str(info) == 'R.Callable((R.Tensor((n, 4), dtype="float32"),), R.Prim(value=n), True)'
    shape = relax.Var("s", ShapeStructInfo(ndim=2))
    assert str(TensorStructInfo(shape, "int8")) == 'R.Tensor(s, dtype="int8")'


def _copy(columns, moved):
    @T.prim_func
    def func(A: T.Buffer((4, 6), "float32"), B: T.Buffer((24 // columns, columns), "float32")):
        for i, j in T.grid(24 // columns, columns):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[(vi * columns + vj + moved) // 6 % 4, (vi * columns + vj + moved) % 6]
    return func


def test_reshapes_are_told():
    assert has_reshape_pattern(_copy(3, 0)) and has_reshape_pattern(_copy(8, 0))
    assert not has_reshape_pattern(_copy(3, 1))


@pytest.mark.parametrize("dim", [tir.Var("half", "float32"), 2.5])
@pytest.mark.parametrize("info", [TensorStructInfo, ShapeStructInfo, relax.ShapeExpr])
def test_dimensions_are_integers(info, dim):
    with pytest.raises(TypeError, match="can only have dtype of int64, .* is float32"):
        info([dim])


def test_a_description_outside_a_script_stands_for_what_it_describes():
    told, info = R.Tensor((2, 3), "float32"), TensorStructInfo((2, 3), "float32")
    assert told == info and info == told and info != R.Tensor((2, 4), "float32") and info != 3
    assert told.dtype == "float32" and told.ndim == 2 and R.Tuple(told, told).fields == (info, info)
    with pytest.raises(AttributeError, match="has no size"):
        told.size
    assert copy.deepcopy(told) == pickle.loads(pickle.dumps(told)) == info
