"""The command line without the compiler behind it: arguments, messages, exit codes."""
import os
import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import ingot
from ingot import cli
from ingot.codegen.toolchain import ToolchainError
from ingot.runtime import CompiledLibrary
from ingot.runtime.verify import Report, compare

sys.path.insert(0, str(Path(__file__).parent / "runtime"))
from sample_network import SampleNetwork  # noqa: E402

COMMANDS = ("compile", "run", "verify", "bench", "inspect")


@pytest.fixture
def calls(monkeypatch, tmp_path):
    """ingot.compile gives the network written by hand; the keyword arguments of every call are kept."""
    monkeypatch.setenv("INGOT_CACHE_DIR", str(tmp_path / "cache"))
    made = []

    def fake_compile(model, **options):
        made.append(options)
        return CompiledLibrary(SampleNetwork(threads=options["threads"] or "openmp"))

    monkeypatch.setattr(ingot, "compile", fake_compile)
    return made


@pytest.fixture
def inputs(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(12, dtype=np.float32).reshape(3, 4))
    np.save(tmp_path / "shift.npy", np.ones(4, np.float32))
    return ["--input", f"x:0={tmp_path / 'x.npy'}", "--input", f"shift={tmp_path / 'shift.npy'}"]


def error_of(capsys, *argv):
    """The one line on stderr of a command that fails."""
    assert cli.main([str(word) for word in argv]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.startswith("ingot: error: ") and captured.err.count("\n") == 1
    return captured.err


# ---- arguments ----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("command", [[], *([c] for c in COMMANDS)])
def test_help_has_examples_that_parse(command, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main([*command, "--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert "examples:" in text
    examples = re.findall(r"^ +(?:\w+=\d+ )?ingot (.*?)(?:   .*)?$", text.split("examples:")[1], re.MULTILINE)
    assert examples
    for example in examples:
        assert cli.build_parser().parse_args(example.split()).model.endswith(".onnx")


def test_version(capsys):
    assert cli.main(["--version"]) == 0
    assert re.fullmatch(r"ingot \d+\.\d+\.\d+\n", capsys.readouterr().out)


@pytest.mark.parametrize("argv, message", [
    ([], "no command given"),
    (["cast", "m"], "invalid choice: 'cast'"),
    (["compile", "m"], "required: -o/--output"),
    (["compile", "m", "-o", "d", "--dim", "batch"], "expected NAME=N with N >= 1, not 'batch'"),
    (["compile", "m", "-o", "d", "--dim", "batch=0"], "expected NAME=N with N >= 1"),
    (["compile", "m", "-o", "d", "--shape", "x"], "expected NAME=N,N, NAME="),
    (["compile", "m", "-o", "d", "--threads", "2"], "invalid choice: '2'"),
    (["compile", "m", "-o", "d", "--opt-level", "3"], "invalid choice: 3"),
    (["compile", "m", "-o", "d", "--weights", "zip"], "invalid choice: 'zip'"),
    (["run", "m", "--input", "file.npy"], "expected NAME=FILE.npy"),
    (["bench", "m", "--repeat", "0"], "must be positive, not 0"),
    (["bench", "m", "--repeat", "x"], "invalid int value: 'x'"),
    (["verify", "m", "--tolerance", "-1"], "must be positive, not -1"),
    (["inspect", "m", "--memory", "--stage", "c"], "not allowed with argument"),
])
def test_wrong_arguments(argv, message, capsys):
    error = error_of(capsys, *argv)
    assert message in error and "--help" in error


# ---- commands -----------------------------------------------------------------------------------------------------

def test_compile(calls, tmp_path, capsys):
    folder = tmp_path / "new" / "out"
    argv = ["compile", "m.onnx", "-o", folder, "--target", "c", "--threads", "none", "--weights", "file", "--name", "n",
            "--opt-level", "1", "--dim", "batch=2", "--dim", "a=b=3", "--accuracy", "relaxed",
            "--shape", "x=n,3", "--shape", "s=2,3;4", "--shape", "t=5;", "--shape", "e=", "--shape", "o=none"]
    assert cli.main([str(word) for word in argv]) == 0
    assert calls == [{"target": "c", "threads": "none", "weights": "file", "name": "n", "opt_level": 1,
                      "dims": {"batch": 2, "a=b": 3}, "bounds": {}, "aliases": {},
                      "accuracy": "relaxed", "algorithms": None,
                      "shapes": {"x": ("n", 3), "s": [(2, 3), (4,)], "t": [(5,)], "e": (), "o": None},
                      "schedules": None, "stack_limit": None, "ram_limit": None, "flash_limit": None, "memory": None,
                       "weight_groups": 1, "byte_order": None, "dtype": "float32",
                      "arithmetic": None, "requantize": "float"}]
    assert (folder / "sums.c").exists()
    output = capsys.readouterr()
    assert output.out.startswith(f"{folder}: sums for c") and output.err == ""


def test_exact_is_what_strict_was_called(calls, tmp_path, capsys):
    argv = ["compile", "m.onnx", "-o", str(tmp_path / "out"), "--exact"]
    assert cli.main(argv) == 0 and calls[0]["accuracy"] == "strict"
    assert capsys.readouterr().err == "ingot: warning: --exact is deprecated: write --accuracy strict\n"
    assert "leave out --exact" in error_of(capsys, *argv[:3], str(tmp_path / "other"), *argv[4:], "--accuracy",
                                           "float32")


@pytest.mark.parametrize("option, value", [("algorithms", {"conv1": "winograd4"}), ("schedules", {"conv1": [[], []]})])
def test_what_is_recorded(calls, tmp_path, capsys, option, value):
    file = tmp_path / "recorded.json"
    file.write_text(json.dumps(value))
    argv = ["compile", "m.onnx", "-o", str(tmp_path / "out"), f"--{option}", str(file)]
    assert cli.main(argv) == 0 and calls[0][option] == value
    file.write_text("{")
    capsys.readouterr()
    assert f"cannot read {file} as JSON" in error_of(capsys, *argv)


def test_defaults(calls, tmp_path):
    assert cli.main(["compile", "m.onnx", "-o", str(tmp_path / "out")]) == 0
    assert calls == [{"target": "host", "threads": None, "weights": None, "name": None, "opt_level": 2,
                      "dims": {}, "bounds": {}, "aliases": {}, "shapes": {}, "accuracy": None, "algorithms": None,
                      "schedules": None, "stack_limit": None, "ram_limit": None, "flash_limit": None, "memory": None,
                       "weight_groups": 1, "byte_order": None, "dtype": "float32",
                      "arithmetic": None, "requantize": "float"}]


def test_compile_refuses_a_folder_before_it_works(calls, tmp_path, capsys):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("kept")
    assert "is not empty" in error_of(capsys, "compile", "m.onnx", "-o", tmp_path / "full")
    assert "exists and is not a folder" in error_of(capsys, "compile", "m.onnx", "-o", tmp_path / "full" / "file")
    assert calls == [] and (tmp_path / "full" / "file").read_text() == "kept"


def test_compile_refuses_what_cannot_be_written(calls, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write everywhere
    assert "no permission in" in error_of(capsys, "compile", "m.onnx", "-o", tmp_path / "a" / "b")
    assert calls == []


def test_run(calls, inputs, tmp_path, capsys):
    assert cli.main(["run", "m.onnx", "--threads", "none", "--save", str(tmp_path / "out"), *inputs]) == 0
    table = capsys.readouterr().out
    assert re.search(r"shifted +\(3, 4\) +float32 +1\.5 +7 +12\.5", table)
    assert re.search(r"ones +\(6,\) +int64 +1 +1 +1", table)
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "ones.npy"), np.ones(6, np.int64))


def test_run_with_wrong_inputs(calls, inputs, tmp_path, capsys):
    assert "missing input 'shift'" in error_of(capsys, "run", "m.onnx", *inputs[:2])
    assert "given twice" in error_of(capsys, "run", "m.onnx", *inputs, *inputs)
    assert "No such file" in error_of(capsys, "run", "m.onnx", "--input", "x=/nowhere/x.npy")
    (tmp_path / "bad.npy").write_text("no array")
    assert "bad.npy is no .npy file" in error_of(capsys, "run", "m.onnx", "--input", f"x={tmp_path / 'bad.npy'}")
    np.save(tmp_path / "objects.npy", np.array([None, {}], object))
    assert "is no .npy file of numbers" in error_of(capsys, "run", "m.onnx", "--input", f"x={tmp_path / 'objects.npy'}")
    np.save(tmp_path / "double.npy", np.zeros((3, 4)))
    error = error_of(capsys, "run", "m.onnx", *inputs[2:], "--input", f"x:0={tmp_path / 'double.npy'}")
    assert "input 'x:0': dtype float64, expected float32" in error


def test_bench_draws_missing_inputs(calls, inputs, capsys):
    for given in ([], inputs[:2]):
        assert cli.main(["bench", "m.onnx", "--threads", "none", "--repeat", "3", *given]) == 0
        assert re.search(r"sums .* 1 +\d+\.\d{3} +\d+\.\d{3} +\d+\.\d{3} +3", capsys.readouterr().out)


@pytest.mark.parametrize("value, code", [(2, 0), (3, 1)])
def test_verify(monkeypatch, capsys, value, code):
    row = compare("conv1 (Conv)", np.float32([value]), np.float32([2]), 1e-4)
    given = []
    report = Report((row,), 1e-4)

    def fake_verify(*args, **options):
        given.append((args, options))
        return report
    monkeypatch.setattr(ingot, "verify", fake_verify)
    assert cli.main(["verify", "m.onnx", "--tolerance", "0.001"]) == code
    output = capsys.readouterr().out
    assert "conv1 (Conv)" in output and ("agree" in output) == (code == 0)
    assert given[0][0] == ("m.onnx", None) and given[0][1]["tolerance"] == 0.001


@pytest.fixture
def inspection(monkeypatch):
    row = SimpleNamespace(name="conv1", memory="global", bytes=4096, first=0, last=3, offset=64)
    report = SimpleNamespace(rows=[row], total=4160, lower_bound=4096, scratch=512, threads=2, stack=8192)
    monkeypatch.setattr(ingot, "inspect_stage", lambda model, stage, **options: f"{stage} of {model}")
    monkeypatch.setattr(ingot, "memory_report", lambda model, **options: report)


def test_inspect_stage(inspection, capsys):
    assert cli.main(["inspect", "m.onnx"]) == 0
    assert cli.main(["inspect", "m.onnx", "--stage", "c"]) == 0
    assert capsys.readouterr().out == "relax of m.onnx\nc of m.onnx\n"


def test_inspect_memory(inspection, capsys):
    assert cli.main(["inspect", "m.onnx", "--memory"]) == 0
    output = capsys.readouterr().out
    assert re.search(r"conv1 +global +4,096 +0 +3 +64", output)
    assert "arena 4,160 bytes, lower bound 4,096 (largest sum of live tensors), ratio 1.016" in output
    assert "512 bytes for each of 2 threads; at most 8,192 bytes of each thread" in output.replace("\n", " ")


# ---- errors -------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("error, line", [
    (ValueError("first line\nsecond"), "first line"),
    (ToolchainError("cc failed on a.c:\n  a.c:1: error: no\n  more"), "cc failed on a.c: a.c:1: error: no"),
    (FileNotFoundError(2, "No such file or directory", "m.onnx"), "m.onnx: No such file or directory"),
    (KeyError("x"), "internal error: KeyError: 'x' (--debug shows where)"),
    (AssertionError(), "internal error: AssertionError: AssertionError (--debug shows where)"),
])
def test_errors_are_one_line(monkeypatch, capsys, error, line):
    def fail(*args, **options):
        raise error
    monkeypatch.setattr(ingot, "compile", fail)
    assert error_of(capsys, "bench", "m.onnx") == f"ingot: error: {line}\n"


@pytest.mark.parametrize("argv", [["--debug", "bench", "m.onnx"], ["bench", "m.onnx", "--debug"]])
def test_debug_shows_the_traceback(monkeypatch, capsys, argv):
    def fail(*args, **options):
        raise ValueError("wrong")
    monkeypatch.setattr(ingot, "compile", fail)
    assert cli.main(argv) == 2
    error = capsys.readouterr().err
    assert "Traceback" in error and error.endswith("ingot: error: wrong\n")


def test_interrupt(monkeypatch):
    def stop(*args, **options):
        raise KeyboardInterrupt
    monkeypatch.setattr(ingot, "compile", stop)
    assert cli.main(["bench", "m.onnx"]) == 130


def test_module_and_exit_status():
    done = subprocess.run([sys.executable, "-m", "ingot", "compile"], capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.startswith("ingot: error: ") and done.stderr.count("\n") == 1
