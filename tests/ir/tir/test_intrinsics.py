"""The table of intrinsics: one row is enough for script, tir, te, numpy's evaluation, vectors and C."""
from pathlib import Path

import numpy as np
import pytest

import ingot
from ingot import te, tir
from ingot.codegen.c_types import USED
from ingot.ir.tir.intrinsics import (BIT_INTRINSICS, INTEGER_INTRINSICS, INTRINSICS, SCALAR_INTRINSICS, SERIES,
                                     VECTOR_CALLS, VECTOR_CALLS_OF_INTEGERS)
from ingot.script import tir as T

SIMD = Path(ingot.__file__).parent / "runtime_c" / "simd"


@pytest.mark.parametrize("name", SCALAR_INTRINSICS)
def test_a_row_has_a_builder_and_a_name_in_script(name):
    row = SCALAR_INTRINSICS[name]
    dtype = "int32" if name in INTEGER_INTRINSICS else "float32"
    floats = [tir.Var(f"x{n}", dtype) for n in range(row.arity - row.integers)]
    call = getattr(tir, name)(*floats, *[0] * row.integers)
    assert call.op == "tir." + name and call.dtype == (row.result or floats[0].dtype)
    assert hasattr(T, name) and (name not in INTRINSICS or getattr(te, name) is getattr(tir, name))


@pytest.mark.parametrize("name", INTRINSICS)
def test_floats_print_in_c_or_are_what_does(name):
    row = INTRINSICS[name]
    if name not in ("isnan", "isinf"):  # macros of math.h for any float
        assert all(f"c {dtype}" in row.spellings or row.expand for dtype in ("float32", "float64"))
    assert all(s.startswith("ingot_") or "{}" in s or s in USED for s in row.spellings.values())


@pytest.mark.parametrize("name", sorted(VECTOR_CALLS))
def test_vector_forms_are_in_simd_h(name):
    scalar, math, integer = ((SIMD / file).read_text() for file in ("scalar.h", "math.h", "../simd_integer.h"))
    own = integer if name in VECTOR_CALLS_OF_INTEGERS else scalar + math
    assert f"_{name}(" in own or f", {name})" in scalar or f"T##_{name}(" in integer


@pytest.mark.parametrize("name", [name for name, row in INTRINSICS.items() if row.expand])
def test_what_expands_is_what_numpy_evaluates(name):
    """In float64, where C has no function of its own."""
    x, values = tir.Var("x", "float64"), np.linspace(0.1, 4, 40) * (1 if name == "rsqrt" else np.tile([-1, 1], 20))
    got = [_evaluate(INTRINSICS[name].expand(x), x, value) for value in values]
    np.testing.assert_allclose(got, INTRINSICS[name].numpy(values), rtol=1e-12)


def _evaluate(e, var, value):
    """A number for an expression of one variable."""
    if e is var:
        return value
    if hasattr(e, "value"):
        return np.float64(e.value)
    if hasattr(e, "op"):
        return INTRINSICS[e.op.removeprefix("tir.")].numpy(*(_evaluate(a, var, value) for a in e.args))
    a, b = _evaluate(e.a, var, value), _evaluate(e.b, var, value)
    return {"Add": np.add, "Mul": np.multiply, "Div": np.divide, "Max": np.maximum}[type(e).__name__](a, b)


def test_work():
    assert INTRINSICS["exp"].cost == SERIES and INTRINSICS["fma"].cost == 2 and BIT_INTRINSICS["fixed"].cost == 0
    assert INTRINSICS["gelu"].is_costly and not INTRINSICS["abs"].is_costly
