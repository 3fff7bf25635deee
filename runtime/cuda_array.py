"""CudaArray: an NDArray in the memory of a CUDA device, and what Python asks of devices."""
from __future__ import annotations

import math
import weakref

import numpy as np

from ..ir.dtype import DataType
from .cudart import (ATTRIBUTES, DEVICE_TO_DEVICE, DEVICE_TO_HOST, HOST_TO_DEVICE, CudaError, cudart, device_count,
                     use_device)
from .device import BACKENDS, CUDA, Backend, Device
from .dlpack import take, to_capsule


def why_absent(index):
    """Why a CUDA device cannot be used, one line; None where it can."""
    try:
        use_device(index)
    except CudaError as error:
        return str(error)
    return None


def synchronize(index):
    """Wait for all that a device was asked to do."""
    use_device(index).call("cudaDeviceSynchronize")


def properties(index=0):
    """{name: number} of a device: ATTRIBUTES, versions of driver and runtime, bytes of memory free and in all."""
    library = use_device(index)
    free, total = library.ffi.new("size_t *"), library.ffi.new("size_t *")
    library.call("cudaMemGetInfo", free, total)
    return {**{name: library.attribute(name, index) for name in ATTRIBUTES},
            "driver": library.result("int", "cudaDriverGetVersion"),
            "runtime": library.result("int", "cudaRuntimeGetVersion"), "free_bytes": free[0], "total_bytes": total[0]}


def compute_version(index=0):
    """The version of a device, such as "8.0"."""
    library = use_device(index)
    return ".".join(str(library.attribute(f"compute_{part}", index)) for part in ("major", "minor"))


class Block:
    """Memory of a device, freed with the object. `pointer` is its address."""

    def __init__(self, size, index=0):
        library = use_device(index)
        self.pointer, self.size = library.address(library.result("void *", "cudaMalloc", max(size, 1))), size
        self._free = weakref.finalize(self, _release, library, self.pointer)


def _release(library, pointer):
    try:
        library.call("cudaFree", library.pointer(pointer))
    except CudaError:  # at the end of the process the driver may be gone, and the memory with it
        pass


class CudaArray:
    """A dense tensor in a CUDA device's memory, with the interface of NDArray (`tvm.nd`).

    Other libraries take it by DLPack or `__cuda_array_interface__`, without a copy.
    """

    __slots__ = ("pointer", "shape", "_dtype", "device", "_owner", "c_tensor", "__weakref__")

    def __init__(self, pointer, shape, dtype, device, owner):
        """pointer: the address; owner: the object that keeps the memory."""
        self.pointer, self.shape, self._dtype = pointer, tuple(shape), DataType(dtype)
        self.device, self._owner, self.c_tensor = device, owner, None

    @property
    def dtype(self):
        return str(self._dtype)

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def nbytes(self):
        return math.prod(self.shape) * self._dtype.numpy.itemsize

    def numpy(self):
        """A copy as a numpy array, after what the default stream has to do."""
        out = np.empty(self.shape, self._dtype.numpy)
        self._copy(out.ctypes.data, self.pointer, DEVICE_TO_HOST)
        return out

    asnumpy = numpy

    def copyto(self, target, mem_scope=None):
        """Copy to an array of the same shape, or to a new one on a Device; returns it."""
        if isinstance(target, Device):
            target = BACKENDS[target.device_type].empty(self.shape, self.dtype, target)
        if not hasattr(target, "copyfrom"):
            raise TypeError(f"copyto takes an NDArray or a Device, not {type(target).__name__}")
        return target.copyfrom(self)

    def copyfrom(self, source):
        """Copy from an array of the same shape, here or on the CPU; values on the CPU convert to the dtype."""
        given = source if isinstance(source, CudaArray) else None
        if given is None and (hasattr(source, "__cuda_array_interface__") or _on_cuda(source)):
            given = from_other(source)
        if given is None or given.dtype != self.dtype:
            given = np.asarray(given.numpy() if given is not None else source)
        if given.shape != self.shape:
            raise ValueError(f"the shape {given.shape} of what is copied is not the array's shape {self.shape}")
        if isinstance(given, CudaArray):
            self._copy(self.pointer, given.pointer, DEVICE_TO_DEVICE)
        else:
            given = np.ascontiguousarray(given, self._dtype.numpy)
            self._copy(self.pointer, given.ctypes.data, HOST_TO_DEVICE)
        return self

    def head(self, shape):
        """The first elements as an array of `shape`, in the same memory."""
        return CudaArray(self.pointer, shape, self.dtype, self.device, self._owner)

    def _copy(self, dst, src, kind):
        if self.nbytes:
            library = use_device(self.device.index)
            library.call("cudaMemcpy", library.pointer(dst), library.pointer(src), self.nbytes, kind)

    def __setitem__(self, index, value):
        if index is not Ellipsis and index != slice(None):
            raise IndexError(f"an NDArray is set as a whole, a[:] = x, not at {index!r}; .numpy() gives an array")
        self.copyfrom(np.broadcast_to(value, self.shape) if np.ndim(value) == 0 and not hasattr(value, "copyfrom")
                      else value)

    def same_as(self, other):
        """Whether both are the same memory."""
        return isinstance(other, CudaArray) and (self.pointer, self.shape, self.dtype) == (
            other.pointer, other.shape, other.dtype)

    def __array__(self, dtype=None, copy=None):
        return self.numpy() if dtype is None else self.numpy().astype(dtype)

    @property
    def __cuda_array_interface__(self):
        """Version 3 of the protocol; AttributeError of dtypes that numpy has no code for."""
        code = self._dtype.numpy.str
        if self._dtype.numpy.kind not in "biuf":
            raise AttributeError(f"__cuda_array_interface__ has no {self.dtype}: use DLPack")
        return {"shape": self.shape, "typestr": code, "data": (self.pointer, False), "version": 3, "strides": None,
                "stream": 1}

    def __dlpack__(self, stream=None, **_):
        """A capsule; what the default stream does to the memory is waited for."""
        synchronize(self.device.index)
        return to_capsule(self._owner, self.pointer, self.shape, self.dtype, self.device)

    def __dlpack_device__(self):
        return self.device.device_type, self.device.index

    def to_dlpack(self):
        return self.__dlpack__()

    def __len__(self):
        return self.shape[0]

    def __repr__(self):
        return f"<ingot.nd.NDArray shape={self.shape}, {self.device}>\n{self.numpy()!r}"


def empty(shape, dtype, device):
    """A CudaArray with undefined elements. Raises CudaError where the device is not there, or is full."""
    size = math.prod(shape) * DataType(dtype).numpy.itemsize
    block = Block(size, device.index)
    return CudaArray(block.pointer, shape, dtype, device, block)


def _facts(index):
    """`properties` by the names of device.FACTS."""
    found = properties(index)
    names = {"api_version": "runtime", "available_global_memory": "free_bytes", "driver_version": "driver",
             "l2_cache_size_bytes": "l2_cache_bytes", "total_global_memory": "total_bytes"}
    return {**found, **{name: found[key] for name, key in names.items()}, "compute_version": compute_version(index)}


BACKENDS[CUDA] = Backend(why_absent, synchronize, empty, _facts)


def _on_cuda(tensor):
    return hasattr(tensor, "__dlpack_device__") and int(tensor.__dlpack_device__()[0]) == CUDA


def is_on_cuda(tensor):
    """Whether a tensor of ours or of another library lies in a CUDA device's memory."""
    return isinstance(tensor, CudaArray) or _on_cuda(tensor) or hasattr(tensor, "__cuda_array_interface__")


def from_other(tensor):
    """The CudaArray that shares the memory of another library's tensor (torch, cupy) or of a DLPack capsule.

    Raises BufferError for what is not dense and row-major, or of no dtype of ours, ValueError for the CPU's memory.
    """
    if isinstance(tensor, CudaArray):
        return tensor
    described = getattr(tensor, "__cuda_array_interface__", None)
    if described is not None and not hasattr(tensor, "__dlpack__"):
        return _from_interface(tensor, described)
    taken = take(tensor.__dlpack__(stream=1) if hasattr(tensor, "__dlpack__") else tensor)
    if taken.device[0] != CUDA:
        raise ValueError(f"the tensor is on DLPack's device type {taken.device[0]}, not on a CUDA device")
    return CudaArray(taken.pointer, taken.shape, taken.dtype, Device(CUDA, taken.device[1]), taken)


def _from_interface(tensor, described):
    dtype, shape = np.dtype(described["typestr"]), tuple(described["shape"])
    strides = described.get("strides")
    dense = np.empty(0, dtype).itemsize * np.cumprod([1, *shape[:0:-1]])[::-1] if shape else ()
    if strides is not None and any(n > 1 and s != d for n, s, d in zip(shape, strides, dense)):
        raise BufferError("the tensor is not dense and row-major: make it contiguous first")
    return CudaArray(described["data"][0], shape, dtype.name, Device(CUDA, 0), tensor)


ALIGN = 16  # bytes: kernels move as many at once


def why_misaligned(array):
    """What is wrong with the address of an array on the device; None where kernels can work on it."""
    if array.pointer % ALIGN == 0 or array.nbytes == 0:
        return None
    return f"begins at an address that is no multiple of {ALIGN} bytes, as a part of another array: pass a copy of it"


__all__ = ["Block", "CudaArray", "CudaError", "cudart", "device_count", "empty", "from_other", "is_on_cuda",
           "properties", "synchronize", "why_misaligned"]
