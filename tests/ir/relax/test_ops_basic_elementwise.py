"""Elementwise and broadcasting operators: interpreted lowering against the numpy reference."""
import numpy as np
import pytest
from ops_basic_check import N, call_of, check, evaluate, floats, infos, ints, lower

from ingot.ir import op as op_table
from ingot.ir.expr import Var
from ingot.ir.op import InferError
from ingot.ir.relax.ops import broadcast, elementwise

FIRST_SYMBOLIC = {(0, 0): N}
DOMAINS = {"log": (0.1, 4), "sqrt": (0, 4), "rsqrt": (0.1, 4), "asin": (-1, 1), "acos": (-1, 1), "acosh": (1, 4),
           "atanh": (-0.9, 0.9), "tan": (-1.2, 1.2)}


@pytest.mark.parametrize("row", elementwise.ROWS, ids=lambda r: r[0])
def test_elementwise(row):
    name, dtypes = row[:2]
    low, high = DOMAINS.get(name, (-3, 3))
    x = floats(2, 3, 5, low=low, high=high)
    check(name, {"bool": x > 0, "int": ints(2, 3, 5)}.get(dtypes, x), symbolic=FIRST_SYMBOLIC)
    if dtypes == "number":
        check(name, ints(3, 4), symbolic=FIRST_SYMBOLIC)


@pytest.mark.parametrize("name, attrs", [
    ("nn.leaky_relu", {"alpha": 0.2}), ("nn.elu", {"alpha": 1.7}), ("nn.gelu", {"approximate": "tanh"}),
    ("nn.hard_sigmoid", {"alpha": 0.3, "beta": 0.4}), ("clip", {"min": -1.0, "max": 0.5}), ("clip", {"max": 1.0}),
    ("clip", {"min": 2.0, "max": 1.0})])
def test_attributes_of_elementwise(name, attrs):
    check(name, floats(4, 7), attrs=attrs)


def test_scalars_and_empty_tensors():
    check("exp", np.array(0.5, np.float32))
    check("add", np.array(2, np.float32), floats(2, 3))
    assert evaluate("nn.relu", [np.zeros((0, 3), np.float32)])[0].shape == (0, 3)


def test_clip_of_integers_keeps_the_dtype_and_drops_infinite_bounds():
    x = ints(5, 6, low=-100, high=100, dtype="int8")
    result, = check("clip", x, attrs={"min": float("-inf"), "max": 1e9})
    np.testing.assert_array_equal(result, x)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_clip_between_bounds_beyond_a_dtype(dtype):
    """As exporters write none: infinities stay, as they do by infinite bounds."""
    x = np.array([-np.inf, -60000, 0.5, 60000, np.inf], dtype)
    result, = check("clip", x, attrs={"min": -3.5e38, "max": 3.5e38})
    np.testing.assert_array_equal(result, x)


def test_special_values():
    x = np.array([np.nan, np.inf, -np.inf, 0.0, 1.0, 2.5, -2.5, 88.0], np.float32)
    assert check("isnan", x)[0].tolist() == [True] + [False] * 7
    assert check("isinf", x)[0].tolist() == [False, True, True] + [False] * 5
    assert check("round", x[5:7])[0].tolist() == [2.0, -2.0]
    for name in ("sigmoid", "nn.softplus", "nn.mish", "nn.silu", "nn.gelu"):
        assert np.isfinite(check(name, np.array([-200.0, 200.0, 88.0], np.float32))[0]).all()


@pytest.mark.parametrize("source, target", [("float32", "int32"), ("int32", "float32"), ("float32", "bool"),
                                            ("bool", "float32"), ("int64", "int32"), ("int32", "int64"),
                                            ("uint8", "float32"), ("float32", "float16"), ("bool", "int64")])
def test_astype(source, target):
    x = floats(3, 5) if source.startswith("float") else ints(3, 5, low=0)
    check("astype", x.astype(source), attrs={"dtype": target}, symbolic=FIRST_SYMBOLIC)


SHAPES = [((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 1, 4), (3, 1)), ((4,), (2, 3, 4)), ((1,), (2, 3)), ((), (2, 2))]
BOOLEANS = ("logical_and", "logical_or", "logical_xor")


def _operands(name, kind, a, b):
    if name in BOOLEANS:
        return ints(*a, low=0, high=2).astype(bool), ints(*b, low=0, high=2, seed=1).astype(bool)
    if name.endswith("_shift"):
        return ints(*a), ints(*b, low=0, high=5, seed=1)
    if kind == "int":
        return ints(*a), np.where(ints(*b, seed=1) == 0, 3, ints(*b, seed=1)).astype("int32")
    return floats(*a, low=0.5 if name == "power" else -3), floats(*b, seed=1, low=-2.8)


@pytest.mark.parametrize("row", broadcast.ROWS, ids=lambda r: r[0])
def test_broadcast(row):
    name = row[0]
    kind = "int" if row[1] == "int" else "float"
    for a, b in SHAPES:
        check(name, *_operands(name, kind, a, b), symbolic=FIRST_SYMBOLIC if len(a) == 3 else ())
    if name not in BOOLEANS and name != "power":
        check(name, *_operands(name, "int", (3, 5), (5,)))
    check(name, *_operands(name, kind, (3, 2), (3, 1)), symbolic={(0, 0): N, (1, 0): N})


def test_integer_arithmetic_truncates_floors_and_raises():
    a, b = np.array([7, -7, 7, -7], np.int32), np.array([2, 2, -2, -2], np.int32)
    assert check("divide", a, b)[0].tolist() == [3, -3, -3, 3]
    assert check("floor_mod", a, b)[0].tolist() == [1, 1, -1, -1]
    assert check("mod", a, b)[0].tolist() == [1, -1, 1, -1]
    assert check("power", a, np.array(3, np.int32))[0].tolist() == [343, -343, 343, -343]


def test_where_broadcasts_three_ways():
    check("where", floats(2, 1, 3) > 0, floats(4, 1), floats(3, seed=2), symbolic={(0, 0): N})


def test_broadcast_shapes_with_symbols():
    call = call_of("add", [floats(1, 3), floats(4, 1, 3)], symbolic={(1, 0): N})
    assert call.struct_info.shape[0] is N
    assert [int(d) for d in call.struct_info.shape[1:]] == [1, 3]


def test_block_names_follow_the_operator():
    assert lower(call_of("nn.relu", [floats(2)])).root.body.body.block.name_hint == "relu"
    assert infos(call_of("less", [floats(2), floats(2)]))[0].dtype == "bool"


X = floats(2, 3)


@pytest.mark.parametrize("name, args, attrs, message", [
    ("exp", [ints(2, 3)], {}, r"exp: takes a floating-point tensor, got int32 of shape \(2, 3\); convert with astype"),
    ("logical_not", [X], {}, r"logical_not: takes a bool tensor"),
    ("nn.relu", [X > 0], {}, r"nn.relu: takes a tensor of numbers"),
    ("nn.gelu", [X], {"approximate": "fast"}, r"nn.gelu: approximate='fast' is neither 'none' nor 'tanh'"),
    ("clip", [X], {"min": "a"}, r"clip: min='a' is not a number"),
    ("astype", [X], {"dtype": "float33"}, r"astype: unknown dtype 'float33'"),
    ("add", [X, floats(2)], {}, r"add: shapes \(2, 3\) and \(2,\) do not broadcast: 3 against 2"),
    ("add", [X, ints(2, 3)], {}, r"add: operands differ in dtype: float32, int32; convert with astype"),
    ("logical_and", [X, X], {}, r"logical_and: takes a bool tensor"),
    ("where", [X, X, X], {}, r"where: takes a bool tensor"),
    ("add", [X, (2, 3)], {}, r"add: argument 1 must be a tensor, it is a ShapeExpr"),
    ("add", [X], {}, r"add takes 2 to 2 arguments, got 1"),
    ("astype", [X], {}, r"astype needs attribute dtype"),
])
def test_errors(name, args, attrs, message):
    with pytest.raises(InferError, match=message):
        call_of(name, args, attrs)


def test_different_symbols_do_not_broadcast():
    with pytest.raises(InferError, match=r"add: shapes \(n, 3\) and \(m, 3\) do not broadcast: n against m"):
        call_of("add", [X, X], symbolic={(0, 0): N, (1, 0): Var("m", "int64")})


def test_every_row_is_in_the_table():
    assert {r[0] for r in elementwise.ROWS + broadcast.ROWS} <= set(op_table.OPS)
