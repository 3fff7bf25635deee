"""Looking around: blocks and loops as handles. The program stays as it is."""
from __future__ import annotations

from ..index import blocks_below
from ..nest import neighbours
from ..registry import BLOCK, BLOCKS, LOOPS, NAME, PLACE, STR, Result, primitive
from ...tir.stmt import BlockRealize


def _names(blocks):
    return tuple(b.block.name_hint for b in blocks)


@primitive(BLOCK, pure=True, name=STR, func_name=NAME)
def get_block(ctx, name, func_name=None):
    """The block called `name` of a function (default: the one being worked on)."""
    ctx.block_called(name)
    return Result(ctx.func, (name,))


@primitive(LOOPS, pure=True, block=BLOCK)
def get_loops(ctx, block):
    """The loops around a block, outermost first."""
    return Result(ctx.func, tuple(loop.loop_var for loop in ctx.index.loops_above(block)))


@primitive(BLOCKS, pure=True, block_or_loop=PLACE)
def get_child_blocks(ctx, block_or_loop):
    """The blocks directly inside a block, or under a loop, in execution order."""
    inner = block_or_loop.block.body if isinstance(block_or_loop, BlockRealize) else block_or_loop
    return Result(ctx.func, _names(blocks_below(inner)))


@primitive(BLOCKS, pure=True, block=BLOCK)
def get_producers(ctx, block):
    """The blocks that write what a block reads."""
    return Result(ctx.func, _names(neighbours(ctx.index, ctx.scope(block, "'block'"), block)[0]))


@primitive(BLOCKS, pure=True, block=BLOCK)
def get_consumers(ctx, block):
    """The blocks that read what a block writes."""
    return Result(ctx.func, _names(neighbours(ctx.index, ctx.scope(block, "'block'"), block)[1]))


@primitive(BLOCKS, pure=True, scope_block=BLOCK)
def get_output_blocks(ctx, scope_block):
    """The blocks inside a block, however deep, that write buffers which live longer than it; outer ones first."""
    own, found = set(scope_block.block.alloc_buffers), []

    def enter(stmt):
        for below in blocks_below(stmt):
            own.update(below.block.alloc_buffers)
            if not own.issuperset(w.buffer for w in below.block.writes):
                found.append(below)
            enter(below.block.body)

    enter(scope_block.block.body)
    return Result(ctx.func, _names(found))
