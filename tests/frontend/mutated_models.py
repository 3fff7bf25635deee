"""Small models of every family of operators, and mutations of them: attributes, dims, dtypes, weights, edges, opsets.

Run as a program it compiles mutants one after the other and prints a line of JSON for each, so that its parent sees
which one hangs or ends the process: `python mutated_models.py SEED FIRST COUNT FOLDER`.
"""
import json
import resource
import signal
import sys
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from onnx_models import model

N = helper.make_node
MOST_MEMORY = 4 << 30  # address space of a process that compiles mutants
MOST_SECONDS = 30  # of this process's CPU time, for one mutant: other processes may load the machine
TOLERANCE = 1e-3  # of the largest magnitude
SIZES = (0, 1, 2, 3, 5, 7, 64, 1000, -1, -2, -7, 1 << 16, 1 << 31, 1 << 40, -(1 << 40), (1 << 63) - 1, -(1 << 63))
NUMBERS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-30, 1e30, -1e30, float("inf"), float("-inf"), float("nan"), 3e38)
KINDS = (1, 2, 3, 5, 6, 7, 9, 10, 11, 12, 13, 8, 14, 16, 17, 22)  # TensorProto's numbers of dtypes


# ---- models that are valid ----------------------------------------------------------------------------------------

def _ints(*values):
    return np.array(values, np.int64)


def _draw(*shape):
    return np.random.default_rng(sum(shape) + len(shape)).standard_normal(shape).astype(np.float32)


def _convolutions():
    nodes = [N("Conv", ["x", "w", "b"], ["c"], name="conv", pads=[1, 1, 1, 1], strides=[1, 2], dilations=[1, 1],
               kernel_shape=[3, 3], group=1),
             N("BatchNormalization", ["c", "s", "h", "m", "v"], ["n"], name="bn", epsilon=1e-3),
             N("Relu", ["n"], ["r"], name="relu"),
             N("MaxPool", ["r"], ["p"], name="pool", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
             N("GlobalAveragePool", ["p"], ["g"], name="mean"), N("Flatten", ["g"], ["f"], name="flat", axis=1),
             N("Gemm", ["f", "gw", "gb"], ["l"], name="gemm", transB=1, alpha=0.5, beta=2.0),
             N("Softmax", ["l"], ["y"], name="soft", axis=-1)]
    weights = {"w": _draw(4, 3, 3, 3), "b": _draw(4), "s": _draw(4), "h": _draw(4), "m": _draw(4),
               "v": np.abs(_draw(4)), "gw": _draw(5, 4), "gb": _draw(5)}
    return model(nodes, {"x": [2, 3, 7, 8]}, ["y"], 17, weights)


def _transposed():
    nodes = [N("ConvTranspose", ["x", "w"], ["c"], name="up", strides=[2, 2], pads=[1, 0, 1, 0], group=2,
               output_padding=[1, 0], dilations=[1, 1]),
             N("InstanceNormalization", ["c", "s", "s"], ["n"], name="norm", epsilon=1e-2),
             N("Resize", ["n", "", "z"], ["r"], name="resize", mode="linear",
               coordinate_transformation_mode="half_pixel"),
             N("AveragePool", ["r"], ["p"], name="pool", kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1),
             N("DepthToSpace", ["p"], ["y"], name="space", blocksize=2, mode="CRD")]
    weights = {"w": _draw(4, 2, 3, 2), "s": _draw(4), "z": np.float32([1, 1, 1.5, 2])}
    return model(nodes, {"x": [1, 4, 3, 4]}, ["y"], 17, weights)


def _depthwise():
    nodes = [N("Conv", ["x", "w"], ["c"], name="depth", group=4, auto_pad="SAME_UPPER", strides=[2]),
             N("Clip", ["c", "lo", "hi"], ["k"], name="clip"), N("PRelu", ["k", "slope"], ["p"], name="prelu"),
             N("Conv", ["p", "u"], ["q"], name="point"), N("Transpose", ["q"], ["t"], name="turn", perm=[0, 2, 1]),
             N("LayerNormalization", ["t", "g"], ["y"], name="norm", axis=-1, epsilon=1e-3)]
    weights = {"w": _draw(4, 1, 3), "lo": np.float32(-1), "hi": np.float32(6), "slope": _draw(4, 1),
               "u": _draw(6, 4, 1), "g": _draw(6)}
    return model(nodes, {"x": [2, 4, 9]}, ["y"], 17, weights)


def _shapes(symbolic=False):
    nodes = [N("Shape", ["x"], ["s"], name="shape"), N("Gather", ["s", "zero"], ["b"], name="batch", axis=0),
             N("Unsqueeze", ["b", "zero1"], ["b1"], name="unsq"),
             N("Concat", ["b1", "rest"], ["t"], name="cat", axis=0),
             N("Reshape", ["x", "t"], ["r"], name="reshape"),
             N("Slice", ["r", "st", "en", "ax", "sp"], ["c"], name="cut"),
             N("Expand", ["c", "ex"], ["e"], name="expand"), N("Tile", ["e", "reps"], ["l"], name="tile"),
             N("Squeeze", ["l", "zero1"], ["y"], name="squeeze")]
    weights = {"zero": np.int64(0), "zero1": _ints(0), "rest": _ints(4, -1), "st": _ints(0), "en": _ints(3),
               "ax": _ints(1), "sp": _ints(2), "ex": _ints(1, 1, 1, 1), "reps": _ints(1, 2, 1, 2)}
    return model(nodes, {"x": ["n" if symbolic else 2, 3, 8]}, ["y"], 17, weights)


def _gathers():
    nodes = [N("Gather", ["table", "i"], ["g"], name="embed", axis=0), N("Add", ["g", "x"], ["a"], name="add"),
             N("GatherElements", ["a", "e"], ["h"], name="elements", axis=1),
             N("Split", ["h", "parts"], ["p", "q"], name="split", axis=1), N("Mul", ["p", "q"], ["m"], name="mul"),
             N("Concat", ["m", "p", "q"], ["c"], name="concat", axis=-1),
             N("Pad", ["c", "pads", "fill"], ["y"], name="pad", mode="constant")]
    weights = {"table": _draw(6, 4), "e": np.array([[0, 3, -1, 2], [1, 1, 0, 0]]), "parts": _ints(2, 2),
               "pads": _ints(0, 1, 1, 0), "fill": np.float32(0.5)}
    return model(nodes, {"x": [2, 4], "i": ([2], "int64")}, ["y"], 17, weights)


def _recurrent(op, gates):
    nodes = [N(op, ["x", "w", "r", "b", "lens", "h0"], ["o", "last"], name="cell", hidden_size=3,
               direction="bidirectional"),
             N("Squeeze", ["last", "zero"], ["z"], name="squeeze"),
             N("ReduceMean", ["o"], ["m"], name="mean", axes=[1]),
             N("Tanh", ["m"], ["y"], name="tanh")]
    if op == "LSTM":
        nodes[1] = N("Identity", ["last"], ["z"], name="same")
    weights = {"w": _draw(2, gates * 3, 4), "r": _draw(2, gates * 3, 3), "b": _draw(2, gates * 6),
               "lens": np.array([5, 5], np.int32), "h0": _draw(2, 2, 3)}
    weights |= {} if op == "LSTM" else {"zero": _ints(0)}
    if op != "LSTM":
        nodes[1] = N("Transpose", ["last"], ["z"], name="turn", perm=[1, 0, 2])
        weights.pop("zero")
    return model(nodes, {"x": [5, 2, 4]}, ["y", "z"], 17, weights)


def _reductions():
    nodes = [N("ReduceSum", ["x", "axes"], ["a"], name="sum", keepdims=1), N("Div", ["x", "a"], ["d"], name="div"),
             N("ReduceMax", ["d"], ["m"], name="max", axes=[-1], keepdims=0),
             N("ReduceL2", ["d"], ["l"], name="l2", axes=[0, 2]), N("ArgMax", ["d"], ["y"], name="arg", axis=1),
             N("LogSoftmax", ["d"], ["s"], name="logsoft", axis=1), N("Sub", ["s", "l"], ["z"], name="sub"),
             N("Max", ["m", "m", "one"], ["w"], name="most")]
    outputs = [helper.make_tensor_value_info("y", TensorProto.INT64, None), "z", "w"]
    return model(nodes, {"x": [2, 3, 4]}, outputs, 17, {"axes": _ints(1), "one": np.float32([1])})


def _integers():
    nodes = [N("Div", ["i", "j"], ["d"], name="div"), N("Mod", ["d", "seven"], ["m"], name="mod"),
             N("Greater", ["m", "i"], ["g"], name="more"), N("Where", ["g", "d", "j"], ["w"], name="where"),
             N("Cast", ["w"], ["f"], name="cast", to=TensorProto.FLOAT), N("Pow", ["f", "two"], ["p"], name="pow"),
             N("QuantizeLinear", ["p", "scale", "zp"], ["q"], name="quantize"),
             N("DequantizeLinear", ["q", "scale", "zp"], ["y"], name="dequantize")]
    weights = {"seven": np.int32(7), "two": np.float32(2), "scale": np.float32(0.1), "zp": np.uint8(3)}
    return model(nodes, {"i": ([3, 4], "int32"), "j": ([4], "int32")}, ["y"], 17, weights)


def _made():
    """Whether a tensor is made of constants and shapes alone."""
    nodes = [N("Range", ["a", "b", "c"], ["r"], name="range"),
             N("ConstantOfShape", ["dims"], ["f"], name="filled",
               value=numpy_helper.from_array(np.float32([2]))),
             N("Cast", ["r"], ["rf"], name="cast", to=TensorProto.FLOAT), N("Mul", ["rf", "f"], ["m"], name="mul"),
             N("EyeLike", ["m"], ["e"], name="eye", k=1), N("MatMul", ["m", "k"], ["p"], name="matmul"),
             N("Constant", [], ["v"], name="constant", value_floats=[1.0, 2.0]),
             N("Add", ["p", "v"], ["s"], name="add"),
             N("Trilu", ["s"], ["t"], name="trilu", upper=0), N("Gemm", ["x", "t"], ["y"], name="gemm", transA=1),
             N("ReduceSum", ["e"], ["z"], name="sum")]
    weights = {"a": np.int64(0), "b": np.int64(5), "c": np.int64(1), "dims": _ints(3, 5), "k": _draw(5, 2)}
    return model(nodes, {"x": [3, 2]}, ["y", "z"], 17, weights)


def _attention():
    nodes = [N("MatMul", ["x", "w"], ["q"], name="query"), N("Reshape", ["q", "heads"], ["h"], name="heads"),
             N("Transpose", ["h"], ["t"], name="turn", perm=[0, 2, 1, 3]),
             N("Transpose", ["h"], ["k"], name="keys", perm=[0, 2, 3, 1]),
             N("MatMul", ["t", "k"], ["d"], name="dots"), N("Mul", ["d", "scale"], ["e"], name="scaled"),
             N("Softmax", ["e"], ["s"], name="soft", axis=-1), N("MatMul", ["s", "t"], ["y"], name="mix")]
    weights = {"w": _draw(8, 8), "heads": _ints(0, 0, 2, 4), "scale": np.float32(0.5)}
    return model(nodes, {"x": [2, 5, 8]}, ["y"], 17, weights)


def _functions():
    """A function of the model that calls another one, with attributes that refer to the call's."""
    ref = N("LeakyRelu", ["a"], ["b"], name="leaky")
    ref.attribute.append(AttributeProto(name="alpha", ref_attr_name="slope", type=AttributeProto.FLOAT))
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    inner = helper.make_function("own", "Leaky", ["a"], ["b"], [ref], opsets, ["slope"])
    call = N("Leaky", ["u"], ["v"], name="inner", domain="own")
    call.attribute.append(AttributeProto(name="slope", ref_attr_name="slope", type=AttributeProto.FLOAT))
    outer = helper.make_function("own", "Block", ["p", "q"], ["v"],
                                 [N("MatMul", ["p", "q"], ["u"], name="product"), call], opsets, ["slope"])
    nodes = [N("Block", ["x", "w"], ["h"], name="first", domain="own", slope=0.25),
             N("Block", ["h", "w"], ["y"], name="second", domain="own", slope=0.5)]
    proto = model(nodes, {"x": [2, 4]}, ["y"], 17, {"w": _draw(4, 4)})
    proto.functions.extend([inner, outer])
    proto.opset_import.append(helper.make_opsetid("own", 1))
    return proto


def _external():
    """Two weights in a file "w.bin" beside the model."""
    proto = model([N("MatMul", ["x", "w"], ["m"], name="matmul"), N("Add", ["m", "b"], ["y"], name="add")],
                  {"x": [2, 4]}, ["y"], 17, {"w": _draw(4, 4), "b": _draw(4)})
    offset = 0
    for tensor in proto.graph.initializer:
        size = len(tensor.raw_data)
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", "w.bin"), ("offset", offset), ("length", size)):
            tensor.external_data.add(key=key, value=str(value))
        offset += size
    return proto


EXTERNAL_DATA = b"".join(a.tobytes() for a in (_draw(4, 4), _draw(4)))
MODELS = [_convolutions(), _transposed(), _depthwise(), _shapes(), _shapes(symbolic=True), _gathers(),
          _recurrent("LSTM", 4), _recurrent("GRU", 3), _recurrent("RNN", 1), _reductions(), _integers(), _made(),
          _attention(), _functions(), _external()]


# ---- mutations: (rng, model) -> whether something changed ----------------------------------------------------------

def _one(rng, values):
    values = list(values)
    return values[int(rng.integers(len(values)))] if values else None


def _nodes(proto):
    return [*proto.graph.node, *(n for f in proto.functions for n in f.node)]


def _edges(proto):
    made = [n for node in _nodes(proto) for n in (*node.input, *node.output)]
    return made + [t.name for t in proto.graph.initializer]


def change_attribute(rng, proto):
    attribute = _one(rng, (a for n in _nodes(proto) for a in n.attribute))
    if attribute is None:
        return False
    for field, values in (("ints", SIZES), ("floats", NUMBERS)):
        held = getattr(attribute, field)
        if len(held):
            held[int(rng.integers(len(held)))] = _one(rng, values)
            if rng.random() < 0.2:
                held.append(held[0]) if rng.random() < 0.5 else held.pop()
            return True
    if attribute.type == AttributeProto.INT:
        attribute.i = _one(rng, SIZES)
    elif attribute.type == AttributeProto.FLOAT:
        attribute.f = _one(rng, NUMBERS)
    elif attribute.type == AttributeProto.STRING:
        attribute.s = _one(rng, [b"", b"reflect", b"edge", b"SAME_LOWER", b"VALID", b"nearest", b"cubic", b"DCR",
                                 b"forward", b"reverse", b"align_corners", b"asymmetric", b"\xff\xfe"])
    return True


def add_attribute(rng, proto):
    """One that the operator has, of a value that it may not have."""
    node = _one(rng, _nodes(proto))
    try:
        schema = onnx.defs.get_schema(node.op_type, proto.opset_import[0].version, "")
    except onnx.defs.SchemaError:
        return False
    name = _one(rng, sorted(schema.attributes))
    if name is None or any(a.name == name for a in node.attribute):
        return False
    kind = str(schema.attributes[name].type).rpartition(".")[2]
    count = int(rng.integers(0, 5))
    value = {"INT": lambda: _one(rng, SIZES), "FLOAT": lambda: _one(rng, NUMBERS), "STRING": lambda: "linear",
             "INTS": lambda: [_one(rng, SIZES[:8]) for _ in range(count)],
             "FLOATS": lambda: [_one(rng, NUMBERS) for _ in range(count)],
             "STRINGS": lambda: [_one(rng, ["Tanh", "Relu", "Affine", "Sigmoid", "x"]) for _ in range(count)]}.get(kind)
    if value is None:
        return False
    made = value()
    if isinstance(made, list) and not made:
        return False
    node.attribute.append(helper.make_attribute(name, made))
    return True


def drop_attribute(rng, proto):
    node = _one(rng, (n for n in _nodes(proto) if n.attribute))
    if node is None:
        return False
    del node.attribute[int(rng.integers(len(node.attribute)))]
    return True


def change_input(rng, proto):
    """An edge to another tensor, missing, twice, in another order, or one that nothing makes."""
    node = _one(rng, (n for n in _nodes(proto) if n.input))
    at = int(rng.integers(len(node.input)))
    change = int(rng.integers(6))
    if change == 0:
        node.input[at] = _one(rng, _edges(proto))
    elif change == 1:
        del node.input[at]
    elif change == 2:
        node.input[at] = ""
    elif change == 3:
        node.input.append(node.input[at])
    elif change == 4:
        names = list(rng.permutation(list(node.input)))
        node.input[:] = [str(n) for n in names]
    else:
        node.input[at] = "nothing"
    return True


def change_output(rng, proto):
    node = _one(rng, _nodes(proto))
    change = int(rng.integers(3))
    if change == 0 and len(node.output):
        node.output[int(rng.integers(len(node.output)))] = _one(rng, [*_edges(proto), ""])
    elif change == 1:
        node.output.append(f"more{len(node.output)}")
        proto.graph.output.append(helper.make_empty_tensor_value_info(node.output[-1]))
    else:
        proto.graph.output[0].name = _one(rng, _edges(proto))
    return True


def change_node(rng, proto):
    """A node is left out, moved, repeated, or of another operator."""
    nodes = proto.graph.node
    at = int(rng.integers(len(nodes)))
    change = int(rng.integers(4))
    if change == 0:
        del nodes[at]
    elif change == 1:
        node = onnx.NodeProto.FromString(nodes[at].SerializeToString())
        del nodes[at]
        nodes.insert(int(rng.integers(len(nodes) + 1)), node)
    elif change == 2:
        nodes.insert(at, nodes[at])
    else:
        nodes[at].op_type = _one(rng, [*(n.op_type for m in MODELS for n in m.graph.node), "Nothing"])
    return True


def change_dims(rng, proto):
    """Change the dimensions of an input, or of a weight, whose data may no longer fit."""
    shape = _one(rng, [i.type.tensor_type.shape for i in proto.graph.input])
    tensor = _one(rng, proto.graph.initializer)
    if rng.random() < 0.3 and tensor is not None and tensor.dims:
        tensor.dims[int(rng.integers(len(tensor.dims)))] = _one(rng, SIZES)
        return True
    change = int(rng.integers(4))
    if change == 0 and shape.dim:
        del shape.dim[int(rng.integers(len(shape.dim)))]
    elif change == 1:
        shape.dim.add().dim_value = _one(rng, SIZES[:6])
    elif change == 2 and shape.dim:
        shape.dim[int(rng.integers(len(shape.dim)))].dim_param = _one(rng, ["n", "m", "?", "", "int", "n + 1"])
    elif shape.dim:
        shape.dim[int(rng.integers(len(shape.dim)))].dim_value = _one(rng, SIZES)
    return True


def change_dtype(rng, proto):
    """Change the dtype of an input or output, or of a weight, whose data are converted or not."""
    kind = _one(rng, KINDS)
    tensor = _one(rng, proto.graph.initializer)
    if rng.random() < 0.5 or tensor is None or tensor.data_location == TensorProto.EXTERNAL:
        _one(rng, [*proto.graph.input, *proto.graph.output]).type.tensor_type.elem_type = kind
    elif rng.random() < 0.3 or kind not in (1, 6, 7, 9, 10, 11, 2, 3):
        tensor.data_type = kind
    else:
        with np.errstate(all="ignore"):
            array = numpy_helper.to_array(tensor).astype(helper.tensor_dtype_to_np_dtype(kind))
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    return True


def change_weight(rng, proto):
    """Its values, its rank or its extents."""
    tensor = _one(rng, (t for t in proto.graph.initializer if t.data_location != TensorProto.EXTERNAL))
    if tensor is None:
        return change_external(rng, proto)
    try:
        array = numpy_helper.to_array(tensor).copy()
    except (ValueError, TypeError, KeyError):
        return False  # an earlier mutation damaged it
    change = int(rng.integers(6))
    if change < 3 and array.size:
        values = NUMBERS if array.dtype.kind == "f" else SIZES
        with np.errstate(all="ignore"):
            array.flat[int(rng.integers(array.size))] = np.array(_one(rng, values)).astype(array.dtype)
    elif change == 3:
        array = array.reshape(*array.shape, 1) if rng.random() < 0.5 else array.reshape(-1)
    elif change == 4 and array.ndim:
        axis = int(rng.integers(array.ndim))
        array = np.concatenate([array, array], axis) if rng.random() < 0.5 else np.take(array, [0] * min(
            len(array), 1), axis) if array.shape[axis] else array
    else:
        array = array[:0] if array.ndim else array.reshape(1)
    tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), tensor.name))
    return True


def change_external(rng, proto):
    """Where data beside the model lies, and how much."""
    tensor = _one(rng, (t for t in proto.graph.initializer if t.data_location == TensorProto.EXTERNAL))
    if tensor is None:
        return False
    entry = _one(rng, tensor.external_data)
    numbers = [str(s) for s in SIZES]
    entry.value = _one(rng, ["w.bin", "no.bin", "../w.bin", "/dev/zero", "."]) if entry.key == "location" else _one(
        rng, [*numbers, "x", "", "4", "16", "1e3"])
    return True


def change_opset(rng, proto):
    part = _one(rng, [proto, proto, *proto.functions])
    if not part.opset_import:
        return False
    part.opset_import[0].version = _one(rng, [*range(7, 25), 0, 1 << 40, -1])
    return True


def change_weight_to_input(rng, proto):
    """A weight, such as a shape or an index, is given at run time."""
    if not proto.graph.initializer:
        return False
    at = int(rng.integers(len(proto.graph.initializer)))
    tensor = proto.graph.initializer[at]
    proto.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
    del proto.graph.initializer[at]
    return True


def change_name(rng, proto):
    """A node, tensor or graph has a name that is odd or taken."""
    name = _one(rng, ["", "int", "x" * 300, "a/b:0", "1", "main", "\u00e9", "y", "%s{}\n"])
    old = _one(rng, [_one(rng, _edges(proto)), None])
    if old is None:
        _one(rng, [proto.graph, *_nodes(proto)]).name = name
        return True
    for node in _nodes(proto):
        node.input[:] = [name if n == old else n for n in node.input]
        node.output[:] = [name if n == old else n for n in node.output]
    for value in (*proto.graph.input, *proto.graph.output, *proto.graph.initializer):
        value.name = name if value.name == old else value.name
    return True


MUTATIONS = [change_attribute, change_attribute, change_attribute, add_attribute, drop_attribute, change_input,
             change_input, change_output, change_node, change_dims, change_dims, change_dtype, change_dtype,
             change_weight, change_weight, change_weight, change_external, change_opset, change_weight_to_input,
             change_name]


def mutant(seed):
    """(ModelProto, what was changed) of a seed, a list of ints."""
    rng = np.random.default_rng(seed)
    proto = onnx.ModelProto.FromString(_one(rng, MODELS).SerializeToString())
    done = []
    while len(done) < 1 + int(rng.exponential(0.6)):
        mutation = _one(rng, MUTATIONS)
        if len(proto.graph.node) and len(proto.graph.input) and mutation(rng, proto):
            done.append(mutation.__name__)
    return proto, done


# ---- what becomes of one ------------------------------------------------------------------------------------------

def feeds_of(proto, seed):
    """{input: array} for the inputs that are no weights; dimensions of unknown size are 3."""
    rng, feeds = np.random.default_rng(seed), {}
    weights = {t.name for t in proto.graph.initializer}
    for info in proto.graph.input:
        if info.name not in weights:
            tensor = info.type.tensor_type
            shape = [d.dim_value if d.dim_value > 0 else 3 for d in tensor.shape.dim]
            dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
            numbers = rng.standard_normal(shape) if dtype.kind == "f" else rng.integers(0, 3, shape)
            feeds[info.name] = np.asarray(numbers).astype(dtype)
    return feeds


def problem_of_error(error, proto):
    """Why an exception is no good error for users, or "". A good one is the project's, one line, and names what is at
    fault."""
    kind, text = f"{type(error).__module__}.{type(error).__name__}", str(error)
    if not kind.startswith("ingot.") or "internal error" in text:
        return f"{kind}: {text}"
    if "\n" in text.strip() and "cannot be imported:" not in text:
        return f"not one line: {text}"
    names = {*_edges(proto), *(n.name for n in _nodes(proto)), *(i.name for i in proto.graph.input),
             *(f.name for f in proto.functions), *(o.name for o in proto.graph.output)}
    if not (any(repr(n) in text for n in names) or ' node "' in text or text.startswith(("the model ", "function "))):
        return f"names no node or tensor: {text}"
    return ""


def reference(path, feeds):
    """onnxruntime's outputs; None where it refuses the model or the inputs."""
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"]).run(None, feeds)
    except Exception:  # noqa: BLE001  (its own classes have no common base)
        return None


def has_extremes(proto):
    """Whether weights meet recurrent cells of onnxruntime that are not exact for them: it makes numbers of NaN and
    infinities, and its sigmoid, which is never 0, leaves something of a state of -1e30 that the gate shuts out."""
    return any(n.op_type in ("LSTM", "GRU", "RNN") for n in _nodes(proto)) and any(
        t.data_type == TensorProto.FLOAT and not (np.abs(numpy_helper.to_array(t)) < 1e6).all()
        for t in proto.graph.initializer if t.data_location != TensorProto.EXTERNAL)


def difference(found, expected):
    """Describe the first difference between two lists of arrays; "" if they agree."""
    for number, (a, b) in enumerate(zip(found, expected, strict=True)):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"output {number} is {a.dtype}{list(a.shape)}, not {b.dtype}{list(b.shape)}"
        if a.dtype.kind != "f":
            if not np.array_equal(a, b):
                return f"output {number} is {a.reshape(-1)[:6]}, not {b.reshape(-1)[:6]}"
            continue
        scale = max(float(np.max(np.abs(b), initial=0, where=np.isfinite(b))), 1e-6)
        if not np.allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE * scale, equal_nan=True):
            return f"output {number} is {a.reshape(-1)[:6]}, not {b.reshape(-1)[:6]}"
    return ""


def judge(seed, folder, built, stage=lambda text: None):
    """("refused", "compiled", "same", or what is at fault; text) of the mutant of a seed.

    built: whether the C is built and run; else the importer's result is evaluated. stage is told what comes next."""
    import ingot
    from ingot.codegen.compile import Options, compile_module
    from ingot.ir.relax.evaluate import evaluate
    proto, _ = mutant(seed)
    path = folder / "mutant.onnx"
    path.write_bytes(proto.SerializeToString())
    stage("ingot")
    try:
        if built:
            library = ingot.compile(path, target="c", threads="none", opt_level=int(seed[1]) % 3)
        else:
            module = ingot.from_onnx(path)
            compile_module(module, Options.check("c", int(seed[1]) % 3, "none"))
    except Exception as error:  # noqa: BLE001  (which class it has is what is tested)
        problem = problem_of_error(error, proto)
        return ("fault", problem) if problem else ("refused", str(error))
    feeds = feeds_of(proto, seed)
    stage("onnxruntime")
    expected = reference(str(path), feeds)
    if expected is None or has_extremes(proto):
        return "compiled", ""
    stage("run")
    try:
        if built:
            with library:
                given = library.run(feeds)
            found = [given[o.name] for o in proto.graph.output]  # a name may be there twice
        else:
            with np.errstate(all="ignore"):
                found = evaluate(module, feeds)
            found = list(found) if isinstance(found, tuple) else [found]
    except Exception as error:  # noqa: BLE001
        return "fault", f"run: {type(error).__name__}: {error}"
    problem = difference(found, expected)
    return ("differs", problem) if problem else ("same", "")


def main(seed, first, count, folder, built):
    """Judge mutants one after the other; a line of JSON before each stage, and one of the result."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", module="onnx")

    def too_long(signum, frame):
        raise TimeoutError(f"takes longer than {MOST_SECONDS} s")
    signal.signal(signal.SIGPROF, too_long)
    for number in range(first, first + count):
        def stage(text):
            print(json.dumps([number, text]), flush=True)
        signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
        begin = time.monotonic()
        result = judge([seed, number], Path(folder), built, stage)
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(json.dumps([number, "done", *result, round(time.monotonic() - begin, 2)]), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]), sys.argv[4], len(sys.argv) > 5)
