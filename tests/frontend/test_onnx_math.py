"""Elementwise operators, products and reductions against onnxruntime, at the opsets where their forms differ."""
import numpy as np
import pytest

from onnx_models import check_node

pytest.importorskip("onnxruntime")

RNG = np.random.default_rng(7)


def floats(*shape, low=-2.0, high=2.0):
    return RNG.uniform(low, high, shape).astype(np.float32)


X = floats(2, 3, 4)
POSITIVE = floats(2, 3, 4, low=0.1, high=3.0)
UNIT = floats(2, 3, 4, low=-0.9, high=0.9)
INTS = RNG.integers(-7, 7, (2, 3, 4))
BOOLS = RNG.random((2, 3, 4)) < 0.5

UNARY = [("Relu", X), ("Erf", X), ("Tanh", X), ("Sigmoid", X), ("Exp", X), ("Log", POSITIVE), ("Sqrt", POSITIVE),
         ("Reciprocal", POSITIVE), ("Abs", X), ("Neg", X), ("Floor", X), ("Ceil", X), ("Sign", X), ("Sin", X),
         ("Cos", X), ("Tan", UNIT), ("Asin", UNIT), ("Acos", UNIT), ("Atan", X), ("Sinh", X), ("Cosh", X), ("Asinh", X),
         ("Acosh", POSITIVE + 1), ("Atanh", UNIT), ("Not", BOOLS), ("Softplus", X), ("Softsign", X), ("IsNaN", X),
         ("LeakyRelu", X), ("Elu", X), ("HardSigmoid", X), ("Selu", X), ("ThresholdedRelu", X), ("Shrink", X),
         ("Identity", X), ("Abs", INTS), ("Neg", INTS)]


@pytest.mark.parametrize("opset", [10, 17, 23])
@pytest.mark.parametrize("op, x", UNARY, ids=lambda v: v if isinstance(v, str) else str(v.dtype))
def test_unary(op, x, opset):
    check_node(op, [x], opset)


@pytest.mark.parametrize("op, opset, attrs", [
    ("LeakyRelu", 16, {"alpha": 0.3}), ("Elu", 9, {"alpha": 0.5}), ("HardSigmoid", 9, {"alpha": 0.3, "beta": 0.4}),
    ("HardSwish", 14, {}), ("Mish", 18, {}), ("Gelu", 20, {}), ("Gelu", 20, {"approximate": "tanh"}),
    ("Celu", 12, {"alpha": 0.7}), ("Selu", 9, {"alpha": 1.5, "gamma": 1.1}), ("Round", 11, {}),
    ("Shrink", 9, {"lambd": 0.7, "bias": 0.2}), ("ThresholdedRelu", 10, {"alpha": 0.4}),
    ("IsInf", 10, {}), ("IsInf", 10, {"detect_negative": 0}), ("IsInf", 20, {"detect_positive": 0})])
def test_unary_with_attributes(op, opset, attrs):
    x = X.copy()
    if op in ("IsInf", "Round"):
        x[0, 0] = [np.inf, -np.inf, 2.5, -3.5] if op == "IsInf" else [0.5, 1.5, 2.5, -3.5]
    check_node(op, [x], opset, **attrs)


@pytest.mark.parametrize("alpha", [0.1, -2.0])
def test_celu_of_large_numbers_and_of_a_negative_alpha(alpha):
    check_node("Celu", [np.float32([3e38, -3e38 if alpha > 0 else -3, 1, -1, 0, np.inf])], 12, alpha=alpha)


@pytest.mark.parametrize("dtype", ["int32", "uint8"])
def test_shrink_of_integers(dtype):
    x = np.array([3, 1, 0, 9, 2] if dtype == "uint8" else [3, -3, 0, 1, -1, 2], dtype)
    check_node("Shrink", [x], 9, lambd=1.5, bias=0.3)


@pytest.mark.parametrize("opset", [9, 14])
@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div", "Pow", "Less", "Greater", "Equal"])
def test_binary_broadcasts(op, opset):
    if op == "Equal" and opset == 9:
        return check_node(op, [INTS, INTS[:, :1]], opset)
    check_node(op, [POSITIVE, floats(3, 1)], opset)


@pytest.mark.parametrize("op", ["LessOrEqual", "GreaterOrEqual"])
def test_ordered(op):
    check_node(op, [INTS, INTS[:1]], 16)


@pytest.mark.parametrize("op", ["And", "Or", "Xor"])
def test_logical(op):
    check_node(op, [BOOLS, BOOLS[:1, :, ::-1].copy()], 17)


def test_integer_division_truncates():
    divisor = np.where(INTS == 0, 3, INTS)[:, ::-1].copy()
    check_node("Div", [INTS, divisor], 14)


@pytest.mark.parametrize("fmod", [0, 1])
def test_mod_of_integers(fmod):
    check_node("Mod", [INTS, np.array([3, -3, 5, -5])], 13, fmod=fmod)


def test_mod_of_floats():
    check_node("Mod", [X, POSITIVE], 13, fmod=1)


@pytest.mark.parametrize("exponent", [2.0, 3.0, 0.5, -1.0])
def test_power_of_a_constant(exponent):
    check_node("Pow", [POSITIVE, np.float32(exponent).reshape(())], 15, constants=(1,))


def test_power_with_an_exponent_of_another_dtype():
    check_node("Pow", [X, np.array([2, 3, 1, 0])], 15)


@pytest.mark.parametrize("op", ["Sum", "Mean", "Max", "Min"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_variadic(op, count):
    check_node(op, [X, floats(3, 1), floats(4)][:count], 13)


def test_where():
    check_node("Where", [BOOLS, X, floats(3, 1)], 16)


@pytest.mark.parametrize("opset, arrays, attrs", [
    (9, [X], {"min": -0.5, "max": 1.0}), (9, [X], {"min": 0.0}), (9, [X], {}),
    (11, [X, np.float32(-0.5), np.float32(1)], {}), (13, [X, None, np.float32(1)], {}), (13, [X, np.float32(0)], {}),
    (13, [X], {}), (12, [INTS, np.int64(-2), np.int64(3)], {})])
@pytest.mark.parametrize("constants", [(1, 2), ()])
def test_clip(opset, arrays, attrs, constants):
    check_node("Clip", [None if a is None else np.asarray(a) for a in arrays], opset, constants, **attrs)


@pytest.mark.parametrize("slope", [np.float32([[0.1], [0.2], [0.3]]), np.float32([0.5])])
def test_prelu(slope):
    check_node("PRelu", [X, slope], 16, constants=(1,))


@pytest.mark.parametrize("to, x", [(7, X), (1, INTS), (9, INTS), (6, BOOLS), (11, X), (10, X)])
def test_cast(to, x):
    check_node("Cast", [x], 13, to=to)


def test_cast_like():
    check_node("CastLike", [X, INTS], 15)


@pytest.mark.parametrize("a, b", [((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 1, 3, 4), (6, 4, 5)), ((4,), (4, 5)),
                                  ((3, 4), (4,)), ((4,), (4,))])
def test_matmul(a, b):
    check_node("MatMul", [floats(*a), floats(*b)], 13)


@pytest.mark.parametrize("opset, attrs, bias", [
    (9, {}, (5,)), (11, {}, None), (13, {"transA": 1, "transB": 1}, (5,)), (13, {"alpha": 0.5, "beta": 2.0}, (3, 1)),
    (13, {"beta": 0.0}, (1,)), (13, {"transB": 1}, ())])
def test_gemm(opset, attrs, bias):
    a = floats(4, 3) if attrs.get("transA") else floats(3, 4)
    b = floats(5, 4) if attrs.get("transB") else floats(4, 5)
    check_node("Gemm", [a, b] + ([] if bias is None else [floats(*bias)]), opset, constants=(1, 2), **attrs)


REDUCTIONS = ["ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
              "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"]


@pytest.mark.parametrize("op", REDUCTIONS)
@pytest.mark.parametrize("axes, keepdims", [(None, 1), ([1], 0), ([-1, 0], 1)])
@pytest.mark.parametrize("opset", [11, 13, 18])
def test_reductions(op, axes, keepdims, opset):
    as_input = opset >= (13 if op == "ReduceSum" else 18)
    if axes is None:
        check_node(op, [POSITIVE], opset, keepdims=keepdims)
    elif as_input:
        check_node(op, [POSITIVE, np.array(axes)], opset, constants=(1,), keepdims=keepdims)
    else:
        check_node(op, [POSITIVE], opset, keepdims=keepdims, axes=axes)


@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMean", "ReduceL1", "ReduceLogSumExp"])
def test_reduction_without_axes_may_mean_nothing(op):
    check_node(op, [POSITIVE], 18, noop_with_empty_axes=1)


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("axis, keepdims, opset", [(0, 1, 11), (-1, 0, 13), (1, 1, 13)])
def test_arg(op, axis, keepdims, opset):
    check_node(op, [X], opset, axis=axis, keepdims=keepdims)
