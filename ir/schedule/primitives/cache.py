"""cache_read, cache_write and cache_inplace: go through a copy in other memory."""
from __future__ import annotations

from ...expr import IterVar, Range, Var, const
from ...tir.buffer import decl_buffer
from ...tir.stmt import Block, BlockRealize, BufferLoad, BufferRegion, BufferStore, seq
from ..blocks import buffers_of, name_of, require_pure
from ..context import analyzer_of
from ..dependence import common_loops, require_inputs_ready
from ..legality import require_still_legal
from ..nest import build_nest, insert, position_of
from ..regions import Relaxed, holds, touched_box, whole, written_box
from ..registry import BLOCK, BLOCKS, BUFFER, STR, Result, primitive
from ..signature import choose, redirect, require_memory


@primitive(BLOCK, block=BLOCK, read_buffer_index=BUFFER, storage_scope=STR, consumer_blocks=BLOCKS)
def cache_read(ctx, block, read_buffer_index, storage_scope, consumer_blocks=None):
    """Copy a buffer that a block reads into a new buffer, and let the block read that; returns the copying block.

    The copy is named <buffer>_<scope>. It stands before the first consumer, after the buffer's producer and in the
    loops that they share, under a loop per dimension; compute_at then moves it inward. consumer_blocks: who reads the
    copy (default: all blocks that read the buffer, as in TVM).
    """
    scope = ctx.scope(block, "'block'")
    require_memory(ctx, storage_scope, block)
    buffer = choose(ctx, block, read_buffer_index, "reads", "'read_buffer_index'")
    consumers = _cached_readers(ctx, scope, block, buffer, consumer_blocks)
    writers = ctx.index.writers(buffer, scope)
    for writer in writers:
        if ctx.index.order[writer] >= ctx.index.order[consumers[0]]:
            ctx.refuse("'read_buffer_index'", f"block {name_of(writer)} writes {buffer.name} at or after a consumer",
                       "a copy would not follow the change", [writer, *consumers])
    cached, copy = _copy_of(ctx, buffer, storage_scope)
    nest, parent, position = _copy_before(ctx, scope, buffer, copy, writers, consumers)
    changes = {c: c.replace(block=redirect(c.block, buffer, cached, stores=False)) for c in consumers}
    after = _with_copy(ctx, scope, changes, parent, position, nest, cached)
    require_inputs_ready(after, after.index.blocks[name_of(copy)], "'block'")
    return Result(after.func, (name_of(copy),))


@primitive(BLOCK, block=BLOCK, write_buffer_index=BUFFER, storage_scope=STR, consumer_blocks=BLOCKS)
def cache_write(ctx, block, write_buffer_index, storage_scope, consumer_blocks=None):
    """Let a block write a new buffer, which a new block then copies to the original; returns the copying block.

    The new buffer is named <buffer>_<scope>. The copy stands after the block, in the loops that it shares with the
    first reader of the buffer, under a loop per dimension. consumer_blocks: readers that shall read the new buffer
    (default: none).
    """
    scope = ctx.scope(block, "'block'")
    require_memory(ctx, storage_scope, block)
    require_pure(ctx, scope, block, "'block'")
    buffer = choose(ctx, block, write_buffer_index, "writes", "'write_buffer_index'")
    readers = [r for r in ctx.index.readers(buffer, scope) if r is not block]
    cached, copy = _copy_of(ctx, buffer, storage_scope, reverse=True)
    shared = ctx.index.loops_above(block)
    for reader in readers:
        common = common_loops(ctx.index, block, reader)
        shared = shared if len(common) >= len(shared) else common
    shared = shared if readers else []
    parent = shared[-1] if shared else scope
    analyzer = analyzer_of(shared)
    inner = ctx.index.loops_above(block)[len(shared):]
    box = touched_box([Relaxed(analyzer, inner)], [block], buffer, ("writes",))
    written = written_box(analyzer, block, buffer, inner)
    if written is None or not holds(analyzer, written, box, buffer.shape):
        ctx.refuse("'write_buffer_index'", f"block {name_of(block)} is not proved to write every element of a box of "
                   f"{buffer.name}", "the copy would overwrite elements that the block leaves alone", [block])
    nest = build_nest(copy, dict(zip((iv.var for iv in copy.block.iter_vars), box)), analyzer, preserve_unit_loops=True,
                      exact=True)
    position = 1 + position_of(parent, block)
    changes = {block: block.replace(block=redirect(block.block, buffer, cached))}
    for consumer in consumer_blocks or ():
        _require_made_by(ctx, scope, block, consumer, buffer)
        changes[consumer] = consumer.replace(block=redirect(consumer.block, buffer, cached, stores=False))
    after = _with_copy(ctx, scope, changes, parent, position, nest, cached)
    require_still_legal(after, after.index.blocks[name_of(copy)], "'block'")
    for consumer in consumer_blocks or ():
        require_inputs_ready(after, after.index.blocks[name_of(consumer)], "'consumer_blocks'")
    return Result(after.func, (name_of(copy),))


@primitive(BLOCKS, block=BLOCK, read_buffer_index=BUFFER, storage_scope=STR)
def cache_inplace(ctx, block, read_buffer_index, storage_scope):
    """Let a block that reads and writes one buffer work on a copy: it is copied in before the outermost loop of the
    block, and back after it; returns both copying blocks.

    The copy is named <buffer>_<scope>. Requires that the block is alone to touch the buffer in its loops.
    """
    scope = ctx.scope(block, "'block'")
    require_memory(ctx, storage_scope, block)
    buffer = choose(ctx, block, read_buffer_index, "reads", "'read_buffer_index'")
    if buffer not in buffers_of(block.block.writes):
        ctx.refuse("'read_buffer_index'", f"block {name_of(block)} does not write {buffer.name}", "use cache_read",
                   [block])
    loops = ctx.index.loops_above(block)
    for other in (*ctx.index.readers(buffer, scope), *ctx.index.writers(buffer, scope)):
        if other is not block and common_loops(ctx.index, other, block):
            ctx.refuse("'block'", f"block {name_of(other)} touches {buffer.name} in the same loops",
                       "move it out of them first", [block, other])
    analyzer = analyzer_of([])
    box = touched_box([Relaxed(analyzer, loops)], [block], buffer, ("reads", "writes"))
    cached, copy_in = _copy_of(ctx, buffer, storage_scope)
    name = ctx.new_block_name(f"{buffer.name}_{storage_scope}_back")
    back = _copying(cached, buffer, name)
    nests = [build_nest(c, dict(zip((iv.var for iv in c.block.iter_vars), box)), analyzer, preserve_unit_loops=True)
             for c in (copy_in, back)]
    moved = ctx.with_func(ctx.index.rewrite({block: block.replace(block=redirect(block.block, buffer, cached))},
                                            {scope: scope.block.alloc_buffers + (cached,)}))
    realize = moved.index.blocks[name_of(block)]
    top = moved.index.loops_above(realize)[0] if loops else realize
    func = moved.index.rewrite({top: seq(nests[0], top, nests[1])})
    return Result(func, (name_of(copy_in), name))


def _copying(source, target, name):
    """The unbound realize of a block that copies one buffer to another of the same shape."""
    iters = tuple(IterVar(whole(extent), Var(f"v{i}", extent.dtype), "spatial")
                  for i, extent in enumerate(source.shape))
    indices = tuple(iv.var for iv in iters)
    point = tuple(Range(i, const(1, i.dtype)) for i in indices)
    block = Block(iters, (BufferRegion(source, point),), (BufferRegion(target, point),), name, (), (), {}, None,
                  BufferStore(target, BufferLoad(source, indices), indices))
    return BlockRealize(indices, const(True), block)


def _cached_readers(ctx, scope, block, buffer, consumer_blocks):
    writers = ctx.index.writers(buffer, scope)
    readers = [r for r in ctx.index.readers(buffer, scope) if r not in writers]
    if consumer_blocks is None and block in readers:
        return readers
    chosen = sorted(consumer_blocks or [block], key=ctx.index.order.get)
    for consumer in chosen:
        if consumer not in readers:
            ctx.refuse("'consumer_blocks'", f"block {name_of(consumer)} does not read {buffer.name}, or also writes it",
                       "a consumer must only read it", [consumer])
    return chosen


def _require_made_by(ctx, scope, block, consumer, buffer):
    """Refuse unless a consumer reads of a buffer only what a block writes."""
    if consumer is block or consumer not in ctx.index.readers(buffer, scope):
        ctx.refuse("'consumer_blocks'", f"block {name_of(consumer)} does not read what block {name_of(block)} writes "
                   f"of {buffer.name}", "name readers of the buffer", [consumer])
    common = common_loops(ctx.index, block, consumer)
    analyzer = analyzer_of(common)
    loops = [ctx.index.loops_above(b)[len(common):] for b in (block, consumer)]
    written = written_box(analyzer, block, buffer, loops[0])
    needed = touched_box([Relaxed(analyzer, loops[1])], [consumer], buffer, ("reads",))
    if not holds(analyzer, written, needed, buffer.shape):
        ctx.refuse("'consumer_blocks'", f"block {name_of(consumer)} may read elements of {buffer.name} that block "
                   f"{name_of(block)} does not write", "let it read the copy", [consumer, block])


def _copy_of(ctx, buffer, storage_scope, reverse=False):
    """(cache buffer, unbound realize of the copying block): buffer -> cache, or back when reversed."""
    name = ctx.new_block_name(f"{buffer.name}_{storage_scope}")
    cached = decl_buffer(buffer.shape, buffer.dtype, name, storage_scope, data_alignment=buffer.data_alignment)
    source, target = (cached, buffer) if reverse else (buffer, cached)
    return cached, _copying(source, target, name)


def _copy_before(ctx, scope, buffer, copy, writers, consumers):
    """(nest, parent, position) of a copy between the writers of a buffer and its consumers."""
    shared = ctx.index.loops_above(consumers[0])
    for other in [*consumers[1:], *writers]:
        common = common_loops(ctx.index, consumers[0], other)
        shared = shared if len(common) >= len(shared) else common
    if not writers:
        shared = []
    parent = shared[-1] if shared else scope
    analyzer = analyzer_of(shared)
    boxes = {}
    if shared or scope.block.iter_vars:  # else a copy of the whole buffer, which later moves find easier
        relaxed = [Relaxed(analyzer, ctx.index.loops_above(c)[len(shared):]) for c in consumers]
        box = touched_box(relaxed, consumers, buffer, ("reads",))
        boxes = dict(zip((iv.var for iv in copy.block.iter_vars), box))
    return build_nest(copy, boxes, analyzer, preserve_unit_loops=True), parent, position_of(parent, consumers[0])


def _with_copy(ctx, scope, changes, parent, position, nest, cached):
    """The context after applying the redirections and putting the copy in place."""
    redirected = ctx.with_func(ctx.index.rewrite(changes, {scope: scope.block.alloc_buffers + (cached,)}))
    if parent is scope:
        parent = redirected.index.blocks[name_of(scope)]
    else:
        parent = redirected.index.loops[parent.loop_var]
    return ctx.with_func(insert(redirected, parent, nest, position))
