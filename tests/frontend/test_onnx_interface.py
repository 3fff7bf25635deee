"""Sequences, optional values and inputs of no declared shape: as arguments of a network, and as its results."""
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_models import model, value_info

import ingot
from ingot.frontend.onnx import OnnxImportError, UndeclaredInput, from_onnx
from ingot.runtime import InputError

FAST = dict(threads="none", weights="array", opt_level=1)
RNG = np.random.default_rng(2)


def tensor(shape=None, dtype="float32"):
    return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)


def sequence(shape=None):
    return helper.make_sequence_type_proto(tensor(shape))


def typed(nodes, inputs, outputs, opset=18):
    """A model whose inputs and outputs are {name: TypeProto}."""
    proto = model(nodes, {}, [], opset)
    proto.graph.input.extend(helper.make_value_info(*pair) for pair in inputs.items())
    proto.graph.output.extend(helper.make_value_info(*pair) for pair in outputs.items())
    return proto


def arrays(*shapes):
    return [RNG.standard_normal(s).astype("f") for s in shapes]


def doubled(shape=None):
    """Twice each element of a sequence, and one more at the end."""
    body = helper.make_graph([helper.make_node("Add", ["e", "e"], ["f"])], "body", [value_info("e", shape)],
                             [value_info("f", shape)])
    return typed([helper.make_node("SequenceMap", ["xs"], ["ys"], body=body),
                  helper.make_node("SequenceInsert", ["ys", "z"], ["zs"])],
                 {"xs": sequence(shape), "z": tensor([2])}, {"zs": sequence(shape)})


@pytest.mark.parametrize("shapes", [[(3,), (3,)], [(2, 3), (1,), ()], []])
def test_a_call_says_which_elements_a_sequence_has(shapes):
    xs, z = arrays(*shapes), np.float32([1, 2])
    with ingot.compile(doubled(), name="twice", **FAST) as library:
        for _ in range(2):
            found = library(xs, z)
            assert isinstance(found, list) and len(found) == len(xs) + 1
            for a, b in zip(found, [*(x * 2 for x in xs), z]):
                assert a.shape == b.shape
                np.testing.assert_array_equal(a, b)
        by_name = library.run({"z": z, "xs": xs})
        assert list(by_name) == ["zs"] and len(by_name["zs"]) == len(xs) + 1
        assert len(library._made) == 1
        library([*xs, z], z)
        assert len(library._made) == 2


def test_the_caller_says_it_when_compiling(tmp_path):
    library = ingot.compile(doubled(), name="twice", shapes={"xs": [(2,), ("n", 3)]}, **FAST)
    assert [(t.name, tuple(map(str, t.shape))) for t in library.inputs] == [
        ("xs_0", ("2",)), ("xs_1", ("n", "3")), ("z", ("2",))]
    assert [t.name for t in library.outputs] == ["zs_0", "zs_1", "zs_2"]
    xs = arrays((2,), (5, 3))
    np.testing.assert_array_equal(library(xs, xs[0])[1], xs[1] * 2)
    assert "const float *xs_1" in (library.export(tmp_path / "c") / "twice.h").read_text()
    for wrong, text in ((xs[:1], "has 1 elements, and the network was compiled for 2"), (xs[0], "is a tensor"),
                        (None, "is absent")):
        with pytest.raises(InputError, match=text):
            library(wrong, xs[0])


def test_what_is_not_said_is_asked_for(tmp_path):
    with pytest.raises(UndeclaredInput, match="'xs' is a sequence.*--shape 'xs=2,3;4,3'.*shapes={'xs': "):
        from_onnx(doubled())
    with pytest.raises(UndeclaredInput, match="'xs' is a sequence"):
        ingot.compile(doubled()).export(tmp_path / "c")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("shapes, text", [
    ({"xs": [(2, 3.5)]}, "a shape is a tuple"), ({"xs": [(3,)], "y": (2,)}, "shapes names 'y'"),
    ({"xs": [(3,)], "z": (3,)}, "the model declares"), ({"xs": (3, 4)}, "a shape is a tuple"),
    ({"xs": None}, "is a sequence")])
def test_shapes_that_do_not_fit(shapes, text):
    with pytest.raises(OnnxImportError, match=text):
        from_onnx(doubled(), shapes=shapes)


def optional_sum():
    """x + y, x where y is absent."""
    there = helper.make_graph([helper.make_node("OptionalGetElement", ["y"], ["v"]),
                               helper.make_node("Add", ["x", "v"], ["a"])], "there", [], [value_info("a", [3])])
    absent = helper.make_graph([helper.make_node("Identity", ["x"], ["b"])], "absent", [], [value_info("b", [3])])
    return typed([helper.make_node("OptionalHasElement", ["y"], ["has"]),
                  helper.make_node("If", ["has"], ["z"], then_branch=there, else_branch=absent),
                  helper.make_node("Identity", ["y"], ["w"])],
                 {"x": tensor([3]), "y": helper.make_optional_type_proto(tensor([3]))},
                 {"z": tensor([3]), "w": helper.make_optional_type_proto(tensor([3]))})


def test_an_optional_value_is_there_or_absent():
    x, y = arrays((3,), (3,))
    with ingot.compile(optional_sum(), name="sum", **FAST) as library:
        z, w = library(x, y)
        np.testing.assert_array_equal(z, x + y)
        np.testing.assert_array_equal(w, y)
        z, w = library(x, None)
        np.testing.assert_array_equal(z, x)
        assert w is None
        np.testing.assert_array_equal(library.run({"x": x})["z"], x)
    with pytest.raises(UndeclaredInput, match="'y' is an optional value.*None.*where it is absent"):
        from_onnx(optional_sum())
    absent = ingot.compile(optional_sum(), name="sum", shapes={"y": None}, **FAST)
    with pytest.raises(InputError, match="compiled for an optional value that is absent"):
        absent(x, y)


def test_outputs_that_are_no_tensors():
    nothing = typed([helper.make_node("Optional", [], ["y"], type=tensor([3]))], {},
                    {"y": helper.make_optional_type_proto(tensor([3]))})
    with pytest.raises(OnnxImportError, match="are no tensors"):
        from_onnx(nothing)


def test_an_input_of_no_declared_rank():
    proto = typed([helper.make_node("Neg", ["x"], ["y"])], {"x": tensor()}, {"y": tensor()})
    x, = arrays((2, 3))
    with ingot.compile(proto, name="minus", **FAST) as library:
        np.testing.assert_array_equal(library(x), -x)
        np.testing.assert_array_equal(library(x[0, 0]), -x[0, 0])
    with ingot.compile(proto, name="minus", shapes={"x": ("n", 3)}, **FAST) as library:
        np.testing.assert_array_equal(library(x), -x)


@pytest.mark.parametrize("count", [2, 1])
def test_sequences_of_branches(count):
    def branch(name, values):
        made = [helper.make_node("Constant", [], [f"{name}{k}"], value=numpy_helper.from_array(np.float32(v)))
                for k, v in enumerate(values)]
        made.append(helper.make_node("SequenceConstruct", [n.output[0] for n in made], [name]))
        return helper.make_graph(made, name, [], [helper.make_value_info(name, sequence([2]))])
    proto = typed([helper.make_node("If", ["c"], ["ys"], then_branch=branch("a", [[1, 2], [3, 4]]),
                                    else_branch=branch("b", [[5, 6], [7, 8]][:count]))],
                  {"c": tensor([], "bool")}, {"ys": sequence([2])})
    if count == 1:
        with pytest.raises(OnnxImportError, match="sequences of different lengths"):
            from_onnx(proto)
        return
    with ingot.compile(proto, name="choose", **FAST) as library:
        np.testing.assert_array_equal(library(np.array(True)), [[1, 2], [3, 4]])
        np.testing.assert_array_equal(library(np.array(False)), [[5, 6], [7, 8]])


def test_parts_of_lengths_that_a_run_decides():
    proto = typed([helper.make_node("SplitToSequence", ["x", "n"], ["ys"], axis=1)],
                  {"x": tensor([2, 5]), "n": tensor([2], "int64")}, {"ys": sequence()})
    x, = arrays((2, 5))
    with ingot.compile(proto, name="parts", **FAST) as library:
        for first in (0, 3, 5):
            found = library(x, np.int64([first, 5 - first]))
            np.testing.assert_array_equal(found[0], x[:, :first])
            np.testing.assert_array_equal(found[1], x[:, first:])
        with pytest.raises(ingot.runtime.NetworkError):
            library(x, np.int64([2, 2]))


def test_extents_of_0_that_are_meant():
    """As a first dimension 0 may say "unknown", and does so where that works."""
    split = typed([helper.make_node("Split", ["x", "n"], ["a", "b"])],
                  {"x": tensor([0]), "n": tensor([2], "int64")}, {"a": tensor([0]), "b": tensor([0])})
    with ingot.compile(split, name="split", **FAST) as library:
        assert [y.shape for y in library(np.zeros(0, "f"), np.int64([0, 0]))] == [(0,), (0,)]
    batch = typed([helper.make_node("Neg", ["x"], ["y"])], {"x": tensor([0, 3])}, {"y": tensor([0, 3])})
    with ingot.compile(batch, name="batch", **FAST) as library:
        assert library(np.ones((4, 3), "f")).shape == (4, 3)
    filled = typed([helper.make_node("ConstantOfShape", ["n"], ["y"])], {"n": tensor([1], "int64")}, {"y": tensor([0])})
    with ingot.compile(filled, name="filled", **FAST) as library:
        assert library(np.int64([0])).shape == (0,)
        with pytest.raises(ingot.runtime.NetworkError):
            library(np.int64([1]))


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "bool"])
def test_tensor_protos_are_answered_with_tensor_protos(dtype):
    proto = typed([helper.make_node("Identity", ["x"], ["y"]), helper.make_node("Identity", ["x"], ["z"])],
                  {"x": tensor([2], dtype)}, {"y": tensor([2], dtype), "z": tensor([2], dtype)})
    x = np.array([0, 1], dtype)
    with ingot.compile(proto, name="same", **FAST) as library:
        found = library(numpy_helper.from_array(x, "x"))
        assert [type(t) for t in found] == [TensorProto, TensorProto] and [t.name for t in found] == ["y", "z"]
        np.testing.assert_array_equal(numpy_helper.to_array(found[1]), x)
        assert isinstance(library.run({"x": numpy_helper.from_array(x)})["y"], TensorProto)
        assert isinstance(library(x)[0], np.ndarray)


def test_a_tensor_proto_among_arrays_is_one_of_them():
    proto = typed([helper.make_node("Add", ["x", "y"], ["z"])], {"x": tensor([2]), "y": tensor([2])},
                  {"z": tensor([2])})
    x, y = arrays((2,), (2,))
    with ingot.compile(proto, name="plus", **FAST) as library:
        found = library(x, numpy_helper.from_array(y))
        assert isinstance(found, np.ndarray)
        np.testing.assert_array_equal(found, x + y)


def test_tensor_protos_are_elements_of_sequences():
    xs, z = arrays((2,), (2,)), arrays((2,))[0]
    with ingot.compile(doubled([2]), **FAST) as library:
        expected = library(xs, z)
        found = library([numpy_helper.from_array(x) for x in xs], numpy_helper.from_array(z))
    assert len(found) == len(expected) == 3
    for a, b in zip(found, expected):
        assert np.array_equal(numpy_helper.to_array(a), b)
