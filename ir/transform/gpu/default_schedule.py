"""DefaultGPUSchedule: blocks and threads for functions that nothing has scheduled, element by element."""
from __future__ import annotations

from ...arith import Analyzer
from ...expr import IntImm, free_vars, substitute
from ...node import collect
from ...schedule.schedule import Schedule
from ...target import Target, kind_of
from ...tir.function import PrimFunc
from ...tir.stmt import BlockRealize
from ..walk import StmtMutator

SCHEDULED = "tir.is_scheduled"
GPUS = ("cuda", "opencl", "rocm", "metal", "vulkan", "webgpu")  # kinds of targets of TVM's with threads
THREADS, BLOCKS = 1024, 256  # of a block, and of a launch of large loops


def default_gpu_schedule(mod):
    """Requires blocks. Ensures the attribute tir.is_scheduled of every PrimFunc. In those of a module that did not have
    it, and that are for a GPU, the spatial loops around each innermost block are one loop, bound to blocks and threads,
    unless one of them is bound already. Iterators are digits of the number of the thread, whatever the extents are.

    The target is a function's attribute "target", else the one around, `with Target(...):`; ValueError where there is
    neither.
    """
    done = {}
    for name, func in mod.functions.items():
        if isinstance(func, PrimFunc):
            if not func.attrs.get(SCHEDULED) and _is_for_gpu(name, func):
                sch = Schedule(func)
                numbered = [found for block in _leaves(sch) if (found := _bound(sch, block))]
                func = sch.func.replace(body=_Numbered(sch, numbered).visit(sch.func.body))
            func = func.with_attr(SCHEDULED, True)
        done[name] = func
    return mod.with_functions(done)


def _is_for_gpu(name, func):
    target = func.attrs.get("target")
    if target is None:
        target = Target.current()
        if target is None:
            raise ValueError(f"the function {name} has no target: write `with tvm.target.Target(\"cuda\"):` around, or "
                             "give it the attribute \"target\"")
    return kind_of(target) in GPUS


def _leaves(sch):
    """The blocks that hold no other one, in order."""
    blocks = []

    def below(block):
        inner = sch.get_child_blocks(block)
        if not inner:
            blocks.append(block)
        for b in inner:
            below(b)

    for b in sch.get_child_blocks(sch.get_block("root")):
        below(b)
    return blocks


def _bound(sch, block):
    """Binds the loops around a block; (the block, the variable of its one loop, its bindings of that, the loops that
    this is split into), or None where they are bound."""
    loops = sch.get_loops(block)
    if any(sch.get(loop).thread_binding for loop in loops):
        return None
    kinds = [iv.iter_type for iv in sch.get(block).iter_vars]
    spatial = [loop for loop, kind in zip(loops, kinds) if kind == "spatial"] if len(kinds) == len(loops) else []
    if not spatial:
        spatial = [sch.add_unit_loop(loops[0] if loops else block)]
    fused = sch.fuse(*spatial, preserve_unit_iters=False)
    counter, extent = sch.get(fused).loop_var, sch.get(fused).extent
    values, = (r.iter_values for r in collect(sch.func.body, BlockRealize) if r.block is sch.get(block))
    count = extent.value if isinstance(extent, IntImm) else None
    if count is None or count > THREADS * BLOCKS:
        more, blocks, threads = sch.split(fused, [None, BLOCKS, THREADS])
        sch.reorder(blocks, threads, more)
        digits = [more, blocks, threads]
    else:
        digits = blocks, threads = sch.split(fused, [None, min(count, THREADS)])
    sch.bind(blocks, "blockIdx.x")
    sch.bind(threads, "threadIdx.x")
    return block, counter, values, digits


class _Numbered(StmtMutator):
    """Bindings as they were of one loop, which is now the number that several make up."""

    def __init__(self, sch, numbered):
        self.values = {}  # id of a block -> the bindings of its iterators
        for block, counter, values, digits in numbered:
            number = 0
            for loop in map(sch.get, digits):
                number = number * loop.extent + loop.loop_var
            at = {counter: Analyzer().simplify(number)}
            self.values[id(sch.get(block))] = [substitute(v, at) if counter in free_vars(v) else None for v in values]

    def visit_BlockRealize(self, realize):
        values = self.values.get(id(realize.block))
        realize = super().visit_BlockRealize(realize)
        return realize if values is None else realize.replace(iter_values=tuple(
            now if value is None else value for now, value in zip(realize.iter_values, values)))


__all__ = ["default_gpu_schedule"]
