"""Weights and data of self-tests as bytes, in the byte order of the machine that reads them."""
from __future__ import annotations

import numpy as np

from ..ir.pieces import pieces

ALIGN = 64  # bytes, from a multiple of which on each array lies


class Blob:
    """Arrays as bytes, each from a multiple of 64 on; never empty. Written piece by piece: weights are large."""

    def __init__(self, arrays, byte_order):
        self.arrays, self.byte_order = tuple(arrays), byte_order

    def pieces(self):
        """The bytes in order, those of an array that lies as they do without a copy. Raises ValueError for one in a
        file that changed since it was mapped."""
        for a in self.arrays:
            _check_file(a)
            for part in pieces(a):
                raw = np.ascontiguousarray(part).astype(a.dtype.newbyteorder(self.byte_order), copy=False)
                yield raw.reshape(-1).view(np.uint8).data
            yield bytes(-a.nbytes % ALIGN)
        if not len(self):
            yield bytes(ALIGN)

    def __len__(self):
        return sum(-(-a.nbytes // ALIGN) * ALIGN for a in self.arrays)

    def __bytes__(self):
        return b"".join(self.pieces())

    def __eq__(self, other):
        return isinstance(other, (Blob, bytes)) and bytes(self) == bytes(other)

    __hash__ = None


def _check_file(array):
    """Raise ValueError for an array in a file that changed since it was mapped (FileMap of the ONNX frontend)."""
    owner = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    check = getattr(getattr(owner, "obj", None), "check", None)
    if check:
        check()


def groups_of(sizes, count):
    """Ranges of numbers of arrays with these sizes, in order: `count` groups of about as many bytes, fewer where there
    are fewer arrays."""
    total, ends, done = sum(sizes), [], 0
    for n, size in enumerate(sizes, 1):
        done += size
        if done * count >= total * (len(ends) + 1) and len(ends) < count - 1:
            ends.append(n)
    ends = [*ends, *([len(sizes)] if not ends or ends[-1] < len(sizes) else [])]
    return [range(a, b) for a, b in zip([0, *ends], ends)]


def blob_of(arrays, byte_order):
    """The bytes of a Blob."""
    return bytes(Blob(arrays, byte_order))
