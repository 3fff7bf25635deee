"""Chains and sums longer than Python's stack is deep: fusion bounds what one kernel computes."""
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import ingot
from ingot.ir.transform.fuse import MAX_GROUP
from ingot.runtime.shapes import inputs_by_name
from networks import onnxruntime_outputs

COUNT = 1500


def _model(nodes, inputs, constants=()):
    infos = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, 3]) for name in (*inputs, "y")]
    graph = helper.make_graph(nodes, "long", infos[:-1], infos[-1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def chain():
    """Add, Relu and Mul in turn, each Add and Mul with a constant of its own."""
    rng = np.random.default_rng(0)
    nodes, constants = [], []
    for n in range(COUNT):
        op, last, name = ("Add", "Relu", "Mul")[n % 3], f"t{n - 1}" if n else "x", f"t{n}" if n < COUNT - 1 else "y"
        if op != "Relu":
            values = rng.uniform(-0.1, 0.1, (2, 3)) if op == "Add" else rng.uniform(0.9, 1.1, (2, 3))
            constants.append(numpy_helper.from_array(values.astype(np.float32), f"c{n}"))
        nodes.append(helper.make_node(op, [last] if op == "Relu" else [last, f"c{n}"], [name]))
    return _model(nodes, ["x"], constants)


def skips():
    """Each Add reads the last value and the one two before; the Mul that follows halves the sum."""
    constants = [numpy_helper.from_array(np.float32(0.5), "half")]
    nodes, values = [], ["x", "x", "x"]
    for n in range(COUNT // 2):
        name = f"t{n}" if n < COUNT // 2 - 1 else "y"
        nodes += [helper.make_node("Add", [values[-1], values[-3]], [f"s{n}"]),
                  helper.make_node("Mul", [f"s{n}", "half"], [name])]
        values.append(name)
    return _model(nodes, ["x"], constants)


def wide_sum():
    names = [f"x{n}" for n in range(COUNT)]
    return _model([helper.make_node("Sum", names, ["y"])], names)


@pytest.mark.parametrize("make", [chain, skips, wide_sum])
def test_values(make):
    model = make()
    rng = np.random.default_rng(1)
    feeds = {info.name: rng.standard_normal((2, 3)).astype(np.float32) for info in model.graph.input}
    expected = onnxruntime_outputs(model, feeds)[0]
    with ingot.compile(model, threads="none") as library:
        found = library(*inputs_by_name(library.inputs, feeds))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_a_kernel_computes_a_bounded_number_of_operators():
    text = ingot.inspect_stage(chain(), "fused", threads="none")
    operators = [part.count(" = R.add(") + part.count(" = R.multiply(") + part.count(" = R.nn.relu(")
                 for part in text.split("@R.function")]
    assert 1 < max(operators) <= MAX_GROUP and sum(operators) == COUNT
