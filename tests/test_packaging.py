"""A wheel built from the checkout holds everything, and works outside of it."""
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import ingot

ROOT = Path(__file__).resolve().parent.parent
NOT_SOURCES = shutil.ignore_patterns(".git", ".venv", "build", "dist", "*.egg-info", "__pycache__", ".*_cache",
                                     ".cache", ".hypothesis")


def run(command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built from a copy, so that no build folder of the checkout leaks into it or is left behind."""
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT, folder / "source", ignore=NOT_SOURCES)
    run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder,
         folder / "source"])
    return next(folder.glob("ingot-*.whl"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The bin folder of a virtual environment with the wheel in it, and this one's packages behind."""
    environment = tmp_path_factory.mktemp("environment")
    run([sys.executable, "-m", "venv", "--without-pip", environment])
    python = environment / "bin" / "python"
    run([sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel])
    own = run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]).strip()
    paths = dict.fromkeys(sysconfig.get_path(kind) for kind in ("purelib", "platlib"))
    Path(own, "dependencies.pth").write_text("\n".join(paths) + "\n")
    return environment / "bin"


@pytest.fixture
def model(tmp_path):
    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    rng = np.random.default_rng(0)
    weights = [onnx.numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)
               for name, shape in (("w", (8, 4)), ("b", (4,)))]
    graph = helper.make_graph(nodes, "tiny", [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 8))],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, (2, 4))], weights)
    path = tmp_path / "tiny.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def package_files(folder):
    return {path.relative_to(ROOT).as_posix() for path in (ROOT / folder).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts}


def test_the_wheel_has_every_module_and_every_file_of_data(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    folders = ("ir", "frontend", "codegen", "runtime", "tvm", "templates", "runtime_c")
    expected = {f"ingot/{name}" for folder in folders for name in package_files(folder)}
    expected |= {f"ingot/{path.name}" for path in ROOT.glob("*.py")}
    assert expected - names == set()
    strangers = {name for name in names if not name.startswith("ingot-") and name not in expected}
    assert strangers == set()
    assert any(name.endswith("LICENSE") for name in names)


def test_the_wheel_works_outside_of_the_checkout(installed, model, tmp_path):
    program = ("import sys, numpy, ingot\n"
               "assert sys.prefix in ingot.__file__, ingot.__file__\n"
               "x = numpy.linspace(-1, 1, 16, dtype=numpy.float32).reshape(2, 8)\n"
               "print(ingot.compile(sys.argv[1], threads='none')(x).tolist())\n")
    found = np.array(eval(run([installed / "python", "-c", program, model], cwd=tmp_path)))
    proto = onnx.load(model)
    w, b = (onnx.numpy_helper.to_array(tensor) for tensor in proto.graph.initializer)
    expected = np.maximum(np.linspace(-1, 1, 16, dtype=np.float32).reshape(2, 8) @ w + b, 0)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_the_installed_command_writes_a_folder_that_builds(installed, model, tmp_path):
    run([installed / "ingot", "compile", model, "-o", tmp_path / "tiny", "--threads", "none"], cwd=tmp_path)
    names = {path.name for path in (tmp_path / "tiny").iterdir()}
    assert {"tiny.h", "tiny.c", "Makefile", "ingot.h", "ingot.c"} <= names
    run(["make", "-C", tmp_path / "tiny"])


def test_the_version_is_the_one_of_the_package():
    declared = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.M)[1]
    assert ingot.__version__ == declared
