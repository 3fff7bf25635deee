"""nvcc: where it is, and its flags for the devices that a target has code for.

It is looked for as $CUDACXX, in $CUDA_HOME (or $CUDA_PATH), on PATH, in /usr/local/cuda, and among the packages of pip
(nvidia-cuda-nvcc), in this order."""
from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

INSTALL = "pip install 'ingot[cuda]', or set CUDA_HOME to a toolkit of CUDA 12 or later"


@dataclass(frozen=True)
class Nvcc:
    """nvcc: its path, the root of its toolkit, and the line of its version."""

    path: str
    root: Path
    version: str

    @property
    def include(self):
        """The folder of cuda_runtime.h."""
        return self.root / "include"

    @property
    def library_folders(self):
        """Folders of libcudart that nvcc does not look in by itself: those of pip's packages."""
        return tuple(str(self.root / name) for name in ("lib64", "lib") if (self.root / name).is_dir())


def candidates():
    """Paths at which nvcc may be, in order."""
    if os.environ.get("CUDACXX", "").strip():
        return [os.environ["CUDACXX"].strip()]
    homes = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    pip = [str(path) for folder in filter(None, sys.path)
           for path in sorted(Path(folder, "nvidia").glob("cu*/bin/nvcc"), reverse=True)]
    return [*(str(Path(home, "bin", "nvcc")) for home in homes), "nvcc", "/usr/local/cuda/bin/nvcc", *pip]


def find_nvcc():
    """The Nvcc of this machine, None where there is none that starts."""
    paths = (shutil.which(candidate) for candidate in candidates())
    return next((found for path in paths if path and (found := _identified(path))), None)


@lru_cache(maxsize=None)
def _identified(path):
    """The Nvcc at a path, which may be a script that calls another one: it says itself where its toolkit is."""
    try:
        said = [subprocess.run([path, *flags], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                               stderr=subprocess.STDOUT, errors="replace", check=False)
                for flags in (("--version",), ("--dryrun", "-c", "-x", "c", "-", "-o", "none.o"))]
    except OSError:
        return None
    top = re.search(r"^#\$ TOP=(.*)$", said[1].stdout, re.MULTILINE)
    if said[0].returncode or not top:
        return None
    release = re.search(r"release .*", said[0].stdout)
    return Nvcc(path, Path(os.path.realpath(top[1].strip())), f"nvcc {release[0]}" if release else "nvcc")


# ---------------------------------------------------------------- what there is code for

def gencode(codes):
    """nvcc's flags for code of devices, as ptxas names them ("sm_80"), and PTX that drivers compile ("compute_80")."""
    return [word for code in codes for word in ("-gencode", f"arch=compute_{code.partition('_')[2]},code={code}")]


def cmake_architectures(codes):
    """The same as entries of CMAKE_CUDA_ARCHITECTURES."""
    kinds = {"sm": "real", "compute": "virtual"}
    return [f"{number}-{kinds[kind]}" for kind, number in (code.split("_", 1) for code in codes)]
