"""NDArray.handle: the memory of an NDArray as scripts for TVM describe it by DLPack's DLTensor."""
from __future__ import annotations

import ctypes
import math

import numpy as np

from ..ir.dtype import DataType
from .dlpack import DLDataType, DLDevice, DLTensor


class TensorHandle:
    """The DLTensor of one NDArray, as a pointer to one.

    handle[0] (or handle.contents) is a copy of it; handle[0] = tensor lets the NDArray be what that describes: another
    shape, strides or byte_offset of the same memory.
    """

    def __init__(self, tensor):
        self._tensor = tensor  # the NDArray

    def __getitem__(self, index):
        if index != 0:
            raise IndexError(f"a handle is of one tensor, there is none at {index}")
        array, memory, dtype = self._tensor.elements, self._tensor.memory, DataType(self._tensor.dtype)
        shape = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
        strides = None if array.flags.c_contiguous else (ctypes.c_int64 * array.ndim)(
            *(s // array.itemsize for s in array.strides))
        device = self._tensor.device
        made = DLTensor(memory.ctypes.data, DLDevice(device.device_type, device.index), array.ndim,
                        DLDataType(dtype.type_code, dtype.bits, dtype.lanes), shape, strides, self._tensor.byte_offset)
        made.held = shape, strides, self._tensor
        return made

    @property
    def contents(self):
        return self[0]

    def __setitem__(self, index, tensor):
        """Raises ValueError where the tensor has other memory, another dtype or rank, or leaves the memory."""
        own, memory = self[index], self._tensor.memory
        same = all(getattr(tensor.dtype, f) == getattr(own.dtype, f) for f in ("type_code", "bits", "lanes"))
        if tensor.data != own.data or not same or tensor.ndim < 0:
            raise ValueError("a handle is set to another view of its own memory: shape, strides and byte_offset may "
                             "change, data and dtype may not")
        each = self._tensor.elements.dtype.itemsize
        shape = tuple(tensor.shape[:tensor.ndim])
        if min(shape, default=0) < 0:
            raise ValueError(f"a tensor has no shape {list(shape)}")
        strides = tuple(tensor.strides[:tensor.ndim]) if tensor.strides else tuple(
            math.prod(shape[k + 1:]) for k in range(tensor.ndim))
        places = [(n - 1) * s for n, s in zip(shape, strides)] if math.prod(shape) else [-1]
        first = tensor.byte_offset + sum(min(p, 0) for p in places if math.prod(shape)) * each
        end = tensor.byte_offset + (sum(max(p, 0) for p in places) + 1) * each if math.prod(shape) else first
        if first < 0 or end > memory.nbytes:
            raise ValueError(f"a view {list(shape)} with strides {list(strides)} would occupy bytes {first} <= i_byte < "
                             f"{end}, but the memory has {memory.nbytes} bytes")
        kind = self._tensor.elements.dtype
        array = np.ndarray(shape, kind, memory, tensor.byte_offset, [s * each for s in strides])
        self._tensor.adopt(array)


__all__ = ["TensorHandle"]
