"""storage_align: leave room between the rows of a buffer."""
from __future__ import annotations

from ...tir.hints import DIM_ALIGN
from ..blocks import name_of
from ..registry import BLOCK, BUFFER, INT, Result, primitive
from ..signature import choose


@primitive(None, block=BLOCK, buffer_index=BUFFER, axis=INT, factor=INT, offset=INT)
def storage_align(ctx, block, buffer_index, axis, factor, offset):
    """Let the stride of a dimension of a buffer that a block writes be k * factor + offset for the least possible k.

    buffer_index: its position among the writes. axis: the dimension; negative counts from the end. Kept as annotation
    "buffer_dim_align" of the block, which lowering honours once it knows how large the buffer is.

    Requires a buffer that the function allocates, a positive factor, and an offset from 0 to below it.
    """
    buffer = choose(ctx, block, buffer_index, "writes", "'buffer_index'")
    if ctx.index.owner(buffer) is None:
        ctx.refuse("'buffer_index'", f"buffer {buffer.name} is a parameter, whose layout is the caller's",
                   "use cache_write to compute it in memory of its own first", [block])
    rank = len(buffer.shape)
    if not -rank <= axis < rank:
        ctx.refuse("'axis'", f"{axis} is no dimension of buffer {buffer.name}, which has {rank}",
                   "negative ones count from the end", [block])
    if factor < 1:
        ctx.refuse("'factor'", f"{factor} is not positive", "give the multiple to align to", [block])
    if not 0 <= offset < factor:
        ctx.refuse("'offset'", f"{offset} is not between 0 and {factor - 1}, what a stride can leave over by {factor}",
                   "", [block])
    position = [r.buffer for r in block.block.writes].index(buffer)
    known = block.block.annotations.get(DIM_ALIGN, ())
    if not isinstance(known, (tuple, list)) or not all(
            isinstance(entry, (tuple, list)) and len(entry) == 4 for entry in known):
        ctx.refuse("'block'", f"the annotation {DIM_ALIGN!r} of block {name_of(block)} is {known!r}",
                   "it must list (position, axis, factor, offset)", [block])
    axis %= rank
    kept = tuple(tuple(entry) for entry in known if tuple(entry[:2]) != (position, axis))
    annotations = {**block.block.annotations, DIM_ALIGN: (*kept, (position, axis, factor, offset))}
    return Result(ctx.index.rewrite({block: block.replace(block=block.block.replace(annotations=annotations))}))


def unaligned(annotations):
    """The annotations of a block that comes to write a buffer of other dimensions."""
    return {k: v for k, v in annotations.items() if k != DIM_ALIGN}
