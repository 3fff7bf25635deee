"""PrimFuncs over tensors whose rows lie apart in memory."""
from __future__ import annotations

from ..expr import IntImm, const
from ..node import Mutator


def with_strides(func, strides):
    """`func` with strides (in elements, () for row-major) for its first buffers, in order of its parameters."""
    moved = {}
    for buffer, given in zip(func.buffers, strides):
        if given and len(given) != len(buffer.shape):
            raise ValueError(f"buffer {buffer.name} has {len(buffer.shape)} dimensions, its tensor {len(given)}, whose "
                             "rows lie apart in memory: use copy first")
        if given:
            moved[id(buffer)] = buffer.replace(strides=tuple(map(_stride, given)))
    if not moved:
        return func
    rewrite = _Move(moved)
    return func.replace(buffer_map={p: rewrite.visit(b) for p, b in func.buffer_map.items()},
                        body=rewrite.visit(func.body))


def _stride(value):
    """A stride as buffers have them: int32 when it is a number that fits."""
    return const(value.value, "int32") if isinstance(value, IntImm) and value.value < 1 << 31 else value


class _Move(Mutator):
    def __init__(self, moved):
        self.moved = moved

    def visit_Buffer(self, b):
        return self.moved.get(id(b), b)


__all__ = ["with_strides"]
