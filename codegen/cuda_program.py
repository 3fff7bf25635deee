"""The trees of a program as C99 that calls the CUDA runtime: launches, and copies within the device's memory.

Host code launches a kernel by a function of its own, NAME_launch, which stands beside the kernel in a .cu file."""
from __future__ import annotations

import re
from dataclasses import dataclass

from ..ir.expr import IntImm
from .c_expr import EmitError
from .c_program import INDENT, ProgramPrinter, wrap_call
from .c_types import C_TYPES
from .tensor_maps import TYPE, variables
from .tree import Call, Copy, Launch, Let, Read, calls_of, leaves
from .verify_program import dtype_of

STATIC_SHARED = 48 << 10  # bytes of shared memory that a block has without asking for more
RESERVED = ("grid", "block", "shared", "stream")  # parameters of a launcher, before those of its kernel
# Types of parameters that C has no name for -> what a host passes.
HOST_TYPES = {"__half": "uint16_t", "half": "uint16_t", "__nv_bfloat16": "uint16_t"}


@dataclass(frozen=True)
class Launcher:
    """The function that launches a kernel. signature: without the semicolon; arguments: the addresses of what the
    kernel takes; shared: bytes of dynamic shared memory that a block may have, 0 where it need not ask for them; maps:
    (variable, the call that fills it) of its tensor maps."""

    name: str
    signature: str
    arguments: str
    shared: int = 0
    maps: tuple = ()


def launchers(program, kernels, kernel_of, most_shared):
    """{C name of a kernel: its Launcher}. most_shared: bytes for those whose size only a run knows."""
    shared = {}
    for launch in (n for tree in (program.init, program.run) for n in calls_of(tree) if isinstance(n, Launch)):
        size = launch.shared.value if isinstance(launch.shared, IntImm) else most_shared
        shared[kernel_of[launch.kernel]] = max(shared.get(kernel_of[launch.kernel], 0), size)
    found = {}
    for kernel in kernels:
        name = f"{kernel}_launch"
        while name in kernels:
            name += "_"
        params = parameters(kernels[kernel].function)
        head = ["dim3 grid", "dim3 block", "size_t shared", "cudaStream_t stream", *(text for text, _ in params)]
        asked, function = shared.get(kernel, 0), kernels[kernel].function
        own = variables(function, {"arguments", "error", *RESERVED, *(p for _, p in params)})
        found[kernel] = Launcher(name, wrap_call(f"cudaError_t {name}(", head, indent=INDENT * 2),
                                 ", ".join(f"&{own.get(p, p)}" for _, p in params),
                                 asked if asked > STATIC_SHARED else 0,
                                 tuple((own[m.name], m.encoded(own[m.name], m.name)) for m in function.maps))
    return found


def parameters(function):
    """[(declaration as host code has it, name)] of a printed kernel's parameters."""
    inside = function.signature.partition(f"{function.name}(")[2].rpartition(")")[0]
    found = []
    for text in map(str.split, inside.split(",") if inside != "void" else ()):
        if TYPE in text:  # callers give the matrix
            text = ["const", "void", f"*{text[-1]}"]
        text = " ".join(HOST_TYPES.get(word, word) for word in text).replace("__restrict__ ", "")
        found.append((text, re.findall(r"\w+", text)[-1]))
    return found


class CudaProgramPrinter(ProgramPrinter):
    """Prints the program of a CompiledModel whose memory is a device's."""

    def context(self, inputs, outputs):
        return {**super().context(inputs, outputs), "copies": False, "launches": self.launchers}

    def __init__(self, model, *args):
        super().__init__(model, *args)
        limits = getattr(model.target, "launch", None)
        self.launchers = launchers(self.p, model.kernels, model.kernel_of,
                                   limits.shared_dyn_bytes if limits else STATIC_SHARED)

    def _launch(self, launch, where):
        function, _ = self.functions[launch.kernel]
        instance = "*net" if where.memory else "net"
        arguments = [*self._head(launch, instance), *(self._argument(o, where) for o in launch.operands),
                     *map(self.dim_text, launch.dims)]
        text = wrap_call(f"TRY({instance}, {self.launchers[function].name}(", arguments, indent=INDENT * 2) + ");"
        return self._marked(launch, text, where)

    def kernel_name(self, launch):
        return self.functions[launch.kernel][0]

    def _head(self, launch, instance):
        """The first arguments of a launcher: what it launches, and how."""
        return [_dim3(map(self.dim_text, launch.grid)), _dim3(map(self.dim_text, launch.block)),
                self._size(launch.shared), "stream"]

    def _copied(self, dst, src, size):
        """The call that copies within the device's memory."""
        return f"cudaMemcpyAsync({dst}, {src}, {size}, cudaMemcpyDeviceToDevice, stream)"

    def _fetched(self, place):
        """The calls after which ingot_fetched has what lies at a place of the device."""
        return (f"cudaMemcpyAsync(&ingot_fetched, {place}, sizeof ingot_fetched, cudaMemcpyDeviceToHost, stream)",
                "cudaStreamSynchronize(stream)")

    def _copy(self, copy, where):
        dst, src = (self._argument(o, where) for o in (copy.dst, copy.src))
        instance, size = "*net" if where.memory else "net", self._size(copy.bytes)
        return self._code(where, f"TRY({instance}, {self._copied(dst, src, size)});")

    def _assigned(self, let, where):
        """What a tensor holds comes to the host, which waits for it."""
        if not isinstance(let.value, Read):
            return super()._assigned(let, where)
        operand, own = let.value.operand, C_TYPES[let.dim.dtype]
        ctype = C_TYPES[dtype_of(self.p, operand)]
        instance, place = "*net" if where.memory else "net", self._argument(operand, where)
        cast = "" if ctype == own else f"({own})"
        lines = [f"{ctype} ingot_fetched = 0;", *(f"TRY({instance}, {call});" for call in self._fetched(place)),
                 f"{self.names[id(let.dim)]} = {cast}ingot_fetched;"]
        return [*self._code(where, "{"), *(line for text in lines for line in self._code(where, INDENT + text)),
                *self._code(where, "}")]

    def _call(self, call, where):
        raise EmitError(f"kernel {call.kernel} has no launch: its loops are not bound to threads of the device")

    def _size(self, size):
        text = self.dim_text(size)
        return text if isinstance(size, IntImm) else f"(size_t)({text})"

    def _argument(self, o, where, team=False):
        if o.kind == "scratch":
            raise EmitError("scratch memory is a CPU thread's own: a kernel on a device has none")
        return super()._argument(o, where, team)


CudaProgramPrinter.PRINTERS = {
    **ProgramPrinter.PRINTERS, Launch: CudaProgramPrinter._launch, Copy: CudaProgramPrinter._copy,
    Call: CudaProgramPrinter._call}


def waits(tree):
    """Whether a run waits for what a tensor holds."""
    return any(isinstance(n, Let) and isinstance(n.value, Read) for n in leaves(tree))


def _dim3(extents):
    extents = [*extents]
    return f"ingot_dim3({', '.join([*extents, *['1'] * (3 - len(extents))])})"
