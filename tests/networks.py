"""The networks that tests compile: the light ones of the onnx package, the model zoo, and small ones made here."""
import importlib.util
from functools import lru_cache
from pathlib import Path

import numpy as np
import onnx
import pytest
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
    """What onnxruntime makes of `feeds`; skips the test where it is not installed."""
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


def load(name):
    """The network `name` as ingot.compile takes it: one made here, a light_ one, or one of the zoo."""
    made_here = {"conv_net": conv_net, "embedding_net": embedding_net}
    if name in made_here:
        return made_here[name]()
    return light_case(name.removeprefix("light_"))[0] if name.startswith("light_") else zoo().load(name)
