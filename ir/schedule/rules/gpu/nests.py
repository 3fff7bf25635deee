"""Loop nests as device kernels: which loops threads may share, and how they are bound to blocks and threads."""
from __future__ import annotations

from math import prod

from ....arith import Analyzer
from ....expr import IntImm, Range, substitute
from ....node import collect
from ....tir.hints import REDUCE_LANES
from ....tir.lanes import lanes_of, weak_alignments
from ....tir.stmt import Block, BlockRealize, BufferStore, SeqStmt
from ...blocks import uses
from ...errors import ScheduleError
from ...independence import require_independent
from ..blocks import blocks, static

THREADS = 256  # of a block, where nothing asks for another number
LEAST_BLOCKS = 64  # of threads, that have several neighbours each: with fewer each thread has one


def nests(sch):
    """The blocks directly inside the root block, in lists that have the outermost loop in common."""
    found = {}
    for block in sch.get_child_blocks(sch.get_block("root")):
        loops = sch.get_loops(block)
        key = sch.get(loops[0]).loop_var if loops else sch.get(block).name_hint
        found.setdefault(key, []).append(block)
    return list(found.values())


def is_independent(sch, loop):
    """Whether the iterations of a loop may run at once."""
    try:
        require_independent(sch.context("bind", {"loop": loop}), sch.get(loop))
    except ScheduleError:
        return False
    return True


def shared_loops(sch, nest):
    """The leading loops of a nest that threads may share: each holds only the next one, none depends on another, and
    its iterations may run at once."""
    found, variables = [], set()
    for loop in _leading(sch, nest[0]):
        stmt = sch.get(loop)
        if stmt.kind != "serial" or stmt.annotations or uses((stmt.min, stmt.extent), variables) or not is_independent(
                sch, loop):
            break
        found.append(loop)
        variables.add(stmt.loop_var)
    return found


def _leading(sch, block):
    """The loops around a block, from the outermost to the last that is alone in the one before."""
    found = []
    for loop in sch.get_loops(block):
        found.append(loop)
        if isinstance(sch.get(loop).body, SeqStmt):
            break
    return found


def spatial_first(sch, block):
    """Move the loops that run spatial iteration variables of a block outside of its others, where that is legal."""
    loops = sch.get_loops(block)
    realize = sch.get(loops[-1]).body if loops else None
    if not isinstance(realize, BlockRealize):
        return
    others = tuple(v for iv, v in zip(realize.block.iter_vars, realize.iter_values) if iv.iter_type != "spatial")
    inner = [loop for loop in loops if uses(others, {sch.get(loop).loop_var})]
    outer = [loop for loop in loops if loop not in inner]
    if inner and outer and [*outer, *inner] != loops:
        try:
            sch.reorder(*outer, *inner)
        except ScheduleError:
            pass  # their order matters: threads share what is outermost


def bind_nest(sch, nest, threads=THREADS):
    """Let the iterations of a nest's outer loops run on threads, in blocks of `threads`; on one, where they depend on
    each other."""
    if len(nest) == 1:
        spatial_first(sch, nest[0])
    loops = shared_loops(sch, nest)
    try:
        if loops:
            bind_flat(sch, loops, threads, nest[0] if len(nest) == 1 else None)
            return
    except ScheduleError as error:
        sch.refused += (f"threads: {error.line}",)
    bind_one(sch, nest)


def bind_flat(sch, loops, threads=THREADS, block=None):
    """Let the iterations of nested loops run on threads, in blocks of `threads`: of all loops as one, or, where it is
    not proved that this keeps them apart, as those over symbolic dimensions, each loop on an axis of its own. block:
    the only one inside; a thread has as many neighbours as it may move at once."""
    if all(isinstance(sch.get(loop).extent, IntImm) for loop in loops):
        count = prod(sch.get(loop).extent.value for loop in loops)
        lanes = lanes_along(sch, block, loops) if block is not None else 1
        _bind_fused(sch, loops, threads, lanes if count >= LEAST_BLOCKS * threads * lanes else 1)
    elif _allows(_bind_fused, sch, loops, threads):
        _bind_fused(sch, loops, threads)
    else:
        _bind_apart(sch, loops, threads)


def _allows(bind, sch, *args):
    try:
        bind(sch.copy(), *args)
    except ScheduleError:
        return False
    return True


def lanes_along(sch, block, loops):
    """How many neighbours a block moves at once along nested loops, its innermost ones, as one; 1 for none."""
    around = sch.get_loops(block)
    realize = sch.get(around[-1]).body if around else None
    if not isinstance(realize, BlockRealize) or not isinstance(realize.block.body, BufferStore) or (
            [sch.get(loop) for loop in around[-len(loops):]] != [sch.get(loop) for loop in loops]):
        return 1
    an = Analyzer()
    for loop in map(sch.get, around):
        an.bind(loop.loop_var, Range(loop.min, loop.extent))
    values = {iv.var: value for iv, value in zip(realize.block.iter_vars, realize.iter_values)}
    nested = [(sch.get(loop).loop_var, sch.get(loop).extent) for loop in loops]
    return lanes_of(substitute(realize.block.body, values), nested, an, weak_alignments(sch.func))


def _bind_fused(sch, loops, threads, lanes=1):
    flat = sch.fuse(*loops) if len(loops) > 1 else loops[0]
    if lanes > 1:
        flat, own = sch.split(flat, [None, lanes])
        sch.vectorize(own)
    extent = sch.get(flat).extent
    if isinstance(extent, IntImm):
        threads = max(min(threads, extent.value), 1)
    block, thread = sch.split(flat, [None, threads])
    sch.bind(block, "blockIdx.x")
    sch.bind(thread, "threadIdx.x")


def _bind_apart(sch, loops, threads):
    """The innermost loop on threads, or the innermost ones of constant extents; a symbolic one on the first axis of
    blocks, which alone may be long; what finds no axis stays serial."""
    count = 1
    while count < len(loops) and all(isinstance(sch.get(loop).extent, IntImm) for loop in loops[-count - 1:]):
        count += 1
    outer, inner = list(loops[:-count]), loops[-count:]
    flat = sch.fuse(*inner) if count > 1 else inner[0]
    extent = sch.get(flat).extent
    if isinstance(extent, IntImm):
        threads = max(min(threads, extent.value), 1)
    block, thread = sch.split(flat, [None, threads])
    sch.bind(thread, "threadIdx.x")
    outer.append(block)
    first = next((loop for loop in reversed(outer) if not isinstance(sch.get(loop).extent, IntImm)), block)
    sch.bind(first, "blockIdx.x")
    others = [loop for loop in reversed(outer) if loop is not first and _is_short(sch, loop)]
    for loop, axis in zip(others, ("blockIdx.y", "blockIdx.z")):
        sch.bind(loop, axis)


def _is_short(sch, loop):
    """Whether a loop fits the second and third axes of a grid."""
    extent = sch.get(loop).extent
    return isinstance(extent, IntImm) and 1 < extent.value < 1 << 16


def share_loops(sch, loops, threads, axis="threadIdx.x", block=None):
    """Let so many threads of a block share the iterations of nested loops. block: the only one inside; a thread moves
    as many neighbours at once as it may."""
    if not loops:
        return
    lanes = lanes_along(sch, block, loops) if block is not None else 1
    loop = sch.fuse(*loops) if len(loops) > 1 else loops[0]
    if lanes > 1 and static(sch.get(loop).extent) >= lanes * threads:
        loop, own = sch.split(loop, [None, lanes])
        if sch.get(block).init is not None:
            sch.annotate(own, REDUCE_LANES, 1)
        else:
            sch.vectorize(own)
    extent = sch.get(loop).extent
    if isinstance(extent, IntImm) and extent.value <= threads:
        sch.bind(loop, axis)
    else:
        sch.bind(sch.split(loop, [None, threads])[1], axis)


def bind_one(sch, nest):
    """Let one thread run a nest."""
    loops = sch.get_loops(nest[0])
    for axis in ("threadIdx.x", "blockIdx.x"):
        sch.bind(sch.add_unit_loop(loops[0] if loops else nest[0]), axis)
        loops = sch.get_loops(nest[0])


def serial_reductions(sch):
    """Set the results of reductions before their loops, where these are the innermost ones."""
    for name in [b.name_hint for b in blocks(sch) if b.init is not None]:
        block = sch.get_block(name)
        loops = reduction_loops(sch, block)
        inner = sch.get_loops(block)[-len(loops):] if loops else []
        if loops and list(map(sch.get, inner)) == list(map(sch.get, loops)) and all(
                sch.get(loop).kind == "serial" for loop in loops):
            try:
                sch.decompose_reduction(block, loops[0])
            except ScheduleError:
                pass  # its first iteration sets it


def reduction_loops(sch, block):
    """The loops that a block's reduce iteration variables run over; none for other blocks."""
    loops = sch.get_loops(block)
    realize = sch.get(loops[-1]).body if loops else None
    if not isinstance(realize, BlockRealize) or realize.block.init is None:
        return []
    values = tuple(v for iv, v in zip(realize.block.iter_vars, realize.iter_values) if iv.iter_type == "reduce")
    return [loop for loop in loops if uses(values, {sch.get(loop).loop_var})]


def keep_own(sch):
    """Let what a block allocates for itself be memory of the thread that runs it, where its size is known."""
    for block in [b for b in collect(sch.func.body, Block) if b.name_hint != "root"]:
        for buffer in block.alloc_buffers:
            writer = next((b for b in collect(block.body, Block)
                           if any(w.buffer is buffer for w in b.writes)), None)
            if writer is None or buffer.scope != "global" or not all(isinstance(n, IntImm) for n in buffer.shape):
                continue
            index = next(n for n, w in enumerate(writer.writes) if w.buffer is buffer)
            sch.set_scope(sch.get_block(writer.name_hint), index, "local")
