"""What stands between DequantizeLinear and QuantizeLinear and moves bytes, or maps them one by one, is made of
bytes."""
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import ingot

onnxruntime = pytest.importorskip("onnxruntime")

RNG = np.random.default_rng(46)
SHAPE = (1, 4, 10, 10)


def node(op, inputs, output, **attrs):
    return helper.make_node(op, inputs.split(), [output], name=output, **attrs)


def between(nodes, dtype, out=None, weights=()):
    """x, quantized and dequantized as d, by nodes e, quantized as y. out: (scale, zero point of int8) of y, by default
    those of x."""
    shift = 0 if dtype == np.int8 else 128
    scale, zero = np.float32(0.05), dtype(3 + shift)
    constants = {"s": scale, "z": zero, "t": np.float32(out[0]) if out else scale,
                 "u": dtype(out[1] + shift) if out else zero, **dict(weights)}
    ends = [node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "d"), *nodes,
            node("QuantizeLinear", "e t u", "y")]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        ends, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", kind, None)],
        [numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def ints(*values):
    return np.array(values, np.int64)


MOVES = {
    "MaxPool": ([node("MaxPool", "d", "e", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])], {}),
    "GlobalMaxPool": ([node("GlobalMaxPool", "d", "e")], {}),
    "Transpose": ([node("Transpose", "d", "e", perm=[0, 2, 3, 1])], {}),
    "Reshape": ([node("Reshape", "d r", "e")], {"r": ints(1, -1)}),
    "Slice": ([node("Slice", "d a b c", "e")], {"a": ints(1), "b": ints(5), "c": ints(2)}),
    "Gather": ([node("Gather", "d i", "e", axis=2)], {"i": ints(0, 2, 2)}),
}
_GELU = [node("Div", "d r", "a"), node("Erf", "a", "b"), node("Add", "b one", "c"), node("Mul", "d c", "f"),
         node("Mul", "f half", "e")]
MAPS = {
    "Relu": ([node("Relu", "d", "e")], None, {}),
    "HardSwish": ([node("HardSwish", "d", "e")], (0.03, -100), {}),
    "Gelu": (_GELU, (0.04, -3), {"r": np.float32(2 ** .5), "one": np.float32(1), "half": np.float32(.5)}),
    "Sigmoid": ([node("Sigmoid", "d", "e")], (1 / 256, -128), {}),
    "Tanh": ([node("Tanh", "d", "e")], (1 / 128, 0), {}),
    "Clip": ([node("Clip", "d low high", "e")], (0.03, -100), {"low": np.float32(0), "high": np.float32(6)}),
}


def assert_equal_to_onnxruntime(proto, target):
    """On the graph as it is written."""
    x = (RNG.standard_normal(SHAPE) * 3).astype(np.float32)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    expected, = onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    with ingot.compile(proto, target=target, threads="none") as library:
        found = library.run({"x": x})["y"]
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("target", ["c", "host"])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("op", MOVES)
def test_operators_that_move_elements_move_bytes(op, dtype, target):
    nodes, weights = MOVES[op]
    assert_equal_to_onnxruntime(between(nodes, dtype, weights=weights), target)


@pytest.mark.parametrize("target", ["c", "host"])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("op", MAPS)
def test_functions_of_bytes(op, dtype, target):
    nodes, out, weights = MAPS[op]
    assert_equal_to_onnxruntime(between(nodes, dtype, out, weights), target)


def test_no_floats_around_a_pool():
    """Of one scale; of two, the conversion is that of floats."""
    nodes, weights = MOVES["MaxPool"]
    graph = ingot.from_onnx(between(nodes, np.int8, weights=weights))["main"]
    pool = next(b for b in graph.bindings if getattr(b.value, "op", "").startswith("nn.max_pool"))
    assert pool.value.args[0].struct_info.dtype == "int8" == pool.var.struct_info.dtype
    other = ingot.from_onnx(between(nodes, np.int8, (0.04, 2), weights))["main"]
    pool = next(b for b in other.bindings if getattr(b.value, "op", "").startswith("nn.max_pool"))
    assert pool.var.struct_info.dtype == "float32"


@pytest.mark.parametrize("target", ["c", "host"])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_attention_multiplies_bytes(dtype, target):
    """Both products of attention; a part of a softmax is quantized without a zero point."""
    zero = np.iinfo(dtype).min
    nodes = [node("Transpose", "d", "k", perm=[0, 1, 3, 2]), node("MatMul", "d k", "scores"),
             node("QuantizeLinear", "scores v u", "qs"), node("DequantizeLinear", "qs v u", "ds"),
             node("Softmax", "ds", "p"), node("QuantizeLinear", "p w n", "qp"),
             node("DequantizeLinear", "qp w n", "dp"), node("MatMul", "dp d", "e")]
    proto = between(nodes, dtype, (0.0417, 2),
                    weights={"v": np.float32(0.0973), "w": np.float32(1 / 256), "n": dtype(zero)})
    assert_equal_to_onnxruntime(proto, target)
    mod = ingot.inspect_stage(proto, "fused", target="x86-64-v4-vnni")
    assert mod.count("qnn.words") == 2


def network():
    """Two convolutions, a mean of planes and a product, quantized by hand; and the same in floats."""
    weights = {"w": RNG.integers(-127, 128, (16, 4, 3, 3)).astype(np.int8), "ws": np.float32(0.01), "wz": np.int8(0),
               "v": RNG.integers(-127, 128, (16, 16, 3, 3)).astype(np.int8), "s": np.float32(0.05), "z": np.int8(3),
               "axes": ints(2, 3)}
    floats = [node("DequantizeLinear", "w ws wz", "wd"), node("DequantizeLinear", "v ws wz", "vd")]
    steps = [("Conv", "{} wd", dict(pads=[1, 1, 1, 1])), ("Conv", "{} vd", {}), ("ReduceMean", "{}", dict(axes=[2, 3]))]
    quantized, plain, x, y = [], [], "x", "x"
    for n, (op, inputs, attrs) in enumerate(steps):
        quantized += [node("QuantizeLinear", f"{x} s z", f"q{n}"), node("DequantizeLinear", f"q{n} s z", f"d{n}"),
                      node(op, inputs.format(f"d{n}"), f"f{n}", **attrs)]
        plain.append(node(op, inputs.format(y), f"p{n}", **attrs))
        x, y = f"f{n}", f"p{n}"
    quantized.append(node("QuantizeLinear", f"{x} s z", "y"))

    def model(nodes, output, kind):
        graph = helper.make_graph(
            [*floats, *nodes], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
            [helper.make_tensor_value_info(output, kind, None)],
            [numpy_helper.from_array(np.asarray(a), name) for name, a in weights.items() if name != "axes"])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    return model(quantized, "y", TensorProto.INT8), model(plain, y, TensorProto.FLOAT)


def test_sizes_of_a_network_of_bytes():
    """Weights take a byte each, and activations a quarter of what floats take: the mean reads bytes, too."""
    quantized, plain = network()
    assert_equal_to_onnxruntime(quantized, "c")
    sizes = [(ingot.memory_report(m, target="c", threads="none").total,
              ingot.compile(m, target="c", threads="none").model.program.weights_bytes) for m in (quantized, plain)]
    (arena, weights), (floats, _) = sizes
    assert arena <= floats / 4 + 256
    assert weights <= 16 * 4 * 9 + 16 * 16 * 9 + 512
