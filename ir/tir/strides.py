"""PrimFuncs over tensors whose rows lie apart in memory."""
from __future__ import annotations

from ..expr import IntImm, const
from .buffer import substitute_buffers


def with_strides(func, strides):
    """`func` with strides (in elements, () for row-major) for its first buffers, in order of its parameters."""
    moved = {}
    for buffer, given in zip(func.buffers, strides):
        if given and len(given) != len(buffer.shape):
            raise ValueError(f"buffer {buffer.name} has {len(buffer.shape)} dimensions, its tensor {len(given)}, whose "
                             "rows lie apart in memory: use copy first")
        if given:
            moved[buffer] = buffer.replace(strides=tuple(map(_stride, given)))
    if not moved:
        return func
    return func.replace(buffer_map={p: moved.get(b, b) for p, b in func.buffer_map.items()},
                        body=substitute_buffers(func.body, moved))


def _stride(value):
    """A stride as buffers have them: int32 when it is a number that fits."""
    return const(value.value, "int32") if isinstance(value, IntImm) and value.value < 1 << 31 else value


__all__ = ["with_strides"]
