"""Methods that scripts call on buffers."""
from __future__ import annotations

from ..dtype import DataType
from ..expr import Ramp, as_expr, const
from ..tir.buffer import Buffer
from ..tir.intrin import address_of
from ..tir.stmt import BufferLoad, BufferStore
from .namespaces import is_number


def _access_ptr(buffer, access_mask="r", ptr_type="handle", content_lanes=1, offset=0):
    """The address of the first element, or of the one `offset` after it in a buffer of one dimension."""
    if not (isinstance(offset, int) and offset == 0) and len(buffer.shape) != 1:
        raise ValueError("access_ptr takes an offset in buffers of one dimension; use T.address_of(A[i, j])")
    zeros = (const(0, e.dtype) for e in buffer.shape[:-1])
    return address_of(BufferLoad(buffer, (*zeros, as_expr(offset)) if buffer.shape else ()))


def _place(buffer, indices, lanes):
    """Indices of `lanes` elements that start at `indices`."""
    indices = tuple(as_expr(i) for i in (indices if isinstance(indices, (list, tuple)) else (indices,)))
    if len(indices) != len(buffer.shape):
        raise ValueError(f"buffer {buffer.name} has {len(buffer.shape)} dimensions, indexed with {len(indices)}")
    last = indices[-1]
    return indices if lanes == 1 else (*indices[:-1], Ramp(last, const(1, last.dtype), lanes))


def _vload(buffer, begin, dtype=None):
    """A load of as many elements as `dtype` has lanes."""
    return BufferLoad(buffer, _place(buffer, begin, DataType(dtype or buffer.dtype).lanes))


def _vstore(buffer, begin, value):
    """A store of as many elements as `value` has lanes."""
    value = const(value, buffer.dtype) if is_number(value) else as_expr(value)
    return BufferStore(buffer, value, _place(buffer, begin, value.dtype.lanes))


METHODS = {"access_ptr": _access_ptr, "vload": _vload, "vstore": _vstore}


def method(value, name):
    """The method `name` of a buffer as a function, None when it has none."""
    found = METHODS.get(name) if isinstance(value, Buffer) else None
    return (lambda *args, **kwargs: found(value, *args, **kwargs)) if found else None


__all__ = ["METHODS", "method"]
