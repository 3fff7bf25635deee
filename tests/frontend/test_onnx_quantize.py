"""QuantizeLinear and DequantizeLinear against onnxruntime, and what a product makes of them."""
import numpy as np
import pytest
from onnx import TensorProto, helper

import ingot
from ingot.frontend.onnx import OnnxImportError, from_onnx
from ingot.ir.transform.lower_ops import lower_ops
from ingot.ir.transform.pipeline import graph_passes
from onnx_models import check_node, model, one_node, seven_bits
from machines import machine

pytest.importorskip("onnxruntime")

RNG = np.random.default_rng(3)
X = RNG.uniform(-3, 3, (4, 6, 5)).astype(np.float32)
ONE = np.array(0.02, np.float32)
SCALES = RNG.uniform(0.01, 0.03, 6).astype(np.float32)


def integers(dtype, *shape):
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max + 1, shape).astype(dtype)


@pytest.mark.parametrize("constants", [(), (1, 2)])
@pytest.mark.parametrize("zero", [None, np.array(0, np.uint8), np.array(131, np.uint8), np.array(-7, np.int8)])
def test_quantize_with_one_scale(zero, constants):
    """Halves go to even numbers, and what is too large to the largest."""
    x = X.copy()
    x[0, 0] = ONE * np.float32([0.5, 1.5, -2.5, 1e6, -1e6])
    check_node("QuantizeLinear", [x, ONE, zero], 13, [c for c in constants if c == 1 or zero is not None])


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("axis", [1, -2])
def test_a_scale_for_each_element_of_an_axis(dtype, axis):
    zero = integers(dtype, 6)
    check_node("QuantizeLinear", [X, SCALES, zero], 13, (1, 2), axis=axis)
    check_node("DequantizeLinear", [integers(dtype, 4, 6, 5), SCALES, zero], 13, axis=axis)


@pytest.mark.parametrize("opset", [10, 13, 21])
@pytest.mark.parametrize("dtype, zero", [("int8", None), ("uint8", 130), ("int8", 3), ("int32", None)])
def test_dequantize(dtype, zero, opset):
    check_node("DequantizeLinear", [integers(dtype, 3, 4), ONE, zero if zero is None else np.array(zero, dtype)], opset)


def test_a_constant_scale_of_one_element():
    check_node("QuantizeLinear", [X, np.array([0.05], np.float32), np.array([3], np.int8)], 13, (1, 2), axis=0)


@pytest.mark.parametrize("attrs, arrays, expected", [
    ({"block_size": 2}, [X, ONE, np.array(0, np.int8)], "block_size"),
    ({}, [X, np.ones((2, 2), np.float32), None], "one number, or a vector"),
    ({"output_dtype": TensorProto.INT32}, [X, ONE, None], "quantizes to int32"),
    ({"axis": 3}, [X, SCALES, None], "axis 3 is outside")])
def test_refusals(attrs, arrays, expected):
    with pytest.raises(OnnxImportError, match=expected):
        from_onnx(one_node("QuantizeLinear", arrays, 21, **attrs))


def quantized_product(weight):
    """x and y of bytes, x @ w (w constant) or x @ y', as a byte."""
    def node(op, inputs, output, **attrs):
        return helper.make_node(op, inputs, [output], name=output, **attrs)

    weights = {"s": ONE, "zx": np.uint8(128), "zy": np.int8(2), "so": np.float32(0.3), "zo": np.uint8(120)}
    inputs = {"x": ((40, 96), "uint8")}
    nodes = [node("DequantizeLinear", ["x", "s", "zx"], "xf"), node("DequantizeLinear", ["y", "s", "zy"], "yf")]
    y = integers("int8", 96, 128) if weight else integers("int8", 128, 96)
    if weight:
        weights["y"] = y
        nodes.append(node("MatMul", ["xf", "yf"], "m"))
    else:
        inputs["y"] = ((128, 96), "int8")
        nodes.append(node("Gemm", ["xf", "yf"], "m", transB=1))
    nodes += [node("Relu", ["m"], "r"), node("QuantizeLinear", ["r", "so", "zo"], "q")]
    x = integers("uint8", 40, 96)
    product = (x.astype(np.float64) - 128) * ONE @ ((y if weight else y.T).astype(np.float64) - 2) * ONE
    return model(nodes, inputs, ["q"], 13, weights), [x] if weight else [x, y], np.maximum(product, 0) / 0.3 + 120


@pytest.mark.parametrize("weight", [True, False])
def test_a_product_of_bytes(weight):
    """Its second operand becomes floats at compile time, or in the copy to panels; its result bytes where it is
    stored."""
    proto, inputs, exact = quantized_product(weight)
    found = ingot.compile(proto, threads="none")(*inputs)
    assert found.dtype == np.uint8
    assert np.abs(found - np.clip(exact, 0, 255)).max() <= 0.5 + 1e-3
    mod = from_onnx(proto)
    for run in graph_passes(2, machine()):
        mod = run(mod)
    assert len(lower_ops(mod).functions) == 1 + 2  # "main", what makes floats of x, and the product


def test_what_is_quantized_and_dequantized_between_products_takes_no_kernel():
    w = RNG.standard_normal((2, 64, 64)).astype(np.float32)
    weights = {"w0": w[0], "w1": w[1], "s": np.float32(0.25), "z": np.uint8(128)}
    nodes = [helper.make_node("MatMul", ["x", "w0"], ["a"], name="a"),
             helper.make_node("QuantizeLinear", ["a", "s", "z"], ["q"], name="q"),
             helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"], name="d"),
             helper.make_node("MatMul", ["d", "w1"], ["y"], name="y")]
    proto = model(nodes, {"x": ((9, 64), "float32")}, ["y"], 13, weights)
    x = np.round(RNG.uniform(-2, 2, (9, 64))).astype(np.float32)
    first = x.astype(np.float64) @ w[0]
    quantized = (np.clip(np.rint(first * 4) + 128, 0, 255) - 128) / 4
    found = ingot.compile(proto, threads="none")(x)
    assert np.abs(found - quantized @ w[1]).max() <= 0.25 * np.abs(w[1]).max() + 1e-3  # where a half is rounded
    mod = from_onnx(proto)
    for run in graph_passes(2, machine()):
        mod = run(mod)
    assert len(lower_ops(mod).functions) == 1 + 2


# ---------------------------------------------------------------- products and convolutions in integers

RNG = np.random.default_rng(9)


def whole(dtype, *shape):
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max + 1, shape).astype(dtype)


@pytest.mark.parametrize("a, b", [("uint8", "int8"), ("uint8", "uint8"), ("int8", "int8")])
def test_products_of_integers(a, b):
    x, w = whole(a, 3, 7), seven_bits(whole(b, 7, 5))
    check_node("MatMulInteger", [x, w], 10)
    check_node("MatMulInteger", [x, w, np.array(3, a), np.array(5, b)], 10)
    scales = [np.array(v, np.float32) for v in (0.02, 0.01, 0.5)]
    zeros = np.array(7, a), np.array(2, b), np.array(9, a)
    check_node("QLinearMatMul", [x, scales[0], zeros[0], w, scales[1], zeros[1], scales[2], zeros[2]], 10)


@pytest.mark.parametrize("attrs", [{}, {"pads": [1, 0, 2, 1], "strides": [2, 1]}, {"group": 2}])
def test_convolutions_of_integers(attrs):
    x, w = whole("uint8", 2, 4, 6, 5), seven_bits(whole("int8", 6, 4 // attrs.get("group", 1), 3, 2))
    if "group" not in attrs:  # onnxruntime takes uint8 weights alone here
        check_node("ConvInteger", [x, w.view(np.uint8), np.uint8(11)], 10, (2,), **attrs)
    scales = np.float32(0.03), np.linspace(0.01, 0.02, 6).astype(np.float32), np.float32(0.4)
    bias = RNG.integers(-500, 500, 6).astype(np.int32)
    arrays = [x, scales[0], np.uint8(11), w, scales[1], np.zeros(6, np.int8), scales[2], np.uint8(120), bias]
    check_node("QLinearConv", arrays, 10, range(1, 9), **attrs)
