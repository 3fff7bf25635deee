"""The imported function: its names, origins, dimensions, constants, outputs."""
import numpy as np
import pytest
from onnx import helper, numpy_helper

from ingot.frontend.onnx import from_onnx
from ingot.frontend.onnx.names import identifier
from ingot.ir.expr import Var
from ingot.ir.names import Names, unique_name
from ingot.ir.relax.evaluate import EvaluationError, evaluate
from ingot.ir.relax.expr import Constant, DataflowBlock, DataflowVar, RelaxVar
from onnx_models import model

W = np.arange(6, dtype=np.float32).reshape(2, 3)


def small(**changes):
    """relu(x + w) under names that are no identifiers."""
    nodes = [helper.make_node("Add", ["gpu_0/x:0", "w.1"], ["12"], name="/net/add"),
             helper.make_node("Relu", ["12"], ["int"])]
    return model(nodes, {"gpu_0/x:0": ["batch", 3]}, ["int"], 13, {"w.1": W[:1]}, name="my net", **changes)


@pytest.mark.parametrize("text, name", [
    ("gpu_0/data_0", "gpu_0_data_0"), ("12", "x12"), ("int", "int_"), ("/a/b", "a_b"), ("", "x"), ("lambda", "lambda_"),
    ("été", "t"), ("a b-c", "a_b_c")])
def test_identifiers(text, name):
    assert identifier(text) == name


def test_many_unique_names():
    """A set that remembers numbers gives the names that a search from the first one does."""
    hints = ["a", "a", "b", "a", "a_1", "b", "a_1", "a", "c", "a_1_1", "a_1"] * 5
    start = ["a_3", "b_1", "a_1_2"]
    plain, quick = set(start), Names(start)
    assert [unique_name(h, plain) for h in hints] == [unique_name(h, quick) for h in hints]
    assert plain == quick and unique_name("a", quick, "") not in plain


def test_unique_names():
    taken = {"a"}
    assert [unique_name("a", taken), unique_name("a", taken), unique_name("b", taken)] == ["a_1", "a_2", "b"]


def test_names_origins_and_attributes():
    module = from_onnx(small())
    func = module["main"]
    assert module.attrs["name"] == "my_net" and module.attrs["opset"] == 13
    assert func.attrs["input_names"] == ("gpu_0/x:0",) and func.attrs["output_names"] == ("int",)
    x, = func.params
    assert (x.name, x.origin.name) == ("gpu_0_x_0", "gpu_0/x:0")
    add, relu = (b.var for b in func.bindings)
    assert (add.name, add.origin.name, add.origin.op, add.origin.output) == ("t12", "/net/add", "Add", "12")
    assert (relu.name, relu.origin.name, relu.origin.op, relu.origin.output) == ("int_", "int", "Relu", "int")
    assert isinstance(add, DataflowVar) and isinstance(relu, RelaxVar)
    assert func.bindings[0].value.args[1].name == "w.1"
    assert len(func.body.blocks) == 1 and isinstance(func.body.blocks[0], DataflowBlock)


def test_name_of_the_module(tmp_path):
    path = tmp_path / "2nd-net.onnx"
    path.write_bytes(small().SerializeToString())
    assert from_onnx(path).attrs["name"] == "model2nd_net"
    assert from_onnx(str(path), name="a.b").attrs["name"] == "a_b"
    assert from_onnx(path.read_bytes()).attrs["name"] == "my_net"


def test_parts_of_a_node_say_which_one_holds_the_tensor():
    nodes = [helper.make_node("Gemm", ["x", "w", "c"], ["y"], name="fc")]
    func = from_onnx(model(nodes, {"x": [1, 2], "c": [3]}, ["y"], 13, {"w": W}))["main"]
    assert [(b.value.op, b.var.name, b.var.origin.name, b.var.origin.output) for b in func.bindings] == [
        ("matmul", "y_matmul", "fc", ""), ("add", "y", "fc", "y")]


def test_symbolic_dimensions():
    nodes = [helper.make_node("Relu", ["a"], ["y"]), helper.make_node("Relu", ["b"], ["z"])]
    module = from_onnx(model(nodes, {"a": ["n-1", None, 4], "b": ["n-1", 1, "m"]}, ["y", "z"], 13))
    assert [(d.name, d.dtype) for d in module.attrs["dims"]] == [("n_1", "int64"), ("a_d1", "int64"), ("m", "int64")]
    a, b = module["main"].params
    assert isinstance(a.struct_info.shape[0], Var) and a.struct_info.shape[0] is b.struct_info.shape[0]
    assert module["main"].outputs[0].struct_info.shape[0] is module.attrs["dims"][0]


def test_pinned_dimensions():
    nodes = [helper.make_node("Relu", ["a"], ["y"]), helper.make_node("Relu", ["b"], ["z"])]
    proto = model(nodes, {"a": ["n", None], "b": ["n", "m"]}, ["y", "z"], 13)
    module = from_onnx(proto, {"n": 5, "a_d1": 3})
    assert module["main"].params[0].struct_info.static_shape == (5, 3)
    assert [d.name for d in module.attrs["dims"]] == ["m"]


@pytest.mark.parametrize("size", [0, -1])
def test_sizes_below_one_mean_unknown(size):
    module = from_onnx(model([helper.make_node("Relu", ["x"], ["y"])], {"x": [size, 3]}, ["y"], 13))
    assert [d.name for d in module.attrs["dims"]] == ["x_d0"]


def test_names_of_dimensions_and_inputs_differ():
    module = from_onnx(model([helper.make_node("Relu", ["n"], ["y"])], {"n": ["n", 3]}, ["y"], 13))
    assert module["main"].params[0].name != module.attrs["dims"][0].name


def test_declared_output_shapes_are_not_trusted():
    proto = small()
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("int", 1, [7, 7]))
    assert from_onnx(proto)["main"].outputs[0].struct_info.shape[1].value == 3


def test_initializers_that_are_inputs_too_are_weights():
    proto = small()
    proto.graph.input.append(helper.make_tensor_value_info("w.1", 1, [1, 3]))
    assert [p.name for p in from_onnx(proto)["main"].params] == ["gpu_0_x_0"]


def test_identity_shares_the_weight():
    nodes = [helper.make_node("Identity", ["w"], ["v"]), helper.make_node("Add", ["x", "v"], ["a"]),
             helper.make_node("Mul", ["a", "w"], ["y"])]
    add, multiply = from_onnx(model(nodes, {"x": [2, 3]}, ["y"], 13, {"w": W}))["main"].bindings
    assert add.value.args[1] is multiply.value.args[1]


def test_weights_made_by_nodes_become_constants():
    nodes = [helper.make_node("ConstantOfShape", ["s"], ["w"], value=numpy_helper.from_array(np.float32([0.5]))),
             helper.make_node("Mul", ["x", "w"], ["y"])]
    binding, = from_onnx(model(nodes, {"x": [2, 3]}, ["y"], 9, {"s": np.array([2, 3])}))["main"].bindings
    weight = binding.value.args[1]
    assert isinstance(weight, Constant) and weight.name == "w" and weight.data.flags.c_contiguous
    np.testing.assert_array_equal(weight.data, np.full((2, 3), 0.5, np.float32))


def test_large_float_results_are_left_to_the_folding_pass():
    big = np.zeros((600, 600), np.float32)
    nodes = [helper.make_node("Transpose", ["w"], ["v"]), helper.make_node("MatMul", ["x", "v"], ["y"])]
    func = from_onnx(model(nodes, {"x": [1, 600]}, ["y"], 13, {"w": big}))["main"]
    assert [b.value.op for b in func.bindings] == ["permute_dims", "matmul"]
    nodes[0].input[0] = "s"
    func = from_onnx(model(nodes, {"x": [1, 6]}, ["y"], 13, {"s": big[:5, :6]}))["main"]
    assert [b.value.op for b in func.bindings] == ["matmul"]


def test_outputs_in_declared_order_and_unused_ones_dropped():
    nodes = [helper.make_node("Split", ["x"], ["a", "b", "c"], axis=1), helper.make_node("Abs", ["a"], ["unused"]),
             helper.make_node("Neg", ["c"], ["d"])]
    func = from_onnx(model(nodes, {"x": [2, 3]}, ["d", "a"], 13))["main"]
    assert [o.name for o in func.outputs] == ["d", "a"]
    assert {b.var.name for b in func.bindings} == {"a_split", "a", "c", "d"}
    d, a = evaluate(func, [W])
    np.testing.assert_array_equal(d, -W[:, 2:])
    np.testing.assert_array_equal(a, W[:, :1])


def test_outputs_that_are_inputs_constants_or_twice_the_same():
    nodes = [helper.make_node("Identity", ["x"], ["same"]), helper.make_node("Identity", ["w"], ["weight"]),
             helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Dropout", ["r"], ["s"])]
    func = from_onnx(model(nodes, {"x": [2, 3]}, ["same", "weight", "r", "s"], 9, {"w": W}))["main"]
    for found, expected in zip(evaluate(func, {"x": -W}), (-W, W, 0 * W, 0 * W)):
        np.testing.assert_array_equal(found, expected)


def test_local_functions_are_inlined():
    proto = model([helper.make_node("Twice", ["x"], ["y"], domain="local")], {"x": [2, 3]}, ["y"], 13)
    body = [helper.make_node("Add", ["a", "a"], ["b"])]
    proto.functions.append(helper.make_function("local", "Twice", ["a"], ["b"], body, [helper.make_opsetid("", 13)]))
    proto.opset_import.append(helper.make_opsetid("local", 1))
    np.testing.assert_array_equal(evaluate(from_onnx(proto), [W]), 2 * W)


# ---------------------------------------------------------------- the reference evaluation

def test_evaluate_returns_every_value():
    func = from_onnx(small())["main"]
    output, values = evaluate(func, [W - 4], want_all=True)
    add, relu = (b.var for b in func.bindings)
    np.testing.assert_array_equal(values[add], W - 4 + W[:1])
    assert values[relu] is output
    np.testing.assert_array_equal(output, evaluate(func, {"gpu_0/x:0": W - 4}))
    np.testing.assert_array_equal(output, evaluate(func, {"gpu_0_x_0": W - 4}))


@pytest.mark.parametrize("inputs, message", [
    ([], "takes 1 inputs, got 0"), ({"y": W}, "missing .*gpu_0_x_0.*unknown .*y"),
    ([W.astype(np.float64)], "is of float64"), ([W[:, :2]], r"has shape \(2, 2\), and must have \(2, 3\)"),
    ([W[0]], r"shape \(3,\)|no value")])
def test_evaluate_checks_inputs(inputs, message):
    with pytest.raises(EvaluationError, match=message):
        evaluate(from_onnx(small()), inputs)


def test_evaluate_checks_shared_dimensions():
    node = helper.make_node("Concat", ["a", "b"], ["y"], axis=1)
    module = from_onnx(model([node], {"a": ["n", 3], "b": ["n", 3]}, ["y"], 13))
    with pytest.raises(EvaluationError, match=r"input 'b' has shape \(1, 3\), and must have \(2, 3\)"):
        evaluate(module, [W, W[:1]])


@pytest.mark.parametrize("shape, nodes, dims", [
    ([3, 0], [helper.make_node("Relu", ["x"], ["y"])], ()),  # not the first dimension: no elements
    ([0, 3], [helper.make_node("Relu", ["x"], ["y"])], ("x_d0",)),  # a batch that the exporter did not know
    ([0], [helper.make_node("CastLike", ["z", "x"], ["y"])], ())])  # not read
def test_dimensions_of_size_zero(shape, nodes, dims):
    module = from_onnx(model(nodes, {"x": shape, "z": [2]}, ["y"], 15))
    assert tuple(d.name for d in module.attrs["dims"]) == dims


def test_shapes_in_the_making_may_be_cut_to_nothing():
    """As the functions of normalizations do: Shape, a part of no elements, Concat."""
    nodes = [helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Slice", ["s", "zero", "zero"], ["none"]),
             helper.make_node("Concat", ["none", "s"], ["shape"], axis=0),
             helper.make_node("Reshape", ["x", "shape"], ["y"])]
    module = from_onnx(model(nodes, {"x": ["n", 3]}, ["y"], 13, {"zero": np.int64([0])}))
    assert module["main"].outputs[0].struct_info == module["main"].params[0].struct_info
