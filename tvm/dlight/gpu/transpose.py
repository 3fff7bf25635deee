"""Transpose: tiles that pass through shared memory, so that rows are read and rows are written."""
from __future__ import annotations

from ....ir.arith.iter_rewrite import normalize_to_iter_sum
from ....ir.expr import IntImm
from ....ir.tir.stmt import BufferLoad, BufferStore
from ..analysis import detect_dominant_read, normalize_prim_func
from ..base import try_inline_contiguous_spatial
from .base import Steps

_SHAPES = {"cuda": (8, 16, 256), "opencl": (8, 16, 64)}  # threads along y and x, turns that are unrolled


class Transpose(Steps):
    """The last block that permutes two dimensions, and what is inlined into it; a block before it that decodes several
    elements of a word gives a thread these."""

    names = ("transpose",)

    def is_transpose(self, sch, block_rv):
        """Whether a block stores elements of one buffer at the same indices in another order."""
        store = sch.get(block_rv).body
        if not isinstance(store, BufferStore) or not isinstance(store.value, BufferLoad):
            return False
        to, source = (list(map(id, access.indices)) for access in (store, store.value))
        return to != source and set(to) == set(source)

    def steps(self, sch, target):
        rows, columns, unrolled = _SHAPES.get(target.kind.name, (4, 8, 64))
        blocks = normalize_prim_func(sch) or []
        at = next((n for n in reversed(range(len(blocks))) if self.is_transpose(sch, blocks[n].block_rv)), None)
        if at is None or not all(b.is_injective() for b in blocks[at:]):
            return None
        block, decoding = blocks[at].block_rv, blocks[at - 1].block_rv if at else None
        if len(sch.get_loops(block)) != 2 or try_inline_contiguous_spatial(sch, blocks[:max(at - 1, 0)]):
            return None
        parts = 1 if decoding is None else _parts(sch.get(decoding))
        i, j = sch.get_loops(block)
        i, part = sch.split(i, [None, parts])
        (row_block, row), (column_block, column) = sch.split(i, [None, rows]), sch.split(j, [None, columns])
        sch.reorder(row_block, column_block, row, column, part)
        for loop, axis in ((row_block, "blockIdx.y"), (column_block, "blockIdx.x"), (row, "threadIdx.y"),
                           (column, "threadIdx.x")):
            sch.bind(loop, axis)
        vector = min(4, parts)
        _, part = sch.split(part, [None, vector])
        if vector > 1:
            sch.vectorize(part)
        tile = sch.cache_read(block, 0, "shared")
        sch.compute_at(tile, column_block)
        _, row, column, part = sch.split(sch.fuse(*sch.get_loops(tile)[2:]), [None, rows, columns, parts])
        sch.bind(row, "threadIdx.y")
        sch.bind(column, "threadIdx.x")
        sch.unroll(part)
        sch.storage_align(tile, 0, axis=0, factor=32, offset=1)
        sch.annotate(row_block, "pragma_auto_unroll_max_step", unrolled)
        sch.annotate(row_block, "pragma_unroll_explicit", 1)
        if decoding is not None:
            sch.compute_inline(decoding)
        return sch


def _parts(block):
    """How many elements in a row a block makes of one that it reads."""
    access = normalize_to_iter_sum(detect_dominant_read(block), {iv.var: iv.dom for iv in block.iter_vars})
    factor = access.args[0].lower_factor if access.args else None
    return factor.value if isinstance(factor, IntImm) else 1


__all__ = ["Transpose"]
