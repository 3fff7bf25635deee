"""What the kernels of a PrimFunc take of a GPU, and what they touch outside of kernels."""
from __future__ import annotations

from math import prod

from ..expr import Cast, IntImm
from ..node import Visitor, collect
from .buffer import Buffer
from .stmt import AttrStmt, Block, BufferLoad, BufferStore, DeclBuffer, For

THREADS = ("threadIdx.x", "threadIdx.y", "threadIdx.z")
# The names of verify_gpu_code's constraints.
LIMITS = ("max_local_memory_per_block", "max_shared_memory_per_block", "max_threads_per_block", "max_thread_x",
          "max_thread_y", "max_thread_z", "max_vthread", "max_vector_bytes", "max_kernels")


class _Kernels(Visitor):
    """kernels: the outermost statements that are bound to threads; outside: the data pointers that are used around
    them."""

    def __init__(self):
        self.kernels, self.outside = [], set()

    def visit_For(self, loop):
        self._enter(loop, loop.kind == "thread_binding")

    def visit_AttrStmt(self, stmt):
        self._enter(stmt, stmt.attr_key in ("thread_extent", "virtual_thread"))

    def _enter(self, stmt, is_kernel):
        if is_kernel:
            self.kernels.append(stmt)
        else:
            self.generic_visit(stmt)

    def visit_BufferRegion(self, _):
        """A signature touches nothing."""

    def visit_BufferLoad(self, load):
        self.outside.add(load.buffer.data)
        self.visit(load.indices)

    def visit_BufferStore(self, store):
        self.outside.add(store.buffer.data)
        self.visit((store.value, store.indices))

    def visit_Var(self, v):
        self.outside.add(v)


def _kernels(func):
    found = _Kernels()
    found.visit(func.body)
    return found


def why_beyond(func, limits):
    """How the kernels of a PrimFunc, scheduled or lowered, exceed {a name of LIMITS: number}: a list of texts.

    Memory is what a kernel declares or uses of the scopes "local" and "shared"; loops that are bound to one axis have
    one extent."""
    unknown = sorted(set(limits) - set(LIMITS))
    if unknown:
        raise ValueError(f"no limit is called {unknown[0]!r}; known: {', '.join(LIMITS)}")
    found, kernels = [], _kernels(func).kernels
    takes = [({"max_kernels": len(kernels)}, "the function")] + [
        (_taken(kernel, found), f"kernel {n}") for n, kernel in enumerate(kernels)]
    for taken, who in takes:
        found += [f"{who} has {taken[name]} for {name}, {int(most)}" for name, most in limits.items()
                  if taken.get(name, 0) > int(most)]
    return found


def _taken(kernel, found):
    """{limit: what a kernel takes}; `found` gains why its threads do not fit together."""
    extents = {}
    for axis, extent in _axes(kernel):
        if not isinstance(extent, IntImm):
            found.append(f"the extent of {axis} is {extent}, which is no number")
        elif extents.setdefault(axis, extent.value) != extent.value:
            found.append(f"{axis} has the extents {extents[axis]} and {extent.value}")
    buffers = {b.data: b for b in collect(kernel, Buffer)}
    buffers.update((b.data, b) for s in collect(kernel, (DeclBuffer, Block)) for b in (
        (s.buffer,) if isinstance(s, DeclBuffer) else s.alloc_buffers))
    vectors = [x.dtype for x in collect(kernel, (Cast, BufferLoad))] + [s.value.dtype for s in collect(kernel, BufferStore)]
    virtual = [n for axis, n in extents.items() if axis.startswith(("vthread", "cthread"))]
    return {
        "max_threads_per_block": prod([extents.get(axis, 1) for axis in THREADS]) * prod(virtual),
        **{f"max_thread_{axis[-1]}": extents.get(axis, 1) for axis in THREADS},
        "max_vthread": max(virtual, default=1),
        "max_vector_bytes": max((d.bytes for d in vectors if d.lanes > 1), default=0),
        **{f"max_{scope}_memory_per_block": sum(_bytes(b, found) for b in buffers.values() if b.scope.startswith(scope))
           for scope in ("local", "shared")}}


def _axes(kernel):
    """(axis, extent) of everything in a kernel that is bound to threads."""
    for s in collect(kernel, (For, AttrStmt)):
        if isinstance(s, For) and s.kind == "thread_binding":
            yield s.thread_binding, s.extent
        elif isinstance(s, AttrStmt) and s.attr_key in ("thread_extent", "virtual_thread"):
            yield getattr(s.node, "thread_tag", "") or s.node.var.name, s.value


def _bytes(buffer, found):
    if not all(isinstance(e, IntImm) for e in buffer.shape):
        found.append(f"the size of buffer {buffer.name} is no number")
        return 0
    return prod(e.value for e in buffer.shape) * buffer.dtype.bytes


def touched_by_host(func):
    """The buffers among the parameters of a PrimFunc that are used outside of its kernels."""
    outside = _kernels(func).outside
    return [b for b in func.buffer_map.values() if b.data in outside]


__all__ = ["LIMITS", "touched_by_host", "why_beyond"]
