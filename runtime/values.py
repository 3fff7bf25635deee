"""Tensors of other packages as arguments: a call that is given them alone answers with such."""
from __future__ import annotations

import numpy as np

_ARRAYS = {np.ndarray}
_KINDS = {}  # type -> (function to an array, function (array, name) -> value)


def accept(kind, to_array, from_array):
    """Let calls take values of the class `kind`."""
    _KINDS[kind] = to_array, from_array


def as_arrays(values):
    """(values with arrays for what is none, function (array, name) -> value of that kind, where all were of one, else
    None)."""
    if _ARRAYS.issuperset(map(type, values)):  # quick: calls of small networks take a few microseconds
        return values, None
    kinds = {type(v) for v in values}
    arrays = [_KINDS[type(v)][0](v) if type(v) in _KINDS else v for v in values]
    return arrays, _KINDS.get(kinds.pop(), (None, None))[1] if len(kinds) == 1 else None
