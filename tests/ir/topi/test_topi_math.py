"""topi's elementwise, broadcasting, reducing and moving functions against numpy."""
import numpy as np
import pytest
from topi_check import A, B, C, check, floats, function, interpret, tensors

from ingot.ir import te, topi
from ingot.ir.expr import Var
from ingot.ir.op import InferError
from ingot.ir.te import Tensor
from ingot.ir.tir.intrin import INTRINSICS

X, Y, P = floats(3, 5, 7), floats(5, 1, seed=1), floats(3, 5, 7, low=0.1, high=4)
I, J = (np.arange(15).reshape(3, 5) - 6).astype(np.int32), np.array([[-3], [2], [4]], np.int32)
BITS = X > 0
F = np.float32

UNARY = [
    *((name, P if name in ("log", "sqrt", "acosh") else X / 3.5 if name in ("asin", "acos", "atanh") else X,
       INTRINSICS[name].numpy) for name in (
           "tanh", "exp", "log", "sqrt", "erf", "floor", "ceil", "round", "trunc", "sin", "cos", "tan", "asin", "acos",
           "atan", "sinh", "cosh", "asinh", "atanh")),
    ("acosh", P + 1, np.arccosh), ("rsqrt", P, lambda x: 1 / np.sqrt(x)),
    ("sigmoid", X, lambda x: 1 / (1 + np.exp(-x))),
    ("abs", X, np.abs), ("abs", I, np.abs), ("negative", X, np.negative), ("sign", I, np.sign),
    ("identity", X, np.copy),
    ("fast_exp", X, np.exp), ("fast_tanh", X, np.tanh), ("log2", P, np.log2), ("log10", P, np.log10),
    ("isnan", X, np.isnan), ("isfinite", X, np.isfinite), ("logical_not", BITS, np.logical_not),
    ("square", X, np.square),
]


@pytest.mark.parametrize("name, x, expected", UNARY, ids=[r[0] for r in UNARY])
def test_unary(name, x, expected):
    with np.errstate(all="ignore"):
        check(name, [x], [A], expected(x).astype(bool if expected(x).dtype == bool else x.dtype), 1e-4)


BINARY = [(name, getattr(np, name)) for name in (
    "add", "subtract", "multiply", "divide", "maximum", "minimum", "floor_divide", "equal", "not_equal", "less",
    "less_equal", "greater", "greater_equal")] + [("floor_mod", np.mod), ("mod", np.fmod)]
BITWISE = [(name, getattr(np, name)) for name in (
    "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift")]


@pytest.mark.parametrize("name, expected", BINARY, ids=[r[0] for r in BINARY])
def test_binary(name, expected):
    check(name, [X, Y], [A, B], expected(X, Y), 1e-4)
    check(name, [X], [A, 1.25], expected(X, F(1.25)), 1e-4)
    check(name, [X], [2, A], expected(F(2), X), 1e-4)
    if name != "divide":
        check(name, [I, J], [A, B], expected(I, J))


@pytest.mark.parametrize("name, expected", BITWISE, ids=[r[0] for r in BITWISE])
def test_bits(name, expected):
    check(name, [I, abs(J)], [A, B], expected(I, abs(J)))
    check(name, [I], [A, 3], expected(I, np.int32(3)))


def test_division_of_integers_truncates():
    check("divide", [I, J], [A, B], np.trunc(I / J).astype(np.int32))


@pytest.mark.parametrize("name, args, arrays, expected", [
    ("power", [A, B], [P, Y], P ** Y), ("power", [A, 2], [X], X ** 2),
    ("logical_and", [A, B], [BITS, X > 1], BITS & (X > 1)),
    ("logical_or", [A, B], [BITS, X > 1], BITS | (X > 1)), ("logical_xor", [A, B], [BITS, X > 1], BITS ^ (X > 1)),
    ("clip", [A, -1, 0.5], [X], X.clip(-1, 0.5)), ("cast", [A, "int32"], [X], X.astype(np.int32)),
    ("cast", [A, "float16"], [X], X.astype(np.float16)), ("where", [A, B, C], [BITS, X, Y], np.where(BITS, X, Y)),
    ("where", [A, B, 0.0], [BITS, X], np.where(BITS, X, F(0))), ("elemwise_sum", [[A, A]], None, None),
])
def test_more(name, args, arrays, expected):
    if arrays is None:
        x, y = tensors([X, X])
        assert topi.elemwise_sum([x, y]).op.name == "add"
        return
    check(name, arrays, args, expected, 1e-4)


REDUCTIONS = ["sum", "max", "min", "prod", "mean", "std", "variance", "all", "any", "argmax", "argmin"]


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("axis", [None, 1, -1, (0, 2), [1, 2]])
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions(name, axis, keepdims):
    if name.startswith("arg") and not isinstance(axis, (int, type(None))):
        return
    x = BITS if name in ("all", "any") else X / 3
    numpy = {"variance": np.var}.get(name) or getattr(np, name)
    expected = np.asarray(numpy(x, axis=tuple(axis) if isinstance(axis, list) else axis, keepdims=keepdims))
    check(name, [x], [A, axis, keepdims], expected.astype(np.int32 if name.startswith("arg") else x.dtype), 1e-4,
          symbolic=not name.startswith("arg"))  # whose places are of the dimensions' dtype


MOVES = [
    ("transpose", [A], [X], X.T), ("transpose", [A, (1, 0, 2)], [X], X.transpose(1, 0, 2)),
    ("reshape", [A, (5, 21)], [X], X.reshape(5, 21)), ("squeeze", [A, 1], [X[:, :1]], X[:, 0]),
    ("expand_dims", [A, 1, 2], [X], X[:, None, None]), ("expand_dims", [A, -1], [X], X[..., None]),
    ("broadcast_to", [A, (2, 5, 3)], [Y], np.broadcast_to(Y, (2, 5, 3))),
    ("split", [A, [1, 3], 1], [X], [X[:, :1], X[:, 1:3], X[:, 3:]]), ("split", [A, 5, -2], [X], np.split(X, 5, 1)),
    ("strided_slice", [A, [0, 1, -3], [3, 5, 7]], [X], X[:, 1:5, -3:]),
    ("strided_slice", [A, [4, 1], [0, 100], [-2, 3], [1, 2]], [X], X[:, 4:0:-2, 1::3]),
    ("take", [A, B, 1], [X, np.array([[4, 0], [2, 2]], np.int32)], X[:, [[4, 0], [2, 2]]]),
    ("take", [A, B], [X, np.array([4, 17, -1], np.int64)], X.ravel()[[4, 17, 0]]),
    ("gather", [A, 1, B], [X, np.zeros((3, 2, 7), np.int64) + 3], X[:, [3, 3]]),
    ("flip", [A], [X], X[::-1]), ("flip", [A, 2], [X], X[..., ::-1]),
    ("tile", [A, (2, 1, 3)], [X], np.tile(X, (2, 1, 3))),
    ("tile", [A, 2], [X], np.tile(X, 2)), ("repeat", [A, 3, 1], [X], X.repeat(3, 1)),
    ("layout_transform", [A, "NCH", "NHC"], [X], X.transpose(0, 2, 1)),
    ("layout_transform", [A, "NCH", "NCH2h"], [X[..., :6]], X[..., :6].reshape(3, 5, 3, 2)),
    ("layout_transform", [A, "NCH5c", "NHC"], [X[..., None].reshape(3, 1, 7, 5)], X.reshape(3, 7, 5)),
    ("layout_transform", [A, "NHC", "NCH5c"], [X.reshape(3, 7, 5)], X.reshape(3, 1, 7, 5)),
    ("cumsum", [A, 1], [X], X.cumsum(1)), ("cumprod", [A, -1, None, False], [X], X.cumprod(-1)),
    ("cumsum", [A], [I], I.cumsum().astype(np.int32)),
    ("full_like", [A, 2], [X], np.full_like(X, 2)), ("zeros_like", [A], [X], np.zeros_like(X)),
    ("trilu", [A, 1, True], [X], np.triu(X, 1)), ("trilu", [A, -1, False], [X], np.tril(X, -1)),
    ("one_hot", [A, 3, 0, 6, 1, "int32"], [I[:, :2] % 6], 3 * (I[:, None, :2] % 6 == np.arange(6)[:, None])),
]


@pytest.mark.parametrize("name, args, arrays, expected", MOVES, ids=[r[0] for r in MOVES])
def test_moves(name, args, arrays, expected):
    if name == "one_hot":
        expected = expected.astype(np.int32)
    symbolic = name not in ("reshape", "transpose") and not (
        name in ("take", "cumsum", "flip", "broadcast_to") and len(args) == 2)
    check(name, arrays, args, expected, symbolic=symbolic)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concatenate_and_stack(axis):
    other = floats(3, 5, 7, seed=2)
    for name, numpy in (("concatenate", np.concatenate), ("stack", np.stack)):
        for dims in ({}, dict.fromkeys(((0, 1), (1, 1)), Var("n", "int32"))):
            inputs = tensors([X, other], dims)
            expected = numpy([X, other, X], axis)
            (out,), _ = interpret(function(name)([inputs[0], inputs[1], inputs[0]], axis), inputs, [X, other],
                                  [expected.shape])
            np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("a, b, dtype", [("int64", "int32", "int64"), ("float32", "int8", "float32"),
                                         ("float16", "float32", "float32")])
def test_operands_of_two_dtypes_widen(a, b, dtype):
    x, y = np.arange(3).astype(a), np.arange(3)[::-1].astype(b)
    inputs = [te.placeholder((3,), a, "x"), te.placeholder((3,), b, "y")]
    found = topi.subtract(*inputs)
    assert found.dtype == dtype
    assert interpret(found, inputs, [x, y], [(3,)])[0][0].tolist() == [-2, 0, 2]


def test_what_is_reduced_over_no_axis_stays():
    x = te.placeholder((), "float32", "x")
    for reduced in (topi.sum, topi.max, topi.prod):
        assert interpret(reduced(x), [x], [np.array(3, F)], [()])[0][0] == 3


def test_tensors_from_nothing():
    from interp import run
    for tensor, expected in ((topi.full((2, 3), "int8", 7), np.full((2, 3), 7, np.int8)),
                             (topi.arange(5), np.arange(5, dtype=F)),
                             (topi.arange(1, 9, 3, dtype="int32"), np.arange(1, 9, 3, dtype=np.int32))):
        out = np.zeros_like(expected)
        run(te.create_prim_func([tensor]), out)
        np.testing.assert_array_equal(out, expected)


def test_one_stage_per_function_and_dimensions_keep_their_dtype():
    n = Var("n", "int32")
    x = te.placeholder((n, 4), name="x")
    assert [str(d) for d in topi.tile(topi.add(x, 1), (2, 1)).shape] == ["n * 2", "4"]
    assert all(d.dtype == "int32" for d in topi.concatenate([x, x]).shape)
    wide = te.placeholder((Var("m", "int64"), 4), name="w")
    assert topi.tile(wide, (2, 1)).shape[0].dtype == "int64"


def test_the_names_of_tvms_modules():
    assert topi.math.exp == topi.exp and topi.reduction.sum == topi.sum and topi.transform.transpose == topi.transpose
    assert topi.utils.get_const_tuple(te.placeholder((3, 4)).shape) == (3, 4) and "relu" in dir(topi.nn)
    assert "conv2d" in dir(topi.nn) and "add" in dir(topi) and not [n for n in dir(topi) if n.startswith("_")]
    assert repr(topi.nn.relu) == "<operator topi.nn.relu(x)>"
    n = Var("n")
    assert topi.utils.get_const_tuple((n, 3))[0] is n and topi.utils.equal_const_int(3, 3)
    with pytest.raises(ValueError, match="n is symbolic where a number is needed"):
        topi.utils.get_const_int(n)
    assert topi.utils.prod((2, 3, 4)) == 24 and int(topi.utils.ravel_index((1, 2), (3, 4))) == 6
    assert [int(i) for i in topi.utils.unravel_index(6, (3, 4))] == [1, 2]


def x_of(*shape, dtype="float32"):
    return te.placeholder(shape, dtype, "x")


@pytest.mark.parametrize("build, error, message", [
    (lambda: topi.add(x_of(2, 3), x_of(4)), InferError,
     r"topi.add: shapes \(2, 3\) and \(4,\) do not broadcast: 3 against 4"),
    (lambda: topi.add(x_of(2, dtype="bfloat16"), x_of(2, dtype="float16")), InferError,
     "topi.add: operands differ in dtype: bfloat16, float16"),
    (lambda: topi.argmax(x_of()), InferError, "topi.argmax: argmax: takes a tensor of 1 dimension or more|takes a"),
    (lambda: topi.exp(x_of(2, dtype="int32")), InferError, "topi.exp: takes a floating-point tensor, got int32"),
    (lambda: topi.exp(1.0), InferError, "topi.exp: takes te.Tensors, got float"),
    (lambda: topi.add(x_of(2), "y"), InferError, "topi.add: an argument is a str, it must be a te.Tensor or a number"),
    (lambda: topi.sum(x_of(2), axis=1), InferError, "topi.sum: axis 1 is outside a tensor of 1 dimensions"),
    (lambda: topi.sum(x_of(2), axes=1), InferError, "topi.sum has no attribute axes; it has data, axis, keepdims"),
    (lambda: topi.exp(), TypeError, "topi.exp needs argument x"),
    (lambda: topi.add(x_of(2), x_of(2), 3), TypeError, r"topi.add takes at most 2 arguments \(lhs, rhs\), got 3"),
    (lambda: topi.take(x_of(2), x_of(2, dtype="int32"), 0, 1), InferError, "topi.take: batch_dims=1 is not supported"),
    (lambda: topi.layout_transform(x_of(2, 3), "NC", "NC2c"), InferError,
     "topi.layout_transform: axis C of extent 3 does not divide into blocks of 2"),
    (lambda: topi.layout_transform(x_of(2, 3), "NCH", "NHC"), InferError, "must name the 2 axes of the tensor"),
    (lambda: topi.nn.gru(*[x_of(1, 1, 1)] * 5), AttributeError, "no operator topi.nn.gru"),
    (lambda: topi.tanhh, AttributeError, "no operator topi.tanhh; did you mean tanh"),
])
def test_errors(build, error, message):
    with pytest.raises(error, match=message):
        build()


def test_results_are_tensors():
    assert isinstance(topi.add(x_of(2), 1), Tensor) and isinstance(topi.split(x_of(4), 2), list)
