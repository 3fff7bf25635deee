"""tvm.support: what there is on this machine, by the names of TVM's build options."""
from __future__ import annotations

from ..codegen.compile import VERSION
from ..codegen.nvcc import find_nvcc
from ..codegen.toolchain import can_build_openmp
from ..runtime.device import cuda

_NONE = ("USE_CUBLAS", "USE_CUDNN", "USE_CUTLASS", "USE_HEXAGON", "USE_LLVM", "USE_METAL", "USE_NCCL", "USE_ROCM",
         "USE_RPC", "USE_VULKAN")  # options for what is not there at all


def libinfo():
    """{option: "ON" or "OFF"}: of USE_CUDA whether nvcc is here, of USE_OPENMP whether the compiler has OpenMP; and the
    version."""
    there = {"USE_CUDA": find_nvcc() is not None, "USE_OPENMP": can_build_openmp("host"), **dict.fromkeys(_NONE, False)}
    return {"INGOT_VERSION": VERSION, **{name: "ON" if on else "OFF" for name, on in sorted(there.items())}}


def describe():
    """Print libinfo, and whether there is a CUDA device."""
    for name, value in {**libinfo(), "CUDA device": "there" if cuda(0).exist else "none"}.items():
        print(f"{name}: {value}")
