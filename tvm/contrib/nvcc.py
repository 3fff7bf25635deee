"""tvm.contrib.nvcc: compiling CUDA C with the nvcc of this machine, and what devices of a version have."""
from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

from ...codegen.nvcc import INSTALL, find_nvcc
from ...codegen.target import Target
from ...runtime.device import cuda

_FORMATS = ("ptx", "cubin", "fatbin")


def compile_cuda(code, target_format="ptx", arch=None, options=None, path_target=None):
    """The bytes that nvcc makes of CUDA C. target_format: "ptx", "cubin" or "fatbin"; arch: as "sm_80"; options: more
    flags of nvcc's; path_target: a file that gets the bytes, too. Raises ValueError for other formats, RuntimeError
    with nvcc's words where there is no nvcc or it refuses."""
    if target_format not in _FORMATS:
        raise ValueError(f"target_format is {target_format!r}; known: {', '.join(_FORMATS)}")
    nvcc = _found()
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder, "code.cu"), Path(folder, f"code.{target_format}")
        source.write_text(code)
        flags = [*([f"-arch={arch}"] if arch else ()), *([options] if isinstance(options, str) else options or ())]
        done = subprocess.run([nvcc.path, f"--{target_format}", "-O3", *flags, "-o", str(out), str(source)],
                              capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"nvcc refused the code:\n{done.stdout}{done.stderr}")
        data = out.read_bytes()
    if path_target is not None:
        Path(path_target).write_bytes(data)
    return bytearray(data)


def find_cuda_path():
    """The root of the toolkit. Raises RuntimeError where there is none."""
    return str(_found().root)


def get_cuda_version(cuda_path=None):
    """(major, minor) of the toolkit that nvcc is of."""
    return tuple(map(int, re.search(r"release (\d+)\.(\d+)", _found().version).groups()))


def _found():
    found = find_nvcc()
    if found is None:
        raise RuntimeError(f"there is no nvcc here: {INSTALL}")
    return found


def get_target_compute_version(target=None):
    """The version of a target's device, "8.0": of a Target or its name, or of the one around; else of the device that
    is here, or the least that there is code for."""
    target = Target.current() if target is None else Target(target)
    named = re.search(r"sm_(\d+)(\d)", str(target.name)) if target is not None and target.kind == "cuda" else None
    if named:
        return ".".join(named.groups())
    if cuda(0).exist:
        return cuda(0).compute_version
    return "8.0"


def parse_compute_version(compute_version):
    """(major, minor) of "8.0"."""
    major, _, minor = str(compute_version).partition(".")
    return int(major), int(minor or 0)


def _since(*version):
    """A check of a device's version, a text; of a target's where it is not given."""
    def has(compute_version=None, target=None):
        found = compute_version if compute_version else get_target_compute_version(target)
        return parse_compute_version(found) >= version
    return has


have_fp16, have_int8, have_tensorcore, have_bf16 = _since(5, 3), _since(6, 1), _since(7, 0), _since(8, 0)


def have_cudagraph():
    """Whether launches can be captured: they can with every toolkit that the sources are made for."""
    return True
