"""The output folder of a network for CUDA: C99 of the host, kernels in .cu files, and what nvcc builds them by."""
from __future__ import annotations

import re

from .c_names import BESIDE_LAUNCHES
from .cuda_program import CudaProgramPrinter, waits
from .nvcc import cmake_architectures, gencode
from .package import FOLDERS, RUNTIME, Folder, runtime_files
from .toolchains import toolchain
from .wgmma import wgmma_calls, wgmma_header

ALIGN = 256  # bytes, as cudaMalloc aligns
WGMMA = "ingot_wgmma.h"


class CudaFolder(Folder):
    """Weights lie first in the device's arena, where init copies them, but for those "file", which callers bring."""

    Printer = CudaProgramPrinter
    templates, suffix = "cuda/", ".cu"
    align = ALIGN
    graphs = True  # whether programs capture runs
    stream = ("ingot_stream stream", "stream")
    words = {"api": "CUDA", "own_code": "CUDA's own code (cudaError_t)", "own_memory": "the device's memory",
             "lies": "on the device", "host_bytes": 128}  # of templates/device

    def __init__(self, model, single=False, form=None):
        if single:
            raise ValueError(f"one file holds C alone, and {model.target} has kernels beside it: write a folder")
        extern = next((name for name, k in model.kernels.items() if k.imports), None)
        if extern:
            raise ValueError(f"kernel {extern} calls C functions, which {model.target} does not run")
        super().__init__(model, single, form)

    @property
    def uploads(self):
        """Whether init copies weights to the arena."""
        return self.p.weights_bytes > 0 and self.m.weights != "file"

    def _fixed_bytes(self):
        return -(-self.p.weights_bytes // ALIGN) * ALIGN if self.uploads else 0

    def _taken(self):
        return super()._taken() | BESIDE_LAUNCHES

    def _place(self, t):
        return f"device.{t.name}"

    def _context(self):
        context = super()._context()
        codes = toolchain(self.m.target).device_code
        parameter, argument = self.stream
        waiting = waits(self.p.run)
        return {**context, **self.words, "folder": self.templates, "stream_parameter": parameter,
                "stream_name": argument, "uploads": self.uploads, "waits": waiting,
                "captures": self.graphs and not waiting, "index_inputs": bool(context["index_checks"]),
                "index_checks": [], "codes": ", ".join(codes)}

    def _tools(self, tools):
        return {"gencode": " ".join(gencode(tools.device_code)),
                "cuda_architectures": " ".join(cmake_architectures(tools.device_code))}

    def _runtime(self, used):
        own = device_headers(used, [k.body for k in self.m.kernels.values()])
        return {**runtime_files(used.union(*map(included_by, own.values()))), **own}


FOLDERS["cuda"] = CudaFolder


def device_headers(used, kernels):
    """{file: text} of the headers for devices among those in use, and of what these include. kernels: texts, which say
    the functions of ingot_wgmma.h that there are."""
    files, waiting = {}, sorted(used)
    while waiting:
        name = waiting.pop()
        if name == WGMMA:
            files[name] = wgmma_header([call for text in kernels for call in wgmma_calls(text)])
        elif name not in files and (RUNTIME / "cuda" / name).exists():
            files[name] = (RUNTIME / "cuda" / name).read_text()
        waiting += [n for n in included_by(files.get(name, "")) if n not in files]
    return files


def included_by(text):
    """The headers of the runtime that a text includes."""
    return set(re.findall(r'^#include "(\w+\.h)"', text, re.MULTILINE))
