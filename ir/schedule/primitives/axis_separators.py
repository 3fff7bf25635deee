"""set_axis_separator: which dimensions of a buffer make up an axis of physical memory."""
from __future__ import annotations

from ...node import Mutator
from ..registry import BLOCK, BUFFER_REF, INTS, Result, primitive
from ..signature import choose_ref


@primitive(None, block=BLOCK, buffer=BUFFER_REF, axis_separators=INTS)
def set_axis_separator(ctx, block, buffer, axis_separators):
    """Divide the dimensions of a buffer that a block reads or writes, for memories of several axes: FlattenBuffer makes
    one dimension of those between separators.

    buffer: its name, ("read", n) or ("write", n). axis_separators: the dimensions before which an axis begins, none
    less than the one before. Nothing else of the program changes, and flat memories are as before. Requires a buffer
    that is a parameter or that a block allocates. One that matches a part of it has the same separators; one of another
    rank has all its dimensions on the last axis.
    """
    old = choose_ref(ctx, block, buffer, "'buffer'")
    new = _divided(ctx, old, axis_separators)
    params = {handle: new if b is old else b for handle, b in ctx.func.buffer_map.items()}
    if ctx.index.owner(old) is None and not any(b is old for b in ctx.func.buffer_map.values()):
        ctx.refuse("'buffer'", f"{old.name} is a part of another buffer",
                   "set the separators of the buffer that a block allocates, or of the parameter", [block])
    return Result(ctx.func.replace(body=_Divide(ctx, {old: new}).visit(ctx.func.body), buffer_map=params))


def _divided(ctx, buffer, separators):
    try:
        return buffer.replace(axis_separators=tuple(separators))
    except ValueError as why:
        return ctx.refuse("'axis_separators'", str(why), "")


class _Divide(Mutator):
    """Puts a buffer with other separators in the place of one; buffers matched with parts of it follow."""

    def __init__(self, ctx, new):
        self.ctx, self.new = ctx, new

    def visit_Buffer(self, buffer):
        return self.new.get(buffer, buffer)

    def visit_Block(self, block):
        for match in block.match_buffers:
            source = self.new.get(match.source.buffer)
            if source is not None:
                rank, separators = len(match.buffer.shape), source.axis_separators
                same = rank == len(source.shape)
                self.new[match.buffer] = _divided(self.ctx, match.buffer, separators if same else [0] * len(separators))
        return self.generic_visit(block)
