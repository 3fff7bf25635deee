"""Large arrays piece by piece: what is made of a piece is small, where a copy of the whole would take much memory."""
from __future__ import annotations

PIECE_BYTES = 1 << 22


def pieces(array):
    """Views of an array, parts of it along its first axis of about PIECE_BYTES, in order."""
    rows = max(1, PIECE_BYTES * len(array) // array.nbytes) if array.ndim and array.nbytes else 0
    if rows == 0 or rows >= len(array):
        return (array,)
    return (array[n:n + rows] for n in range(0, len(array), rows))


def everywhere(array, holds):
    """Whether holds(part) is true of all parts of an array; most that fail do so within the first elements."""
    return holds(array.flat[:4096]) and all(map(holds, pieces(array)))
