"""annotate, unannotate and set_scope: facts about loops, blocks and buffers."""
from __future__ import annotations

from ...tir.hints import check_hints
from ...tir.stmt import BlockRealize
from ..registry import BLOCK, BUFFER, PLACE, STR, VALUE, Result, primitive
from ..signature import choose, redirect, require_memory


@primitive(None, block_or_loop=PLACE, ann_key=STR, ann_val=VALUE)
def annotate(ctx, block_or_loop, ann_key, ann_val):
    """Attach ann_key: ann_val to a block or loop; later passes and rules read it. A hint (tir/hints.py) has a value of
    its type."""
    try:
        check_hints({ann_key: ann_val})
    except TypeError as error:
        ctx.refuse("'ann_val'", str(error), f"write such a value of {ann_key}, or another key", [block_or_loop])
    return _annotated(ctx, block_or_loop, {**_annotations(block_or_loop), ann_key: ann_val})


@primitive(None, block_or_loop=PLACE, ann_key=STR)
def unannotate(ctx, block_or_loop, ann_key):
    """Take an annotation away. Requires that it is there."""
    known = _annotations(block_or_loop)
    if ann_key not in known:
        ctx.refuse("'ann_key'", f"there is no annotation {ann_key!r}", f"there are {sorted(known) or 'none'}",
                   [block_or_loop])
    return _annotated(ctx, block_or_loop, {k: v for k, v in known.items() if k != ann_key})


def _annotations(place):
    return place.block.annotations if isinstance(place, BlockRealize) else place.annotations


def _annotated(ctx, place, annotations):
    if isinstance(place, BlockRealize):
        new = place.replace(block=place.block.replace(annotations=annotations))
    else:
        new = place.replace(annotations=annotations)
    return Result(ctx.index.rewrite({place: new}))


@primitive(None, block=BLOCK, buffer_index=BUFFER, storage_scope=STR)
def set_scope(ctx, block, buffer_index, storage_scope):
    """Keep the buffer that a block writes (by position among its writes) in another kind of memory, such as "local";
    it is named <buffer>_<scope> then.

    Requires a buffer that the function allocates.
    """
    require_memory(ctx, storage_scope, block)
    buffer = choose(ctx, block, buffer_index, "writes", "'buffer_index'")
    if ctx.index.owner(buffer) is None:
        ctx.refuse("'buffer_index'", f"buffer {buffer.name} is a parameter, whose memory is the caller's",
                   "use cache_write to compute it in other memory first", [block])
    if buffer.scope == storage_scope:
        return Result(ctx.func)
    owner, scope = ctx.index.owner(buffer), ctx.scope(block, "'block'")
    new = buffer.replace(scope=storage_scope, name=f"{buffer.name}_{storage_scope}")
    if owner is not scope:
        ctx.refuse("'buffer_index'", f"buffer {buffer.name} is not allocated directly around the block",
                   f"set its scope from a block inside {owner.block.name_hint}", [block])
    users = {*ctx.index.readers(buffer, scope), *ctx.index.writers(buffer, scope)}
    allocs = tuple(new if b is buffer else b for b in owner.block.alloc_buffers)
    changes = {b: b.replace(block=redirect(b.block, buffer, new)) for b in users}
    return Result(ctx.index.rewrite(changes, {owner: allocs}))
