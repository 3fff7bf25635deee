"""Networks with symbolic dimensions: compiled once, right for every size, in Python and in C."""
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

import ingot
from networks import conv_net, make_model, onnxruntime_outputs, relative_error, with_symbolic_batch, zoo, zoo_names

sys.path.insert(0, str(Path(__file__).parent / "embed"))
from c_folders import HERE, build, library_sources, need, need_compiler, run  # noqa: E402

BATCHES = (1, 3, 8)
SANITIZE = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


@pytest.fixture(scope="module")
def model():
    """tiny_resnet8 with its batch made a name; where the zoo is absent, a smaller network."""
    return with_symbolic_batch(zoo().load("tiny_resnet8") if "tiny_resnet8" in zoo_names else conv_net())


@pytest.fixture(scope="module")
def library(model):
    with ingot.compile(model, name="any_batch") as compiled:
        yield compiled


@pytest.fixture(scope="module")
def folder(library, tmp_path_factory):
    return library.export(tmp_path_factory.mktemp("symbolic") / "any_batch")


def test_one_library_takes_every_batch(model, library):
    """Growing and shrinking, so that the arena is made anew and used again."""
    assert library.inputs[0].shape[0] == "batch" and library.outputs[0].shape[0] == "batch"
    for batch in (*BATCHES, 2, 1):
        x = np.random.default_rng(batch).random((batch, *library.inputs[0].shape[1:]), np.float32)
        expected, = onnxruntime_outputs(model, {library.inputs[0].source_name: x})
        assert relative_error(library(x), expected) <= 1e-4


def test_pinned_batch(model):
    with ingot.compile(model, dims={"batch": 3}, threads="none") as library:
        assert library.inputs[0].shape[0] == 3
        x = np.random.default_rng(0).random(library.inputs[0].shape, np.float32)
        expected, = onnxruntime_outputs(model, {library.inputs[0].source_name: x})
        assert relative_error(library(x), expected) <= 1e-4


def test_selftest_of_the_folder(folder, tmp_path):
    need("make", "cc")
    subprocess.run(["cp", "-r", folder, tmp_path], check=True)
    assert "max error" in run(["make", "-j2", "check"], tmp_path / folder.name)
    run(["make", "example"], tmp_path / folder.name)
    assert "best of 10 runs" in run(["./example"], tmp_path / folder.name)


@pytest.mark.parametrize("flags", [("-O2",), SANITIZE], ids=["plain", "sanitized"])
def test_every_batch_in_c(model, library, folder, tmp_path, flags):
    need_compiler("gcc", *flags)
    image, answer = (int(np.prod(t.shape[1:])) for t in (library.inputs[0], library.outputs[0]))
    arch = [flag for flag in library.model.target.cflags if not flag.startswith("-O")]
    program = build(folder, [*library_sources(folder), HERE / "batches.c"], tmp_path / "program", "gcc", *arch, *flags,
                    '-DHEADER="any_batch.h"', "-DNET=any_batch", f"-DIMAGE={image}u", f"-DANSWER={answer}u",
                    "-Wall", "-Wextra", "-Wconversion", "-Werror")
    found = np.array(run([program]).split(), np.float32)
    for batch in BATCHES:
        x = (np.arange(batch * image) % 251 / np.float32(251)).astype(np.float32)
        x = x.reshape(batch, *library.inputs[0].shape[1:])
        expected, = onnxruntime_outputs(model, {library.inputs[0].source_name: x})
        assert relative_error(found[:expected.size].reshape(expected.shape), expected) <= 1e-4
        found = found[expected.size:]
    assert found.size == 0


def test_sizes_that_follow_from_symbolic_ones():
    """Height and width are names: convolutions and pools with strides make new expressions of them."""
    rng = np.random.default_rng(0)
    weights = {"w": rng.random((5, 2, 3, 3), np.float32) - np.float32(0.5)}
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], name="conv", strides=[2, 2], pads=[1, 1, 1, 1]),
             helper.make_node("Relu", ["c"], ["r"], name="relu"),
             helper.make_node("MaxPool", ["r"], ["y"], name="pool", kernel_shape=[2, 2], strides=[2, 2])]
    model = make_model("any_size", nodes, {"x": (np.float32, [1, 2, "height", "width"])},
                       {"y": (np.float32, None)}, weights)
    with ingot.compile(model, threads="none") as library:
        for size in ((8, 8), (13, 7), (5, 21)):
            x = rng.random((1, 2, *size), np.float32)
            assert relative_error(library(x), onnxruntime_outputs(model, {"x": x})[0]) <= 1e-4


@pytest.mark.parametrize("op, gates, directions", [("GRU", 3, 1), ("LSTM", 4, 2)])
def test_recurrent_layers_take_any_number_of_steps(op, gates, directions):
    rng, hidden, size = np.random.default_rng(0), 24, 5
    weights = {name: (0.4 * rng.standard_normal((directions, *shape))).astype(np.float32) for name, shape in (
        ("w", (gates * hidden, size)), ("r", (gates * hidden, hidden)), ("b", (2 * gates * hidden,)))}
    nodes = [helper.make_node(op, ["x", "w", "r", "b"], ["y"], name="layer", hidden_size=hidden,
                              direction="bidirectional" if directions == 2 else "forward")]
    model = make_model("any_time", nodes, {"x": (np.float32, ["time", 2, size])}, {"y": (np.float32, None)}, weights)
    with ingot.compile(model) as library:
        for steps in (1, 7, 4):
            x = rng.random((steps, 2, size), np.float32)
            assert relative_error(library(x), onnxruntime_outputs(model, {"x": x})[0]) <= 1e-5
