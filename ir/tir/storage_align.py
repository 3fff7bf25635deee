"""Strides with room between rows, where storage_align asked for it in the annotation "buffer_dim_align" of a block."""
from __future__ import annotations

from ..expr import const
from ..node import collect
from .hints import DIM_ALIGN
from .stmt import Block


def alignments(body):
    """{buffer: {axis: (factor, offset)}} from the annotations of all blocks. Raises ValueError for a malformed one."""
    found = {}
    for block in collect(body, Block):
        entries = block.annotations.get(DIM_ALIGN, ())
        for entry in entries if isinstance(entries, (tuple, list)) else (entries,):
            try:
                position, axis, factor, offset = map(int, entry)
                buffer = block.writes[position].buffer
                if factor < 1 or not 0 <= axis < len(buffer.shape):
                    raise IndexError
            except (TypeError, ValueError, IndexError):
                raise ValueError(f"block {block.name_hint}: annotation {DIM_ALIGN!r} holds {entry!r}; it must be "
                                 "(position among the writes, axis, positive factor, offset)") from None
            found.setdefault(buffer, {})[axis] = factor, offset
    return found


def aligned_strides(shape, wanted):
    """Row-major strides, that of each axis of `wanted` the least that leaves `offset` over when divided by `factor`."""
    strides, step = [], const(1)
    for axis in reversed(range(len(shape))):
        if axis in wanted:
            factor, offset = wanted[axis]
            step = step + (factor + offset - step % factor) % factor
        strides.append(step)
        step = step * shape[axis]
    return tuple(reversed(strides))
