"""Networks that onnxruntime's tools quantize, compiled, against onnxruntime."""
import numpy as np
import onnx
import onnx.reference
import pytest
from onnx import TensorProto, helper, numpy_helper
from value_target import value_target

import ingot

onnxruntime = pytest.importorskip("onnxruntime")
quantization = pytest.importorskip("onnxruntime.quantization")

RNG = np.random.default_rng(44)
QDQ, QOPERATOR = quantization.QuantFormat.QDQ, quantization.QuantFormat.QOperator
INT8, UINT8 = quantization.QuantType.QInt8, quantization.QuantType.QUInt8


def floats(*shape, scale=1.0):
    return (RNG.standard_normal(shape) * scale).astype(np.float32)


def network(nodes, shape, weights, output):
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, output)],
        [numpy_helper.from_array(a, name) for name, a in weights.items()])
    return onnx.shape_inference.infer_shapes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))


def node(op, inputs, output, **attrs):
    return helper.make_node(op, inputs.split(), [output], name=output, **attrs)


def convolutional():
    """Convolutions, plain and depthwise, with a residual, pools, activations and a product."""
    weights = {"w0": floats(8, 3, 3, 3, scale=.3), "b0": floats(8, scale=.1), "w1": floats(8, 1, 3, 3, scale=.4),
               "b1": floats(8, scale=.1), "w2": floats(8, 8, 1, 1, scale=.3), "w3": floats(16, 5, scale=.3),
               "b3": floats(5, scale=.1)}
    nodes = [node("Conv", "x w0 b0", "c0", pads=[1, 1, 1, 1], strides=[2, 2]), node("Relu", "c0", "r0"),
             node("Conv", "r0 w1 b1", "c1", pads=[1, 1, 1, 1], group=8), node("LeakyRelu", "c1", "r1", alpha=.1),
             node("Conv", "r1 w2", "c2"), node("Add", "c2 r0", "s"), node("Sigmoid", "s", "g"), node("Mul", "s g", "m"),
             node("MaxPool", "m", "p", kernel_shape=[2, 2], strides=[2, 2]),
             node("AveragePool", "m", "q", kernel_shape=[2, 2], strides=[2, 2]), node("Concat", "p q", "pq", axis=1),
             node("GlobalAveragePool", "pq", "a"), node("Flatten", "a", "f"), node("Gemm", "f w3 b3", "h"),
             node("Softmax", "h", "y", axis=1)]
    return network(nodes, [1, 3, 12, 12], weights, [1, 5])


def dense():
    weights = {"w0": floats(24, 32, scale=.2), "b0": floats(32, scale=.1), "w1": floats(32, 10, scale=.3)}
    nodes = [node("MatMul", "x w0", "m0"), node("Add", "m0 b0", "a0"), node("Relu", "a0", "r"),
             node("MatMul", "r w1", "y")]
    return network(nodes, [4, 24], weights, [4, 10])


def recurrent():
    weights = {"w": floats(1, 64, 12, scale=.3), "r": floats(1, 64, 16, scale=.3), "b": floats(1, 128, scale=.1)}
    nodes = [helper.make_node("LSTM", ["x", "w", "r", "b"], ["", "h"], name="lstm", hidden_size=16),
             node("Identity", "h", "y")]
    return network(nodes, [6, 1, 12], weights, [1, 1, 16])


class Samples(quantization.CalibrationDataReader):
    def __init__(self, proto):
        dims = [d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim]
        self.rest = iter([{"x": floats(*dims)} for _ in range(8)])

    def get_next(self):
        return next(self.rest, None)


def quantized_statically(proto, path, **options):
    onnx.save(proto, path / "float.onnx")
    quantization.quantize_static(path / "float.onnx", path / "quantized.onnx", Samples(proto), **options)
    return onnx.load(path / "quantized.onnx")


def quantized_dynamically(proto, path, **options):
    onnx.save(proto, path / "float.onnx")
    quantization.quantize_dynamic(path / "float.onnx", path / "quantized.onnx", **options)
    return onnx.load(path / "quantized.onnx")


def exposed(proto):
    """The model with each tensor of integers that its nodes make as an output."""
    proto = onnx.shape_inference.infer_shapes(proto)
    shown = {o.name for o in proto.graph.output}
    made = {name for n in proto.graph.node for name in n.output}
    for info in proto.graph.value_info:
        kind = info.type.tensor_type.elem_type
        if info.name in made - shown and kind in (TensorProto.INT8, TensorProto.UINT8, TensorProto.INT32):
            proto.graph.output.append(info)
    return proto


def results(proto, feeds):
    """([name], Ingot's outputs, onnxruntime's). On x86 onnxruntime makes tensors of int8 uint8 unless it is told not
    to, and then computes some of the nodes around them in floats; without VNNI its products of uint8 and int8 saturate
    in 16 bits unless it is told to be precise."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.add_session_config_entry("session.qdqisint8allowed", "1")
    kinds = {(w.data_type, len(w.dims) > 1) for w in proto.graph.initializer}
    dynamic = any(n.op_type.startswith("Dynamic") for n in proto.graph.node)  # activations become uint8
    if (TensorProto.INT8, True) in kinds and (dynamic or (TensorProto.UINT8, False) in kinds):  # weights, zero points
        options.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    with ingot.compile(proto, value_target(), threads="none") as library:
        found = library.run(feeds)
    names = [o.name for o in proto.graph.output]
    return names, [found[n] for n in names], session.run(None, feeds)


def assert_exact(proto):
    dims = [d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim]
    for name, found, expected in zip(*results(proto, {"x": floats(*dims)})):
        assert found.dtype == expected.dtype and found.shape == expected.shape
        if expected.dtype.kind in "iu":
            np.testing.assert_array_equal(found, expected, err_msg=name)
        else:
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5, err_msg=name)


STATIC = [dict(activation_type=a, weight_type=w, per_channel=c, reduce_range=r) for a, w, c, r in (
    (UINT8, INT8, False, False), (UINT8, INT8, True, False), (UINT8, UINT8, False, False), (INT8, INT8, True, False),
    (UINT8, INT8, True, True), (INT8, INT8, False, False))]


@pytest.mark.parametrize("make", [convolutional, dense])
@pytest.mark.parametrize("options", STATIC)
def test_quantized_operators(make, options, tmp_path):
    """Each tensor of bytes is that of onnxruntime."""
    assert_exact(exposed(quantized_statically(make(), tmp_path, quant_format=QOPERATOR, **options)))


@pytest.mark.parametrize("make", [convolutional, dense])
@pytest.mark.parametrize("options", STATIC)
def test_nodes_between_quantized_and_dequantized_tensors(make, options, tmp_path):
    assert_exact(quantized_statically(make(), tmp_path, quant_format=QDQ, **options))


@pytest.mark.parametrize("make", [convolutional, dense, recurrent])
@pytest.mark.parametrize("options", [dict(weight_type=INT8), dict(weight_type=UINT8),
                                     dict(weight_type=INT8, per_channel=True, reduce_range=True)])
def test_dynamically_quantized_networks(make, options, tmp_path):
    if make is convolutional:
        options = dict(options, weight_type=UINT8)  # onnxruntime has no ConvInteger of int8 weights
    assert_exact(quantized_dynamically(make(), tmp_path, **options))


@pytest.mark.parametrize("accuracy", ["strict", "relaxed"])
def test_sums_of_integers_are_exact_in_any_accuracy(accuracy):
    """A 3x3 convolution and a product as large as those that other arithmetics take."""
    x, w = RNG.integers(0, 256, (1, 64, 16, 16)).astype(np.uint8), RNG.integers(-20, 21, (64, 64, 3, 3)).astype(np.int8)
    product = RNG.integers(-60, 61, (256, 512)).astype(np.int8)
    rows = RNG.integers(0, 256, (64, 256)).astype(np.uint8)
    feeds, weights = {"x": x, "rows": rows}, {"w": w, "p": product, "z": np.uint8(9)}
    graph = helper.make_graph(
        [node("ConvInteger", "x w z", "c", pads=[1, 1, 1, 1]), node("MatMulInteger", "rows p z", "m")], "g",
        [helper.make_tensor_value_info(k, TensorProto.UINT8, a.shape) for k, a in feeds.items()],
        [helper.make_tensor_value_info(k, TensorProto.INT32, None) for k in ("c", "m")],
        [numpy_helper.from_array(np.asarray(a), k) for k, a in weights.items()])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with ingot.compile(proto, threads="none", accuracy=accuracy) as library:
        found = library.run(feeds)
    padded = np.pad(x.astype(np.int64) - 9, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    np.testing.assert_array_equal(found["c"], np.einsum("nchwij,ocij->nohw", windows, w.astype(np.int64)))
    np.testing.assert_array_equal(found["m"], (rows.astype(np.int64) - 9) @ product.astype(np.int64))


def between(*nodes, shape=(1, 3, 8, 8), opset=21):
    """A model of nodes from "d" to "e", floats between tensors of int8."""
    weights = {"scale": np.float32(0.05), "zero": np.int8(3),
               "out_scale": np.float32(1 / 128), "out_zero": np.int8(-128)}
    ends = [node("QuantizeLinear", "x scale zero", "q"), node("DequantizeLinear", "q scale zero", "d"),
            *nodes, node("QuantizeLinear", "e out_scale out_zero", "y")]
    graph = helper.make_graph(ends, "between", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info("y", TensorProto.INT8, None)],
                              [numpy_helper.from_array(w, name) for name, w in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


@pytest.mark.parametrize("dilations", [[1, 1], [2, 2]])
def test_average_pools_with_dilations(dilations):
    """Those of com.microsoft have none; onnxruntime refuses the model."""
    proto = between(node("AveragePool", "d", "e", kernel_shape=[2, 2], dilations=dilations))
    x = floats(1, 3, 8, 8)
    with ingot.compile(proto, threads="none") as library:
        found = library(x)
    expected, = onnx.reference.ReferenceEvaluator(proto).run(None, {"x": x})
    assert np.abs(found.astype(int) - expected.astype(int)).max() <= 1


@pytest.mark.parametrize("op, shape, given", [("GlobalAveragePool", (1, 3, "h", "w"), (1, 3, 5, 7)),
                                              ("Softmax", (2, "n"), (2, 9))])
def test_quantized_operators_over_symbolic_sizes(op, shape, given):
    _, (found,), (expected,) = results(between(node(op, "d", "e"), shape=shape), {"x": floats(*given)})
    assert np.abs(found.astype(int) - expected.astype(int)).max() <= 1
