"""Recurrent layers: a block of threads runs all steps of a direction, and waits after each stage of a step."""
from __future__ import annotations

from functools import partial
from math import prod

from ....expr import IntImm
from ....node import collect
from ....tir.stmt import Block
from ...plan import Fixed, Match
from ..blocks import find_block
from .nests import bind_nest, bind_one, keep_own, nests, serial_reductions, share_loops, shared_loops

THREADS = 512        # of a block, which share the columns of a step
MOST_BYTES = 40960   # of shared memory for what a step hands from stage to stage; more is the one thread's own


def recurrent(sch, target):
    """The states of a step lie in shared memory, and threads share its columns. Directions are blocks of their own, so
    are sequences whose number is symbolic."""
    name = find_block(sch, _steps)
    if name is None:
        return None
    return Match(Fixed("recurrent"), partial(_apply, sch))


def _steps(block):
    """Whether a block is the step of a scan that works in stages."""
    kinds = [iv.iter_type for iv in block.iter_vars]
    return (kinds.count("scan") == 1 and kinds[-1] == "scan" and bool(block.alloc_buffers)
            and all(isinstance(n, IntImm) for b in block.alloc_buffers for n in b.shape))


def _apply(sch, plan, target):
    for nest in nests(sch):
        block = sch.get(nest[0])
        if len(nest) == 1 and _steps(block) and _bytes(block) <= min(MOST_BYTES, target.launch.shared_bytes):
            _share_steps(sch, nest, min(THREADS, target.launch.max_threads))
        else:
            bind_nest(sch, nest)
    keep_own(sch)
    serial_reductions(sch)


def _bytes(block):
    return sum(prod(n.value for n in b.shape) * b.dtype.bytes for b in block.alloc_buffers)


def _share_steps(sch, nest, threads):
    outer = shared_loops(sch, nest)
    if outer:
        sch.bind(sch.fuse(*outer) if len(outer) > 1 else outer[0], "blockIdx.x")
    else:
        bind_one(sch, nest)
        return
    step = sch.get(nest[0])
    for block in [b for b in collect(step.body, Block) if any(w.buffer in step.alloc_buffers for w in b.writes)]:
        for index, region in enumerate(block.writes):
            if region.buffer in step.alloc_buffers and region.buffer.scope == "global":
                sch.set_scope(sch.get_block(block.name_hint), index, "shared")
    for name in [b.name_hint for b in collect(sch.get(nest[0]).body, Block)]:
        block = sch.get_block(name)
        share_loops(sch, _spatial(sch, block), threads)


def _spatial(sch, block):
    return sch.get_loops(block)[:sum(iv.iter_type == "spatial" for iv in sch.get(block).iter_vars)]
