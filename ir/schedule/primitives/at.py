"""read_at and write_at: copies through other memory that stand under a loop at once, fetched by all threads."""
from __future__ import annotations

from math import prod

from ...expr import is_const_int
from ..registry import BLOCK, INT, LOOP, STR, Result, primitive
from .cache import cache_read, cache_write
from .compute_at import compute_at, reverse_compute_at
from .kinds import bind
from .loops import fuse, split

AXES = ("threadIdx.x", "threadIdx.y", "threadIdx.z")


@primitive(BLOCK, loop=LOOP, block=BLOCK, read_buffer_index=INT, storage_scope=STR)
def read_at(ctx, loop, block, read_buffer_index, storage_scope):
    """Copy what a block reads of a buffer in one iteration of `loop` into other memory, and let it read that; returns
    the copying block.

    It is cache_read and then compute_at; into memory that threads share all threads of the block copy, each its share.
    """
    made = cache_read(ctx, block, read_buffer_index, storage_scope, [block])
    return _at(ctx, made, loop, storage_scope, compute_at)


@primitive(BLOCK, loop=LOOP, block=BLOCK, write_buffer_index=INT, storage_scope=STR)
def write_at(ctx, loop, block, write_buffer_index, storage_scope):
    """Let a block write to other memory, and copy that to the buffer in each iteration of `loop`; returns the copying
    block.

    It is cache_write and then reverse_compute_at; out of memory that threads share all threads of the block copy, each
    its share.
    """
    made = cache_write(ctx, block, write_buffer_index, storage_scope)
    return _at(ctx, made, loop, storage_scope, reverse_compute_at)


def _at(ctx, made, loop, scope, move):
    """The result of a cache whose copy moves under a loop and, where threads share the memory, is shared among them."""
    name, = made.outputs
    at = ctx.with_func(made.func)
    at = ctx.with_func(move(at, at.index.blocks[name], at.index.loops[loop.loop_var]).func)
    if scope.startswith("shared"):
        at = _together(at, at.index.blocks[name])
    return Result(at.func, (name,))


def _together(ctx, block):
    """The function in which the threads of the block share the iterations of a copy."""
    above = ctx.index.loops_above(block)
    extents = {s.thread_binding: s.extent for s in above if s.thread_binding in AXES}
    own = _nest(ctx, block)
    count = prod(e.value for e in extents.values()) if all(map(is_const_int, extents.values())) else 0
    if not own or count < 2:
        return ctx
    result = fuse(ctx, *own)
    ctx = ctx.with_func(result.func)
    axes = [axis for axis in AXES if axis in extents]
    result = split(ctx, ctx.index.loops[result.outputs[0]], (None, *(extents[a].value for a in reversed(axes))))
    ctx = ctx.with_func(result.func)
    for var, axis in zip(result.outputs[1:], reversed(axes)):
        ctx = ctx.with_func(bind(ctx, ctx.index.loops[var], axis).func)
    return ctx


def _nest(ctx, block):
    """The loops around a block that hold nothing else, outermost first."""
    found, stmt = [], block
    for loop in reversed(ctx.index.loops_above(block)):
        if loop.body is not stmt or loop.kind != "serial" or loop.annotations:
            break
        found.insert(0, loop)
        stmt = loop
    return found


__all__ = ["read_at", "write_at"]
