"""Operations on fragments, tiles that a warp holds together, evaluated in numpy: as one thread would do them all."""
from __future__ import annotations

import numpy as np

SIDE = 16


def _fragment(pointer, index):
    """The elements of a fragment, a view of 16 x 16."""
    array, start = pointer
    first = start + int(index) * SIDE * SIDE
    return array[first:first + SIDE * SIDE].reshape(SIDE, SIDE)


def _tile(pointer, stride, layout):
    """A tile in memory, a view of 16 x 16: rows by columns."""
    array, start = pointer
    rows = np.lib.stride_tricks.as_strided(array[start:], (SIDE, SIDE), (int(stride) * array.itemsize, array.itemsize))
    return rows.T if layout == "col_major" else rows


def _load(to, m, n, k, index, source, stride, layout):
    _fragment(to, index)[...] = _tile(source, stride, layout)


def _store(source, m, n, k, index, to, stride, layout):
    _tile(to, stride, layout)[...] = _fragment(source, index)


def _fill(to, m, n, k, index, value):
    _fragment(to, index)[...] = value


def _multiply(to, d, a, i, b, j, sums, c):
    """The product in the dtype of the sums."""
    total = _fragment(sums, c)
    x, y = (_fragment(*pair).astype(total.dtype) for pair in ((a, i), (b, j)))
    _fragment(to, d)[...] = total + x @ y


# How TVM's wmma has it: the operand b is k x n in fragments, whatever its layout in memory.
TILES = {"tvm_load_matrix_sync": _load, "tvm_store_matrix_sync": _store, "tvm_fill_fragment": _fill,
         "tvm_mma_sync": _multiply}

__all__ = ["TILES"]
