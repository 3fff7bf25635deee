"""The self-test's sizes and reference, operations of recurrent layers, dimensions without names."""
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

import ingot
from ingot.codegen import compile as codegen_compile
from ingot.runtime.sample import sample_inputs

sys.path.insert(0, str(Path(__file__).parent.parent / "frontend"))
from onnx_models import model, value_info  # noqa: E402


def ones(*shape):
    return np.ones(shape, np.float32)


def checked(proto, folder):
    folder = ingot.compile(proto, threads="none").export(folder)
    result = subprocess.run(["make", "-s", "-C", str(folder), "check"], capture_output=True, text=True)
    return result.returncode, result.stdout, (folder / "README.md").read_text()


def test_a_dimension_so_small_that_a_tensor_is_empty(tmp_path):
    """A kernel of 5 rows leaves nothing of 3: the self-test takes the first size that leaves something."""
    proto = model([helper.make_node("Conv", ["x", "w"], ["y"])], {"x": [1, 1, "h", 9]}, ["y"], 17,
                  {"w": ones(1, 1, 5, 3)})
    status, output, _ = checked(proto, tmp_path / "net")
    assert status == 0 and "ok" in output


def test_a_reference_beyond_the_budget_is_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(codegen_compile, "MOST_REFERENCE_BYTES", 10)
    proto = model([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": [4, 16]}, ["y"], 17, {"w": ones(16, 16)})
    status, output, readme = checked(proto, tmp_path / "net")
    assert status == 0 and output == "" and "there is no reference: evaluation would take" in readme


@pytest.mark.parametrize("op, gates", [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_operations_of_recurrent_layers(op, gates):
    proto = model([helper.make_node(op, ["x", "w", "r"], ["y"], hidden_size=5, direction="bidirectional")],
                  {"x": [7, 3, 9]}, ["y"], 17, {"w": ones(2, 5 * gates, 9), "r": ones(2, 5 * gates, 5)})
    assert ingot.compile(proto, threads="none").flops == 2 * 7 * 3 * 2 * 5 * gates * (9 + 5)


@pytest.mark.parametrize("name", ["", "?", "-1"])
def test_dimensions_without_names_are_each_their_own(name):
    proto = model([helper.make_node("Relu", ["x"], ["y"])], {"x": [name, name]}, ["y"])
    with ingot.compile(proto, threads="none") as lib:
        np.testing.assert_array_equal(lib(-ones(2, 5)), np.zeros((2, 5)))


@pytest.mark.parametrize("op", ["Gather", "GatherElements"])
def test_index_inputs_are_drawn_over_the_axis(op, tmp_path):
    """An axis of one row has no row 1, and one of 50 more than two; an axis that is symbolic counts as in the test."""
    nodes, shapes, weights = [], {"x": ["n", 5]}, {"long": np.arange(250, dtype=np.float32).reshape(50, 5),
                                                  "one": ones(1, 5), "new": np.array([4, 5])}
    gathers = [("long", "int64", ()), ("one", "int32", ()), ("x", "int64", ()),
               ("long", "int32", ("Cast", "Transpose")),
               ("one", "int64", ("Reshape",))]
    for n, (table, dtype, through) in enumerate(gathers):
        shapes[f"i{n}"] = ([5, 4] if "Transpose" in through else [20] if "Reshape" in through else [4, 5], dtype)
        name = f"i{n}"
        for m, keeping in enumerate(through):
            attrs = {"Cast": {"to": 7}, "Transpose": {"perm": [1, 0]}}.get(keeping, {})
            made = helper.make_node(keeping, [name, *(["new"] if keeping == "Reshape" else [])], [f"t{n}_{m}"], **attrs)
            nodes, name = [*nodes, made], f"t{n}_{m}"
        nodes.append(helper.make_node(op, [table, name], [f"y{n}"], axis=0))
    proto = model(nodes, {}, [f"y{n}" for n in range(5)], 17, weights)
    proto.graph.input.extend(value_info(k, *(s if isinstance(s, tuple) else (s,))) for k, s in shapes.items())
    library = ingot.compile(proto, threads="none")
    drawn = {t.source_name: a for t, a in zip(library.model.inputs, library.model.test_inputs)}
    assert [int(drawn[f"i{n}"].max()) for n in range(5)] == [drawn["i0"].max(), 0, 2, drawn["i3"].max(), 0]
    assert min(drawn["i0"].max(), drawn["i3"].max()) > 20
    feeds = sample_inputs(library.inputs)
    assert feeds["i1"].max() == 0 and feeds["i0"].max() > 20
    status, output, _ = checked(proto, tmp_path / "net")
    assert status == 0 and "ok" in output
