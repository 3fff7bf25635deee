"""Bad input: one clear error each, in Python and on the command line, and nothing half-written stays behind."""
import gc
import os
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import helper

import ingot
from ingot import cli
from ingot.codegen.output_folder import PackageError
from ingot.codegen.toolchain import ToolchainError
from ingot.codegen.toolchains import is_native
from ingot.frontend.onnx import OnnxImportError
from ingot.runtime.binding import NetworkError
from ingot.runtime.shapes import InputError
from networks import conv_net, make_model

F32 = np.float32


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch):
    """Temporary files and the object cache are in this test's folder, where strays are found."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setenv("INGOT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("CC", raising=False)


def listing(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if "cache" not in path.parts)


def error_of(capsys, *argv):
    """The one line that a failing command prints; its exit status is 2, and it is no internal error."""
    assert cli.main([str(word) for word in argv]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1 and captured.err.startswith("ingot: error: ")
    assert "internal error" not in captured.err and "Traceback" not in captured.err
    return captured.err


def check_both_ways(tmp_path, capsys, path, words):
    """Compiling `path` fails in Python and on the command line with all of `words`, and writes nothing."""
    before = listing(tmp_path)
    with pytest.raises(OnnxImportError) as caught:
        ingot.compile(path)
    line = error_of(capsys, "compile", path, "-o", tmp_path / "new" / "out")
    for word in words:
        assert word in str(caught.value) and word in line
    assert listing(tmp_path) == before


def one_node(op, shapes, domain="", **attributes):
    """A model of one node called the_node on float32 inputs x0, x1 ... of these shapes."""
    names = [f"x{i}" for i in range(len(shapes))]
    node = helper.make_node(op, names, ["y"], name="the_node", domain=domain, **attributes)
    inputs = {name: (F32, shape) for name, shape in zip(names, shapes)}
    model = make_model("bad", [node], inputs, {"y": (F32, None)}, {})
    if domain:
        model.opset_import.append(helper.make_opsetid(domain, 1))
    return model


# ---- files --------------------------------------------------------------------------------------------------------

def test_truncated_at_any_byte(tmp_path):
    """Also where the rest is a message that protobuf accepts."""
    data = conv_net().SerializeToString()
    for end in [*range(0, 300, 3), *range(300, len(data), 97), len(data) - 1]:
        with pytest.raises(OnnxImportError):
            ingot.from_onnx(data[:end])


def test_truncated_file(tmp_path, capsys):
    (tmp_path / "cut.onnx").write_bytes(conv_net().SerializeToString()[:3000])
    check_both_ways(tmp_path, capsys, tmp_path / "cut.onnx", ["cut.onnx", "truncated"])


@pytest.mark.parametrize("data", [
    b"", b"import numpy\n\nprint('no model')\n", b"\x89PNG\r\n\x1a\n" + bytes(range(256)), b"\x1f\x8b\x08" + bytes(200),
    b'{"ir_version": 8}', bytes(1000)], ids=["empty", "text", "png", "gzip", "json", "zeros"])
def test_no_onnx(tmp_path, capsys, data):
    (tmp_path / "bad.onnx").write_bytes(data)
    check_both_ways(tmp_path, capsys, tmp_path / "bad.onnx", ["bad.onnx", "not an ONNX model"])


def test_no_file(tmp_path, capsys):
    check_both_ways(tmp_path, capsys, tmp_path / "absent.onnx", ["absent.onnx"])
    (tmp_path / "folder.onnx").mkdir()
    check_both_ways(tmp_path, capsys, tmp_path / "folder.onnx", ["folder.onnx"])


def test_missing_external_weights(tmp_path, capsys):
    path = tmp_path / "net.onnx"
    onnx.save(conv_net(), path, save_as_external_data=True, location="net.weights", size_threshold=0)
    with ingot.compile(path, threads="none") as library:
        assert library.name
    os.truncate(tmp_path / "net.weights", 100)
    check_both_ways(tmp_path, capsys, path, ["net.weights", "initializer"])
    (tmp_path / "net.weights").unlink()
    check_both_ways(tmp_path, capsys, path, ["net.weights", "initializer"])


# ---- models -------------------------------------------------------------------------------------------------------

WRONG_MODELS = {
    "unknown operator": (one_node("Frobnicate", [[2]]), ["the_node", "Frobnicate", "opset 17"]),
    "operator of another domain": (one_node("Gadget", [[2]], domain="com.example"),
                                   ["the_node", "Gadget", "com.example"]),
    "too many strides": (one_node("MaxPool", [[1, 2, 8, 8]], kernel_shape=[2, 2], strides=[1, 1, 1]),
                         ["the_node", "MaxPool"]),
    "no kernel shape": (one_node("MaxPool", [[1, 2, 8, 8]]), ["the_node", "kernel_shape"]),
    "attribute of another type": (one_node("Concat", [[2], [2]], axis="first"), ["the_node", "axis"]),
    "unknown padding": (one_node("Conv", [[1, 2, 8, 8], [3, 2, 3, 3]], auto_pad="SIDEWAYS"), ["the_node", "SIDEWAYS"]),
    "axis out of range": (one_node("Softmax", [[2, 3]], axis=5), ["the_node", "Softmax"]),
    "channels that disagree": (one_node("Conv", [[1, 2, 8, 8], [3, 5, 3, 3]]), ["the_node", "Conv", "[1, 2, 8, 8]"]),
    "groups that do not divide": (one_node("Conv", [[1, 6, 8, 8], [4, 2, 3, 3]], group=4), ["the_node", "Conv"]),
    "products that do not fit": (one_node("MatMul", [[2, 3], [4, 5]]), ["the_node", "MatMul"]),
    "shapes that do not broadcast": (one_node("Add", [[2, 3], [2, 4]]), ["the_node", "Add"]),
    "concat of different ranks": (one_node("Concat", [[2, 3], [2]], axis=0), ["the_node", "Concat"]),
    "kernel larger than its input": (one_node("Conv", [[1, 2, 4, 4], [3, 2, 7, 7]]), ["the_node", "Conv"]),
    "too few inputs": (one_node("Add", [[2]]), ["the_node", "Add"]),
}


@pytest.mark.parametrize("case", WRONG_MODELS)
def test_wrong_models(tmp_path, capsys, case):
    model, words = WRONG_MODELS[case]
    onnx.save(model, tmp_path / "bad.onnx")
    check_both_ways(tmp_path, capsys, tmp_path / "bad.onnx", words)


# ---- the output folder --------------------------------------------------------------------------------------------

@pytest.fixture
def model(tmp_path):
    onnx.save(conv_net(), tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


def folder_that_is_full(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "precious.txt").write_text("mine")
    return tmp_path / "out", "is not empty"


def folder_that_is_a_file(tmp_path):
    (tmp_path / "out").write_text("mine")
    return tmp_path / "out", "is not a folder"


def folder_under_a_file(tmp_path):
    (tmp_path / "file").write_text("mine")
    return tmp_path / "file" / "out", "file"


def folder_in_proc(tmp_path):
    return "/proc/ingot/out", "/proc/ingot/out"


def folder_that_is_read_only(tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    (tmp_path / "locked").mkdir(mode=0o500)
    return tmp_path / "locked" / "out", "permission"


@pytest.mark.parametrize("make", [folder_that_is_full, folder_that_is_a_file, folder_under_a_file, folder_in_proc,
                                  folder_that_is_read_only])
def test_output_folders(model, tmp_path, capsys, make):
    folder, message = make(tmp_path)
    before = listing(tmp_path)
    with ingot.compile(model, threads="none") as library, pytest.raises(PackageError, match=message):
        library.export(folder)
    assert message in error_of(capsys, "compile", model, "-o", folder, "--threads", "none")
    assert listing(tmp_path) == before


def test_an_empty_folder_is_filled(model, tmp_path):
    (tmp_path / "out").mkdir()
    with ingot.compile(model, threads="none") as library:
        assert library.export(tmp_path / "out") == tmp_path / "out"
    assert (tmp_path / "out" / "Makefile").is_file()


@pytest.mark.parametrize("fail_at", ["ingot.c", "README.md"])
def test_a_disk_that_fills_up(model, tmp_path, capsys, monkeypatch, fail_at):
    from pathlib import Path
    write = Path.write_bytes

    def full(self, data):
        if self.name == fail_at:
            raise OSError(28, "No space left on device", str(self))
        return write(self, data)
    before = listing(tmp_path)
    monkeypatch.setattr(Path, "write_bytes", full)
    folder = tmp_path / "a" / "b" / "out"
    assert "No space left" in error_of(capsys, "compile", model, "-o", folder, "--threads", "none")
    assert listing(tmp_path) == before


# ---- building -----------------------------------------------------------------------------------------------------

def test_no_compiler(model, tmp_path, capsys, monkeypatch):
    before = listing(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    with ingot.compile(model, threads="none") as library:
        with pytest.raises(ToolchainError, match="no C compiler .*install one"):
            library(np.zeros((1, 3, 13, 11), F32))
        with pytest.raises(ToolchainError, match="no C compiler"):  # and again, not something else
            library(np.zeros((1, 3, 13, 11), F32))
    assert "no C compiler" in error_of(capsys, "bench", model, "--threads", "none")
    assert listing(tmp_path) == before


def test_no_compiler_is_needed_to_write_the_folder(model, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    with ingot.compile(model) as library:
        assert (library.export(tmp_path / "out") / "Makefile").is_file()


def test_a_compiler_that_fails(model, tmp_path, capsys, monkeypatch):
    before = listing(tmp_path)
    (tmp_path / "tmp" / "cc").write_text('#!/bin/sh\n[ "$1" = --version ] && exit 0\n'
                                         'echo "k.c:1: error: no" >&2; exit 1\n')
    (tmp_path / "tmp" / "cc").chmod(0o755)
    monkeypatch.setenv("CC", str(tmp_path / "tmp" / "cc"))
    with ingot.compile(model, threads="none") as library:
        with pytest.raises(ToolchainError, match="cc failed compiling(.|\n)*error: no"):
            library(np.zeros((1, 3, 13, 11), F32))
    assert "failed compiling" in error_of(capsys, "bench", model, "--threads", "none")
    gc.collect()  # the exception and its frames hold each other; at the end of the process they are gone
    (tmp_path / "tmp" / "cc").unlink()
    assert listing(tmp_path) == before


def test_a_target_of_another_machine(model):
    other = "aarch64-linux-gnu" if not is_native(ingot.Target.get("aarch64-linux-gnu")) else "x86-64-v3"
    with ingot.compile(model, target=other, threads="none") as library:
        with pytest.raises(ToolchainError, match="export the folder and build it there"):
            library(np.zeros((1, 3, 13, 11), F32))


# ---- options and arrays -------------------------------------------------------------------------------------------

@pytest.mark.parametrize("options, argv, message", [
    ({"target": "z80"}, ["--target", "z80"], "unknown target 'z80'; known: host"),
    ({"name": "2 b"}, ["--name", "2 b"], "is no C identifier"),
    ({"name": "int"}, ["--name", "int"], "is no C identifier"),
    ({"threads": "many"}, ["--threads", "many"], "openmp"), ({"weights": "zip"}, ["--weights", "zip"], "incbin"),
    ({"opt_level": 7}, ["--opt-level", "7"], "0, 1, 2"), ({"dims": {"nope": 3}}, ["--dim", "nope=3"], "nope"),
])
def test_options(model, tmp_path, capsys, options, argv, message):
    before = listing(tmp_path)
    with pytest.raises(ValueError) as caught:
        ingot.compile(model, **options)
    assert message in str(caught.value)
    assert message in error_of(capsys, "compile", model, "-o", tmp_path / "out", *argv)
    assert listing(tmp_path) == before


WRONG_ARRAYS = {
    "dtype": (np.zeros((1, 3, 13, 11), np.float64), "dtype float64, expected float32"),
    "integers": (np.zeros((1, 3, 13, 11), np.int32), "dtype int32, expected float32"),
    "shape": (np.zeros((1, 3, 11, 13), F32), r"\(1, 3, 11, 13\), expected \(1, 3, 13, 11\)"),
    "batch": (np.zeros((2, 3, 13, 11), F32), r"\(2, 3, 13, 11\), expected \(1, 3, 13, 11\)"),
    "rank": (np.zeros((3, 13, 11), F32), r"\(3, 13, 11\), expected \(1, 3, 13, 11\)"),
}


@pytest.mark.parametrize("case", WRONG_ARRAYS)
def test_arrays(model, tmp_path, capsys, case):
    array, message = WRONG_ARRAYS[case]
    with ingot.compile(model, threads="none") as library:
        for call in (lambda: library(array), lambda: library.run({"image": array}), lambda: library.time(array)):
            with pytest.raises(InputError, match=message) as caught:
                call()
            assert "'image'" in str(caught.value)
    np.save(tmp_path / "x.npy", array)
    assert "'image'" in error_of(capsys, "run", model, "--input", f"image={tmp_path / 'x.npy'}", "--threads", "none")


def test_numbers_and_names_of_inputs(model):
    x = np.zeros((1, 3, 13, 11), F32)
    with ingot.compile(model, threads="none") as library:
        for call, message in ((lambda: library(), "0 inputs given, 1 expected"),
                              (lambda: library(x, x), "2 inputs given"),
                              (lambda: library.run({}), "missing input 'image'"),
                              (lambda: library.run({"picture": x}), "no input is called 'picture'")):
            with pytest.raises(InputError, match=message):
                call()


def test_symbolic_dimensions_that_disagree():
    nodes = [helper.make_node("Add", ["a", "b"], ["y"], name="add")]
    model = make_model("two", nodes, {"a": (F32, ["n", 3]), "b": (F32, ["n", 3])}, {"y": (F32, ["n", 3])}, {})
    with ingot.compile(model, threads="none") as library:
        with pytest.raises(InputError, match="input 'b': dimension n is 4, but 2 in input 'a'"):
            library(np.zeros((2, 3), F32), np.zeros((4, 3), F32))
        with pytest.raises(InputError, match="n is 0, it must be at least 1"):
            library(np.zeros((0, 3), F32), np.zeros((0, 3), F32))


@pytest.mark.parametrize("reshaped", [False, True])
def test_indices_out_of_range(reshaped):
    """Also where the model reshapes them first."""
    table = np.arange(22, dtype=F32).reshape(11, 2)
    nodes = [helper.make_node("Reshape", ["tokens", "shape"], ["flat"], name="reshape")] if reshaped else []
    nodes.append(helper.make_node("Gather", ["table", "flat" if reshaped else "tokens"], ["rows"], name="embed"))
    model = make_model("lookup", nodes, {"tokens": (np.int32, [2, 3])}, {"rows": (F32, None)},
                       {"table": table, "shape": np.array([6], np.int64)})
    tokens = np.array([[0, 10, -11], [3, -1, 4]], np.int32)
    with ingot.compile(model, threads="none") as library:
        np.testing.assert_array_equal(library(tokens).reshape(6, 2), table[tokens.ravel()])
        for wrong in (11, -12, 2 ** 31 - 1, -2 ** 31):
            tokens[1, 2] = wrong
            with pytest.raises(NetworkError, match="an index in an input tensor is out of range"):
                library(tokens)


# ---- the process --------------------------------------------------------------------------------------------------

def test_exit_status_and_stderr_of_the_process(tmp_path):
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    command = [sys.executable, "-m", "ingot", "compile", "bad.onnx", "-o", "out"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1
    assert done.stderr.startswith("ingot: error: ") and not (tmp_path / "out").exists()
    done = subprocess.run([*command, "--debug"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2 and "Traceback" in done.stderr
