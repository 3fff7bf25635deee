"""NDArray: the tensor that modules take, in the CPU's memory; numpy does the work. `tvm.nd` is this module, which also
makes the arrays of cuda_array.py."""
from __future__ import annotations

import math

import numpy as np

from ..ir.dtype import DataType, ScalableLanes
from ..ir.upper import provides
from .binding import aligned_empty
from . import cuda_array
from .dlpack import take, to_capsule
from .tensor_handle import TensorHandle
from .device import BACKENDS, CPU, CUDA, Backend, Device, cpu, cuda, device as _device

device = _device
ALIGNMENT = 64


@provides("tensor")
class NDArray:
    """A tensor. `shape`, `dtype` (a string), `device`; numpy reads it as an array, and DLPack passes it on.

    Elements that are vectors ("float32x4") are structures of one field in numpy; numpy() has lanes as its last axis."""

    __slots__ = ("_array", "_memory", "device", "c_tensor", "__weakref__")
    is_view = False  # it holds on to its memory: none is lent for a call alone

    def __init__(self, array, device=None, memory=None):
        """array: the numpy array that holds the elements, which is not copied. memory: the bytes that it is a view of, an
        array of uint8."""
        self._array, self._memory, self.device = array, memory, device or cpu()
        self.c_tensor = None  # what runtime/packed.py passes to C, once it was made

    @property
    def shape(self):
        return self._array.shape

    @property
    def dtype(self):
        return str(dtype_of(self._array))

    @property
    def ndim(self):
        return self._array.ndim

    @property
    def elements(self):
        """The numpy array of the elements, which is the memory itself."""
        return self._array

    @property
    def memory(self):
        """All bytes of the memory that holds the elements, an array of uint8. ValueError where they are not known."""
        if self._memory is None:
            if not self._array.flags.c_contiguous:
                raise ValueError("the memory around elements that do not lie one behind the other is not known")
            self._memory = self._array.reshape(-1).view(np.uint8)
        return self._memory

    @property
    def byte_offset(self):
        """Bytes from the start of the memory to the first element: not 0 for views into another NDArray."""
        return 0 if self._memory is None else _address(self._array) - _address(self._memory)

    @property
    def handle(self):
        """The DLTensor that describes the memory: x.handle[0], x.handle.contents; see tensor_handle.py."""
        return TensorHandle(self)

    def adopt(self, array):
        """Be another view of the memory, `array`."""
        self._array, self.c_tensor = array, None

    def numpy(self):
        """A copy as a numpy array."""
        return np.array(_unpacked(self._array))

    asnumpy = numpy

    def copyto(self, target, mem_scope=None):
        """Copy to an NDArray of the same shape, or to a new one on a Device; returns it."""
        if isinstance(target, NDArray):
            return target.copyfrom(self)
        if isinstance(target, Device):
            return empty(self.shape, self.dtype, target, mem_scope).copyfrom(self)
        raise TypeError(f"copyto takes an NDArray or a Device, not {type(target).__name__}")

    def copyfrom(self, source):
        """Copy from an NDArray, an array or nested lists of the same shape; values convert to the dtype."""
        if cuda_array.is_on_cuda(source):
            source = cuda_array.from_other(source).numpy()
        source = _unpacked(source._array if isinstance(source, NDArray) else np.asarray(source))
        target = _unpacked(self._array)
        if source.shape != target.shape:
            raise ValueError(f"the shape {source.shape} of what is copied is not the NDArray's shape {target.shape}")
        if not self._array.flags.writeable:
            raise ValueError("the NDArray shares memory that is read-only: copy it first, with .copyto(tvm.cpu())")
        target[...] = source
        return self

    def __setitem__(self, index, value):
        """a[:] = value, all elements at once; a number is every element."""
        if index is not Ellipsis and index != slice(None):
            raise IndexError(f"an NDArray is set as a whole, a[:] = x, not at {index!r}; .numpy() gives an array")
        single = np.ndim(value) == 0 and not isinstance(value, NDArray)
        self.copyfrom(np.broadcast_to(value, _unpacked(self._array).shape) if single else value)

    def __getitem__(self, index):
        if index is not Ellipsis and index != slice(None):
            raise IndexError(f"an NDArray is read as a whole, not at {index!r}; .numpy() gives an array")
        return self

    def _create_view(self, shape, dtype=None, relative_byte_offset=0):
        """The memory from a byte on as a tensor of another shape and dtype. ValueError where it is too small."""
        dtype = DataType(self.dtype if dtype is None else dtype)
        kind = _numpy_of(dtype)
        end = relative_byte_offset + math.prod(shape) * kind.itemsize
        if relative_byte_offset < 0 or end > self._array.nbytes or min(shape, default=0) < 0:
            raise ValueError(f"a view {list(shape)} of {dtype} would occupy bytes {relative_byte_offset} <= i_byte < "
                             f"{end}, but the NDArray being viewed only contains {self._array.nbytes} bytes")
        if not self._array.flags.c_contiguous:
            raise ValueError("only an NDArray whose elements lie one behind the other is viewed: copy it first")
        memory = self.memory
        start = self.byte_offset
        part = memory[start + relative_byte_offset:start + end]
        return NDArray(part.view(kind).reshape(tuple(shape)), self.device, memory)

    def same_as(self, other):
        """Whether both are the same memory."""
        return isinstance(other, NDArray) and self._array.__array_interface__ == other._array.__array_interface__

    def __array__(self, dtype=None, copy=None):
        if dtype is not None and np.dtype(dtype) != self._array.dtype:
            return self._array.astype(dtype)
        return np.array(self._array) if copy else self._array

    def __dlpack__(self, **options):
        try:
            if self.dtype == "bfloat16" and self._array.flags.c_contiguous:  # which numpy does not pass on
                return to_capsule(self._array, self._array.ctypes.data, self.shape, self.dtype, self.device)
            return self._array.__dlpack__(**options)
        except (BufferError, TypeError) as error:
            raise BufferError(f"a {self.dtype} NDArray cannot be passed by DLPack: {error}") from error

    def __dlpack_device__(self):
        return CPU, 0  # whatever number it goes by here

    def to_dlpack(self):
        """A DLPack capsule of the memory."""
        return self.__dlpack__()

    def __repr__(self):
        return f"<ingot.nd.NDArray shape={self.shape}, {self.device}>\n{self._array!r}"

    __str__ = __repr__

    def __len__(self):
        return len(self._array)


_LANES = "lanes"  # the field of numpy's structures that are vectors


def _numpy_of(dtype):
    """numpy's dtype of an element, a structure of one field where it is a vector."""
    dtype = DataType(dtype)
    if isinstance(dtype.lanes, ScalableLanes):
        raise ValueError(f"how many bytes {dtype} has is not known before a run, no tensor holds such elements")
    return dtype.numpy if dtype.lanes == 1 else np.dtype([(_LANES, dtype.numpy, (dtype.lanes,))])


def _unpacked(array):
    """An array, of vectors with their lanes as the last axis; it shares the memory."""
    return array[_LANES] if array.dtype.names == (_LANES,) else array


def _address(array):
    return array.__array_interface__["data"][0]


def dtype_of(array):
    """The DataType of a numpy array. TypeError for what compiled code cannot hold."""
    if array.dtype.names == (_LANES,):
        kind, (lanes,) = array.dtype[_LANES].subdtype
        return DataType(kind.name).with_lanes(lanes)
    try:
        found = DataType(array.dtype.name)
    except ValueError:
        found = None
    if found is None or not array.dtype.isnative:
        raise TypeError(f"arrays of numpy's dtype {array.dtype} cannot be passed to compiled code")
    return found


def empty(shape, dtype="float32", device=None, mem_scope=None):
    """An NDArray with undefined elements; its memory is aligned to 64 bytes."""
    if device is not None and not (isinstance(device, Device) and device.exist):
        why = BACKENDS[CUDA].why_absent(device.index) if getattr(device, "device_type", None) == CUDA else None
        raise ValueError(f"there is no device {device} here; tensors live on tvm.cpu(0)" + (f": {why}" if why else ""))
    if mem_scope not in (None, "", "global"):
        raise ValueError(f"memory scope {mem_scope!r} is no scope of the CPU; leave mem_scope out")
    shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(int(s) for s in shape)
    return BACKENDS[(device or cpu()).device_type].empty(shape, dtype, device)


def _empty(shape, dtype, device):
    dtype = _numpy_of(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    return NDArray(aligned_empty(size, ALIGNMENT).view(dtype).reshape(shape), device)


# Every number is this one CPU: scripts tell by it where a tensor belongs.
BACKENDS[CPU] = Backend(lambda index: None, lambda index: None, _empty)


def array(arr, device=None, mem_scope=None):
    """A new NDArray with the elements of an array, an NDArray or nested lists."""
    if cuda_array.is_on_cuda(arr):
        arr = cuda_array.from_other(arr)
        if device is not None and device.device_type == CUDA:
            return empty(arr.shape, arr.dtype, device, mem_scope).copyfrom(arr)
        arr = arr.numpy()
    arr = arr._array if isinstance(arr, NDArray) else np.asarray(arr)
    dtype = dtype_of(np.empty(0, arr.dtype.newbyteorder("=")))
    return empty(arr.shape, dtype, device, mem_scope).copyfrom(arr)


def numpyasarray(np_data):
    """An NDArray that shares a numpy array's memory."""
    dtype_of(np_data)
    return NDArray(np_data)


class _Capsule:
    """The DLPack protocol that numpy expects, for a bare capsule."""

    def __init__(self, capsule):
        self.capsule = capsule

    def __dlpack__(self, **_):
        return self.capsule

    def __dlpack_device__(self):
        return 1, 0


def from_dlpack(tensor):
    """An NDArray that shares the memory of a tensor of another library, or of a DLPack capsule."""
    source = tensor if hasattr(tensor, "__dlpack__") else _Capsule(tensor)
    kind = int(source.__dlpack_device__()[0])
    if kind == CUDA:
        return cuda_array.from_other(tensor)
    if kind != cpu().device_type:
        raise ValueError(f"the tensor is on DLPack's device type {kind}; copy it to the CPU first")
    bfloat16 = str(getattr(tensor, "dtype", "")).endswith("bfloat16")  # which numpy does not take
    found = _taken(take(source.__dlpack__())) if bfloat16 else np.from_dlpack(source)
    dtype_of(found)
    return NDArray(found)


class _Memory:
    """Memory of a tensor of another library, as numpy reads it: bytes, which keep the tensor."""

    def __init__(self, tensor, size):
        self.tensor = tensor
        self.__array_interface__ = {"data": (tensor.pointer, False), "shape": (size,), "typestr": "|u1", "version": 3}


def _taken(tensor):
    """A tensor that numpy does not take, as an array of the same memory."""
    dtype = DataType(tensor.dtype).numpy
    size = int(np.prod(tensor.shape, dtype=np.int64)) * dtype.itemsize
    return np.asarray(_Memory(tensor, size)).view(dtype).reshape(tensor.shape)


__all__ = ["NDArray", "array", "cpu", "cuda", "device", "empty", "from_dlpack", "numpyasarray"]
