"""Where nvcc is looked for, and what it is asked for."""
import os
from dataclasses import replace

import pytest

from ingot.codegen import nvcc
from ingot.codegen.target import Target
from ingot.codegen.toolchain import ToolchainError, find_compiler
from ingot.codegen.toolchains import TOOLCHAINS
from ingot.ir.target import TargetKind

SCRIPT = """#!/bin/sh
[ "$1" = --version ] && echo 'Cuda compilation tools, release 13.0, V13.0.88' && exit
echo '#$ TOP={root}/bin/..' >&2
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Makes an nvcc that says where its toolkit is; there is no other one."""
    for name in ("CUDACXX", "CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(nvcc, "candidates", lambda own=nvcc.candidates: [p for p in own() if "/usr/local" not in p])
    monkeypatch.setenv("PATH", "")
    monkeypatch.syspath_prepend(tmp_path)

    def make(folder):
        path = tmp_path / folder / "bin" / "nvcc"
        path.parent.mkdir(parents=True)
        path.write_text(SCRIPT.format(root=tmp_path / folder))
        path.chmod(0o755)
        return path
    return make


def test_the_order_in_which_it_is_looked_for(place, tmp_path, monkeypatch):
    pip = place("nvidia/cu13")
    found = nvcc.find_nvcc()
    assert found.path == str(pip) and found.root == tmp_path / "nvidia/cu13" and "13.0" in found.version
    monkeypatch.setenv("PATH", str(place("path").parent))
    assert nvcc.find_nvcc().root == tmp_path / "path"
    place("home")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    assert nvcc.find_nvcc().root == tmp_path / "home"
    monkeypatch.setenv("CUDACXX", str(place("named")))
    assert nvcc.find_nvcc().root == tmp_path / "named"
    monkeypatch.setenv("CUDACXX", os.devnull)  # what is named and is none is not replaced by another one
    assert nvcc.find_nvcc() is None


def test_libraries_of_pips_packages_are_found(place, tmp_path):
    place("nvidia/cu13")
    (tmp_path / "nvidia/cu13/lib").mkdir()
    assert nvcc.find_nvcc().library_folders == (str(tmp_path / "nvidia/cu13/lib"),)
    assert nvcc.find_nvcc().include == tmp_path / "nvidia/cu13/include"


def test_without_it_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(nvcc, "candidates", lambda: [])
    target = replace(Target.get("c"), name="cuda-sm_80", kind=TargetKind("cuda"))
    with pytest.raises(ToolchainError, match=r"no nvcc for cuda-sm_80 .*: pip install 'ingot\[cuda\]', or set"):
        find_compiler(target)


def test_code_for_devices_and_ptx():
    codes = TOOLCHAINS["cuda"].device_code
    assert " ".join(nvcc.gencode(codes)) == (
        "-gencode arch=compute_80,code=sm_80 -gencode arch=compute_90a,code=sm_90a "
        "-gencode arch=compute_80,code=compute_80")
    assert nvcc.cmake_architectures(codes) == ["80-real", "90a-real", "80-virtual"]
