"""Folders for CUDA as they are, built against the emulator: self-test, example and error paths run."""
import subprocess
import sys
from pathlib import Path

import pytest
from emulated import EMU, MISSING, build_library, build_program, run_folder, run_program, sizes_of
from folders import folder_of
from networks import (
    attention_net, conv_net, embedding_net, needs_zoo, recurrent_net, with_symbolic_batch, zoo, zoo_names)
from onnx import helper

sys.path.append(str(Path(__file__).parents[1] / "codegen"))
from test_cuda_program import ERRORS, REFUSED, with_weights  # noqa: E402 - a program made by hand

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
NETWORKS = {"conv_net": conv_net, "embedding_net": embedding_net, "recurrent_net": recurrent_net,
            "any_batch": lambda: with_symbolic_batch(conv_net()), "any_length": attention_net}


def passes(done):
    assert done.returncode == 0 and "ok" in done.stdout, done.stdout + done.stderr
    assert "WRONG" not in done.stdout and "differ" not in done.stdout


@pytest.mark.parametrize("name", NETWORKS)
def test_the_self_test_passes_plain_and_as_a_graph(name, tmp_path):
    """No kernel has a race or leaves its arrays, whatever the order of threads."""
    made = folder_of(NETWORKS[name](), tmp_path / name, name)
    program = build_program(tmp_path / name, tmp_path / "selftest", seen=True, sizes=sizes_of(made))
    for policy in ("down late", "starving"):
        passes(run_program(program, policy))


ZOO = ["tiny_autoencoder", "tiny_dscnn", "tiny_dscnn float16", "tiny_resnet8 bfloat16", "tiny_vww"]


@needs_zoo
@pytest.mark.parametrize("name", [n for n in ZOO if n.split()[0] in zoo_names] or ["none"])
def test_networks_of_the_zoo_have_no_race_and_stay_in_their_arrays(name, tmp_path):
    network, *dtype = name.split()
    made = folder_of(zoo().load(network), tmp_path / "net", "net", weights="file", **dict(zip(["dtype"], dtype)))
    program = build_program(tmp_path / "net", tmp_path / "net" / "run", seen=True, sizes=sizes_of(made))
    passes(run_program(program, "shuffled late", cwd=tmp_path / "net"))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_self_test_of_a_network_in_small_floats_passes(dtype, tmp_path):
    folder_of(conv_net(), tmp_path / "net", "conv_net", dtype=dtype)
    done = run_folder(tmp_path / "net")
    assert done.returncode == 0 and "ok" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("weights", ["file", "array"])
def test_weights_are_given_or_words(weights, tmp_path, monkeypatch):
    folder_of(conv_net(), tmp_path / "net", "conv_net", weights=weights)
    if weights == "array":  # so is what the self-test compares with
        (tmp_path / "net" / "conv_net_selftest_data.c").rename(tmp_path / "net" / "data.c")
    monkeypatch.chdir(tmp_path / "net")  # where the self-test reads the file
    done = run_folder(tmp_path / "net")
    assert done.returncode == 0 and "ok" in done.stdout, done.stdout + done.stderr


def test_the_example_runs_plain_and_as_a_graph(tmp_path):
    folder_of(with_symbolic_batch(conv_net()), tmp_path / "net", "example_net")
    done = run_folder(tmp_path / "net", program="example")
    assert done.returncode == 0 and "as a graph" in done.stdout, done.stdout + done.stderr


def test_weights_of_no_elements_are_not_copied(tmp_path):
    """The arena has no room for them; the blob is never empty."""
    info = helper.make_tensor_value_info
    graph = helper.make_graph([helper.make_node("Concat", ["x", "w"], ["y"], axis=0),
                               helper.make_node("Identity", ["w"], ["z"])], "g", [info("x", 1, [4])],
                              [info("y", 1, [4]), info("z", 1, [0])], [helper.make_tensor("w", 1, [0], [])])
    made = folder_of(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
                     tmp_path / "net", "empty")
    assert made.program.weights_bytes == 0 and "_weights, EMPTY_WEIGHTS_BYTES" not in (
        tmp_path / "net" / "empty.c").read_text()
    done = run_folder(tmp_path / "net")
    assert done.returncode == 0 and "ok" in done.stdout, done.stdout + done.stderr


def test_a_device_without_code_is_refused(tmp_path, monkeypatch):
    folder_of(embedding_net(), tmp_path / "net", "rows")
    monkeypatch.setenv("EMU_NO_IMAGE", "1")
    done = run_folder(tmp_path / "net")
    assert done.returncode == 1 and "rows: " in done.stderr and "209" in done.stderr, done.stderr  # its code


def test_init_refuses_what_does_not_fit(tmp_path):
    with_weights().write(tmp_path / "tree")
    (tmp_path / "tree" / "errors.c").write_text(ERRORS)
    library = build_library(tmp_path / "tree", tmp_path / "tree.so")
    subprocess.run(["cc", "-std=c99", "-I", EMU / "include", "errors.c", library, "-o", "errors"],
                   cwd=tmp_path / "tree", check=True)
    found = subprocess.run(["./errors"], cwd=tmp_path / "tree", capture_output=True, text=True).stdout.split()
    assert [*map(int, found)][:len(REFUSED)] == REFUSED
