"""What README.md shows is true: its programs build and run, its names exist, its kernel is what Ingot emits."""
import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import helper, numpy_helper

import ingot
from ingot import cli
from networks import ROOT, light_case, relative_error

README = ROOT / "README.md"
TEXT = README.read_text()
SCRIPT = re.compile(r"<!-- script -->\n```python\n(.*?)```\n<!-- /script -->", re.DOTALL)
KERNEL = re.compile(r"(?<=<!-- kernel -->\n).*?(?=<!-- /kernel -->)", re.DOTALL)


def block(language):
    """The text of the only code block in that language outside the marked parts."""
    found = re.findall(rf"^```{language}\n(.*?)^```$", SCRIPT.sub("", KERNEL.sub("", TEXT)), re.DOTALL | re.MULTILINE)
    assert len(found) == 1, f"{len(found)} blocks of {language}"
    return found[0]


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """An empty current folder with squeezenet.onnx; returns (folder, input, expected output)."""
    path, feeds, outputs = light_case("squeezenet")
    shutil.copy(path, tmp_path / "squeezenet.onnx")
    monkeypatch.chdir(tmp_path)
    return tmp_path, feeds["data_0"], outputs[0]


def test_the_c_program(workplace):
    folder, x, expected = workplace
    (folder / "main.c").write_text(block("c"))
    x.tofile(folder / "image.f32")
    launcher = folder / "bin" / "ingot"
    launcher.parent.mkdir()
    launcher.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ingot "$@"\n')
    launcher.chmod(0o755)
    env = {**os.environ, "PATH": f"{launcher.parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(["sh", "-euc", block("sh")], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"class (\d+), probability ([\d.]+)", done.stdout)
    scores = expected.ravel()
    assert abs(scores[int(found[1])] - scores.max()) < 1e-6 and abs(float(found[2]) - scores.max()) < 1e-6
    cells = re.findall(r"^\| (`[^|]*) \|", TEXT, re.MULTILINE)
    listed = {name for cell in cells for name in re.findall(r"`(.*?)`", cell)}
    for file in (folder / "squeezenet").iterdir():
        if file.suffix in (".o", ".a") or file.stem in ("example", "selftest", "squeezenet_weights"):
            continue
        assert any(file.match(pattern) for pattern in listed), f"{file.name} is not in the README's table"


def test_the_python_session(workplace, capsys):
    folder, x, _ = workplace
    names = {}
    exec(compile(block("python"), str(README), "exec"), names)
    with names["lib"] as lib:
        assert relative_error(names["y"], lib(names["x"])) == 0.0
        assert relative_error(names["ys"]["softmaxout_1"], names["y"]) == 0.0
        assert names["again"].model.files() == lib.model.files()
    assert (folder / "folder" / "squeezenet.h").is_file()
    assert "median" in capsys.readouterr().out


def test_the_script(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text(SCRIPT.search(TEXT)[1])  # a file, as the script's parser reads the source
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "script", raising=False)
    importlib.import_module("script")
    printed = capsys.readouterr().out
    assert "for i_0 in T.parallel(63)" in printed and "sch.decompose_reduction(" in printed
    assert (tmp_path / "main.c").is_file()


def kernel_model():
    """A convolution of 16 channels of 32 x 32 into 32 with a 3 x 3 window, and a Relu."""
    rng = np.random.default_rng(0)
    weights = [numpy_helper.from_array(rng.random(shape, np.float32), name)
               for name, shape in {"weight": (32, 16, 3, 3), "bias": (32,)}.items()]
    nodes = [helper.make_node("Conv", ["x", "weight", "bias"], ["c"], name="conv1", pads=[1, 1, 1, 1]),
             helper.make_node("Relu", ["c"], ["y"], name="relu1")]
    x, y = (helper.make_tensor_value_info(name, 1, (1, channels, 32, 32)) for name, channels in (("x", 16), ("y", 32)))
    graph = helper.make_graph(nodes, "net", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_the_kernel_is_what_ingot_emits():
    text = ingot.inspect_stage(kernel_model(), "c", target="x86-64-v4", threads="none", accuracy="strict")
    kernel = re.search(r"^/\* conv1 \(Conv\) \+ relu1 \(Relu\)\n.*?^}\n", text, re.DOTALL | re.MULTILINE)[0]
    shown = f"```c\n{kernel}```\n"
    if os.environ.get("INGOT_UPDATE_README"):
        README.write_text(KERNEL.sub(lambda _: shown, TEXT))
        return
    assert KERNEL.search(TEXT)[0] == shown, "INGOT_UPDATE_README=1 python -m pytest tests/test_readme.py rewrites it"


def test_paths_exist():
    paths = set(re.findall(r"`((?:ir|frontend|codegen|templates|runtime_c|runtime|tests|benchmarks)/[\w./]*)`", TEXT))
    paths |= set(re.findall(r"\]\(([\w./]+)\)", TEXT))
    assert len(paths) > 8
    for path in paths:
        assert (ROOT / path).exists(), path


def test_options_and_commands_exist(capsys):
    known = set()
    for command in ("compile", "run", "verify", "bench", "inspect"):
        with pytest.raises(SystemExit):
            cli.build_parser().parse_args([command, "--help"])
        known |= set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
    benchmark = (ROOT / "benchmarks" / "zoo.py").read_text()
    for option in set(re.findall(r"(?<![\w-])--[a-z]+(?:-[a-z]+)*", TEXT)):
        assert option in known or f'"{option}"' in benchmark, option
    for command in re.findall(r"\bingot ([a-z]+) [A-Z-]", TEXT):
        assert f"ingot {command}" in cli.EXAMPLES[command]


def test_targets_are_all_listed():
    rows = re.findall(r"^\| `([\w-]+)` \|", TEXT.split("## Targets")[1].split("\n## ")[0], re.MULTILINE)
    assert rows == list(ingot.Target.names())


def test_what_is_said_not_to_work_has_no_converter():
    from ingot.frontend.onnx import CONVERTERS
    section = TEXT.split("Does not work:")[1].split("\n## ")[0]
    names = re.findall(r"`([A-Z]\w+)`", section)
    assert len(names) > 5 and not set(names) & set(CONVERTERS)


def test_no_private_paths():
    for file in (README, ROOT / "benchmarks" / "README.md"):
        assert not re.search(r"/(home|work|root|tmp)/", file.read_text()), Path(file).name
