"""The networks that tests compile: the light ones of the onnx package, the model zoo, and small ones made here."""
import importlib.util
from functools import lru_cache
from pathlib import Path

import numpy as np
import onnx
import pytest
from control_networks import CONTROL
from onnx import helper, numpy_helper

ROOT = Path(__file__).resolve().parents[1]
ZOO = ROOT.parent / "shared" / "zoo"
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"

light_names = sorted(path.stem.removeprefix("light_") for path in LIGHT.glob("light_*.onnx"))
zoo_names = sorted(path.stem for path in ZOO.glob("*.onnx"))
tiny_names = [name for name in zoo_names if name.startswith("tiny_")]
needs_zoo = pytest.mark.skipif(not zoo_names, reason=f"no model zoo in {ZOO}")


@lru_cache(maxsize=1)
def zoo():
    """The zoo's module: load(name), inputs(model)."""
    spec = importlib.util.spec_from_file_location("zoo_of_models", ZOO / "zoo.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def light_case(name):
    """(path of the model, its inputs, the outputs shipped with it); inputs as onnx's backend test runner makes them."""
    path = LIGHT / f"light_{name}.onnx"
    model = onnx.load(path)
    given = {tensor.name for tensor in model.graph.initializer}
    feeds = {}
    for info in model.graph.input:
        if info.name not in given:
            shape = [dim.dim_value for dim in info.type.tensor_type.shape.dim]
            count = int(np.prod(shape))
            feeds[info.name] = (np.arange(count).reshape(shape) / count).astype(np.float32)
    outputs = [numpy_helper.to_array(onnx.load_tensor(str(LIGHT / f"light_{name}_output_{i}.pb")))
               for i in range(len(model.graph.output))]
    return path, feeds, outputs


def with_symbolic_batch(model, name="batch"):
    """`model` with the first dimension of every input and output made a name."""
    for info in (*model.graph.input, *model.graph.output):
        info.type.tensor_type.shape.dim[0].dim_param = name
    return model


def relative_error(found, expected):
    """The largest error, relative to the output's largest magnitude; infinite where one is no number."""
    assert found.shape == expected.shape and found.dtype == expected.dtype
    error = np.max(np.abs(found.astype(np.float64) - expected), initial=0.0)
    return float(error / max(np.max(np.abs(expected), initial=0.0), 1e-30)) if np.isfinite(error) else np.inf


def onnxruntime_outputs(model, feeds):
    """Run a model by onnxruntime on `feeds`; skips the test where it is not installed."""
    onnxruntime = pytest.importorskip("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


# ---- small networks -----------------------------------------------------------------------------------------------

def make_model(name, nodes, inputs, outputs, weights, opset=17):
    """A ModelProto. inputs, outputs: {name: (numpy dtype, shape)}; weights: {name: array}."""
    def infos(tensors):
        return [helper.make_tensor_value_info(key, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)
                for key, (dtype, shape) in tensors.items()]
    graph = helper.make_graph(nodes, name, infos(inputs), infos(outputs),
                              [numpy_helper.from_array(array, key) for key, array in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def conv_net(batch=1):
    """Conv, BatchNormalization, Relu, a depthwise Conv with stride and a 1x1 one with a residual sum, MaxPool,
    GlobalAveragePool, Gemm, Softmax on float32 [batch, 3, 13, 11]. Sizes that no tile divides."""
    rng = np.random.default_rng(1)
    shapes = {"w1": (20, 3, 3, 3), "scale": (20,), "shift": (20,), "mean": (20,), "var": (20,), "w2": (20, 1, 3, 3),
              "b2": (20,), "w3": (20, 20, 1, 1), "fw": (5, 20), "fb": (5,)}
    weights = {key: (rng.random(shape, np.float32) - np.float32(0.4)) for key, shape in shapes.items()}
    weights["var"] += np.float32(1)
    node = helper.make_node
    nodes = [node("Conv", ["image", "w1"], ["c1"], name="conv1", pads=[1, 1, 1, 1]),
             node("BatchNormalization", ["c1", "scale", "shift", "mean", "var"], ["n1"], name="bn1"),
             node("Relu", ["n1"], ["r1"], name="relu1"),
             node("Conv", ["r1", "w2", "b2"], ["c2"], name="conv2", pads=[1, 1, 1, 1], group=20, strides=[2, 2]),
             node("Conv", ["c2", "w3"], ["c3"], name="conv3"), node("Add", ["c3", "c2"], ["a3"], name="add3"),
             node("Relu", ["a3"], ["r3"], name="relu3"),
             node("MaxPool", ["r3"], ["p3"], name="pool3", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
             node("GlobalAveragePool", ["p3"], ["g"], name="pool"), node("Flatten", ["g"], ["f"], name="flatten"),
             node("Gemm", ["f", "fw", "fb"], ["logits"], name="fc", transB=1),
             node("Softmax", ["logits"], ["prob"], name="softmax")]
    return make_model("conv_net", nodes, {"image": (np.float32, [batch, 3, 13, 11])},
                      {"prob": (np.float32, [batch, 5])}, weights)


def embedding_net():
    """Two outputs of two inputs: rows of a table by int64 index [2, 5], and their sum with float32 [5, 7]."""
    table = np.random.default_rng(2).random((11, 7), np.float32)
    nodes = [helper.make_node("Gather", ["table", "tokens"], ["rows"], name="embed"),
             helper.make_node("Add", ["rows", "position"], ["sum"], name="add")]
    return make_model("embedding_net", nodes, {"tokens": (np.int64, [2, 5]), "position": (np.float32, [5, 7])},
                      {"rows": (np.float32, [2, 5, 7]), "sum": (np.float32, [2, 5, 7])}, {"table": table})


def attention_net(length="length", batch=1, mask=False, width=32, heads=2):
    """One attention layer with a residual sum on float32 [batch, length, width]; mask: [1, 1, length, length]."""
    rng = np.random.default_rng(3)
    weights = {f"{kind}{part}": (rng.standard_normal(shape) * scale).astype(np.float32) for part in "qkvo"
               for kind, shape, scale in (("w", (width, width), width ** -0.5), ("b", (width,), 0.1))}
    weights |= {"split": np.array([0, -1, heads, width // heads]), "join": np.array([0, -1, width]),
                "scale": np.array((width // heads) ** -0.5, np.float32)}
    node = helper.make_node
    nodes = []
    for part, perm in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        nodes += [node("MatMul", ["x", "w" + part], [part + "1"]), node("Add", [part + "1", "b" + part], [part + "2"]),
                  node("Reshape", [part + "2", "split"], [part + "3"]),
                  node("Transpose", [part + "3"], [part], perm=perm)]
    nodes += [node("MatMul", ["q", "k"], ["dots"]), node("Mul", ["dots", "scale"], ["scaled"])]
    nodes += [node("Add", ["scaled", "mask"], ["scores"])] if mask else []
    nodes += [node("Softmax", ["scores" if mask else "scaled"], ["shares"], axis=-1),
              node("MatMul", ["shares", "v"], ["heads"]), node("Transpose", ["heads"], ["turned"], perm=[0, 2, 1, 3]),
              node("Reshape", ["turned", "join"], ["joined"]), node("MatMul", ["joined", "wo"], ["projected"]),
              node("Add", ["projected", "bo"], ["biased"]), node("Add", ["x", "biased"], ["y"])]
    inputs = {"x": (np.float32, [batch, length, width])}
    inputs |= {"mask": (np.float32, [1, 1, length, length])} if mask else {}
    return make_model("attention_net", nodes, inputs, {"y": (np.float32, [batch, length, width])}, weights)


class _Layers:
    """Nodes of a network, one after the other; weights are drawn from the seed so that signals keep their size."""

    def __init__(self, seed):
        self.rng, self.nodes, self.weights = np.random.default_rng(seed), [], {}

    def weight(self, *shape, fan=None):
        """The name of a new weight: normal, divided by the root of the number of terms `fan`."""
        fan = fan or int(np.prod(shape[1:])) or 1
        return self.constant((self.rng.standard_normal(shape) * (2 / fan) ** 0.5).astype(np.float32))

    def constant(self, array):
        name = f"w{len(self.weights)}"
        self.weights[name] = np.asarray(array)
        return name

    def __call__(self, op, *inputs, outputs=1, **attributes):
        """The name of the node's output, or their names."""
        names = [f"{op.lower()}{len(self.nodes)}" + (f"_{n}" if outputs > 1 else "") for n in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, name=f"{op}_{len(self.nodes)}", **attributes))
        return names if outputs > 1 else names[0]

    def conv(self, x, inputs, filters, kernel, act="Relu", group=1, **attributes):
        """A convolution that keeps the size, with a bias; then `act`."""
        w = self.weight(filters, inputs // group, kernel, kernel)
        bias = self.constant((self.rng.standard_normal(filters) * 0.1).astype(np.float32))
        y = self("Conv", x, w, bias, pads=[kernel // 2] * 4, group=group, **attributes)
        return self(act, y) if act else y

    def dense(self, x, inputs, units, act=None):
        """x W + b, for x of any rank; then `act`."""
        y = self("MatMul", x, self.weight(inputs, units, fan=inputs))
        y = self("Add", y, self.constant((self.rng.standard_normal(units) * 0.1).astype(np.float32)))
        return self(act, y) if act else y

    def norm(self, x, width):
        return self("LayerNormalization", x, self.constant(np.ones(width, np.float32)),
                    self.constant(np.zeros(width, np.float32)), axis=-1)

    def model(self, name, inputs, out, shape, opset=17):
        """The model whose last value `out` is its output "y"."""
        self.nodes.append(helper.make_node("Identity", [out], ["y"], name="output"))
        return make_model(name, self.nodes, inputs, {"y": (np.float32, shape)}, self.weights, opset)


def residual_net(batch=1):
    """Two residual blocks of 3x3 convolutions of 16 and 32 channels, the second with a stride and a projection, on
    float32 [batch, 3, 16, 16]."""
    net = _Layers(11)
    x = net.conv("image", 3, 16, 3)
    x = net("Relu", net("Add", x, net.conv(net.conv(x, 16, 16, 3), 16, 16, 3, act=None)))
    short = net.conv(x, 16, 32, 1, act=None, strides=[2, 2])
    x = net("Relu", net("Add", short, net.conv(net.conv(x, 16, 32, 3, strides=[2, 2]), 32, 32, 3, act=None)))
    x = net("Flatten", net("GlobalAveragePool", x))
    return net.model("residual_net", {"image": (np.float32, [batch, 3, 16, 16])}, net.dense(x, 32, 10), [batch, 10])


def mobile_net():
    """Inverted residuals: expansion, a depthwise convolution, squeeze and excitation, projection, on [1, 3, 15, 17]."""
    net = _Layers(12)
    x = net.conv("image", 3, 8, 3, strides=[2, 2])
    low, high = net.constant(np.float32(0)), net.constant(np.float32(6))
    wide = net("Clip", net.conv(x, 8, 24, 1, act=None), low, high)
    wide = net("Clip", net.conv(wide, 24, 24, 3, act=None, group=24), low, high)
    gate = net.conv(net.conv(net("GlobalAveragePool", wide), 24, 6, 1), 6, 24, 1, act="Sigmoid")
    x = net("Add", x, net.conv(net("Mul", wide, gate), 24, 8, 1, act=None))
    x = net("Flatten", net("GlobalAveragePool", net("HardSwish", x)))
    return net.model("mobile_net", {"image": (np.float32, [1, 3, 15, 17])}, net.dense(x, 8, 6), [1, 6])


def dense_blocks():
    """Densely joined layers and branches of different kernels, their concatenations and pools, on [1, 4, 12, 12]."""
    net = _Layers(13)
    x, channels = net.conv("image", 4, 12, 3), 12
    for _ in range(2):
        x, channels = net("Concat", x, net.conv(net.conv(x, channels, 16, 1), 16, 8, 3), axis=1), channels + 8
    pool = net("AveragePool", x, kernel_shape=[3, 3], pads=[1] * 4, count_include_pad=1)
    x = net("Concat", net.conv(x, channels, 6, 1), net.conv(x, channels, 6, 5), net.conv(pool, channels, 6, 1), axis=1)
    x = net("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    return net.model("dense_blocks", {"image": (np.float32, [1, 4, 12, 12])}, x, [1, 18, 6, 6])


def shuffle_net():
    """Convolutions in groups and a shuffle of channels by reshape and transpose, on [1, 12, 9, 9]."""
    net = _Layers(14)
    x = net.conv("image", 12, 24, 1, group=3)
    x = net("Reshape", x, net.constant(np.array([1, 3, 8, 9, 9])))
    x = net("Reshape", net("Transpose", x, perm=[0, 2, 1, 3, 4]), net.constant(np.array([1, 24, 9, 9])))
    x = net("Add", "image", net.conv(net.conv(x, 24, 24, 3, act=None, group=24), 24, 12, 1, act=None, group=3))
    return net.model("shuffle_net", {"image": (np.float32, [1, 12, 9, 9])}, x, [1, 12, 9, 9])


def unet():
    """Down, up again by a transposed convolution and by Resize, joined with what was before, on [1, 2, 16, 12]."""
    net = _Layers(15)
    wide = net.conv("image", 2, 8, 3)
    deep = net.conv(net("MaxPool", wide, kernel_shape=[2, 2], strides=[2, 2]), 8, 16, 3)
    up = net("ConvTranspose", deep, net.weight(16, 8, 2, 2, fan=64), strides=[2, 2])
    scales = net.constant(np.array([1, 1, 2, 2], np.float32))
    again = net("Resize", deep, "", scales, mode="nearest", coordinate_transformation_mode="asymmetric",
                nearest_mode="floor")
    x = net.conv(net("Concat", wide, up, again, axis=1), 32, 8, 3)
    return net.model("unet", {"image": (np.float32, [1, 2, 16, 12])}, net.conv(x, 8, 3, 1, act="Sigmoid"),
                     [1, 3, 16, 12])


def autoencoder(batch=1):
    """Five layers of products on [batch, 40], by way of 8 numbers."""
    net, x = _Layers(16), "x"
    for inputs, units, act in ((40, 32, "Relu"), (32, 8, "Relu"), (8, 32, "LeakyRelu"), (32, 40, None)):
        x = net.dense(x, inputs, units, act)
    return net.model("autoencoder", {"x": (np.float32, [batch, 40])}, x, [batch, 40])


def recurrent_net():
    """A GRU, then an LSTM in both directions, on [7, 1, 10]; scores of the middle step."""
    net, hidden = _Layers(17), 16
    gru = net("GRU", "x", net.weight(1, 3 * hidden, 10, fan=10), net.weight(1, 3 * hidden, hidden, fan=hidden * 4),
              net.constant((net.rng.standard_normal((1, 6 * hidden)) * 0.1).astype(np.float32)), outputs=2,
              hidden_size=hidden, linear_before_reset=1)[0]
    x = net("Squeeze", gru, net.constant(np.array([1])))
    both = net("LSTM", x, net.weight(2, 4 * hidden, hidden, fan=hidden), net.weight(2, 4 * hidden, hidden,
               fan=hidden * 4), outputs=3, hidden_size=hidden, direction="bidirectional")[0]
    x = net("Reshape", net("Transpose", both, perm=[0, 2, 1, 3]), net.constant(np.array([7, 1, 2 * hidden])))
    x = net("Gather", x, net.constant(np.array(3)), axis=0)
    return net.model("recurrent_net", {"x": (np.float32, [7, 1, 10])}, net.dense(x, 2 * hidden, 5), [1, 5])


def transformer(length=9, width=32, heads=2):
    """Tokens and positions, a layer of causal attention and of products with norms before them, and scores of the
    vocabulary; `length` may be a name."""
    net, words, most = _Layers(18), 40, 16
    x = net("Gather", net.weight(words, width, fan=2), "tokens")
    x = net("Add", x, net("Gather", net.weight(most, width, fan=8), "positions"))
    y, parts = net.norm(x, width), []
    for perm in ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)):
        part = net("Reshape", net.dense(y, width, width), net.constant(np.array([0, -1, heads, width // heads])))
        parts.append(net("Transpose", part, perm=perm))
    scores = net("Mul", net("MatMul", *parts[:2]), net.constant(np.float32((width // heads) ** -0.5)))
    shares = net("Softmax", net("Add", scores, "mask"), axis=-1)
    y = net("Transpose", net("MatMul", shares, parts[2]), perm=[0, 2, 1, 3])
    x = net("Add", x, net.dense(net("Reshape", y, net.constant(np.array([0, -1, width]))), width, width))
    wide = net.dense(net.norm(x, width), width, 4 * width)
    root = net("Div", wide, net.constant(np.float32(2 ** 0.5)))
    gelu = net("Mul", net("Mul", wide, net("Add", net("Erf", root), net.constant(np.float32(1)))),
               net.constant(np.float32(0.5)))
    x = net.norm(net("Add", x, net.dense(gelu, 4 * width, width)), width)
    return net.model("transformer", {"tokens": (np.int64, [1, length]), "positions": (np.int64, [1, length]),
                                     "mask": (np.float32, [1, 1, length, length])},
                     net.dense(x, width, words), [1, length, words])


# Every small network by name, all of static shapes.
SMALL = {"conv_net": conv_net, "embedding_net": embedding_net, "attention_net": lambda: attention_net(length=6),
         "residual_net": residual_net, "mobile_net": mobile_net, "dense_blocks": dense_blocks,
         "shuffle_net": shuffle_net, "unet": unet, "autoencoder": autoencoder, "recurrent_net": recurrent_net,
         "transformer": transformer}


def feeds_of(model, seed=0, dims=3):
    """{input: array}: floats normal, integers 0 to 8; symbolic dimensions are `dims`."""
    rng, feeds, given = np.random.default_rng(seed), {}, {t.name for t in model.graph.initializer}
    for info in model.graph.input:
        if info.name not in given:
            shape = [d.dim_value or dims for d in info.type.tensor_type.shape.dim]
            dtype = helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
            feeds[info.name] = (rng.integers(0, 8, shape) if dtype.kind in "iu" else
                                rng.random(shape) < 0.5 if dtype.kind == "b" else rng.standard_normal(shape)
                                ).astype(dtype)
    return feeds


def load(name):
    """The network `name` as ingot.compile takes it: one made here, a light_ one, or one of the zoo."""
    if name in SMALL or name in CONTROL:
        return (SMALL | CONTROL)[name]()
    return light_case(name.removeprefix("light_"))[0] if name.startswith("light_") else zoo().load(name)
