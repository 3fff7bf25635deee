"""Networks with symbolic dimensions: compiled once, right for every size, in Python and in C."""
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

import ingot
from networks import (attention_net, conv_net, make_model, onnxruntime_outputs, relative_error, with_symbolic_batch,
                      zoo,
                      zoo_names)

sys.path.insert(0, str(Path(__file__).parent / "embed"))
from c_folders import HERE, STRICT, build, library_sources, need, need_compiler, run  # noqa: E402
from ingot.codegen.target import Target  # noqa: E402
from ingot.codegen.toolchain import find_compiler, missing_tools, run_command  # noqa: E402
from ingot.codegen.toolchains import toolchain

BATCHES = (1, 3, 8)
LENGTHS = (1, 7, 63, 64, 65, 255, 256, 257, 600)  # around a vector, a tile and a block of keys
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
    arch = [flag for flag in toolchain(library.model.target).cflags if not flag.startswith("-O")]
    program = build(folder, [*library_sources(folder), HERE / "batches.c"], tmp_path / "program", "gcc", *arch, *flags,
                    '-DHEADER="any_batch.h"', "-DNET=any_batch", f"-DIMAGE={image}u", f"-DANSWER={answer}u",
                    "-DBATCHES=1,3,8", "-Wall", "-Wextra", "-Wconversion", "-Werror")
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


# ---------------------------------------------------------------- attention

@pytest.mark.parametrize("mask", [None, -np.inf, np.finfo(np.float32).min], ids=str)
@pytest.mark.parametrize("batch, threads", [(1, "none"), ("batch", "openmp")])
def test_attention_of_any_length(batch, threads, mask):
    """One kernel, without a tensor of all scores. Masks are causal."""
    model = attention_net(batch=batch, mask=mask is not None)
    assert "nn.attention" in ingot.inspect_stage(model, "fused", target="x86-64-v4")
    with ingot.compile(model, threads=threads) as library:
        for length in (*LENGTHS, 7):
            rng = np.random.default_rng(length)
            feeds = {"x": rng.standard_normal((1 if batch == 1 else 2, length, 32)).astype(np.float32) * 3}
            if mask is not None:
                feeds["mask"] = np.triu(np.full((1, 1, length, length), mask, np.float32), 1)
            expected, = onnxruntime_outputs(model, feeds)
            assert relative_error(library(*feeds.values()), expected) <= 1e-5


@pytest.mark.parametrize("length", [448, 600])
def test_attention_of_many_keys(length):
    """Keys of known length: rows of scores that are too large for the stack, and too many scores for whole rows."""
    model = attention_net(length)
    with ingot.compile(model, threads="none") as library:
        x = np.random.default_rng(0).standard_normal((1, length, 32)).astype(np.float32)
        assert relative_error(library(x), onnxruntime_outputs(model, {"x": x})[0]) <= 1e-5


def test_keys_hidden_before_others():
    """The first blocks of keys are hidden from all queries by -inf, as in batches that are filled up on the left."""
    model = attention_net(mask=True)
    with ingot.compile(model) as library:
        x = np.random.default_rng(0).standard_normal((1, 700, 32)).astype(np.float32)
        mask = np.where(np.arange(700) < 650, -np.inf, 0).astype(np.float32)
        mask = np.ascontiguousarray(np.broadcast_to(mask, (1, 1, 700, 700)))
        expected, = onnxruntime_outputs(model, {"x": x, "mask": mask})
        assert relative_error(library(x, mask), expected) <= 1e-5


@pytest.mark.parametrize("target, compiler", [("x86-64-v4", "gcc"), ("x86-64-v4", "clang"), ("x86-64-v3", "gcc"),
                                              ("x86-64-v3", "clang"), ("c", "gcc"), ("c", "clang"),
                                              ("aarch64-linux-gnu", None), ("armv7-linux-gnueabihf", None)])
def test_every_length_in_c(tmp_path, target, compiler):
    if reason := missing_tools(target):
        pytest.skip(reason)
    flags = [f if f != "-O3" else "-O2" for f in toolchain(Target.get(target)).cflags]
    if compiler:
        need_compiler(compiler, *flags)
    lengths = (1, 7, 65, 300)
    model = attention_net()
    cast = ingot.compile(model, target=target, threads="none", name="any_length")
    folder = cast.export(tmp_path / "any_length")
    command = [compiler] if compiler else find_compiler(target).command
    program = build(folder, [*library_sources(folder), HERE / "batches.c"], tmp_path / "program", *command, *flags,
                    *STRICT[1:], '-DHEADER="any_length.h"', "-DNET=any_length", "-DIMAGE=32u", "-DANSWER=32u",
                    f"-DBATCHES={','.join(map(str, lengths))}")
    found = np.array(run(run_command(target, program)).split(), np.float32)
    for length in lengths:
        x = (np.arange(length * 32) % 251 / np.float32(251)).astype(np.float32).reshape(1, length, 32)
        expected, = onnxruntime_outputs(model, {"x": x})
        assert relative_error(found[:expected.size].reshape(expected.shape), expected) <= 1e-5
        found = found[expected.size:]
    assert found.size == 0
