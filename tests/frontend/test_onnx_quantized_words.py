"""Activations of 16 bits between DequantizeLinear and QuantizeLinear:
products by constants are exact sums of integers."""
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from value_target import value_target

import ingot

onnxruntime = pytest.importorskip("onnxruntime")

RNG = np.random.default_rng(160)
SHAPE = (1, 8, 9, 10)


def integers(dtype, *shape):
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max + 1, shape).astype(dtype)


class Network:
    """x of 16 bits is an input, each result an output of integers; sums: {output: exact scaled sums,
    before rounding}."""

    def __init__(self, dtype, zero, x):
        self.nodes, self.constants, self.sums, self.outputs = [], {}, {}, []
        self.dtype, self.zero, self.x = dtype, zero, x.astype(np.int64) - zero
        self.input = helper.make_tensor_value_info("x", self.kind(), x.shape)
        self.add("DequantizeLinear", ["x", *self.parameters("x", 2e-4, zero)], "dx")

    def kind(self):
        return helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))

    def constant(self, name, array):
        self.constants[name] = numpy_helper.from_array(np.asarray(array), name)
        return name

    def parameters(self, name, scale, zero, dtype=None):
        return (self.constant(f"{name}_scale", np.asarray(scale, np.float32)),
                self.constant(f"{name}_zero", np.full(np.shape(scale), zero, dtype or self.dtype)))

    def add(self, op, inputs, output, **attrs):
        self.nodes.append(helper.make_node(op, inputs, [output], name=f"{op}_{output}", **attrs))
        return output

    def weight(self, name, w, scale, axis=0):
        return self.add("DequantizeLinear",
                        [self.constant(f"w_{name}", w), *self.parameters(f"w_{name}", scale, 0, w.dtype)],
                        f"dw_{name}", **({"axis": axis} if np.size(scale) > 1 else {}))

    def bias(self, name, values, scale):
        return self.add("DequantizeLinear", [self.constant(f"b_{name}", values.astype(np.int32)), *self.parameters(
            f"b_{name}", np.float32(2e-4) * scale, 0, np.int32)], f"db_{name}", axis=0)

    def result(self, name, source, scale, zero):
        self.add("QuantizeLinear", [source, *self.parameters(f"y_{name}", scale, zero)], name)
        self.outputs.append(helper.make_tensor_value_info(name, self.kind(), None))

    def proto(self):
        graph = helper.make_graph(self.nodes, "g", [self.input], self.outputs, list(self.constants.values()))
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def windows(x, w, groups, padding):
    """The exact sums of a convolution of stride 1."""
    x = np.pad(x, ((0, 0), (0, 0), (padding,) * 2, (padding,) * 2))
    x = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (2, 3))
    x = x.reshape(x.shape[0], groups, -1, *x.shape[2:])
    sums = np.einsum("ngchvij,gocij->ngohv", x, w.reshape(groups, -1, *w.shape[1:]).astype(np.int64))
    return sums.reshape(sums.shape[0], -1, *sums.shape[3:])


def convolution(net, name, w, groups=1, padding=0, bias=None, relu=False, zero=0):
    """A convolution whose results fill the integers, and a few saturate."""
    scale = RNG.uniform(0.5, 1, len(w)).astype(np.float32) / 100
    sums = windows(net.x, w, groups, padding) + (0 if bias is None else bias.reshape(1, -1, 1, 1))
    whole = (np.float32(2e-4) * scale).astype(np.float64)
    made = np.float32(np.abs(sums * whole.reshape(1, -1, 1, 1)).max() / 30000)
    inputs = ["dx", net.weight(name, w, scale), *([net.bias(name, bias, scale)] if bias is not None else [])]
    source = net.add("Conv", inputs, f"c_{name}", group=groups, pads=[padding] * 4)
    net.result(name, net.add("Relu", [source], f"r_{name}") if relu else source, made, zero)
    total = np.rint(sums.astype(np.float32) * (np.float32(2e-4) * scale / made).reshape(1, -1, 1, 1)) + zero
    net.sums[name] = np.maximum(total, zero) if relu else total


def product(net, name, w, zero=0):
    x = net.x.reshape(1, -1)
    sums = x @ w.astype(np.int64)
    made = np.float32(np.abs(sums * 2e-6).max() / 30000)
    flat = net.add("Flatten", ["dx"], f"f_{name}")
    flat = net.add("QuantizeLinear", [flat, "x_scale", "x_zero"], f"q_{name}")
    flat = net.add("DequantizeLinear", [flat, "x_scale", "x_zero"], f"d_{name}")
    net.result(name, net.add("MatMul", [flat, net.weight(name, w, np.float32(1e-2))], f"m_{name}"), made, zero)
    net.sums[name] = np.rint(sums.astype(np.float32) * (np.float32(2e-4) * np.float32(1e-2) / made)) + zero


def network(dtype, zero, x):
    """Sums that 32 bits hold and that they do not, of each kind of convolution and of a product; what moves elements,
    and what is computed in floats."""
    net = Network(dtype, zero, x)
    convolution(net, "dense", integers(np.int8, 5, 8, 3, 3), padding=1,
                bias=integers(np.int16, 5).astype(np.int64) * 999)
    convolution(net, "relu", integers(np.int8, 16, 8, 1, 1), relu=True, zero=zero)
    convolution(net, "depthwise", integers(np.int8, 8, 1, 3, 3), groups=8, padding=1)
    convolution(net, "groups", integers(np.int8, 8, 4, 2, 3), groups=2)
    convolution(net, "words", integers(np.int16, 4, 8, 3, 3), padding=1)
    product(net, "long", np.where(RNG.random((720, 7)) < 0.9, 127, -128).astype(np.int8))
    product(net, "short", integers(np.int8, 720, 6) // 32)
    pool = net.add("MaxPool", ["dx"], "pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    net.result("largest", pool, 2e-4, zero)
    net.result("map", net.add("Sigmoid", ["dx"], "sigmoid"), 1 / 65536, zero)
    net.result("mean", net.add("GlobalAveragePool", ["dx"], "means"), 1e-4, zero)
    net.result("twice", net.add("Add", ["dx", "dx"], "sum"), 3e-4, zero)
    net.result("joined", net.add("Concat", ["dx", "dx"], "both", axis=1), 2e-4, zero)
    return net


@pytest.mark.parametrize("dtype, zero, target", [
    (np.int16, 0, "c"), (np.int16, -32768, "host"), (np.uint16, 40000, "c")])
def test_activations_of_16_bits(dtype, zero, target):
    """Products are exact sums, scaled once, which onnxruntime's, of floats, are a step away from at most."""
    limits = np.iinfo(dtype)
    x = integers(dtype, *SHAPE)
    x[:, :4, :5] = limits.max
    x[:, 5:, 3:] = limits.min
    net = network(dtype, zero, x)
    proto = net.proto()
    session = onnxruntime.SessionOptions()
    session.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    expected = onnxruntime.InferenceSession(
        proto.SerializeToString(), session, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    with ingot.compile(proto, target=target, threads="none") as library:
        found = library.run({"x": x})
    for output, theirs in zip(proto.graph.output, expected):
        ours = found[output.name]
        assert ours.dtype == dtype and ours.shape == theirs.shape
        if output.name in net.sums:
            np.testing.assert_array_equal(ours, np.clip(net.sums[output.name], limits.min, limits.max), output.name)
        assert np.abs(ours.astype(int) - theirs).max() <= 1, output.name


def scores(dtype, zero):
    """(A network of the rows of x by the rows of x; the exact results, before they saturate; x)."""
    x = integers(dtype, 1, 2, 9, 40)
    x[:, :, :4] = np.iinfo(dtype).max
    net = Network(dtype, zero, x)
    turned = net.add("Transpose", ["dx"], "turned", perm=[0, 1, 3, 2])
    sums = net.x @ net.x.swapaxes(2, 3)
    scale = np.float32(np.abs(sums * 4e-8).max() / 30000)
    net.result("scores", net.add("MatMul", ["dx", turned], "products"), scale, zero)
    return net.proto(), np.rint(sums.astype(np.float32) * (np.float32(2e-4) * np.float32(2e-4) / scale)) + zero, x


@pytest.mark.parametrize("dtype, zero", [(np.int16, 0), (np.uint16, 40000)])
def test_products_of_two_activations(dtype, zero):
    """Floats, as onnxruntime has them, round some of the exact sums to the number beside."""
    proto, expected, x = scores(dtype, zero)
    with ingot.compile(proto, value_target(), threads="none") as library:
        limits, found = np.iinfo(dtype), library.run({"x": x})["scores"]
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    for other in (np.clip(expected, limits.min, limits.max), session.run(None, {"x": x})[0]):
        apart = np.abs(found.astype(int) - other.astype(int))
        assert apart.max() <= 1 and np.count_nonzero(apart) <= found.size // 50


@pytest.mark.parametrize("target, zero, exact", [("cortex-m0plus", 0, True), ("cortex-m0plus", 9, False),
                                                 ("cortex-m4f", 0, False), ("c", 0, False),
                                                 ("x86-64-v3", 0, False), ("aarch64-linux-gnu", 0, False)])
def test_where_two_activations_are_multiplied_as_integers(target, zero, exact):
    """Without an FPU, and without zero points: vectors take fewer instructions for floats."""
    text = ingot.inspect_stage(scores(np.int16, zero)[0], "fused", target=target, threads="none")
    assert ('out_dtype="int64"' in text) == exact
