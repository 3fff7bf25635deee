"""Odd ONNX files, by name: huge sizes, damaged external data, wrong names. None may be imported as if it were valid."""
from __future__ import annotations

import os

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from onnx_models import model, value_info

HUGE = 1 << 40
N = helper.make_node


def _ints(*values):
    return np.array(values, np.int64)


def _node(op, weights=None, inputs=None, opset=17, shape=(2, 3), kind="float32", **attrs):
    """y = op(x, weights...), the node named `odd`."""
    node = N(op, inputs or ["x", *(weights or {})], ["y"], name="odd", **attrs)
    return model([node], {"x": (list(shape), kind)}, ["y"], opset, weights)


def _sizes():
    image = (1, 1, 2, 2)
    fill = {"value": numpy_helper.from_array(np.float32([1]))}
    yield "ConstantOfShape", _node("ConstantOfShape", {"s": _ints(HUGE)}, ["s"], **fill)
    yield "ConstantOfShape overflow", _node("ConstantOfShape", {"s": _ints(HUGE, HUGE, HUGE)}, ["s"], **fill)
    yield "ConstantOfShape of integers", _node("ConstantOfShape", {"s": _ints(1 << 30)}, ["s"],
                                               value=numpy_helper.from_array(_ints(1)))
    yield "Expand", _node("Expand", {"s": _ints(HUGE, 2, 3)})
    yield "Expand of a constant", _node("Expand", {"c": _ints(1), "s": _ints(1 << 30)}, ["c", "s"])
    yield "Tile", _node("Tile", {"s": _ints(HUGE, 1)})
    yield "Tile of a constant", _node("Tile", {"c": _ints(1), "s": _ints(HUGE)}, ["c", "s"])
    yield "Pad", _node("Pad", {"s": _ints(0, 0, HUGE, 0)})
    yield "Pad of a constant", _node("Pad", {"c": np.float32([1]), "s": _ints(0, HUGE)}, ["c", "s"])
    for size in ((1 << 63) - 1, -(1 << 63) + 1):
        yield f"Pad {size}", _node("Pad", {"s": _ints(0, size, 1, 0)})
    yield "Pad of nothing", _node("Pad", {"c": np.zeros((0, 2), np.float32), "s": _ints(0, HUGE, 0, 0)}, ["c", "s"])
    yield "negative Pad", _node("Pad", {"s": _ints(0, 0, -HUGE, 0)})
    yield "Range", _node("Range", {"a": np.int64(0), "b": np.int64(HUGE), "d": np.int64(1)}, ["a", "b", "d"])
    for limit in (1e30, np.inf, np.nan):
        bounds = {"a": np.float32(0), "b": np.float32(limit), "d": np.float32(1)}
        yield f"Range to {limit}", _node("Range", bounds, list(bounds))
    yield "Resize to sizes", _node("Resize", {"s": _ints(1, 1, HUGE, 2)}, ["x", "", "", "s"], shape=image)
    yield "Resize by scales", _node("Resize", {"s": np.float32([1, 1, 1e30, 1])}, ["x", "", "s"], shape=image)
    yield "Resize by infinity", _node("Resize", {"s": np.float32([1, 1, np.inf, 1])}, ["x", "", "s"], shape=image)
    yield "OneHot", _node("OneHot", {"d": np.int64(HUGE), "v": np.float32([0, 1])}, kind="int64")
    yield "EyeLike", _node("EyeLike", shape=(1 << 20, 1 << 20))
    yield "Trilu", _node("Trilu", shape=(1 << 20, 1 << 20))
    yield "input", _node("Relu", shape=(HUGE,))
    yield "input whose product overflows", _node("Relu", shape=(HUGE, HUGE))
    yield "Reshape", _node("Reshape", {"s": _ints(HUGE, HUGE)})
    yield "MatMul", _node("MatMul", inputs=["x", "x"], shape=(1 << 30, 1 << 30))
    yield "100 axes", _node("Reshape", {"s": _ints(*[1] * 100)}, shape=(1,))
    for name in ("strides", "dilations", "pads"):
        for value in (1 << 31, HUGE, (1 << 63) - 1, -HUGE):
            values = [value] * (4 if name == "pads" else 2)
            if value < 0 or name != "strides":  # a stride beyond the input leaves one window, which is valid
                yield f"Conv {name} {value}", _node("Conv", {"w": np.ones((1, 1, 1, 2), np.float32)}, shape=image,
                                                   **{name: values})
            yield f"ConvTranspose {name} {value}", _node("ConvTranspose", {"w": np.ones((1, 1, 2, 2), np.float32)},
                                                         shape=image, **{name: values})
            yield f"MaxPool {name} {value}", _node("MaxPool", kernel_shape=[2, 2], shape=image, ceil_mode=1,
                                                   **{name: values}) if value < 0 or name != "strides" else _node(
                "MaxPool", kernel_shape=[HUGE, HUGE], shape=image)
    yield "Gather beyond the end", _node("Gather", {"i": _ints(7)})
    yield "Gather before the begin", _node("Gather", {"i": _ints(-9)})
    yield "Gather of a constant", _node("Gather", {"c": _ints(1, 2), "i": _ints(5)}, ["c", "i"])
    yield "Unsqueeze at 2**40", _node("Unsqueeze", {"a": _ints(HUGE)})
    yield "Split", _node("Split", {"s": _ints(HUGE, -HUGE)})
    yield "DepthToSpace 0", _node("DepthToSpace", blocksize=0, shape=image)
    yield "SpaceToDepth 0", _node("SpaceToDepth", blocksize=0, shape=image)


def _external(folder):
    def with_data(dims=(2, 3), **entries):
        proto = _node("Add", {"w": np.zeros((2, 3), np.float32)})
        tensor = proto.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.dims[:] = dims
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in entries.items():
            tensor.external_data.add(key=key, value=value)
        return proto

    (folder / "w.bin").write_bytes(bytes(24))
    (folder / "folder").mkdir()
    os.mkfifo(folder / "fifo")
    for key in ("offset", "length"):
        for value in ("-1", "x", "", "1e3", "9" * 30, str(1 << 62), "\u0664"):
            yield f"{key} {value!r}", with_data(location="w.bin", **{key: value})
    for dims in ([-2, -3], [-1], [HUGE, HUGE], [HUGE], [(1 << 63) - 1] * 3):
        yield f"external dims {dims}", with_data(dims, location="w.bin")
    for place in ("fifo", "folder", "../w.bin", "/etc/passwd", "/dev/zero", "", "\0", "a\0b", "no", "x" * 5000, "."):
        yield f"location {place[:20]!r}", with_data(location=place)


def _damaged():
    proto = _node("Add", {"w": np.zeros((2, 3), np.float32)})
    for dims in ([-1], [-2, -3], [HUGE], [7]):
        new = type(proto).FromString(proto.SerializeToString())
        new.graph.initializer[0].dims[:] = dims
        yield f"dims {dims}", new
    plain = model([N("Relu", ["wxyz"], ["y"], name="node")], {"wxyz": [2]}, ["y"]).SerializeToString()
    yield "name that is no UTF-8", plain.replace(b"node", b"n\xff\xfee")
    yield "tensor that is no UTF-8", plain.replace(b"wxyz", b"w\xff\xfez")
    cycle = [N("Add", ["x", "b"], ["a"]), N("Relu", ["a"], ["b"])]
    yield "cycle", model(cycle, {"x": [2]}, ["b"])
    sequence = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, [2])
    other = model([N("Relu", ["x"], ["y"])], {"x": [2]}, ["y"])
    other.graph.input.append(sequence)
    yield "input that is a sequence", other
    yield "input of strings", model([N("Identity", ["x"], ["y"])], {}, ["y"])
    none = model([N("Relu", ["x"], ["y"])], {}, ["y"])
    none.graph.input.append(value_info("x", None))
    yield "input without a shape", none
    learned = model([N("Relu", ["x"], ["y"])], {"x": [2]}, ["y"])
    learned.opset_import[0].domain = "ai.onnx.ml"
    yield "ai.onnx.ml alone", learned


def odd_models(folder):
    """{what is odd: path of the file}. folder: an empty pathlib.Path."""
    paths = {}
    for number, (name, proto) in enumerate([*_sizes(), *_external(folder), *_damaged()]):
        paths[name] = folder / f"odd{number}.onnx"
        paths[name].write_bytes(proto if isinstance(proto, bytes) else proto.SerializeToString())
    return paths
