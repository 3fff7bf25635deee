"""The output folder of a network for OpenCL: C99 of the host over the ICD loader, and the text of the kernels, which
the device's driver compiles when an instance is made."""
from __future__ import annotations

import re

from .c_names import BESIDE, BESIDE_LAUNCHES
from .c_program import INDENT, wrap_call
from .c_types import c_string
from .cuda_package import CudaFolder
from .cuda_program import CudaProgramPrinter, Launcher, parameters
from .package import FOLDERS, RUNTIME, inlined, runtime_files

ALIGN = 128  # bytes, of the arena and weights: as much as clSVMAlloc promises
HOST_FIXED = 128  # bytes of an instance beside its programs and kernels
HOST_TYPES = {"char": "int8_t", "uchar": "uint8_t", "short": "int16_t", "ushort": "uint16_t", "int": "int32_t",
              "uint": "uint32_t", "long": "int64_t", "ulong": "uint64_t"}
BESIDE["opencl"] = BESIDE_LAUNCHES | frozenset("queue context program programs kernel kernels platform local_size "
                                               "global_size result log".split())


class OpenCLProgramPrinter(CudaProgramPrinter):
    """Prints a program's trees as calls of OpenCL: launches enqueue kernels, copies those of shared virtual memory."""

    def __init__(self, model, *args):
        super().__init__(model, *args)
        self.launchers = {name: _launcher(k.function, kernels=model.kernels) for name, k in model.kernels.items()}
        self.number = {name: n for n, name in enumerate(model.kernels)}

    def _head(self, launch, instance):
        kernel = self.number[self.kernel_name(launch)]
        return [f"({instance})->kernels[{kernel}]", _sizes(map(self.dim_text, launch.grid)),
                _sizes(map(self.dim_text, launch.block)), "queue"]

    def _copied(self, dst, src, size):
        return f"ingot_copy(queue, {dst}, {src}, {size})"

    def _fetched(self, place):
        return f"clEnqueueSVMMemcpy(queue, CL_TRUE, &ingot_fetched, {place}, sizeof ingot_fetched, 0, NULL, NULL)",


def _sizes(extents):
    extents = [*extents]
    return f"INGOT_SIZES({', '.join([*extents, *['1'] * (3 - len(extents))])})"


def _launcher(function, kernels):
    name = f"{function.name}_launch"
    while name in kernels:
        name += "_"
    params, lines = [], []
    given = [] if "(void)" in function.signature else parameters(function)
    for n, (text, own) in enumerate(given):
        words = [HOST_TYPES.get(word, word) for word in text.replace("*", " * ").split()
                 if word not in ("__global", "restrict", "const")]
        if "*" in words:
            params.append(f"{'const ' if 'const' in text.split() else ''}void *{own}")
            lines.append(f"clSetKernelArgSVMPointer(kernel, {n}, {own})")
        else:
            params.append(" ".join(words))
            lines.append(f"clSetKernelArg(kernel, {n}, sizeof {own}, &{own})")
    head = ["cl_kernel kernel", "const size_t *grid", "const size_t *block", "cl_command_queue queue", *params]
    return Launcher(name, wrap_call(f"cl_int {name}(", head, indent=INDENT * 2), tuple(lines))


class OpenCLFolder(CudaFolder):
    """kernels_N.cl is there to be read: kernels_N.c has the same text as strings, and the launches of its kernels."""

    Printer = OpenCLProgramPrinter
    templates, suffix = "opencl/", ".c"
    align, graphs = ALIGN, False
    stream = ("ingot_queue queue", "queue")
    words = {"api": "OpenCL", "own_code": "OpenCL's own code", "own_memory": "memory of clSVMAlloc",
             "lies": "in shared virtual memory"}

    def _taken(self):
        return super()._taken() | BESIDE["opencl"]

    def files(self):
        self.texts = {}
        return {**super().files(), **self.texts}

    def _own(self, template, **more):
        if template == f"kernels{self.suffix}":
            text = self._text(more)
            self.texts[more["file"].replace(".c", ".cl")] = text
            more = {**more, "lines": [c_string(line) + "\\n" for line in text.splitlines()]}
        return super()._own(template, **more)

    def _text(self, more):
        """The OpenCL C of a file of kernels, with the part of the runtime that it uses."""
        uses = set().union(*(k.function.uses for k in more["kernels"]))
        runtime = (RUNTIME / "opencl/ingot_opencl.h").read_text()
        for header in ("ingot_math.h", "ingot_half.h"):
            if header in uses or (header == "ingot_math.h" and "ingot_half.h" in uses):
                runtime += "\n" + inlined((RUNTIME / header).read_text(), "simd/")
        runtime = re.sub(r"^#include .*\n", "", runtime, flags=re.MULTILINE)
        doubles = any(re.search(r"\bdouble\b", k.signature + k.body) for k in more["kernels"])
        kernels = [{"function": k.function, "comment": k.comment, "signature": k.signature, "body": k.body,
                    "tiles": k.tiles} for k in more["kernels"]]
        return super()._own("kernels.cl", file=more["file"].replace(".c", ".cl"), runtime=runtime, doubles=doubles,
                            kernels=kernels, imports=[], system_headers=[], headers=[], packed=[])

    def _context(self):
        context = super()._context()
        parts = len(self.m.kernels)  # at most a program for each
        host = HOST_FIXED + 16 * parts
        return {**context, "host_bytes": host, "kernel_count": len(self.m.kernels), "codes": "",
                "kernel_numbers": {name: n for n, name in enumerate(self.m.kernels)}}

    def _tools(self, tools):
        return {"cflags": " ".join(tools.cflags)}

    def _runtime(self, used):
        return runtime_files(self.uses.union(self.context["compare_headers"]))  # kernels have theirs in their text


FOLDERS["opencl"] = OpenCLFolder
