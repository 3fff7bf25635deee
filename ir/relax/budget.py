"""How large tensors, and constants that are computed at compile time, may be; checked before the memory is taken."""
from __future__ import annotations

import math

from ..expr import PrimExpr, free_vars

MOST_ELEMENTS = (1 << 31) - 1  # of any tensor: positions in it are 32-bit integers in the kernels
MOST_CONSTANT_BYTES = 1 << 30  # of a tensor that is computed at compile time
MOST_RANK = 64  # numpy's


def excess(dims, itemsize=0):
    """Why a tensor of shape `dims` is too large, as the end of a sentence, or None. itemsize: bytes of an element of a
    tensor that is computed at compile time, 0 for one that is computed at run time. Symbolic dimensions count as 1."""
    if len(dims) > MOST_RANK:
        return f"has {len(dims)} dimensions; at most {MOST_RANK} are supported"
    static = [int(d) for d in dims if not isinstance(d, PrimExpr) or hasattr(d, "value")]
    if any(isinstance(d, PrimExpr) and not hasattr(d, "value") and not free_vars(d) for d in dims):
        return f"has a dimension that more than 64 bits hold; at most {MOST_ELEMENTS} elements are supported"
    if min(static, default=0) < 0:
        return f"has the dimension {min(static)}: it is negative, or more than 64 bits hold"
    count = math.prod(static)
    if max(count, *static, 0) > MOST_ELEMENTS:  # also along one axis of a tensor without elements
        return f"has {max(count, *static)} elements; at most {MOST_ELEMENTS} are supported: split the tensor"
    if count * itemsize > MOST_CONSTANT_BYTES:
        return (f"is a constant of {count * itemsize} bytes; at most {MOST_CONSTANT_BYTES} are computed at compile "
                "time: make it an input of the model")
    return None
