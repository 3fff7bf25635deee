"""SplitHostDevice: a lowered function as the kernels of its nests, with the blocks and threads that each runs on."""
from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from math import prod

from ...arith import Analyzer
from ...expr import Call, IntImm, Max, PrimExpr, const, free_vars, substitute
from ...node import collect, structural_equal
from ...tir.buffer import Buffer
from ...tir.function import PrimFunc
from ...tir.stmt import AttrStmt, BufferLoad, BufferStore, DeclBuffer, For, IfThenElse, LetStmt, SeqStmt
from ..walk import StmtMutator
from .barriers import SYNC

GRID = ("blockIdx.x", "blockIdx.y", "blockIdx.z")
BLOCK = ("threadIdx.x", "threadIdx.y", "threadIdx.z")
BOUNDS = "launch_bounds"  # attribute of a kernel: threads of a block, where that is a constant


class LaunchError(ValueError):
    """A function that no launch can run; the message names the loop, and the number that is too large."""


@dataclass(frozen=True)
class DeviceKernel:
    """A kernel and its launch. func: a PrimFunc of the buffers and dimensions that it uses, in the order of the whole
    function's; grid, block: three extents each, of blocks and of threads in one; shared: bytes of dynamic shared
    memory of a block."""

    func: PrimFunc
    grid: tuple
    block: tuple
    shared: PrimExpr

    @property
    def threads(self):
        """Threads of a block; None where that is no constant."""
        return prod(e.value for e in self.block) if all(isinstance(e, IntImm) for e in self.block) else None


def device_kernels(func, limits=None):
    """The DeviceKernels of a lowered function, in order: one for each statement of its body, with the variables and
    declarations around. A statement without bound loops is a kernel of one thread.

    limits: a target's Limits, to which launches are held. Raises LaunchError.
    """
    return tuple(_kernel(func, stmt, limits) for stmt in _parts(func.body, func))


def _parts(stmt, func):
    """The statements that are kernels, each with what is declared around it."""
    if isinstance(stmt, SeqStmt):
        return [part for s in stmt.seq for part in _parts(s, func)]
    if isinstance(stmt, DeclBuffer):
        parts = _parts(stmt.body, func)
        users = [p for p in parts if any(b.data is stmt.buffer.data for b in collect(p, Buffer))]
        if len(users) > 1:
            raise LaunchError(f"{func.title}: buffer {stmt.buffer.name} of scope {stmt.buffer.scope!r} is used by "
                              f"{len(users)} kernels, and lives in one: leave it in global memory, or compute it "
                              "inside of the loops that are bound to blocks")
        return [stmt.replace(body=p) if p in users else p for p in parts]
    if isinstance(stmt, LetStmt) and stmt.constant is not None:  # each kernel that reads it has it
        parts = _parts(stmt.body, func)
        return [stmt.replace(body=p) if any(b.data is stmt.var for b in collect(p, Buffer)) else p for p in parts]
    if isinstance(stmt, LetStmt) and not collect(stmt.value, BufferLoad):
        return [_as_value(stmt, part) for part in _parts(stmt.body, func)]
    if isinstance(stmt, AttrStmt) and stmt.attr_key != "thread_extent":
        return [stmt.replace(body=part) for part in _parts(stmt.body, func)]
    if isinstance(stmt, IfThenElse) and stmt.else_case is None and not collect(stmt.condition, BufferLoad):
        return [stmt.replace(then_case=part) for part in _parts(stmt.then_case, func)]
    return [stmt]


def _as_value(let, part):
    """A part of a let's body with the variable's value, so that launches may depend on it."""
    return substitute(part, {let.var: let.value}) if let.var in free_vars(part) else part


def _kernel(func, stmt, limits):
    _require_one(func, stmt)
    extents = _extents(func, stmt)
    stmt = _Held(func, extents).visit(stmt)
    grid, block = (tuple(extents.get(axis, const(1, "int64")) for axis in axes) for axes in (GRID, BLOCK))
    shared = _dynamic_bytes(stmt)
    kernel = DeviceKernel(_alone(func, stmt, block), grid, block, const(shared, "int64"))
    if limits is not None:
        _check(func, kernel, extents, stmt, limits)
    return kernel


def _require_one(func, stmt):
    """Raise LaunchError where blocks would have to wait for one another: several nests bound to blocks in a kernel."""
    for seq in collect(stmt, SeqStmt):
        nests = [[x for x in collect(s, (For, AttrStmt)) if _axis(x) in GRID] for s in seq.seq]
        nests = [n for n in nests if n]
        if len(nests) > 1:
            raise LaunchError(f"{func.title}: loops {_name(nests[0][0])} and {_name(nests[1][0])} are bound to blocks "
                              "one after the other in a loop around both: a kernel cannot wait for all blocks; take "
                              "them out of it, or run it on the host, with a call for each iteration")


def _extents(func, stmt):
    """{axis: its extent, an expression of the function's dimensions}: that of the longest loop that is bound to it."""
    an, params, found, extents = Analyzer(), set(map(id, func.params)), {}, {}
    for loop in collect(stmt, (For, AttrStmt)):
        if _axis(loop):
            found.setdefault(_axis(loop), []).append(loop)
    for axis, loops in found.items():
        own = [an.simplify(_extent(x)) for x in loops]
        bad = next((x for x, e in zip(loops, own) if any(id(v) not in params for v in free_vars(e))), None)
        if bad is not None:
            raise LaunchError(f"{func.title}: loop {_name(bad)} is bound to {axis}, and its extent {_extent(bad)} "
                              "depends on other loops: a launch needs one number; bind a loop of a constant extent, "
                              "and guard its body")
        unique = [e for n, e in enumerate(own) if not any(structural_equal(e, o) for o in own[:n])]
        longest = const(max(e.value for e in unique), "int64") if all(isinstance(e, IntImm) for e in unique) else None
        extents[axis] = an.simplify(reduce(Max, unique) if longest is None else longest)
    return extents


class _Held(StmtMutator):
    """Loops that are shorter than their axis leave threads out."""

    def __init__(self, func, extents):
        self.func, self.extents, self.an = func, extents, Analyzer()

    def visit_For(self, loop):
        loop = loop.replace(body=self.visit(loop.body))
        axis = _axis(loop)
        if not axis or self.an.can_prove_equal(loop.extent, self.extents[axis]):
            return loop
        if any(call.op == SYNC for call in collect(loop.body, Call)):
            raise LaunchError(f"{self.func.title}: loop {_name(loop)} of {loop.extent} iterations is bound to {axis}, "
                              f"of which there are {self.extents[axis]}, and its threads wait for each other: give the "
                              "loops of an axis one extent")
        held = IfThenElse(loop.loop_var < loop.min + loop.extent, loop.body)
        return loop.replace(extent=self.extents[axis], body=held)


def _axis(stmt):
    """The axis that a statement binds, "" for none."""
    if isinstance(stmt, For):
        return stmt.thread_binding if stmt.kind == "thread_binding" else ""
    return stmt.target.thread_tag if stmt.attr_key == "thread_extent" else ""


def _extent(stmt):
    return stmt.extent if isinstance(stmt, For) else stmt.value


def _name(stmt):
    return (stmt.loop_var if isinstance(stmt, For) else stmt.target.var).name


def _dynamic_bytes(stmt):
    """Bytes of the buffers of scope shared.dyn that memory of the launch is for."""
    pools = [d.buffer for d in collect(stmt, DeclBuffer) if d.buffer.scope == "shared.dyn"]
    return sum(b.shape[0].value * b.dtype.bytes for b in pools)


def _alone(func, stmt, block):
    """The function of a kernel: the parameters that it uses."""
    touched = {id(a.buffer.data) for a in collect(stmt, (BufferLoad, BufferStore))}
    touched |= {id(b.data) for b in collect(stmt, Buffer)}
    scalars = set(map(id, free_vars(stmt)))
    params = tuple(p for p in func.params
                   if (id(func.buffer_map[p].data) in touched if p in func.buffer_map else id(p) in scalars))
    attrs = dict(func.attrs)
    if all(isinstance(e, IntImm) for e in block):
        attrs[BOUNDS] = prod(e.value for e in block)
    buffer_map = {p: func.buffer_map[p] for p in params if p in func.buffer_map}
    if "outputs" in attrs:  # positions among the tensors
        written = [func.buffers[n] for n in attrs["outputs"]]
        attrs["outputs"] = tuple(n for n, b in enumerate(buffer_map.values()) if any(b is w for w in written))
    return func.replace(params=params, body=stmt, attrs=attrs, buffer_map=buffer_map)


# ---------------------------------------------------------------- limits

def _check(func, kernel, extents, stmt, limits):
    """VerifyGPUCode: raise LaunchError where a launch has more than the device can run."""
    def at_most(count, most, what):
        if count > most:
            raise LaunchError(f"{func.title}: {what} is {count}, and the device has {most} at most")

    for axes, most in ((GRID, limits.grid), (BLOCK, limits.block)):
        for axis, limit in zip(axes, most):
            extent = extents.get(axis)
            if isinstance(extent, IntImm):
                loop = next(x for x in collect(stmt, (For, AttrStmt)) if _axis(x) == axis)
                at_most(extent.value, limit, f"the extent of {axis} (loop {_name(loop)})")
    if kernel.threads is not None:
        loops = ", ".join(_name(x) for x in collect(stmt, (For, AttrStmt)) if _axis(x) in BLOCK)
        at_most(kernel.threads, limits.max_threads, f"the number of threads of a block (loops {loops})")
    static = sum(d.buffer.shape[0].value * d.buffer.dtype.bytes for d in collect(stmt, DeclBuffer)
                 if d.buffer.scope == "shared")
    names = ", ".join(d.buffer.name for d in collect(stmt, DeclBuffer) if d.buffer.scope.startswith("shared"))
    at_most(static, limits.shared_bytes, f"the shared memory of a block in bytes (buffers {names})")
    at_most(static + kernel.shared.value, limits.shared_dyn_bytes, f"the shared memory of a block in bytes ({names})")


__all__ = ["BOUNDS", "DeviceKernel", "LaunchError", "device_kernels"]
