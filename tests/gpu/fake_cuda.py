"""A CUDA runtime library for tests that has the host's memory as its device, and folders built for it."""
from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

FAKE = Path(__file__).parent / "fake"
MISSING = next((f"no {tool}" for tool in ("cc", "c++") if shutil.which(tool) is None), None)


def build_cudart(folder):
    """libcudart.so in a folder; returns its path."""
    path = Path(folder, "libcudart.so")
    _run("cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", FAKE / "cudart.c", "-o", path)
    return path


def build_network(sources, out, cudart):
    """A folder of a network for CUDA as a shared library over that one."""
    sources = Path(sources)
    files = [f for f in sources.iterdir() if f.suffix in (".c", ".S", ".cu") and "example" != f.stem
             and not f.stem.startswith("selftest")]
    objects = []
    for file in files:
        language = ["c++", "-std=c++17", "-x", "c++"] if file.suffix == ".cu" else ["cc", "-std=c99"]
        objects.append(f"{out}.{file.name}.o")
        _run(*(language if file.suffix != ".S" else ["cc"]), "-fPIC", "-O1", "-I", FAKE, "-c", file.name, "-o",
             objects[-1], cwd=sources)
    _run("c++", "-shared", "-Wl,-z,noexecstack", *objects, cudart, "-o", out)
    return out


def _run(*command, cwd=None):
    done = subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
