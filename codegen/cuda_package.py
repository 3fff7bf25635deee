"""The output folder of a network for CUDA: C99 of the host, kernels in .cu files, and what nvcc builds them by."""
from __future__ import annotations

from .c_names import BESIDE_LAUNCHES
from .cuda_program import CudaProgramPrinter
from .nvcc import cmake_architectures, gencode
from .package import FOLDERS, RUNTIME, Folder, inlined, runtime_files
from .toolchains import toolchain

ALIGN = 256  # bytes, as cudaMalloc aligns


class CudaFolder(Folder):
    """Weights lie first in the device's arena, where init copies them, but for those "file", which callers bring."""

    Printer = CudaProgramPrinter
    templates, suffix = "cuda/", ".cu"
    align = ALIGN
    stream = ("ingot_stream stream", "stream")

    def __init__(self, model, single=False):
        if single:
            raise ValueError(f"one file holds C alone, and {model.target} has kernels beside it: write a folder")
        extern = next((name for name, k in model.kernels.items() if k.imports), None)
        if extern:
            raise ValueError(f"kernel {extern} calls C functions, which {model.target} does not run")
        super().__init__(model, single)

    @property
    def uploads(self):
        """Whether init copies weights to the arena."""
        return bool(self.p.weights) and self.m.weights != "file"

    def _fixed_bytes(self):
        return -(-self.p.weights_bytes // ALIGN) * ALIGN if self.uploads else 0

    def _taken(self):
        return super()._taken() | BESIDE_LAUNCHES

    def _place(self, t):
        return f"device.{t.name}"

    def _context(self):
        context = super()._context()
        codes = toolchain(self.m.target).device_code
        return {**context, "uploads": self.uploads, "index_inputs": bool(context["index_checks"]), "index_checks": [],
                "codes": ", ".join(codes)}

    def _tools(self, tools):
        return {"gencode": " ".join(gencode(tools.device_code)),
                "cuda_architectures": " ".join(cmake_architectures(tools.device_code))}

    def _runtime(self, used):
        files = runtime_files(used)
        return {**files, **{n: inlined((RUNTIME / "cuda" / n).read_text(), "cuda/") for n in sorted(used)
                            if (RUNTIME / "cuda" / n).exists()}}


FOLDERS["cuda"] = CudaFolder
