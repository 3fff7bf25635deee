"""Kernels that go on step by step: recurrent layers, and attention over blocks of keys. A block of threads runs all
steps, and threads share each stage of one."""
from __future__ import annotations

from functools import partial
from math import prod

from ....expr import IntImm
from ....node import collect
from ....tir.stmt import Block
from ...errors import ScheduleError
from ...plan import Fixed, Match
from ..blocks import find_block, iter_vars, static
from .nests import bind_nest, bind_one, is_independent, keep_own, nests, serial_reductions, share_loops, shared_loops

LEAST_THREADS, MOST_THREADS = 128, 512  # of a block, which share the elements of a stage
MOST_ROWS, LANES = 8, 64                # of these, where rows and what is along them are axes of their own
STATIC_BYTES = 48 << 10                 # of shared memory that kernels declare; more is given by the launch


def stepwise(sch, target):
    """What a step hands on to the next one, and its stages to each other, lies in shared memory. The loops around all
    steps are blocks of threads: directions of a layer, rows of a head."""
    name = find_block(sch, _holds_steps)
    return name and Match(Fixed("stepwise"), partial(_apply, sch))


def _holds_steps(block):
    """Whether a block works in stages, as steps of a scan that is one of its iterators, or inside of it."""
    inner = [b for b in collect(block.body, Block)]
    scans = [iv for b in (block, *inner) for iv in b.iter_vars if iv.iter_type == "scan"]
    return len(scans) == 1 and bool(block.alloc_buffers) and all(
        isinstance(n, IntImm) for b in (block, *inner) for buffer in b.alloc_buffers for n in buffer.shape)


def _apply(sch, plan, target):
    for nest in nests(sch):
        block = sch.get(nest[0])
        if len(nest) == 1 and _holds_steps(block) and (scope := _scope(block, target)) is not None:
            _share_steps(sch, nest, scope, _threads(target))
        else:
            bind_nest(sch, nest)
    keep_own(sch)
    serial_reductions(sch)


def _threads(target):
    """How many threads share a stage at most."""
    return min(MOST_THREADS, target.launch.max_threads) if target.launch is not None else MOST_THREADS


def _scope(block, target):
    """The shared memory that has room for what a block and those inside of it allocate; None if none has."""
    inside = [b for inner in collect(block, Block) for b in inner.alloc_buffers]
    size = sum(prod(n.value for n in b.shape) * b.dtype.bytes for b in inside)
    if size <= (min(STATIC_BYTES, target.launch.shared_bytes) if target.launch is not None else STATIC_BYTES):
        return "shared"
    return "shared.dyn" if target.launch is not None and size <= target.launch.shared_dyn_bytes else None


def _share_steps(sch, nest, scope, threads):
    outer = shared_loops(sch, nest)
    if not outer:
        bind_one(sch, nest)
        return
    bind_blocks(sch, outer)
    whole = sch.get(nest[0])
    own = [b for inner in collect(whole, Block) for b in inner.alloc_buffers]
    stages = [b for b in collect(whole.body, Block) if not collect(b.body, Block)]
    for stage in stages:
        for index, region in enumerate(stage.writes):
            if region.buffer in own:
                own.remove(region.buffer)
                sch.set_scope(sch.get_block(stage.name_hint), index, scope)
    if not all(isinstance(iv.dom.extent, IntImm) for stage in stages for iv in iter_vars(stage, "spatial")):
        for stage in stages:
            _share_rows(sch, sch.get_block(stage.name_hint), threads // LANES)
        return
    most = max(prod(static(iv.dom.extent) for iv in iter_vars(stage, "spatial")) for stage in stages)
    for stage in stages:
        _share_stage(sch, sch.get_block(stage.name_hint), min(max(most, LEAST_THREADS), threads))


def bind_blocks(sch, loops):
    """The loops around all steps as blocks of threads."""
    if all(isinstance(sch.get(loop).extent, IntImm) for loop in loops):
        loops = [sch.fuse(*loops)] if len(loops) > 1 else loops
    for loop, axis in zip(reversed(loops), ("blockIdx.x", "blockIdx.y", "blockIdx.z")):
        sch.bind(loop, axis)


def _share_rows(sch, block, most):
    """Let threads share a stage of which some extents depend on the step: its first loop, over rows, and the last
    ones."""
    loops = sch.get_loops(block)[:len(iter_vars(sch.get(block), "spatial"))]
    if not loops or not all(is_independent(sch, loop) for loop in loops):
        return  # GuardRedundantStores lets one thread do it
    rows = sch.get(loops[0]).extent
    if isinstance(rows, IntImm) and rows.value <= min(MOST_ROWS, most):
        sch.bind(loops.pop(0), "threadIdx.y")
    inner = []
    while loops and isinstance(sch.get(loops[-1]).extent, IntImm):
        inner.insert(0, loops.pop())
    share_loops(sch, inner or loops[-1:], LANES)


def _share_stage(sch, block, threads):
    """Let threads share the loops of a stage over its elements: all, or as many of the outer ones as may be."""
    loops = sch.get_loops(block)[:len(iter_vars(sch.get(block), "spatial"))]
    loops = loops if all(is_independent(sch, loop) for loop in loops) else []
    if not loops:
        return  # GuardRedundantStores lets one thread do it
    flat = sch.fuse(*loops) if len(loops) > 1 else loops[0]
    extent = sch.get(flat).extent
    try:
        if isinstance(extent, IntImm) and extent.value <= threads:
            sch.bind(flat, "threadIdx.x")
        else:
            sch.bind(sch.split(flat, [None, threads])[1], "threadIdx.x")
    except ScheduleError as error:
        sch.refused += (f"threads: {error.line}",)
