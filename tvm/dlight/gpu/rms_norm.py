"""RMSNorm: rows divided by the root of the mean of their squares."""
from __future__ import annotations

from ....ir.expr import Call, Cast
from ....ir.tir.stmt import BufferLoad, BufferStore
from .base import Steps

_THREADS = {"cuda": 512, "opencl": 256}
_PART = 8  # elements that a thread reads and writes together


class RMSNorm(Steps):
    """A block of threads a row. What a thread read stays in its registers, from the squares to the result."""

    names = ("stepwise", "rows")

    def steps(self, sch, target):
        blocks = sch.get_child_blocks(sch.get_block("root"))
        if not any(_is_rsqrt(sch.get(b)) for b in blocks):
            return None
        read, write = sch.cache_read(blocks[0], 0, "local"), sch.cache_write(blocks[-1], 0, "local")
        left = []
        for block in blocks:
            if _copies(sch.get(block)):
                sch.compute_inline(block)
            else:
                left.append(block)
        if len(left) != 4 or not _is_rsqrt(sch.get(left[2])):
            return None
        square, total, root, norm = left
        for block in (read, square, total, root, norm, write):
            sch.fuse(*sch.get_loops(block)[:-1])
        row, thread, vector = self._shared(sch, read, target)
        sch.bind(row, "blockIdx.x")
        sch.bind(thread, "threadIdx.x")
        sch.vectorize(vector)
        sch.reverse_compute_at(square, thread)
        sch.reverse_compute_at(total, thread)
        sch.reverse_compute_at(root, row)
        sch.reverse_compute_at(norm, row)
        _, thread, _ = self._shared(sch, norm, target)
        sch.bind(thread, "threadIdx.x")
        sch.reverse_compute_at(write, thread)
        sch.vectorize(sch.get_loops(write)[-1])
        for block, scope in ((square, "local"), (total, "local"), (root, "shared"), (norm, "local")):
            sch.set_scope(block, 0, scope)
        return sch

    @staticmethod
    def _shared(sch, block, target):
        """(the loop over rows, that over threads, that over a thread's part) of a block."""
        row, elements = sch.get_loops(block)
        thread, _, part = sch.split(elements, [_THREADS.get(target.kind.name, 64), None, _PART])
        return row, thread, part


def _copies(block):
    """Whether a block stores what it loads at the same place, maybe in another dtype."""
    store = block.body
    value = getattr(store, "value", None)
    value = value.value if isinstance(value, Cast) else value
    return isinstance(store, BufferStore) and isinstance(value, BufferLoad) and len(block.reads) == 1 and list(
        map(id, value.indices)) == list(map(id, store.indices))


def _is_rsqrt(block):
    value = getattr(block.body, "value", None)
    return isinstance(block.body, BufferStore) and isinstance(value, Call) and value.op.name == "tir.rsqrt" and len(
        block.reads) == 1


__all__ = ["RMSNorm"]
