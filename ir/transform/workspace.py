"""Workspace: temporaries too large for the stack become parameters, so that the memory plan holds them."""
from __future__ import annotations

from ..expr import IntImm, Ramp, Var, const, is_const_int
from ..node import Mutator, collect
from ..tir.buffer import decl_buffer, substitute_buffers
from ..tir.hints import EACH_THREAD
from ..tir.stmt import BufferLoad, BufferStore, For, ForKind
from .walk import StmtMutator, without

STACK_BYTES = 16 * 1024
LOCAL_BYTES = 4 * 1024  # of one array of a thread of a GPU
# Of a function's parallel loops together. How many threads there will be is not known where the arena is laid out, so
# what each needs for itself lies on its stack: of 8 MB on Linux, 4 MB for the threads of clang's OpenMP. In networks
# LiftScratch takes what is large from there.
THREAD_STACK_BYTES = 2 * 1024 * 1024


def lift_workspace(func):
    """Requires flat buffers. Ensures temporaries of constant size: of at most STACK_BYTES, or inside parallel
    loops THREAD_STACK_BYTES in all: larger ones, and those of symbolic size, are parameters after the outputs, counted
    by attrs["num_workspace"]. So are buffers around a parallel loop: they are the threads' in common. One of one
    element is no longer of scope "local", which would make it a variable. Buffers that a loop with pragma_each_thread
    touches, and those inside of it, are each thread's own, as those in parallel loops are; where they find no room, no
    loop has it any more.

    A temporary too large for a thread's stack would be shared by threads: such loops become serial.

    What is declared inside loops that are bound to blocks and threads of a GPU is one array for each of them: of more
    than LOCAL_BYTES, or of symbolic size, it is a parameter that has them side by side. What is declared around such
    loops is a parameter. Shared memory stays.
    """
    lift = _Lift(func.body)
    body = lift.visit(func.body)
    if lift.crowded:
        return lift_workspace(func.replace(body=_ByOne().visit(func.body)))
    if not lift.lifted:
        return func
    body = substitute_buffers(_SideBySide(lift.places).visit(body) if lift.places else body, lift.replaced)
    handles = [Var(b.name, "handle") for b in lift.lifted]
    tensors = [p for p in func.params if p in func.buffer_map]
    scalars = [p for p in func.params if p not in func.buffer_map]
    return func.replace(params=(*tensors, *handles, *scalars), body=body,
                        buffer_map={**func.buffer_map, **dict(zip(handles, lift.lifted))},
                        attrs={**func.attrs, "num_workspace": len(handles)})


def touched_by_each(stmt):
    """The buffers that loops touch which each thread runs for itself: it has those of them for itself that the kernel
    declares."""
    loops = [loop for loop in collect(stmt, For) if EACH_THREAD in loop.annotations]
    return {access.buffer for access in collect(loops, (BufferLoad, BufferStore))}


class _Lift(StmtMutator):
    def __init__(self, body):
        self.lifted, self.replaced = [], {}
        self.parallel, self.kept = False, 0  # inside a parallel loop; bytes that stay on the stack of each thread
        self.own, self.crowded = touched_by_each(body), False
        self.bound, self.places = (), {}  # bound loops around; {buffer: (that of all threads, where a thread's begins)}

    def visit_DeclBuffer(self, decl):
        if self.bound or any(loop.kind == ForKind.THREAD_BINDING for loop in collect(decl.body, For)):
            return self._of_kernels(decl)
        around = any(loop.kind == "parallel" for loop in collect(decl.body, For))
        own = around and decl.buffer in self.own
        if self._stays(decl, self.parallel or own, around):
            return decl.replace(body=self.visit(decl.body))
        self.crowded |= own
        b = decl.buffer
        if b.scope == "local" and is_const_int(b.shape[0], 1):
            self.replaced[b] = b.replace(scope="global")
        self.lifted.append(self.replaced.get(b, b))
        return self.visit(decl.body)

    def _of_kernels(self, decl):
        """A declaration inside or around loops that are bound to blocks and threads."""
        b, extent = decl.buffer, decl.buffer.shape[0]
        small = isinstance(extent, IntImm) and extent.value * b.dtype.bytes <= LOCAL_BYTES
        if b.scope != "global" or small and self.bound:
            return decl.replace(body=self.visit(decl.body))
        number, count = const(0), const(1)
        for loop in self.bound:
            number, count = number * loop.extent + (loop.loop_var - loop.min), count * loop.extent
        if self.bound:
            all_of_them = decl_buffer((count * extent,), b.dtype, b.name, b.scope, data_alignment=b.data_alignment)
            self.places[b] = all_of_them, number * extent
        self.lifted.append(self.places[b][0] if self.bound else b)
        return self.visit(decl.body)

    def _stays(self, decl, own, around):
        """own: each thread has it for itself; around: a parallel loop."""
        extent, dtype = decl.buffer.shape[0], decl.buffer.dtype
        if not isinstance(extent, IntImm):
            return False
        size = extent.value * dtype.bytes
        if own:
            fits = self.kept + size <= THREAD_STACK_BYTES
            self.kept += size * fits
            return fits
        return size <= STACK_BYTES and not (around and dtype.lanes == 1)

    def visit_IfThenElse(self, branch):
        before, sizes, new = self.kept, [], {}
        for field in ("then_case", "else_case"):  # one of them runs, on the same stack
            self.kept = before
            new[field] = self.visit(getattr(branch, field))
            sizes.append(self.kept)
        self.kept = max(sizes)
        return branch.replace(**new)

    def visit_For(self, loop):
        if loop.kind == ForKind.THREAD_BINDING:
            around, self.bound = self.bound, (*self.bound, loop)
            loop, self.bound = loop.replace(body=self.visit(loop.body)), around
            return loop
        before, outside, each = len(self.lifted), self.parallel, EACH_THREAD in loop.annotations
        self.parallel = outside or loop.kind == "parallel" or each
        loop = loop.replace(body=self.visit(loop.body))
        self.parallel = outside
        if len(self.lifted) == before:
            return loop
        self.crowded |= each
        return loop.replace(kind="serial") if loop.kind == "parallel" else loop


class _SideBySide(Mutator):
    """Accesses to the array of one thread in that of all."""

    def __init__(self, places):
        self.places = places

    def _access(self, node):
        node = self.generic_visit(node)
        if node.buffer not in self.places:
            return node
        buffer, start = self.places[node.buffer]
        index = node.indices[0]
        moved = index.replace(base=start + index.base) if isinstance(index, Ramp) else start + index
        return node.replace(buffer=buffer, indices=(moved,))

    visit_BufferLoad = visit_BufferStore = _access


class _ByOne(StmtMutator):
    """No thread runs a loop for itself alone."""

    def visit_For(self, loop):
        return super().visit_For(without(loop, EACH_THREAD))
