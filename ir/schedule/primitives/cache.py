"""cache_read, cache_write and cache_inplace: go through a copy in other memory."""
from __future__ import annotations

from ...expr import IterVar, Range, Var, const
from ...tir.buffer import decl_buffer
from ...tir.stmt import Block, BlockRealize, BufferLoad, BufferRegion, BufferStore, seq
from ..blocks import buffers_of, name_of, require_pure, uses
from ..context import analyzer_of, is_unit
from ..dependence import common_loops, own_work, require_inputs_ready
from ..index import blocks_below
from ..legality import require_kinds, require_still_legal
from ..nest import build_nest, children_of, insert, position_of
from ..regions import Relaxed, holds, touched_box, whole, written_box
from ..registry import BLOCK, BLOCKS, BUFFER, STR, Result, primitive
from ..signature import (choose, domain_analyzer, only_indexes, redirect, require_memory,
                         require_plain_pointers)


@primitive(BLOCK, block=BLOCK, read_buffer_index=BUFFER, storage_scope=STR, consumer_blocks=BLOCKS)
def cache_read(ctx, block, read_buffer_index, storage_scope, consumer_blocks=None):
    """Copy a buffer that a block reads into a new buffer, and let the block read that; returns the copying block.

    The copy is named <buffer>_<scope>. It stands before the first consumer, after the buffer's producer and in the
    loops that they share, or first of all where there is none, under a loop per dimension; compute_at then moves it
    inward. Inside another block it is no larger than what is read there. consumer_blocks: who reads the copy (default:
    all blocks that read the buffer, as in TVM).
    """
    scope = ctx.scope(block, "'block'")
    require_memory(ctx, storage_scope, block)
    buffer = choose(ctx, block, read_buffer_index, "reads", "'read_buffer_index'")
    consumers = _cached_readers(ctx, scope, block, buffer, consumer_blocks)
    require_plain_pointers(ctx, consumers, buffer, "'read_buffer_index'")
    writers = ctx.index.writers(buffer, scope)
    writers = [w for w in writers if not _comes_after(ctx, w, consumers)]
    for writer in writers:
        if ctx.index.order[writer] >= ctx.index.order[consumers[0]]:
            ctx.refuse("'read_buffer_index'", f"block {name_of(writer)} writes {buffer.name} at or after a consumer",
                       "a copy would not follow the change", [writer, *consumers])
    parent, boxes = _box_before(ctx, scope, buffer, writers, consumers)
    part = _own_part(scope, parent, boxes, buffer, consumers)
    cached, copy = _copy_of(ctx, buffer, storage_scope, part=part)
    nest = build_nest(copy, {} if part else _by_iterator(copy, boxes), _analyzer_at(ctx, scope, parent),
                      preserve_unit_loops=True)
    position, origin = position_of(parent, consumers[0]) if writers else 0, part and [r.min for r in part]
    changes = {c: c.replace(block=redirect(c.block, buffer, cached, False, origin)) for c in consumers}
    after = _with_copy(ctx, scope, changes, parent, position, nest, cached)
    copied = after.index.blocks[name_of(copy)]
    if not all(ctx.index.is_below(c, parent) for c in consumers):
        for consumer in consumers:
            if not _makes_all(after, copied, after.index.blocks[name_of(consumer)], cached):
                ctx.refuse("'block'", f"block {name_of(consumer)} may read elements of {buffer.name} that no turn of loop "
                           f"{parent.loop_var.name} copies", "name consumer_blocks in the loops of its producer",
                           [consumer, *writers])
        require_still_legal(after, copied, "'block'")
    elif writers:
        require_inputs_ready(after, copied, "'block'")
    return Result(after.func, (name_of(copy),))


@primitive(BLOCK, block=BLOCK, write_buffer_index=BUFFER, storage_scope=STR, consumer_blocks=BLOCKS)
def cache_write(ctx, block, write_buffer_index, storage_scope, consumer_blocks=None):
    """Let a block write a new buffer, which a new block then copies to the original; returns the copying block.

    The new buffer is named <buffer>_<scope>. The copy stands before the first reader of the buffer, in the loops that
    the block shares with it, or last of all where there is none, under a loop per dimension. Inside another block the
    new buffer is no larger than what is written there. consumer_blocks: readers that shall read the new buffer (default: none).
    """
    scope = ctx.scope(block, "'block'")
    require_memory(ctx, storage_scope, block)
    require_pure(ctx, scope, block, "'block'", in_place=True, made=own_work(ctx.index, block))
    buffer = choose(ctx, block, write_buffer_index, "writes", "'write_buffer_index'")
    require_plain_pointers(ctx, (block, *(consumer_blocks or ())), buffer, "'write_buffer_index'")
    readers = [r for r in ctx.index.readers(buffer, scope) if r is not block and r not in (consumer_blocks or ())]
    shared = max((common_loops(ctx.index, block, reader) for reader in readers), key=len, default=[])
    parent = shared[-1] if shared else scope
    analyzer = analyzer_of(shared)
    inner = ctx.index.loops_above(block)[len(shared):]
    box = touched_box([Relaxed(analyzer, inner)], [block], buffer, ("writes",))
    written = written_box(analyzer, block, buffer, inner)
    if written is None or not holds(analyzer, written, box, buffer.shape):
        ctx.refuse("'write_buffer_index'", f"block {name_of(block)} is not proved to write every element of a box of "
                   f"{buffer.name}", "the copy would overwrite elements that the block leaves alone", [block])
    part = _own_part(scope, parent, box, buffer, (block, *(consumer_blocks or ())))
    cached, copy = _copy_of(ctx, buffer, storage_scope, reverse=True, part=part)
    nest = build_nest(copy, {} if part else _by_iterator(copy, box), analyzer, preserve_unit_loops=True, exact=True)
    position, origin = _before_readers(ctx, parent, block, readers), part and [r.min for r in part]
    changes = {block: block.replace(block=redirect(block.block, buffer, cached, origin=origin))}
    for consumer in consumer_blocks or ():
        _require_made_by(ctx, scope, block, consumer, buffer)
        changes[consumer] = consumer.replace(block=redirect(consumer.block, buffer, cached, False, origin))
    after = _with_copy(ctx, scope, changes, parent, position, nest, cached)
    require_still_legal(after, after.index.blocks[name_of(copy)], "'block'")
    for consumer in consumer_blocks or ():
        require_inputs_ready(after, after.index.blocks[name_of(consumer)], "'consumer_blocks'")
    return Result(after.func, (name_of(copy),))


@primitive(BLOCKS, block=BLOCK, read_buffer_index=BUFFER, storage_scope=STR)
def cache_inplace(ctx, block, read_buffer_index, storage_scope):
    """Let a block that reads and writes one buffer work on a copy: what it touches is copied in before it, in its
    innermost loop, and what it writes back after it; returns both copying blocks.

    The copy is named <buffer>_<scope>.
    """
    scope = ctx.scope(block, "'block'")
    require_memory(ctx, storage_scope, block)
    buffer = choose(ctx, block, read_buffer_index, "reads", "'read_buffer_index'")
    if buffer not in buffers_of(block.block.writes):
        ctx.refuse("'read_buffer_index'", f"block {name_of(block)} does not write {buffer.name}", "use cache_read",
                   [block])
    require_plain_pointers(ctx, [block], buffer, "'read_buffer_index'")
    loops = ctx.index.loops_above(block)
    analyzer = analyzer_of(loops)
    cached, copy_in = _copy_of(ctx, buffer, storage_scope)
    name = ctx.new_block_name(f"{buffer.name}_{storage_scope}_back")
    nests = [build_nest(copy, _by_iterator(copy, touched_box([Relaxed(analyzer, [])], [block], buffer, kinds)), analyzer,
                        preserve_unit_loops=True, exact=True)
             for copy, kinds in ((copy_in, ("reads", "writes")), (_copying(cached, buffer, name), ("writes",)))]
    moved = block.replace(block=redirect(block.block, buffer, cached))
    after = ctx.with_func(ctx.index.rewrite({block: seq(nests[0], moved, nests[1])},
                                            {scope: scope.block.alloc_buffers + (cached,)}))
    require_kinds(after, loops, "'block'")
    return Result(after.func, (name_of(copy_in), name))


def _before_readers(ctx, parent, block, readers):
    """The position, among the statements of a loop or scope, of a copy of what a block writes: before the first of its
    readers there, behind all where no one reads it."""
    later = [r for r in readers if ctx.index.order[r] > ctx.index.order[block]]
    here = [n for n, child in enumerate(children_of(parent)) if any(r in later for r in blocks_below(child))]
    behind = 1 + position_of(parent, block) if readers else len(children_of(parent))
    return max(behind, here[0]) if here else behind


def _copying(source, target, name, part=None, back=False):
    """The unbound realize of a block that copies one buffer to another of the same shape; part: the Ranges of the
    target when `back`, else of the source, that the other buffer is."""
    iters = tuple(IterVar(whole(extent), Var(f"v{i}", extent.dtype), "spatial")
                  for i, extent in enumerate((source if back else target).shape))
    own = tuple(iv.var for iv in iters)
    there = tuple(r.min + v for r, v in zip(part, own)) if part else own
    at, to = (own, there) if back else (there, own)
    reads, writes = (BufferRegion(b, tuple(Range(i, const(1, i.dtype)) for i in indices))
                     for b, indices in ((source, at), (target, to)))
    block = Block(iters, (reads,), (writes,), name, (), (), {}, None, BufferStore(target, BufferLoad(source, at), to))
    return BlockRealize(own, const(True), block)


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


def _comes_after(ctx, writer, consumers):
    """Whether a writer runs when all consumers have read what they read: behind them, in loops that share no turns."""
    return ctx.index.order[writer] > max(ctx.index.order[c] for c in consumers) and all(
        is_unit(loop) for c in consumers for loop in common_loops(ctx.index, writer, c))


def _require_made_by(ctx, scope, block, consumer, buffer):
    """Refuse unless a consumer reads of a buffer only what a block writes."""
    if consumer is block or consumer not in ctx.index.readers(buffer, scope):
        ctx.refuse("'consumer_blocks'", f"block {name_of(consumer)} does not read what block {name_of(block)} writes "
                   f"of {buffer.name}", "name readers of the buffer", [consumer])
    if not _makes_all(ctx, block, consumer, buffer):
        ctx.refuse("'consumer_blocks'", f"block {name_of(consumer)} may read elements of {buffer.name} that block "
                   f"{name_of(block)} does not write", "let it read the copy", [consumer, block])


def _makes_all(ctx, maker, consumer, buffer):
    """Whether a block writes, within a turn of the loops that it shares with a consumer, all that this reads there."""
    common = common_loops(ctx.index, maker, consumer)
    analyzer = analyzer_of(common)
    loops = [ctx.index.loops_above(b)[len(common):] for b in (maker, consumer)]
    written = written_box(analyzer, maker, buffer, loops[0])
    needed = touched_box([Relaxed(analyzer, loops[1])], [consumer], buffer, ("reads",))
    return written is not None and holds(analyzer, written, needed, buffer.shape)


def _copy_of(ctx, buffer, storage_scope, reverse=False, part=None):
    """(cache buffer, unbound realize of the copying block): buffer -> cache, or back when reversed. part: the Ranges of
    the buffer that are cached (default: all of it)."""
    name = ctx.new_block_name(f"{buffer.name}_{storage_scope}")
    shape = [r.extent for r in part] if part else buffer.shape
    cached = decl_buffer(shape, buffer.dtype, name, storage_scope, data_alignment=buffer.data_alignment)
    source, target = (cached, buffer) if reverse else (buffer, cached)
    return cached, _copying(source, target, name, part, reverse)


def _by_iterator(copy, boxes):
    """{iterator Var of a copying block: the Range that it covers}."""
    return dict(zip((iv.var for iv in copy.block.iter_vars), boxes))


def _own_part(scope, parent, box, buffer, blocks):
    """The box that a copy at the top of a block inside others is of, where it is a part of the buffer, of one size in
    all instances, that `blocks` index; None where the copy has the buffer's shape."""
    analyzer, around = domain_analyzer(scope.block), {iv.var for iv in scope.block.iter_vars}
    inside = parent is scope and around and box and all(
        not uses(r.extent, around) and analyzer.can_prove(r.min >= 0)
        and analyzer.can_prove_less_equal(r.min + r.extent, extent) for r, extent in zip(box, buffer.shape))
    return box if inside and all(only_indexes(b.block, buffer) for b in blocks) else None


def _box_before(ctx, scope, buffer, writers, consumers):
    """(parent, Ranges) of a copy between the writers of a buffer and its consumers: the loop or scope that holds it,
    and what is read there, or written where some consumers are outside of it; no Ranges for all of the buffer."""
    shared = ctx.index.loops_above(consumers[0]) if writers else []
    for writer in writers:
        common = common_loops(ctx.index, consumers[0], writer)
        shared = shared if len(common) >= len(shared) else common
    if not shared and ctx.index.scope(scope) is None:
        return scope, ()  # a copy of the whole buffer, which later moves find easier
    analyzer, blocks, regions = analyzer_of(shared), consumers, ("reads",)
    if any(len(common_loops(ctx.index, consumers[0], c)) < len(shared) for c in consumers):
        blocks, regions = writers, ("writes",)  # each turn copies what it makes, for those behind the loops as well
    relaxed = [Relaxed(analyzer, ctx.index.loops_above(b)[len(shared):]) for b in blocks]
    return shared[-1] if shared else scope, touched_box(relaxed, blocks, buffer, regions)


def _analyzer_at(ctx, scope, parent):
    """An Analyzer that knows the loops down to the one, or the scope, that holds a copy."""
    return analyzer_of([] if parent is scope else [*ctx.index.loops_above(parent), parent])


def _with_copy(ctx, scope, changes, parent, position, nest, cached):
    """The context after applying the redirections and putting the copy in place."""
    redirected = ctx.with_func(ctx.index.rewrite(changes, {scope: scope.block.alloc_buffers + (cached,)}))
    if parent is scope:
        parent = redirected.index.blocks[name_of(scope)]
    else:
        parent = redirected.index.loops[parent.loop_var]
    return ctx.with_func(insert(redirected, parent, nest, position))
