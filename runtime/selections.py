"""R.unique and R.nonzero as the machine runs them: how many elements their results have, a run finds."""
from __future__ import annotations

import numpy as np

from .ndarray import NDArray


def unique(x, sorted=True, return_index=False, return_inverse=False, return_counts=False, axis=None):  # noqa: A002
    """The values that differ, or the slices along an axis, in order, or as they first occur; then, where they are asked
    for, int64 [as many as values]: where each occurs first, [of x]: which value each element is, and how often."""
    found, index, inverse, counts = np.unique(x.elements, True, True, True, axis=axis)
    if not sorted:
        order = np.argsort(index, kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        found = np.take(found, order, 0 if axis is None else axis)
        index, inverse, counts = index[order], place[inverse], counts[order]
    asked = [v for v, wanted in ((index, return_index), (inverse, return_inverse), (counts, return_counts)) if wanted]
    results = [found, *(v.reshape(-1).astype(np.int64) for v in asked)]
    results = tuple(NDArray(np.ascontiguousarray(r)) for r in results)
    return results[0] if len(results) == 1 else results


def nonzero(x):
    """int64 [dimensions of x, elements that are not 0]: their places."""
    if not x.ndim:
        return NDArray(np.empty((0, int(bool(x.elements))), np.int64))
    return NDArray(np.stack(np.nonzero(x.elements)).astype(np.int64))


__all__ = ["nonzero", "unique"]
