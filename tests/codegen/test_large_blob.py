"""Weights that lie apart from the code, as those beyond 1.5 GB do, assemble and link with gcc and clang."""
import shutil
import subprocess

import numpy as np
import pytest
from onnx import helper

import ingot
from ingot.codegen import package
from networks import make_model


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_a_blob_of_its_own_section_links(monkeypatch, tmp_path, compiler):
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    monkeypatch.setattr(package, "LARGE_BLOB", 1)
    model = make_model("large", [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")],
                       {"x": (np.float32, [2, 8])}, {"y": (np.float32, [2, 5])}, {"w": np.ones((8, 5), np.float32)})
    folder = tmp_path / "large"
    ingot.compile(model, target="x86-64-v3", threads="none").export(folder)
    assert ".lrodata" in (folder / "large_weights.S").read_text()
    command = ["make", "-C", str(folder), f"CC={compiler}", "selftest"]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
