"""The self-test's sizes and reference, operations of recurrent layers, dimensions without names."""
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

import ingot
from ingot.codegen import compile as codegen_compile

sys.path.insert(0, str(Path(__file__).parent.parent / "frontend"))
from onnx_models import model  # noqa: E402


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
