"""One test per error message of the importer: it names the node, the operator, the opset, and what to do."""
import numpy as np
import pytest
from onnx import TensorProto, defs, helper

from ingot.frontend.onnx import OnnxImportError, from_onnx
from onnx_models import model, one_node, value_info

X = np.zeros((2, 3, 4), np.float32)
IMAGE = np.zeros((1, 4, 8, 8), np.float32)
KERNEL = np.zeros((6, 4, 3, 3), np.float32)


def relu_model(**changes):
    return model([helper.make_node("Relu", ["x"], ["y"], name="r")], {"x": [2, 3]}, ["y"], **changes)


def fails(proto, *words, **options):
    """The import fails, and the message has all of `words`."""
    with pytest.raises(OnnxImportError) as caught:
        from_onnx(proto, **options)
    for word in words:
        assert word in str(caught.value)


def node_fails(op, arrays, opset, *words, constants=(), outputs=1, symbolic=False, **attrs):
    fails(one_node(op, arrays, opset, constants, outputs, symbolic, **attrs), f"{op} node \"the_node\" (opset {opset})",
          *words)


# ---------------------------------------------------------------- files

def test_missing_file(tmp_path):
    fails(str(tmp_path / "no.onnx"), "cannot read the model", "no.onnx")


def test_truncated_file(tmp_path):
    data = relu_model(weights={"w": np.zeros(100, np.float32)}).SerializeToString()
    path = tmp_path / "cut.onnx"
    path.write_bytes(data[:len(data) // 2])
    fails(path, "not an ONNX model, or is truncated", "cut.onnx")


@pytest.mark.parametrize("data", [b"", b"# a text file\nwith lines\n", b"\x08\x07", b"\x7fELF" + bytes(60)])
def test_not_onnx(data):
    fails(data, "not an ONNX model")


def test_wrong_kind_of_argument():
    fails(12, "takes a path, bytes or an onnx.ModelProto, not a int")


def test_no_opset():
    proto = relu_model()
    del proto.opset_import[:]
    fails(proto, "names no opset")


@pytest.mark.parametrize("opset", [0, 99])
def test_unsupported_opset(opset):
    proto = relu_model()
    proto.opset_import[0].version = opset
    fails(proto, f"opset {opset} is not supported", f"1 to {defs.onnx_opset_version()}", "version_converter")


# ---------------------------------------------------------------- weights

def external_model(**entries):
    proto = relu_model()
    proto.graph.node[0].CopyFrom(helper.make_node("Add", ["x", "w"], ["y"]))
    tensor = proto.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=[2, 3])
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    return proto


def save(proto, folder):
    path = folder / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def test_external_weights_are_read(tmp_path):
    weights = np.arange(8, dtype=np.float32)
    (tmp_path / "w.bin").write_bytes(weights.tobytes())
    module = from_onnx(save(external_model(location="w.bin", offset="8", length="24"), tmp_path))
    np.testing.assert_array_equal(module["main"].bindings[0].value.args[1].data, weights[2:].reshape(2, 3))


def test_missing_external_weights(tmp_path):
    path = str(tmp_path / "w.bin")
    fails(save(external_model(location="w.bin"), tmp_path), "initializer 'w'", path, "cannot be read")


def test_truncated_external_weights(tmp_path):
    (tmp_path / "w.bin").write_bytes(bytes(20))
    fails(save(external_model(location="w.bin"), tmp_path), "needs 24 bytes", "holds 20", "truncated")


def test_external_weights_outside_the_folder(tmp_path):
    fails(save(external_model(location="../w.bin"), tmp_path), "outside the model's folder")


def test_external_weights_of_no_file(tmp_path):
    fails(save(external_model(), tmp_path), "no file is named")


def test_external_weights_without_a_folder():
    fails(external_model(location="w.bin"), "has no folder", "give the path")


def test_damaged_weights():
    proto = external_model()
    tensor = proto.graph.initializer[0]
    tensor.ClearField("data_location")
    tensor.raw_data = bytes(20)
    fails(proto, "initializer 'w' is damaged", "[2, 3]")


def test_weights_of_unsupported_dtype():
    proto = external_model()
    proto.graph.initializer[0].CopyFrom(helper.make_tensor("w", TensorProto.STRING, [1], [b"a"]))
    fails(proto, "initializer 'w' has dtype STRING", "supported are float32")


def test_sparse_weights():
    proto = relu_model()
    values = helper.make_tensor("s", TensorProto.FLOAT, [1], [1.0])
    indices = helper.make_tensor("i", TensorProto.INT64, [1], [1])
    proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [4]))
    fails(proto, "sparse initializers", "'s'")


# ---------------------------------------------------------------- the graph

def test_all_unknown_operators_at_once():
    nodes = [helper.make_node("Frobnicate", ["x"], ["a"], name="one"),
             helper.make_node("Frobnicate", ["a"], ["b"], name="two"),
             helper.make_node("ImageDecoder", ["b"], ["c"], name="three"),
             helper.make_node("LayerNormalization", ["b", "b"], ["d"], name="four"),
             helper.make_node("Fused", ["d"], ["e"], name="five", domain="com.example"),
             helper.make_node("Concat", ["c", "e"], ["y"], axis=0)]
    fails(model(nodes, {"x": [2, 3]}, ["y"], 13), "Frobnicate (unknown operator)", 'node "one" (opset 13) and 1 more',
          "ImageDecoder (", "exists from opset 17", "com.example::Fused")


def test_unknown_operators_that_nothing_needs_do_no_harm():
    proto = relu_model()
    proto.graph.node.append(helper.make_node("Frobnicate", ["x"], ["a"]))
    assert len(from_onnx(proto)["main"].bindings) == 1


def test_subgraphs():
    branch = helper.make_graph([helper.make_node("Relu", ["x"], ["z"])], "b", [], [value_info("z", [2])])
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch, name="choice")
    branch.node[0].op_type = "Frobnicate"
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch, name="choice")
    fails(model([node], {"x": [2], "c": ([], "bool")}, ["y"]), "Frobnicate (unknown operator)", "choice")


def test_unsorted():
    nodes = [helper.make_node("Relu", ["a"], ["y"], name="r"), helper.make_node("Abs", ["x"], ["a"], name="b")]
    fails(model(nodes, {"x": [2]}, ["y"]), 'Relu node "r"', "'a' before Abs node \"b\"", "not sorted topologically")


def test_undefined_tensor():
    fails(model([helper.make_node("Relu", ["a"], ["y"], name="r")], {"x": [2]}, ["y"]), 'Relu node "r"', "'a'",
          "which nothing in the graph makes")


def test_duplicate_tensor():
    nodes = [helper.make_node("Relu", ["x"], ["y"], name="r"), helper.make_node("Abs", ["x"], ["y"], name="b")]
    fails(model(nodes, {"x": [2]}, ["y"]), 'Abs node "b"', "'y'", 'Relu node "r" (opset 17) makes already')


def test_duplicate_input():
    proto = relu_model()
    proto.graph.input.append(proto.graph.input[0])
    fails(proto, "graph input 'x' occurs twice")


def test_missing_output():
    proto = relu_model()
    proto.graph.output[0].name = "z"
    fails(proto, "graph output 'z' is made by no node")


@pytest.mark.parametrize("elem, name", [(TensorProto.STRING, "STRING"), (TensorProto.COMPLEX64, "COMPLEX64")])
def test_input_of_unsupported_dtype(elem, name):
    proto = relu_model()
    proto.graph.input[0].type.tensor_type.elem_type = elem
    fails(proto, "graph input 'x' has dtype " + name)


def test_input_that_is_a_sequence():
    proto = relu_model()
    proto.graph.input[0].CopyFrom(helper.make_tensor_sequence_value_info("x", 1, [2]))
    fails(proto, "graph input 'x' is a sequence", "--shape 'x=2,3;4,3'")
    proto.graph.input[0].CopyFrom(helper.make_value_info("x", helper.make_map_type_proto(
        7, helper.make_tensor_type_proto(1, [2]))))
    fails(proto, "graph input 'x' is a map_type", "only tensors")


def test_input_without_a_shape():
    proto = relu_model()
    proto.graph.input[0].type.tensor_type.ClearField("shape")
    fails(proto, "graph input 'x' declares no shape")


def test_unknown_pin():
    proto = model([helper.make_node("Relu", ["x"], ["y"])], {"x": ["batch", 3]}, ["y"])
    fails(proto, "dims names 'bach'", "'batch'", dims={"bach": 1})
    fails(relu_model(), "every input shape is fixed", dims={"batch": 1})


@pytest.mark.parametrize("size", [0, "2", True])
def test_wrong_pin(size):
    proto = model([helper.make_node("Relu", ["x"], ["y"])], {"x": ["batch", 3]}, ["y"])
    fails(proto, "'batch'", "an integer from 1 up", dims={"batch": size})


def test_output_that_is_a_symbolic_shape():
    mod = from_onnx(model([helper.make_node("Shape", ["x"], ["y"])], {"x": ["n", 3]}, ["y"]))
    assert mod["main"].bindings[0].value.op == "shape_to_tensor"


# ---------------------------------------------------------------- nodes: attributes and inputs

def test_unknown_attribute():
    node_fails("Relu", [X], 13, "an attribute 'alpha'", "it has none", alpha=1.0)


def test_attribute_of_wrong_type():
    node_fails("Softmax", [X], 13, "attribute 'axis' is a float, and must be a int", axis=1.0)


def test_attribute_of_a_later_opset():
    node_fails("Reshape", [X, np.array([6, 4])], 13, "'allowzero'", "does not have in this opset", constants=(1,),
               allowzero=1)


def test_missing_attribute():
    node_fails("Concat", [X, X], 13, "lacks the attribute 'axis' (int)")


def test_repeated_attribute():
    proto = one_node("Softmax", [X], 13, axis=1)
    proto.graph.node[0].attribute.append(proto.graph.node[0].attribute[0])
    fails(proto, "attribute 'axis' is given twice")


def test_attribute_that_is_no_text():
    node_fails("Pad", [X, np.zeros(6, np.int64)], 13, "'mode' is no UTF-8 text", constants=(1,), mode=b"\xff")


def test_unknown_attribute_value():
    node_fails("Pad", [X, np.zeros(6, np.int64)], 13, "mode is 'mirror'", "'reflect'", constants=(1,), mode="mirror")
    node_fails("Conv", [IMAGE, IMAGE], 13, "auto_pad is 'SAME'", auto_pad="SAME")


def test_missing_input():
    node_fails("Add", [X], 13, "1 inputs, and must have 2 to 2")
    node_fails("Add", [None, X], 13, "input 0 (A) is missing")
    node_fails("Concat", [X, None], 13, "input 1 (inputs) is missing", axis=0)
    node_fails("Sum", [], 13, "0 inputs, and must have at least 1")


def test_too_many_outputs():
    node_fails("Relu", [X], 13, "2 outputs", outputs=2)


def test_output_that_is_not_made():
    node_fails("BatchNormalization", [IMAGE, *[np.ones(4, np.float32)] * 4], 15, "attribute training_mode is 0",
               outputs=3)


# ---------------------------------------------------------------- nodes: shapes

def test_shapes_that_do_not_broadcast():
    node_fails("Add", [X, np.zeros(5, np.float32)], 13, "do not broadcast", "float32[2, 3, 4]", "float32[5]")


def test_channels_that_do_not_fit():
    node_fails("Conv", [IMAGE, np.zeros((6, 3, 3, 3), np.float32)], 13, "channels", "float32[1, 4, 8, 8]")


def test_matrices_that_do_not_multiply():
    node_fails("MatMul", [X, X], 13, "multiply")
    node_fails("Gemm", [X, X], 13, "matrices")


def test_operands_of_different_dtype():
    node_fails("Add", [X, X.astype(np.float64)], 13, "differ in dtype")


@pytest.mark.parametrize("axis", [3, -4])
def test_axis_outside(axis):
    node_fails("Softmax", [X], 13, f"axis {axis} is outside a tensor of 3 dimensions", axis=axis)


@pytest.mark.parametrize("op, arrays, opset, message, attrs", [
    ("Conv", [IMAGE, KERNEL], 13, "kernel_shape (5, 5) contradicts", {"kernel_shape": [5, 5]}),
    ("Conv", [IMAGE, KERNEL], 13, "must be 4 integers", {"pads": [1, 1]}),
    ("Conv", [IMAGE, KERNEL], 13, "contradict", {"pads": [1, 1, 1, 1], "auto_pad": "VALID"}),
    ("Conv", [IMAGE, np.zeros((6, 4, 3), np.float32)], 13, "spatial dimensions", {}),
    ("MaxPool", [IMAGE], 13, "strides (0, 1)", {"kernel_shape": [2, 2], "strides": [0, 1]}),
    ("MaxPool", [IMAGE], 13, "does not match", {"kernel_shape": [2]}),
    ("MaxPool", [IMAGE], 13, "does not fit", {"kernel_shape": [9, 9]}),
    ("Transpose", [X], 13, "no permutation", {"perm": [0, 0, 1]}),
    ("Reshape", [X, np.array([5, -1])], 13, "cannot become [5, -1]", {}),
    ("Reshape", [X, np.array([-1, -1])], 13, "-1 occurs 2 times", {}),
    ("Reshape", [X, np.array([5, 5])], 13, "elements differ", {}),
    ("Reshape", [X, np.array([2, 3, 4, 0])], 13, "0 at position 3", {}),
    ("Expand", [X, np.array([5, 4])], 13, "do not broadcast", {}),
    ("Expand", [X, np.array([-1, 4])], 13, "negative dimension", {}),
    ("ConstantOfShape", [X, np.array([5, 4])], 13, "must have 1 to 1", {}),
    ("Gather", [np.arange(3), np.array(7)], 13, "is outside axis 0 of extent 3", {}),
    ("Flatten", [X], 13, "axis 4", {"axis": 4}),
    ("Split", [X, np.array([1, 1])], 13, "do not add up", {"axis": 2}),
    ("Squeeze", [X, np.array([0])], 13, "has extent 2", {}),
    ("Unsqueeze", [X, np.array([0, 0])], 13, "twice", {}),
    ("Slice", [X, np.array([0]), np.array([1]), np.array([2]), np.array([0])], 13, "step of axis 2 is 0", {}),
    ("Pad", [X, np.array([1, 1])], 13, "must have 6 elements", {}),
    ("Tile", [X, np.array([1, 1])], 13, "one element per axis", {}),
    ("Tile", [X, np.array([1, -2, 1])], 13, "repeats [1, -2, 1] must not be negative", {}),
    ("Tile", [X, np.array([1, 1 << 62, 1])], 13, "a dimension that more than 64 bits hold", {}),
    ("Range", [np.array(0), np.array(4), np.array(0)], 13, "delta is 0", {}),
    ("BatchNormalization", [IMAGE, *[np.ones(4, np.float32)] * 4], 6, "training mode", {}),
    ("Conv", [np.zeros((1, 3, 4, 4), np.float32), np.zeros((0, 3, 2, 2), np.float32)], 17, "no output channels", {}),
    ("ConvTranspose", [np.zeros((1, 3, 4), np.float32), np.zeros((3, 0, 2), np.float32)], 17, "no output channels", {}),
    ("Constant", [], 13, "must have one of the attributes", {}),
    ("Constant", [], 13, "value_string is not supported", {"value_string": "a"}),
])
def test_contradictory_node(op, arrays, opset, message, attrs):
    node_fails(op, arrays, opset, message, constants=range(5) if op in ("Range", "Gather") else range(1, 5), **attrs)


@pytest.mark.parametrize("message, inputs, attrs", [
    ("hidden_size 5 contradicts", {}, {"hidden_size": 5}),
    ("must be 2 of relu", {}, {"activations": ["Sigmoid", "Swish"]}),
    ("direction is 'sideways'", {}, {"direction": "sideways"}),
    ("X must have 3 dimensions", {0: np.zeros((5, 3), np.float32)}, {}),
    ("B must have 2 dimensions", {3: np.zeros(24, np.float32)}, {}),
    ("sequence_lens must have 1 dimension;", {4: np.zeros((2, 1), np.int32)}, {}),
    ("input 5, has [1, 3, 4] as directions, batch and hidden size, and must have [1, 2, 4]",
     {5: np.zeros((1, 3, 4), np.float32)}, {"clip": 0.5})])
def test_recurrent(message, inputs, attrs):
    arrays = [np.zeros(s, np.float32) for s in ((5, 2, 3), (1, 12, 3), (1, 12, 4), (1, 24))] + [None, None]
    for index, array in inputs.items():
        arrays[index] = array
    node_fails("GRU", arrays[:1 + max(3, *inputs, 0)], 14, message, constants=(1, 2, 3, 4), outputs=2, **attrs)


@pytest.mark.parametrize("op, arrays, attrs", [
    ("Squeeze", [X, np.zeros(1, np.int64)], {}), ("ReduceSum", [X, np.zeros(2, np.int64)], {})])
def test_operand_that_depends_on_data(op, arrays, attrs):
    node_fails(op, arrays, 13, "depends on data; make it an initializer, or declare the shapes", **attrs)


def test_input_that_must_be_constant():
    node_fails("MelWeightMatrix", [*map(np.array, (3, 16, 8000)), *map(np.float32, (0, 4000))], 17,
               "num_mel_bins must be constant, and depends on data")


@pytest.mark.parametrize("op, arrays, name", [
    ("Range", [np.array(0), np.array(4), np.array(1)], "y0_d0"), ("ConstantOfShape", [np.array([2, 3])], "x0_0"),
    ("Tile", [X, np.array([1, 1, 1])], "x1_0"), ("Reshape", [X, np.array([6, 4])], "y0_d0"),
    ("Expand", [X[:, :1], np.array([2, 3, 4])], "y0_d1")])
def test_sizes_by_a_run_ask_for_a_bound(op, arrays, name):
    node_fails(op, arrays, 13, "is decided by a run, and nothing says how large", f"--bound {name}=100",
               f"bounds={{'{name}': 100}}")


def test_bounds_that_are_none():
    proto = one_node("Range", [np.array(0), np.array(4), np.array(1)], 13, (), 1, False)
    fails(proto, "'y0_d0' is at most 0; a bound is an integer from 1 up", bounds={"y0_d0": 0})
    fails(proto, "bounds names 'other'", "y0_d0", bounds={"y0_d0": 9, "other": 1})


@pytest.mark.parametrize("op, shapes, attrs, message", [
    ("Conv", [(1, 2, 4, 4), (2,)], {}, "a weight of 1 dimensions"),
    ("Concat", [(), (2,)], {"axis": 0}, "axis 0 is outside a tensor of 0 dimensions"),
    ("MatMul", [(), (2,)], {}, "at least 1 dimension"),
    ("RNN", [(5, 2, 4), (1, 3, 4), (1, 3, 3), (1, 6), None, (6,)], {"hidden_size": 3},
     "initial_h must have 3 dimensions")])
def test_ranks_that_an_operator_does_not_take(op, shapes, attrs, message):
    arrays = [None if s is None else np.zeros(s, "float32") for s in shapes]
    node_fails(op, arrays, 14, message, **attrs)


# ---------------------------------------------------------------- symbolic dimensions

def symbolic(nodes, weights=None, shape=("n", 4)):
    return model(nodes, {"x": list(shape)}, ["y"], 17, weights)


def test_reshape_that_no_size_of_a_symbolic_dimension_fits():
    node_fails("Reshape", [X, np.array([0, 5])], 13, "[batch, 3, 4] cannot become [0, 5]", "differ", constants=(1,),
               symbolic=True)
    nodes = [helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Concat", ["s", "rest"], ["t"], axis=0),
             helper.make_node("Reshape", ["one", "t"], ["y"], name="the_node")]
    fails(symbolic(nodes, {"rest": np.array([-1]), "one": np.zeros(1, "float32")}), "[1] cannot become [n, 4, -1]")


def test_slice_of_a_symbolic_dimension():
    """Bounds are clamped to the axis, as ONNX says, by the run."""
    for start, end in ((2, 5), (-2, -1)):
        mod = from_onnx(one_node("Slice", [X, np.array([start]), np.array([end])], 13, (1, 2), 1, True))
        assert mod["main"].bindings[-1].value.op == "slice_at"


def test_split_of_a_symbolic_dimension():
    node_fails("Split", [X], 13, "cannot split the symbolic dimension batch", outputs=2, symbolic=True)


def test_dimension_used_as_data():
    nodes = [helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Cast", ["s"], ["f"], to=1, name="c"),
             helper.make_node("Concat", ["f", "f"], ["y"], axis=0)]
    assert "shape_to_tensor" in [b.value.op for b in from_onnx(symbolic(nodes))["main"].bindings]


def test_dimension_mixed_with_data():
    nodes = [helper.make_node("Shape", ["x"], ["s"], end=1),
             helper.make_node("ArgMax", ["x"], ["a"], axis=1, keepdims=0),
             helper.make_node("Add", ["s", "a"], ["y"], name="mix")]
    assert "shape_to_tensor" in [b.value.op for b in from_onnx(symbolic(nodes))["main"].bindings]


def test_axes_that_are_dimensions():
    nodes = [helper.make_node("Shape", ["x"], ["s"], end=1), helper.make_node("ReduceSum", ["x", "s"], ["y"], name="r")]
    fails(symbolic(nodes), 'ReduceSum node "r"', "axes depends on the symbolic dimension n", "pin it")


def test_nothing_is_left_to_other_exceptions():
    """Whatever the bytes: an OnnxImportError, or a module."""
    data = bytearray(relu_model(weights={"w": np.zeros(3, np.float32)}).SerializeToString())
    rng = np.random.default_rng(0)
    for _ in range(300):
        broken = bytearray(data)
        for _ in range(rng.integers(1, 4)):
            broken[rng.integers(len(broken))] = rng.integers(256)
        try:
            from_onnx(bytes(broken[:rng.integers(len(broken) // 2, len(broken) + 1)]))
        except OnnxImportError:
            pass


# ---------------------------------------------------------------- what mutated models found

@pytest.mark.parametrize("op, arrays, constants, attrs", [
    ("ReduceMax", [X], (), {"keepdims": 7}), ("Gemm", [X[0], X[0]], (), {"transB": -1}),
    ("MaxPool", [IMAGE], (), {"kernel_shape": [2, 2], "ceil_mode": 1 << 40})])
def test_flags_are_0_or_1(op, arrays, constants, attrs):
    node_fails(op, arrays, 17, "must be 0 or 1", constants=constants, **attrs)


def test_same_padding_is_not_negative():
    """onnxruntime begins inside the image then, others at its first element."""
    node_fails("Conv", [np.zeros((1, 1, 9), np.float32), np.zeros((1, 1, 1), np.float32)], 17,
               "auto_pad with stride 3 over 9 elements pads by -2", "explicit pads", constants=(1,),
               auto_pad="SAME_UPPER", strides=[3])


@pytest.mark.parametrize("op", ["Gather", "GatherElements"])
def test_no_index_into_an_axis_without_elements(op):
    node_fails(op, [np.zeros((0, 4), np.float32), np.zeros((2, 4), np.int64)], 17, "axis 0 of (0, 4) has no elements",
               constants=(0,))


def test_names_with_control_characters_stay_in_one_line():
    proto = model([helper.make_node("MatMul", ["x", "a\nb"], ["y"], name="two\nlines")], {"x": [2, 3]}, ["y"],
                  weights={"a\nb": np.zeros((2, 2), np.float32)})
    with pytest.raises(OnnxImportError) as caught:
        from_onnx(proto)
    assert str(caught.value).startswith('MatMul node "two\\nlines" (opset 17): ') and "\n" not in str(caught.value)
