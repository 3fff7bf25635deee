"""Every dtype: its parts, immediates (rounded, held to their range), casts, JSON, script and the interpreter."""
import math

import ml_dtypes
import numpy as np
import pytest
from interp import run

from ingot.ir import tir
from ingot.ir.dtype import DataType
from ingot.ir.expr import Broadcast, Cast, FloatImm, IntImm, Var, cast, const
from ingot.ir.node import load_json, save_json, structural_equal
from ingot.ir.script.functions import from_source
from ingot.ir.tir.stmt import BufferStore, for_

INTS = [f"{u}int{b}" for u in ("", "u") for b in (1, 2, 4, 8, 16, 32, 64) if (u, b) != ("u", 1)]
SMALL_FLOATS = ["float8_e4m3fn", "float8_e5m2", "float16", "bfloat16"]
DTYPES = [*INTS, *SMALL_FLOATS, "float32", "float64", "bool"]


@pytest.mark.parametrize("text, same", [
    ("e4m3_float8", "float8_e4m3fn"), ("e5m2_float8", "float8_e5m2"), ("uint1", "bool"), ("uint1x4", "boolx4"),
    ("e5m2_float8x8", "float8_e5m2x8")])
def test_older_spellings(text, same):
    assert DataType(text) is DataType(same) and str(DataType(text)) == same


@pytest.mark.parametrize("text", ["float8", "float8_e4m3", "int7", "int128", "voidx4", "float32x0", "x4",
                                  "float32x4x4"])
def test_no_dtypes(text):
    with pytest.raises(ValueError, match="unknown dtype"):
        DataType(text)


@pytest.mark.parametrize("name", DTYPES)
def test_parts_and_vectors(name):
    d = DataType(name)
    v = d.with_lanes(4)
    assert v == f"{name}x4" and v.element is d and v.lanes == 4 and v.bytes == 4 * d.bytes and v.bits == d.bits
    assert (d.is_int, d.is_float, d.is_bool) == (name in INTS, "float" in name, name == "bool")
    expected = getattr(ml_dtypes, name) if name in ("int2", "int4", "uint2", "uint4", *SMALL_FLOATS) and \
        name != "float16" else None
    if name != "int1":
        assert d.numpy == (np.dtype(expected) if expected else np.dtype(name))


@pytest.mark.parametrize("name", INTS)
def test_integers_keep_their_range(name):
    d = DataType(name)
    for value in (d.min_value(), d.max_value()):
        assert const(value, d).value == value
    for value in (d.min_value() - 1, d.max_value() + 1):
        with pytest.raises(ValueError, match=f"{value} is out of the range of {name}"):
            IntImm(d, value)
        assert not d.holds(value)


@pytest.mark.parametrize("name, value, rounded", [
    ("float16", 0.1, 0.0999755859375), ("bfloat16", 0.1, 0.10009765625), ("float8_e4m3fn", 0.1, 0.1015625),
    ("float8_e5m2", 0.1, 0.09375), ("float32", 0.1, 0.1), ("float64", 0.1, 0.1), ("float16", 65519.0, 65504.0),
    ("float8_e4m3fn", 448, 448.0)])
def test_floats_are_rounded(name, value, rounded):
    assert FloatImm(name, value).value == rounded


@pytest.mark.parametrize("name, value", [("float16", 65520.0), ("bfloat16", 3.4e38), ("float8_e4m3fn", 500.0),
                                         ("float8_e5m2", -61440.0), ("float8_e4m3fn", math.inf)])
def test_floats_out_of_range(name, value):
    with pytest.raises(ValueError, match=f"is out of the range of {name}"):
        const(value, name)
    kept = cast(const(value, "float64"), name)
    assert isinstance(kept, Cast), "the conversion is left to run time"


def test_infinities_and_nan():
    assert const(math.inf, "float8_e5m2").value == math.inf and math.isnan(const(math.nan, "float8_e4m3fn").value)
    assert tir.min_value("float8_e4m3fn").value == -448 and tir.max_value("bfloat16").value == math.inf


def test_arithmetic_meets_in_one_dtype():
    x, n = Var("x", "bfloat16"), Var("n", "int8")
    assert (x * 2).dtype == "bfloat16" and (n + 100).dtype == "int8"
    with pytest.raises(ValueError, match="300 is out of the range of int8"):
        n + 300
    assert (n + const(300)).dtype == "int32"
    big = const(2**31 - 1) + const(1)
    assert isinstance(big, tir.Add), "a sum that int32 does not hold is not folded"


@pytest.mark.parametrize("name", DTYPES)
def test_script_and_json(name):
    value = 1
    buffer = tir.decl_buffer((4,), name, "A")
    stores = [BufferStore(buffer, const(value, name), (const(0),)),
              BufferStore(buffer, Cast(name, Var("y", "float32")), (const(1),)),
              BufferStore(buffer, const(value, f"{name}x2"), (tir.Ramp(const(2), const(1), 2),))]
    y = stores[1].value.value
    func = tir.prim_func([buffer, y], tir.SeqStmt(tuple(stores)))
    assert isinstance(stores[2].value, Broadcast) and f'T.Cast("{name}", y)' in str(func)
    assert structural_equal(from_source(str(func)), func)
    assert structural_equal(load_json(save_json(func)), func)


def test_arrays_of_small_floats_in_json_and_script():
    table = np.array([[1.5, -0.25]]).astype(ml_dtypes.bfloat16)
    func = tir.prim_func([], tir.Evaluate(const(0))).with_attr("table", table)
    assert structural_equal(load_json(save_json(func)), func)


@pytest.mark.parametrize("source", ["float32", "int32"])
@pytest.mark.parametrize("name", [d for d in DTYPES if d not in ("int1", "int64", "uint64", "uint32")])
def test_interpreted_casts(source, name):
    """Through `name` and back, as numpy and ml_dtypes convert."""
    i = Var("i")
    a, b = tir.decl_buffer((5,), source, "A"), tir.decl_buffer((5,), name, "B")
    c = tir.decl_buffer((5,), source, "C")
    body = for_(i, 5, tir.SeqStmt((BufferStore(b, Cast(name, a[i]), (i,)), BufferStore(c, Cast(source, b[i]), (i,)))))
    x = np.array([0, 1, 1, 0, 1] if "2" in name or name == "bool" else [0, 1, 3, 7, 2.3], source)
    low, out = np.zeros(5, DataType(name).numpy), np.zeros(5, source)
    run(tir.prim_func([a, b, c], body), x, low, out)
    want = x.astype(DataType(name).numpy)
    np.testing.assert_array_equal(low.astype("float32"), want.astype("float32"))
    np.testing.assert_array_equal(out, want.astype(source))


def test_interpreted_arithmetic_rounds_after_every_step():
    i = Var("i")
    a, b = (tir.decl_buffer((7,), "bfloat16", n) for n in "AB")
    func = tir.prim_func([a, b], for_(i, 7, BufferStore(b, tir.exp(a[i]) * a[i] + 0.1, (i,))))
    x = np.linspace(-2, 2, 7).astype(ml_dtypes.bfloat16)
    out = np.zeros(7, ml_dtypes.bfloat16)
    run(func, x, out)
    want = np.exp(x) * x + ml_dtypes.bfloat16(0.1)
    np.testing.assert_array_equal(out.astype("float32"), want.astype("float32"))


def test_bytes_of_a_dtype():
    assert [DataType(d).itemsize() for d in ("float32x4", "float8_e5m2x4", "bool")] == [16, 4, 1]
    lanes = tir.Ramp(0, 1, 11 * tir.vscale()).lanes
    assert lanes.b == lanes.factor == 11 and lanes.a is tir.vscale()
    with pytest.raises(ValueError, match="int32xvscalex4 has is not known before a run"):
        DataType("int32xvscalex4").itemsize()


def test_what_rounds_to_an_infinity_is_out_of_range():
    for value in (3.402e39, -3.5e38):
        with pytest.raises(ValueError, match="out of the range of float32"):
            FloatImm("float32", value)
    assert FloatImm("float32", 3.4028235e38).value == 3.4028235e38 and FloatImm("float32", float("inf")).value > 1e300
