"""Tables of bytes: what becomes of each of the numbers that a byte can be."""
from __future__ import annotations

from ..expr import is_const_int
from ..node import collect
from .intrinsics import BYTES
from .stmt import BufferLoad


def is_lookup(e):
    """Whether an expression is what a table of bytes has for one."""
    return (isinstance(e, BufferLoad) and e.buffer.dtype in ("int8", "uint8") and len(e.indices) == 1
            and is_const_int(e.buffer.shape[0], BYTES) and bool(collect(e.indices, BufferLoad)))
