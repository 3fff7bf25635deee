"""SwizzleShared: tiles in shared memory whose rows of 128 bytes lie as products of warpgroups (wgmma) have them."""
from __future__ import annotations

from ...expr import IntImm, const, is_const_int
from ...node import Mutator
from ...tir.hints import SWIZZLE
from ..walk import blocks, without

ROW, CHUNK, GROUP = 128, 16, 8  # bytes of a row, of what keeps together in it; rows after which chunks lie as before


def swizzle_shared(func):
    """Requires opaque blocks. Ensures that no block says `buffer_swizzle`: of the buffer that it names, a position
    among the block's writes, chunk c of row r lies where chunk c xor r % 8 would, and the first row on a multiple of
    1024 bytes. So do eight neighbouring chunks of a column lie in different banks.

    Raises ValueError for a buffer whose rows are not of 128 bytes.
    """
    found = {b.writes[int(b.annotations[SWIZZLE])].buffer for b in blocks(func.body) if SWIZZLE in b.annotations}
    for buffer in found:
        row = buffer.shape[-1]
        if len(buffer.shape) < 2 or not isinstance(row, IntImm) or row.value * buffer.dtype.bytes != ROW:
            raise ValueError(f"{func.title}: rows of {buffer.name}, {row} elements of {buffer.dtype}, are not of {ROW} "
                             "bytes, as its swizzle has them")
    return func.replace(body=_Swizzle(found).visit(func.body)) if found else func


class _Swizzle(Mutator):
    """Each buffer of some as one that is aligned, with the places of its elements."""

    def __init__(self, buffers):
        self.new = {b: b.replace(data_alignment=ROW * GROUP) for b in buffers}

    def visit_Block(self, block):
        return without(self.generic_visit(block), SWIZZLE)

    def visit_Buffer(self, buffer):
        return self.new.get(buffer, buffer)

    def _access(self, access):
        swizzled, access = access.buffer in self.new, self.generic_visit(access)
        if not swizzled:
            return access
        *outer, row, at = access.indices
        chunk = const(CHUNK // access.buffer.dtype.bytes, at.dtype)
        place, by = at // chunk, row % GROUP
        place = place if is_const_int(by, 0) else place ^ by
        return access.replace(indices=(*outer, row, place * chunk + at % chunk))

    visit_BufferLoad = visit_BufferStore = _access


__all__ = ["swizzle_shared"]
