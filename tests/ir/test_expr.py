"""Building expressions: dtypes match, immediates fold, and misuse says what to do."""
import ml_dtypes
import numpy as np
import pytest

from ingot.ir import tir
from ingot.ir.dtype import DataType
from ingot.ir.expr import (EQ, Add, Broadcast, Call, Cast, Div, FloatImm, FloorDiv, FloorMod, IntImm, Mul, Op, Ramp,
                           Sub, Var, as_expr, cast, const, is_const_int, logical_and, logical_or, match_dtype,
                           substitute)
from ingot.ir.node import structural_equal

I, J = Var("i"), Var("j")
N = Var("n", "int64")
X = Var("x", "float32")


# ---------------------------------------------------------------- dtypes

@pytest.mark.parametrize("text, code, bits, lanes, size", [
    ("float32", "float", 32, 1, 4), ("int8", "int", 8, 1, 1), ("bool", "bool", 8, 1, 1),
    ("float16x8", "float", 16, 8, 16),
    ("handle", "handle", 64, 1, 8), ("boolx4", "bool", 8, 4, 4), ("int4", "int", 4, 1, 1), ("void", "void", 0, 1, 0)])
def test_parts_of_a_dtype(text, code, bits, lanes, size):
    d = DataType(text)
    assert (d.code, d.bits, d.lanes, d.bytes) == (code, bits, lanes, size)
    assert d == text and d.element.with_lanes(lanes) == d


def test_a_kind_of_number_alone_has_32_bits():
    assert [DataType(text) for text in ("float", "int", "uint")] == ["float32", "int32", "uint32"]


@pytest.mark.parametrize("text", ["int3", "f32", "float32x", "boolean", "int32y4"])
def test_unknown_dtypes_are_refused(text):
    with pytest.raises(ValueError, match="unknown dtype"):
        DataType(text)


def test_ranges_of_dtypes():
    assert DataType("int8").min_value() == -128 and DataType("uint8").max_value() == 255
    assert DataType("float32").min_value() == float("-inf")
    assert tir.min_value("float32").value == float("-inf") and tir.max_value("int32").value == 2**31 - 1


def test_numpy_dtypes():
    assert DataType("float16x4").numpy == np.float16
    assert DataType("bfloat16").numpy == ml_dtypes.bfloat16 and DataType("int4").numpy == ml_dtypes.int4
    with pytest.raises(ValueError, match="numpy has no dtype for handle"):
        DataType("handle").numpy


# ---------------------------------------------------------------- building

@pytest.mark.parametrize("e, cls, dtype", [
    (I + J, Add, "int32"), (I // J, FloorDiv, "int32"), (I % J, FloorMod, "int32"), (X / 2, Div, "float32"),
    (1 - X, Sub, "float32"), (2 * I, Mul, "int32"), (-I, Sub, "int32"), (I < J, tir.LT, "bool"),
    (I >= 3, tir.GE, "bool"),
    (I.astype("float32"), Cast, "float32"), (tir.max(I, 1), tir.Max, "int32"), (tir.truncdiv(I, 2), Div, "int32"),
    (tir.exp(X), tir.Call, "float32"), (tir.isnan(X), tir.Call, "bool"),
    (tir.if_then_else(I < 1, X, 0.0), tir.Call, "float32"),
    (Ramp(I, const(1), 4), Ramp, "int32x4"), (Ramp(I, const(1), 4) < 3, tir.LT, "boolx4")])
def test_operators_build_nodes(e, cls, dtype):
    assert isinstance(e, cls) and e.dtype == dtype


def test_python_numbers_take_the_other_sides_dtype():
    assert (N + 1).b.dtype == "int64" and (X * 2).b.dtype == "float32" and (2.5 * X).a.value == 2.5
    assert isinstance((X + 1).b, FloatImm)


def test_numpy_numbers_become_immediates():
    assert (I + np.int64(3)).b.dtype == "int32" and as_expr(np.float32(0.5)).dtype == "float32"


def test_int32_widens_to_int64():
    e = I + N
    assert e.dtype == "int64" and isinstance(e.a, Cast) and e.b is N


def test_integers_convert_to_float():
    assert isinstance((I * X).a, Cast) and (I * X).dtype == "float32"


def test_lanes_broadcast():
    e = Ramp(I, const(1), 8) * 2
    assert isinstance(e.b, Broadcast) and e.dtype == "int32x8"
    assert const(1.0, "float32x4").dtype == "float32x4"


@pytest.mark.parametrize("build, value", [
    (lambda: const(7) // const(-2), -4), (lambda: const(7) % const(-2), -1),
    (lambda: tir.truncdiv(const(-7), const(2)), -3),
    (lambda: tir.truncmod(const(-7), const(2)), -1), (lambda: const(3) - 5, -2), (lambda: tir.max(const(3), 5), 5),
    (lambda: const(3) < 5, 1), (lambda: I * 0, 0), (lambda: I % 1, 0), (lambda: cast(const(3), "int64"), 3)])
def test_immediates_fold(build, value):
    assert is_const_int(build(), value)


@pytest.mark.parametrize("build", [lambda: I + 0, lambda: 0 + I, lambda: I - 0, lambda: I * 1, lambda: 1 * I,
    lambda: I // 1])
def test_neutral_elements_vanish(build):
    assert build() is I


def test_float_arithmetic_does_not_fold():
    assert isinstance(X + 0.0, Add) and isinstance(X * 1.0, Mul)


def test_connectives_fold_constants():
    c = I < J
    assert logical_and(const(True), c) is c and logical_or(c, const(False)) is c
    assert is_const_int(logical_and(c, const(False)), 0) and is_const_int(logical_or(const(True), c), 1)


def test_cast_keeps_what_does_not_fit():
    assert isinstance(cast(const(300), "int8"), Cast) and cast(I, "int32") is I


def test_const_chooses_a_dtype():
    assert [const(v).dtype for v in (True, 1, 1 << 40, 1.5)] == ["bool", "int32", "int64", "float32"]


def test_substitute_shares_what_it_does_not_touch():
    left = J * 3
    e = substitute(left + I, {I: const(2)})
    assert e.a is left and structural_equal(e.b, const(2))
    assert substitute(left, {I: J}) is left


@pytest.mark.parametrize("left, right, both", [
    ("bool", "int32", "int32"), ("bool", "float16", "float16"), ("uint32", "int8", "uint32"),
    ("int64", "uint32", "int64"),
    ("int32", "uint32", "uint32"), ("uint8", "float32", "float32")])
def test_operands_meet_in_one_dtype(left, right, both):
    a, b = Var("a", left), Var("b", right)
    for made in ((a + b), (b + a)):
        assert made.dtype == made.a.dtype == made.b.dtype == both


def test_the_dtype_of_a_constant():
    for value in (np.uint8(1), np.int64(1), np.float16(1), np.float64(1), np.bool_(True)):
        assert const(value).dtype == str(value.dtype) and const(value).value == value
    assert const(3.5e38).dtype == "float64" and const(-3.4e38).dtype == const(float("inf")).dtype == "float32"
    spread = Var("x", "int32").astype("float32x4")
    assert isinstance(spread, Broadcast) and spread.dtype == "float32x4" and isinstance(spread.value, Cast)
    assert Call("int32", "tir.call_extern", ()).op.same_as(Op.get("tir.call_extern"))
    assert all(getattr(tir, f)(I) is I for f in ("floor", "ceil", "round", "trunc", "nearbyint"))  # whole already
    assert is_const_int(tir.isnan(I), 0) and tir.isinf(Var("v", "int8x4")).dtype == "boolx4"
    assert str(tir.decl_buffer((4, 8), elem_offset=3).offset_of([I, 2])[0]) == "i * 8 + 5"


# ---------------------------------------------------------------- Python's view of expressions

def test_equality_builds_a_node_and_asks_for_identity():
    assert isinstance(I == J, EQ)
    assert (I == I) and not (I == J) and (I != J)
    assert I in [J, I] and len({I, J, I}) == 2


@pytest.mark.parametrize("build, error, message", [
    (lambda: bool(I < J), ValueError, "no truth value"),
    (lambda: I / J, TypeError, "ambiguous: use `//`"),
    (lambda: 2 / I, TypeError, "ambiguous: use `//`"),
    (lambda: I // 0, ZeroDivisionError, "FloorDiv by zero"),
    (lambda: match_dtype(I, Var("h", "handle")), TypeError, "operands of different dtype: int32 and handle; cast one"),
    (lambda: FloatImm("int32", 1.0), TypeError, "FloatImm takes a dtype of floats, not int32"),
    (lambda: I + object(), TypeError, "unsupported operand"),
    (lambda: as_expr([1]), TypeError, "cannot make an expression of a list"),
    (lambda: tir.decl_buffer((2, 2))[I], IndexError, "has 2 dimensions, indexed with 1")])
def test_misuse_is_named(build, error, message):
    with pytest.raises(error, match=message):
        build()


def test_int_immediates_are_indices():
    assert [10, 20, 30][IntImm("int32", 1)] == 20


def test_what_has_an_effect_is_computed():
    called = tir.call_extern("int32", "next", 1)
    for e in (called * 0, 0 * called, called % 1):
        assert isinstance(e, (Mul, FloorMod)) and called in (e.a, e.b)
    assert is_const_int(I * 0, 0) and is_const_int(0 * I, 0) and is_const_int(I % 1, 0)
