"""A module of functions for a GPU: the kernels as text for its compiler, and the launches of each function."""
from __future__ import annotations

import textwrap
from dataclasses import dataclass

from ..ir.expr import Var, free_vars
from ..ir.node import collect
from ..ir.tir.buffer import Buffer
from ..ir.tir.function import PrimFunc
from ..ir.tir.stmt import AttrStmt, For
from ..ir.transform.gpu.launch import BLOCK, GRID, DeviceKernel, device_kernels
from . import cuda  # noqa: F401 - the printer
from .c_names import network_name
from .c_types import c_comment
from .compile import VERSION
from .cuda_program import parameters
from .cuda_package import device_headers, included_by
from .entry import EntryError, signature_of
from .kernels import imports_of, includes_of, print_kernel
from .package import runtime_files
from .render import render
from .target import Target
from .tensor_maps import from_addresses

TEMPLATES = {"cuda": "cuda/module.cu", "opencl": "opencl/module.cl"}


@dataclass(frozen=True)
class DeviceFunction:
    """func: lowered, with parameters for its dimensions; launches: (kernel's symbol, DeviceKernel), in order."""

    name: str
    func: PrimFunc
    launches: tuple[tuple[str, DeviceKernel], ...]

    @property
    def signature(self):
        """What callers pass: Buffers and scalar Vars."""
        return signature_of(self.func)

    @property
    def workspace(self):
        """The buffers that a call brings itself, the last of the function's."""
        count = self.func.attrs.get("num_workspace", 0)
        return self.func.buffers[len(self.func.buffers) - count:] if count else []


@dataclass(frozen=True)
class DeviceModule:
    """functions, in the module's order; kernels: as they are printed; entry: the name of the function that stands for
    the module, or ""."""

    functions: tuple[DeviceFunction, ...]
    kernels: tuple
    entry: str
    target: Target

    def source(self):
        """The text of the kernels."""
        return self._render(launches=False)

    def host(self):
        """The text of what a call does: which kernels it launches, on how many blocks and threads."""
        return "\n\n".join(map(_host, self.functions)) + "\n"

    def files(self):
        """{file name: text} of what nvcc makes a library of, with a function NAME_launch beside each kernel."""
        used = self._uses() | {"ingot.h"}
        own = device_headers(used, [k.body for k in self.kernels])
        inside = used.union(*map(included_by, own.values()))
        return {"module.cu": self._render(launches=True), **runtime_files(inside), **own}

    def _maps(self):
        """{kernel: what the function that launches it does for its tensor maps}."""
        return {k.function.name: from_addresses(k.function, parameters(k.function)) for k in self.kernels}

    def _uses(self):
        return set().union(*(k.function.uses for k in self.kernels))

    def _render(self, launches):
        title = textwrap.fill(c_comment(", ".join(f.name for f in self.functions)), 100, subsequent_indent=" * ")
        own = ["ingot.h"] if self.target.kind == "cuda" else []
        return render(TEMPLATES[self.target.kind], title=title, version=VERSION, target=self.target.name,
                      kernels=self.kernels, launches=launches, maps=self._maps() if launches else {},
                       single=False, imports=imports_of(self.kernels),
                      **includes_of(self._uses(), *own))


def make_device_module(functions, target, entry=""):
    """The DeviceModule of {name: lowered PrimFunc}. Raises LaunchError, EntryError, and the printer's errors;
    ValueError for a function with statements outside of bound loops."""
    made, kernels, taken = [], [], set()
    for name, func in functions.items():
        func = _with_dims(name, func)
        launches = device_kernels(func, target.launch)
        base, symbols = network_name(name, "f"), []
        for n, launch in enumerate(launches):
            _require_bound(name, launch)
            symbol = f"{base}_kernel" if len(launches) == 1 else f"{base}_kernel_{n}"
            while symbol in taken:
                symbol += "_"
            taken.add(symbol)
            kernels.append(print_kernel(launch.func, symbol, str(target.kind)))
            symbols.append((symbol, launch))
        made.append(DeviceFunction(name, func, tuple(symbols)))
    return DeviceModule(tuple(made), tuple(kernels), entry, target)


def _with_dims(name, func):
    """The function with a parameter for each dimension of its buffers' shapes that it computes with."""
    for x in signature_of(func):
        if isinstance(x, Buffer) and x.strides:
            raise EntryError(f"{name}: buffer {x.name} has strides, and arrays on a device are dense: leave them out")
        if isinstance(x, Var) and x.dtype == "handle":
            raise EntryError(f"{name}: parameter {x.name} is a handle without a buffer, which callers have no argument "
                             "for; match a buffer to it")
    dims = {id(v): v for x in signature_of(func) if isinstance(x, Buffer) for v in free_vars(x.shape)}
    missing = tuple(v for k, v in dims.items() if k not in set(map(id, func.params)))
    func = func.replace(params=(*func.params, *missing))
    return func if func.attrs.get("origin") else func.with_attr("shapes", f"{name}: {_parameters(signature_of(func))}")


def _parameters(signature):
    return ", ".join(f"{x.name} {x.dtype}" + (f"[{', '.join(map(str, x.shape))}]" if isinstance(x, Buffer) else "")
                     for x in signature)


def _require_bound(name, launch):
    """Refuse a kernel of one thread, which nobody means."""
    stmts = collect(launch.func.body, (For, AttrStmt))
    axes = {s.thread_binding if isinstance(s, For) else getattr(s.target, "thread_tag", None) for s in stmts}
    if not axes & {*GRID, *BLOCK}:
        loop = next((s.loop_var.name for s in stmts if isinstance(s, For)), None)
        what = f"loop {loop}" if loop else "a statement"
        raise ValueError(f"{name}: {what} is bound to no threads, and would run on one thread of the device; bind "
                         'loops to "blockIdx.x" and "threadIdx.x" (sch.bind, or s[...].bind)')


def _host(f):
    """A function as its launches."""
    def extents(three):
        return ", ".join(str(getattr(e, "value", e)) for e in three)

    lines = [f"{f.name}({_parameters(f.signature)})", *(f"    workspace {_parameters([b])}" for b in f.workspace)]
    for symbol, k in f.launches:
        args = ", ".join(k.func.buffer_map[p].name if p in k.func.buffer_map else p.name for p in k.func.params)
        more = f", {k.shared.value} bytes of shared memory" if k.shared.value else ""
        lines.append(f"    launch {symbol}({args}) on blocks ({extents(k.grid)}) of threads ({extents(k.block)}){more}")
    return "\n".join(lines)


__all__ = ["DeviceFunction", "DeviceModule", "make_device_module"]
