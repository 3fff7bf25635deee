"""The command line with everything behind it, on a small network: folders, tables, and what bad input leaves behind."""
import re
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import ingot
from ingot import cli


@pytest.fixture(scope="module", autouse=True)
def object_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INGOT_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


def make_model(path, batch=2, op="Conv", **attributes):
    """Conv -> BatchNormalization -> Relu -> GlobalAveragePool -> Flatten -> Gemm -> Softmax on [batch, 3, 8, 8]."""
    rng = np.random.default_rng(1)
    shapes = {"w": (16, 3, 3, 3), "scale": (16,), "shift": (16,), "mean": (16,), "var": (16,), "fw": (5, 16),
              "fb": (5,)}
    weights = [numpy_helper.from_array(rng.random(shape, np.float32) + np.float32(0.1), name)
               for name, shape in shapes.items()]
    node = helper.make_node
    nodes = [node(op, ["data", "w"], ["c"], name="conv1", **{"pads": [1, 1, 1, 1], **attributes}),
             node("BatchNormalization", ["c", "scale", "shift", "mean", "var"], ["n"], name="bn1"),
             node("Relu", ["n"], ["r"], name="relu1"), node("GlobalAveragePool", ["r"], ["p"], name="pool"),
             node("Flatten", ["p"], ["f"], name="flatten"), node("Gemm", ["f", "fw", "fb"], ["g"], name="fc", transB=1),
             node("Softmax", ["g"], ["prob"], name="softmax")]
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "small", [tensor("data", TensorProto.FLOAT, (batch, 3, 8, 8))],
                              [tensor("prob", TensorProto.FLOAT, (batch, 5))], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return str(path)


@pytest.fixture
def model(tmp_path):
    return make_model(tmp_path / "small.onnx")


def output_of(capsys, *argv, code=0):
    assert cli.main([str(word) for word in argv]) == code, capsys.readouterr().err
    return capsys.readouterr().out


def error_of(capsys, *argv):
    assert cli.main([str(word) for word in argv]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1 and captured.err.startswith("ingot: error: ")
    assert "internal error" not in captured.err, captured.err
    return captured.err


# ---- what works ---------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("weights", ["incbin", "array", "file", "extern"])
def test_compile_and_make_check(model, tmp_path, capsys, weights):
    folder = tmp_path / "out"
    output_of(capsys, "compile", model, "-o", folder, "--threads", "none", "--weights", weights)
    done = subprocess.run(["make", "-C", folder, "check"], capture_output=True, text=True)
    assert done.returncode == 0 and "ok" in done.stdout, done.stdout + done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "small.onnx"]


def test_run_gives_what_the_library_gives(model, tmp_path, capsys):
    x = np.random.default_rng(0).random((2, 3, 8, 8), np.float32)
    np.save(tmp_path / "x.npy", x)
    output = output_of(capsys, "run", model, "--input", f"data={tmp_path / 'x.npy'}", "--save", tmp_path / "out",
                       "--threads", "none")
    assert re.search(r"prob +\(2, 5\) +float32", output)
    with ingot.compile(model, threads="none") as library:
        np.testing.assert_array_equal(np.load(tmp_path / "out" / "prob.npy"), library(x))


@pytest.mark.parametrize("level", ["0", "1", "2"])
def test_verify(model, capsys, level):
    output = output_of(capsys, "verify", model, "--threads", "none", "--opt-level", level)
    assert "relu1" in output and "softmax" in output and "agree within 0.0001" in output


def test_verify_with_a_symbolic_batch(tmp_path, capsys):
    np.save(tmp_path / "x.npy", np.ones((3, 3, 8, 8), np.float32))
    output = output_of(capsys, "verify", make_model(tmp_path / "any.onnx", "batch"), "--threads", "none",
                       "--input", f"data={tmp_path / 'x.npy'}")
    assert re.search(r"relu1 .*\(3, (16, 8, 8|\d+, 8, 8, \d+)\)", output) and "agree" in output  # plain or blocked


def test_bounds_of_what_a_run_decides(tmp_path, capsys):
    """Without a bound the command says which to give, and writes nothing; with it the network is made, a run within it
    gives all places, and one beyond it is refused."""
    nodes = [helper.make_node("Range", ["zero", "n", "step"], ["y"])]
    graph = helper.make_graph(nodes, "counts", [helper.make_tensor_value_info("n", TensorProto.INT64, [])],
                              [helper.make_tensor_value_info("y", TensorProto.INT64, None)],
                              [numpy_helper.from_array(np.array(v, np.int64), k)
                               for k, v in (("zero", 0), ("step", 2))])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "c.onnx")
    for name, value in (("few", 9), ("many", 11)):
        np.save(tmp_path / f"{name}.npy", np.array(value, np.int64))
    folder, base = tmp_path / "out", ("compile", tmp_path / "c.onnx", "-o", tmp_path / "out", "--threads", "none")
    error = error_of(capsys, *base)
    bound = re.search(r"--bound (\w+)=", error)[1]
    assert 'node "y"' in error and not folder.exists()
    output_of(capsys, *base, "--bound", f"{bound}=5")
    done = subprocess.run(["make", "-C", folder, "check"], capture_output=True, text=True)
    assert done.returncode == 0 and "ok" in done.stdout, done.stdout + done.stderr
    run = ("run", tmp_path / "c.onnx", "--threads", "none", "--bound", f"{bound}=5", "--save", tmp_path / "found")
    output_of(capsys, *run, "--input", f"n={tmp_path / 'few.npy'}")
    np.testing.assert_array_equal(np.load(tmp_path / "found" / "y.npy"), [0, 2, 4, 6, 8])
    assert "status -5" in error_of(capsys, *run, "--input", f"n={tmp_path / 'many.npy'}")


def test_shapes_that_the_model_leaves_open(tmp_path, capsys):
    elements = helper.make_tensor_sequence_value_info("xs", TensorProto.FLOAT, None)
    graph = helper.make_graph([helper.make_node("ConcatFromSequence", ["xs"], ["y"], axis=0)], "joined", [elements],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "j.onnx")
    base = ("compile", tmp_path / "j.onnx", "-o", tmp_path / "out", "--threads", "none")
    assert "--shape 'xs=2,3;4,3'" in error_of(capsys, *base) and not (tmp_path / "out").exists()
    output_of(capsys, *base, "--shape", "xs=2,3;n,3")
    done = subprocess.run(["make", "-C", tmp_path / "out", "check"], capture_output=True, text=True)
    assert done.returncode == 0 and "ok" in done.stdout, done.stdout + done.stderr


def test_verify_finds_a_wrong_kernel(model, capsys, monkeypatch):
    from ingot.codegen.package import CompiledModel
    files = CompiledModel.files

    def broken(self, *args):
        return {name: re.sub(r"f32x\d+_fma\(|0\.0f", lambda m: "0.5f" if m[0] == "0.0f" else m[0], text)
                if "_kernels_" in name else text for name, text in files(self, *args).items()}
    monkeypatch.setattr(CompiledModel, "files", broken)
    output = output_of(capsys, "verify", model, "--threads", "none", "--target", "c", code=cli.EXIT_MISMATCH)
    assert "differ by more than" in output and "the first is" in output


def test_bench(model, capsys):
    assert re.search(r"small +\S+ +1 +\d", output_of(capsys, "bench", model, "--threads", "none", "--repeat", "3"))


def test_bench_profile(model, capsys):
    output = output_of(capsys, "bench", model, "--threads", "none", "--repeat", "2", "--profile")
    assert re.search(r"conv1 +1 +\d.* conv1 \(Conv\) \+ bn1 \(BatchNormalization\)", output)
    assert "softmax (Softmax)" in output
    assert re.search(r"limits of this machine: \d+ GFLOP/s", output)
    output = output_of(capsys, "bench", model, "--threads", "none", "--repeat", "2", "--profile", "--top", "1")
    assert len(re.findall(r"\((?:BatchNormalization|Softmax|Gemm)\)", output)) == 1


@pytest.mark.parametrize("stage, words", [
    ("fused", ["R.nn.conv2d(", "R.nn.relu("]), ("tir", ["@T.prim_func", "T.block"]),
    ("scheduled", ["@T.prim_func", '"schedule"']), ("traces", ['"conv1": [[', '"Reorder"']),
    ("c", ["/* conv1 (Conv) + bn1 (BatchNormalization) + relu1 (Relu)", "void small_conv1("]),
])
@pytest.mark.parametrize("kernel", ["conv1", "small_conv1", "relu1"])
def test_inspect_one_kernel(model, capsys, stage, words, kernel):
    output = output_of(capsys, "inspect", model, "--stage", stage, "--kernel", kernel)
    assert all(word in output for word in words)
    assert "softmax" not in output and "ingot_status" not in output


def test_inspect_a_kernel_of_one_operator(model, capsys):
    assert output_of(capsys, "inspect", model, "--stage", "fused", "--kernel", "softmax").startswith("R.nn.softmax(")


@pytest.mark.parametrize("options, message", [
    (["--stage", "c", "--kernel", "bn2"], "no kernel is called 'bn2'; close are bn1"),
    (["--stage", "c", "--kernel", "?"], "no kernel is called '?'; there are small_"),
    (["--kernel", "conv1"],
     "the imported graph has no kernels yet: ask for stage fused, tir, scheduled, traces, accuracy or c"),
    (["--memory", "--kernel", "conv1"], "--kernel goes with --stage, not with --memory"),
])
def test_kernels_that_are_not_there(model, capsys, options, message):
    assert message in error_of(capsys, "inspect", model, *options)


@pytest.mark.parametrize("stage, words", [
    ("relax", ["conv2d", "relu"]), ("fused", ["fused_", "conv2d"]), ("tir", ["@T.prim_func", "call_tir"]),
    ("scheduled", ["@T.prim_func"]), ("traces", ['"conv1": [[', '"Split"']),
    ("c", ["ingot_status small_run(", "#include"]),
    ("program", ["program small():", "bytes of global memory at", "    run:\n        0: "]),
])
def test_inspect(model, capsys, stage, words):
    output = output_of(capsys, "inspect", model, "--stage", stage)
    assert all(word in output for word in words)


def test_inspect_memory(model, capsys):
    output = output_of(capsys, "inspect", model, "--memory")
    assert re.search(r"arena [\d,]+ bytes, lower bound [\d,]+ .*ratio 1\.0", output)


# ---- what does not ------------------------------------------------------------------------------------------------

def nothing_new(folder, before):
    return sorted(path.name for path in folder.iterdir()) == sorted(before)


@pytest.mark.parametrize("content, message", [
    (None, "cannot read the model .*No such file"), (b"", "not an ONNX model"),
    (b"\x7fELF" + bytes(100), "not an ONNX model"), ("truncated", "not an ONNX model|truncated"),
])
def test_files_that_are_no_model(tmp_path, capsys, content, message):
    path = tmp_path / "bad.onnx"
    if content == "truncated":
        data = open(make_model(path), "rb").read()
        path.write_bytes(data[:len(data) // 2])
    elif content is not None:
        path.write_bytes(content)
    before = [entry.name for entry in tmp_path.iterdir()]
    assert re.search(message, error_of(capsys, "compile", path, "-o", tmp_path / "out"))
    assert nothing_new(tmp_path, before)


@pytest.mark.parametrize("change, message", [
    ({"op": "Frobnicate"}, "conv1.*Frobnicate|Frobnicate.*conv1"), ({"strides": [1, 1, 1]}, "conv1"),
    ({"auto_pad": "SIDEWAYS"}, "conv1"), ({"group": 2}, "conv1"),
])
def test_models_that_are_wrong(tmp_path, capsys, change, message):
    path = make_model(tmp_path / "bad.onnx", **change)
    assert re.search(message, error_of(capsys, "compile", path, "-o", tmp_path / "out"))
    assert nothing_new(tmp_path, ["bad.onnx"])


def test_missing_external_weights(tmp_path, capsys):
    path = make_model(tmp_path / "bad.onnx")
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    (tmp_path / "weights.bin").unlink()
    assert "weights.bin" in error_of(capsys, "compile", path, "-o", tmp_path / "out")
    assert nothing_new(tmp_path, ["bad.onnx"])


@pytest.mark.parametrize("option, message", [
    (["--target", "z80"], "unknown target 'z80'; known: host"), (["--name", "2 b"], "no C identifier"),
    (["--dim", "nope=3"], "nope"),
])
def test_wrong_options(model, tmp_path, capsys, option, message):
    assert message in error_of(capsys, "compile", model, "-o", tmp_path / "out", *option)
    assert nothing_new(tmp_path, ["small.onnx"])


def test_no_compiler(model, tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    assert "no C compiler for" in error_of(capsys, "bench", model, "--threads", "none")


def test_a_failed_write_leaves_nothing(model, tmp_path, capsys, monkeypatch):
    from pathlib import Path
    write = Path.write_bytes

    def full_disk(self, data):
        if self.name == "Makefile":
            raise OSError(28, "No space left on device", str(self))
        return write(self, data)
    monkeypatch.setattr(Path, "write_bytes", full_disk)
    assert "No space left" in error_of(capsys, "compile", model, "-o", tmp_path / "new" / "out")
    assert nothing_new(tmp_path, ["small.onnx"])


def test_two_processes_write_the_same_bytes(model, tmp_path):
    for name in ("a", "b"):
        subprocess.run([sys.executable, "-m", "ingot", "compile", model, "-o", tmp_path / name], check=True,
                       capture_output=True, env={"PATH": "", "PYTHONHASHSEED": "1" if name == "a" else "2"})
    a, b = ({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("a", "b"))
    assert a == b
