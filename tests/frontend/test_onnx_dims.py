"""Symbolic dimensions: names that are sums of others, dimensions that may be 0, operands whose equality the run
checks."""
import numpy as np
import pytest
from onnx import TensorProto, helper

import ingot
from ingot.frontend.onnx import OnnxImportError, from_onnx
from ingot.frontend.onnx.dim_names import names_in, value_of


def model(nodes, inputs, outputs=("y",), constants=()):
    tensors = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()]
    made = [helper.make_node(op, ins, outs, **attrs) for op, ins, outs, attrs in nodes]
    graph = helper.make_graph(made, "m", tensors,
                              [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs],
                              [helper.make_tensor(n, TensorProto.INT64, [len(v)], v) for n, v in constants])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


JOINED = [("Concat", ["a", "b"], ["ab"], {"axis": 0}), ("Add", ["ab", "c"], ["y"], {})]


@pytest.mark.parametrize("text, names", [
    ("past + seq", {"past", "seq"}), ("past+1", {"past"}), ("2*(a + b)", {"a", "b"}), ("seq", {"seq"}), ("a - b", None),
    ("a.b", None), ("f(a)", None), ("a + ", None), ("a + 1.5", None), ("a + -1", None), ("", None), ("7", set()),
    ("(a + 1) // 2", {"a"}), ("a // b", None), ("a // 0", None)])
def test_names_in_sums(text, names):
    assert names_in(text) == names
    if names:
        assert value_of(text, dict.fromkeys(names, 3)) == eval(text, dict.fromkeys(names, 3))


@pytest.mark.parametrize("name, dims", [("p + q", {}), ("total", {"total": "p + q"}), ("total", {"total": "q+p"})])
def test_a_dimension_is_a_sum_of_others(name, dims):
    proto = model(JOINED, {"a": ["p"], "b": ["q"], "c": [name]})
    mod = from_onnx(proto, dims=dims)
    assert [d.name for d in mod.attrs["dims"]] == ["p", "q"]
    with ingot.compile(proto, dims=dims, threads="none") as library:
        for p, q in ((2, 3), (1, 1)):
            a, b, c = np.ones(p, np.float32), np.ones(q, np.float32), np.ones(p + q, np.float32)
            np.testing.assert_array_equal(library(a, b, c), c + 1)
        with pytest.raises(ValueError, match="'c'"):
            library(np.ones(2, np.float32), np.ones(3, np.float32), np.ones(6, np.float32))


def test_a_sum_of_unknown_names_is_a_name():
    """Nothing says what r is: the dimension is one of its own, as any text is."""
    mod = from_onnx(model([("Neg", ["a"], ["y"], {})], {"a": ["p + r"]}))
    assert [d.name for d in mod.attrs["dims"]] == ["p_r"]


def test_the_last_term_of_a_sum_is_told_by_it():
    proto = model([("Concat", ["a", "c"], ["y"], {"axis": 0})], {"a": ["q"], "c": ["p + q"], "d": ["p", 1]})
    with ingot.compile(proto, threads="none") as library:
        found = library(np.ones(2, np.float32), np.zeros(5, np.float32), np.zeros((3, 1), np.float32))
        assert found.tolist() == [1, 1, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("dims, message", [
    ({"total": "p + r"}, "made of other dimensions"), ({"total": "total + 1"}, "depends on itself"),
    ({"total": "p + 1", "p": "total"}, "depends on itself"),
    ({"total": "p -"}, "made of other dimensions"), ({"total": 0}, "from 1 up")])
def test_sums_that_mean_nothing(dims, message):
    with pytest.raises(OnnxImportError, match=message):
        from_onnx(model(JOINED, {"a": ["p"], "b": ["q"], "c": ["total"]}), dims=dims)


def test_a_dimension_with_a_bound_may_be_zero():
    proto = model([("Concat", ["a", "b"], ["ab"], {"axis": 0}), ("ReduceSum", ["ab"], ["y"], {"keepdims": 0})],
                  {"a": ["p"], "b": ["q"]})
    with ingot.compile(proto, bounds={"p": 4}, threads="none") as library:
        for p in (0, 4):
            assert library(np.ones(p, np.float32), np.ones(2, np.float32)) == p + 2
        for p, q in ((5, 1), (1, 0)):
            with pytest.raises(ValueError):
                library(np.ones(p, np.float32), np.ones(q, np.float32))
    with ingot.compile(proto, threads="none") as library, pytest.raises(ValueError, match="at least 1"):
        library(np.ones(0, np.float32), np.ones(2, np.float32))


def test_operands_that_must_be_equal_are_checked_by_the_run():
    """A table of 8 cut to n and added to a tensor of n: right up to 8, an error beyond."""
    nodes = [("Shape", ["x"], ["n"], {}), ("Slice", ["table", "zero", "n"], ["cut"], {}),
             ("Add", ["x", "cut"], ["y"], {})]
    proto = model(nodes, {"x": ["n"]}, constants=[("zero", [0])])
    table = np.arange(8, dtype=np.float32)
    proto.graph.initializer.append(helper.make_tensor("table", TensorProto.FLOAT, [8], table))
    with ingot.compile(proto, threads="none") as library:
        for n in (2, 8):
            np.testing.assert_array_equal(library(np.ones(n, np.float32)), table[:n] + 1)
        with pytest.raises(ValueError, match="no result for these sizes"):
            library(np.ones(9, np.float32))


def test_operands_that_differ_are_refused():
    with pytest.raises(OnnxImportError, match="do not broadcast"):
        from_onnx(model([("Add", ["a", "b"], ["y"], {})], {"a": [3, "n"], "b": [4, "n"]}))
