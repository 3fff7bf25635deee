"""The table of intrinsics: one row is enough for script, tir, te, numpy's evaluation, vectors and C."""
from pathlib import Path

import numpy as np
import pytest
from interp import run

import ingot
from ingot import te, tir, tvm
from ingot.codegen.c_types import USED
from ingot.ir.tir.intrinsics import (BIT_INTRINSICS, HALF_DOTS, INTEGER_INTRINSICS, INTRINSICS, SCALAR_INTRINSICS,
                                     SERIES, VECTOR_CALLS, VECTOR_CALLS_OF_INTEGERS)
from ingot.script import tir as T

SIMD = Path(ingot.__file__).parent / "runtime_c" / "simd"


@pytest.mark.parametrize("name", SCALAR_INTRINSICS)
def test_a_row_has_a_builder_and_a_name_in_script(name):
    row = SCALAR_INTRINSICS[name]
    dtype = "int32" if name in INTEGER_INTRINSICS else "float32"
    dtypes = row.operands or (dtype,) * (row.arity - row.integers)
    floats = [tir.Var(f"x{n}", of or dtype) for n, of in enumerate(dtypes)]
    call = getattr(tir, name)(*floats, *[0] * (row.arity - len(floats)))
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
    scalar, math, integer, half = ((SIMD / file).read_text() for file in (
        "scalar.h", "math.h", "../simd_integer.h", "../simd_half.h"))
    own = integer if name in VECTOR_CALLS_OF_INTEGERS else half if name in HALF_DOTS else scalar + math
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


def test_what_math_h_takes():
    x, n = tir.Var("x", "float16"), tir.Var("n", "int64")
    with pytest.raises(TypeError, match="nextafter takes float32 or float64, not float16"):
        tir.nextafter(x, 1)
    with pytest.raises(TypeError, match="ldexp takes a number, int32, not float32, int64"):
        tir.ldexp(tir.Var("y", "float32"), n)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_neighbours_and_powers_of_two(dtype):
    @T.prim_func
    def f(A: T.Buffer((6,), dtype), n: T.Buffer((6,), "int32"), B: T.Buffer((6,), dtype), C: T.Buffer((6,), dtype)):
        for i in range(6):
            with T.block("b"):
                v = T.axis.spatial(6, i)
                B[v] = T.ldexp(A[v], n[v])
                C[v] = T.nextafter(A[v], T.Cast(dtype, 1))

    a, n = np.array([1, -2.5, 0, np.inf, 1e-40, 3e38], dtype), np.array([3, -200, 7, 1, -2, 2147483647], "int32")
    with np.errstate(over="ignore"):
        expected = np.ldexp(a, n), np.nextafter(a, a.dtype.type(1))
        found = np.zeros((2, 6), dtype)
        run(f, a, n, *found)
    np.testing.assert_array_equal(found, expected)
    args = [tvm.nd.array(x) for x in (a, n, *np.zeros((2, 6), dtype))]
    tvm.build(f, target="c")(*args)
    np.testing.assert_array_equal([x.numpy() for x in args[2:]], expected)
