"""Constants are computed where they meet, as the machine would in their dtype; what it leaves to a run stays a node."""
import math
import operator

import numpy as np
import pytest

from ingot.ir import FloatImm, IntImm, tir
from ingot.ir.arith import Analyzer
from ingot.ir.dtype import DataType
from ingot.ir.expr import Add, Broadcast, Call, Cast, Div, Let, Mul, Var, const
from ingot.ir.folding import folded, wrapped
from ingot.ir.node import structural_equal

NUMPY = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "FloorDiv": np.floor_divide, "Max": np.maximum,
         "bitwise_xor": np.bitwise_xor}


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "uint32", "uint64"])
def test_integers_wrap_around_as_in_numpy(dtype):
    info, rng = np.iinfo(dtype), np.random.default_rng(0)
    values = [info.min, info.max, *rng.integers(info.min, info.max, 6, dtype, endpoint=True)]
    for a in values:
        for b in values:
            for name, function in NUMPY.items():
                if name == "FloorDiv" and b == 0:
                    continue
                with np.errstate(over="ignore"):
                    want = function(np.array([a], dtype), np.array([b], dtype))[0]
                assert folded(name, DataType(dtype), int(a), int(b)) == want, (name, a, b)


def test_what_sizes_are_counted_in_does_not_wrap_around():
    """A sum that int32 does not hold may be computed in int64 later: int() says what 32 bits would make of it."""
    for dtype, most in (("int32", 2 ** 31 - 1), ("int64", 2 ** 63 - 1)):
        e = const(most, dtype) + const(1, dtype)
        assert isinstance(e, Add) and int(e) == -most - 1
    assert isinstance(const(1 << 20) * const(1 << 20), Mul) and int(const(1 << 20) * const(1 << 20)) == 0
    with pytest.raises(TypeError, match="x . 1 is no constant"):
        int(Var("x") + 1)
    assert wrapped(8, DataType("int4")) == -8 and wrapped(3, DataType("int1")) == 1  # 0 or 1, as TVM has it


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_floats_round_as_in_numpy(dtype):
    kind = DataType(dtype).numpy
    values = [1.0, -3.0, 0.55, 1 / 3, 3e4, 0.0, math.inf]
    for a in values:
        for b in values:
            for function in (operator.add, operator.sub, operator.mul, operator.truediv):
                if function is operator.truediv and b == 0:
                    continue
                with np.errstate(all="ignore"):
                    want = function(np.array(a).astype(kind), np.array(b).astype(kind))
                got = function(const(a, dtype), const(b, dtype))
                assert isinstance(got, FloatImm) and got.dtype == dtype
                np.testing.assert_array_equal(float(np.array(got.value).astype(kind)), float(want))
    assert str(const(3.0) + const(0.55)) == "T.float32(3.5499999999999998)"  # as TVM prints doubles


@pytest.mark.parametrize("shift", [operator.lshift, operator.rshift])
def test_shifts_that_no_machine_has_are_left_to_a_run(shift):
    """By more bits than there are, or by less than 0; Python would want the memory for so many bits."""
    for dtype, by in (("int32", -1), ("int32", 32), ("uint8", 8), ("int64", 1 << 62), ("uint64", (1 << 64) - 1)):
        call = shift(const(3, dtype), const(by, dtype))
        assert isinstance(call, Call) and structural_equal(Analyzer().rewrite_simplify(call), call)
    assert shift(const(64, "uint8"), const(2, "uint8")).value == shift(64, 2) % 256


def test_what_floats_leave_to_a_run():
    nan = const(math.nan)
    assert isinstance(const(1.0) / 0.0, Div)
    assert not isinstance(tir.min(nan, 1.0), FloatImm) and not isinstance(tir.max(const(0.0), -0.0), FloatImm)
    assert (const(1.0) < 2.0).value and not (nan < 2.0).value


def test_functions_of_constants():
    assert [f(const(2.5)).value for f in (tir.floor, tir.ceil, tir.round, tir.trunc, tir.nearbyint)] == [2, 3, 2, 2, 2]
    assert tir.abs(const(-1.5, "float16")).value == 1.5 and not isinstance(tir.exp(const(1.0)), FloatImm)
    x = const(112)
    assert ((x | 128) ^ 10).value == 250 and (x & 138).value == 0 and (x << 2).value == 448 and (x >> 3).value == 14
    assert not isinstance(const(1) << 31, IntImm) and (const(1, "uint8") << 7).value == 128


def test_casts_of_constants():
    assert const(3.9).astype("int32").value == 3 and const(-3.9).astype("int8").value == -3
    assert isinstance(const(300.0).astype("int8"), Cast) and isinstance(const(math.inf).astype("int32"), Cast)
    lanes = const(1, "int32x4").astype("float32x4")
    assert isinstance(lanes, Broadcast) and isinstance(lanes.value, FloatImm)
    with pytest.raises(TypeError, match="cannot cast a handle"):
        tir.StringImm("s").astype("int32")


def test_conditions_are_bools():
    x, on = Var("x"), Var("on", "bool")
    for call in (lambda: tir.all(on, x), lambda: tir.any(const(1), on), lambda: tir.if_then_else(x, 1, 2)):
        with pytest.raises(TypeError, match="takes conditions, not .*int32: compare it"):
            call()
    assert tir.if_then_else(True, x, 1.5).dtype == "float32" and tir.if_then_else(False, x, 3).value == 3
    with pytest.raises(RuntimeError, match="bitwise_not takes integers"):
        ~const(1.5)


def test_operands_of_floats_widen():
    half, double = Var("h", "float16"), Var("d", "float64")
    assert (half + const(1.0)).dtype == "float16" and (half + Var("x", "float32")).dtype == "float32"
    assert (half * double).a.dtype == "float64" and tir.pow(half, double).dtype == "float64"


def test_a_variable_is_given_a_value_of_its_dtype():
    for dtype, value in (("int8", "int16"), ("float32", "float64"), ("int32", "float32"), ("uint8", "int8")):
        with pytest.raises(TypeError, match=f"x is of {dtype}, its value y of {value}: cast one of them"):
            Let(Var("x", dtype), Var("y", value), const(0))
    with pytest.raises(TypeError, match="the name of a variable is a string, not 1"):
        Var(1, "int32")
