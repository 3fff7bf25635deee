"""The arrays of constants, of graphs and of programs."""
from __future__ import annotations

import numpy as np


class Elements(np.ndarray):
    """An array that also answers as a runtime's tensor does: c.data.numpy(). What is computed from it is numpy's own."""

    @classmethod
    def of(cls, data):
        """Those of an array, a number of numpy's or a runtime's tensor, which share its memory."""
        if not isinstance(data, np.ndarray):
            data = np.asarray(data.numpy() if hasattr(data, "numpy") else data)
        return data if isinstance(data, cls) else data.view(cls)

    def numpy(self):
        """A copy, an array of numpy's."""
        return np.array(self)

    asnumpy = numpy

    def __repr__(self):
        return repr(np.asarray(self))

    def __array_wrap__(self, array, context=None, return_scalar=False):
        return array[()] if array.ndim == 0 else np.asarray(array)


__all__ = ["Elements"]
