"""DefaultGPUSchedule: blocks and threads for functions that nothing has scheduled, element by element."""
from __future__ import annotations

from ...expr import IntImm
from ...schedule.schedule import Schedule
from ...target import Target
from ...tir.function import PrimFunc

SCHEDULED = "tir.is_scheduled"
GPUS = ("cuda", "opencl", "rocm", "metal", "vulkan", "webgpu")  # kinds of targets of TVM's with threads
THREADS, BLOCKS = 1024, 256  # of a block, and of a launch of large loops


def default_gpu_schedule(mod):
    """Requires blocks. Ensures the attribute tir.is_scheduled of every PrimFunc. In those of a module that did not have
    it, and that are for a GPU, the spatial loops around each innermost block are one loop, bound to blocks and threads,
    unless one of them is bound already.

    The target is a function's attribute "target", else the one around, `with Target(...):`; ValueError where there is
    neither.
    """
    done = {}
    for name, func in mod.functions.items():
        if isinstance(func, PrimFunc):
            if not func.attrs.get(SCHEDULED) and _is_for_gpu(name, func):
                sch = Schedule(func)
                for block in _leaves(sch):
                    _bound(sch, block)
                func = sch.func
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
    kind = target.get("kind") if isinstance(target, dict) else getattr(target, "kind", target)
    return str(kind).split()[0].split("-")[0] in GPUS


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
    loops = sch.get_loops(block)
    if any(sch.get(loop).thread_binding for loop in loops):
        return
    kinds = [iv.iter_type for iv in sch.get(block).iter_vars]
    spatial = [loop for loop, kind in zip(loops, kinds) if kind == "spatial"] if len(kinds) == len(loops) else []
    if not spatial:
        spatial = [sch.add_unit_loop(loops[0] if loops else block)]
    fused = sch.fuse(*spatial, preserve_unit_iters=False)
    extent = sch.get(fused).extent
    count = extent.value if isinstance(extent, IntImm) else None
    if count is None or count > THREADS * BLOCKS:
        more, blocks, threads = sch.split(fused, [None, BLOCKS, THREADS])
        sch.reorder(blocks, threads, more)
    else:
        blocks, threads = sch.split(fused, [None, min(count, THREADS)])
    sch.bind(blocks, "blockIdx.x")
    sch.bind(threads, "threadIdx.x")


__all__ = ["default_gpu_schedule"]
