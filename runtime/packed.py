"""Calling functions of a loaded module: Python values become the C arguments of runtime_c/ingot_module.h."""
from __future__ import annotations

import threading
from abc import ABC
from functools import lru_cache, partial
from types import BuiltinFunctionType, FunctionType, MethodType

import cffi
import numpy as np

from ..codegen.c_types import dlpack_type
from ..codegen.entry import RETURNED
from ..ir.dtype import DataType
from .binding import aligned_empty
from .device import CPU
from .ndarray import NDArray, dtype_of, from_dlpack
from .shapes import InputError

# runtime_c/ingot_module.h as cffi reads it; a test compares the layout with the header's.
ABI = 1
HEADER = """
typedef struct { uint8_t code; uint8_t bits; uint16_t lanes; } ingot_type;
typedef struct { int32_t device_type; int32_t device_id; } ingot_device;
typedef struct { void *data; ingot_device device; int32_t ndim; ingot_type type; int64_t *shape; int64_t *strides;
    uint64_t byte_offset; } ingot_tensor;
typedef struct { int32_t kind; union { const ingot_tensor *tensor; int64_t integer; double real;
    const char *text; } value; } ingot_arg;
typedef struct { int32_t argument; char text[252]; } ingot_error;
typedef struct { const char *name; const char *dtype; ingot_type type; int32_t ndim; const int64_t *shape;
    const char *const *dims; const char *const *strides; int32_t align; int32_t is_output; int32_t is_wide;
} ingot_param;
typedef struct { const char *name; int32_t n_params; const ingot_param *params;
    int (*call)(const ingot_arg *args, int32_t n_args, void *workspace, size_t workspace_bytes, ingot_error *error);
    size_t (*workspace_bytes)(const ingot_arg *args, int32_t n_args); } ingot_function;
typedef struct { uint32_t abi; uint32_t struct_bytes; const char *target; const char *entry; int32_t n_functions;
    const ingot_function *const *functions; } ingot_module;
extern ingot_module ingot_module_info;
"""
FFI = cffi.FFI()
FFI.cdef(HEADER)
TENSOR, INT, REAL, TEXT = 0, 1, 2, 3
_ERR_ASSERT = -11


class ModuleError(RuntimeError):
    """A call that stopped at an assertion of the program (T.Assert); the message is the assertion's."""


class PackedFunc(ABC):
    """A function of a module, called with NDArrays, numpy arrays, tensors that have __dlpack__, and numbers.

    Outputs are written in place. What the program returns (T.ret), the call returns. Raises InputError (a ValueError)
    or TypeError naming the argument that does not fit, and ModuleError where an assertion of the program fails. Calls
    from several threads may run at once.
    """

    def __init__(self, function, library, after=None):
        """function: the ingot_function; library: what must stay loaded for it; after: called after each run."""
        self._function, self._library, self._after = function, library, after
        self._entry, self._workspace_bytes = function.call, function.workspace_bytes  # reading a struct takes a while
        self._is_output = [bool(function.params[n].is_output) for n in range(function.n_params)]
        self.name = FFI.string(function.name).decode()
        last = function.params[function.n_params - 1] if self._is_output else None
        self._returned = last is not None and last.is_output == RETURNED and DataType(FFI.string(last.dtype).decode())
        self._local = threading.local()  # each thread's workspace

    def __call__(self, *args):
        call, _keep = self.prepare(args)
        return call()

    def prepare(self, args):
        """(a function that runs the call and raises its errors, what must live as long): arguments converted once."""
        result = None
        if self._returned and len(args) != len(self._is_output):  # one may give the place of the result as well
            result = np.zeros(1, self._returned.numpy)
            args = (*args, result)
        count, entry = len(args), self._entry
        packed, keep = FFI.new("ingot_arg[]", max(count, 1)), []
        for n, value in enumerate(args):
            self._fill(packed[n], n, value, keep)
        error = FFI.new("ingot_error *")
        memory = self._memory(packed, count)
        workspace, size = (FFI.NULL, 0) if memory is None else (FFI.cast("void *", memory.ctypes.data), len(memory))

        after = self._after

        def call():
            status = entry(packed, count, workspace, size, error)
            if after is not None:
                after()
            if status:
                text = FFI.string(error.text).decode(errors="replace")
                raise (ModuleError if status == _ERR_ASSERT else InputError)(text)
            return None if result is None else result.item()

        return call, (keep, memory)

    def _memory(self, packed, count):
        """This thread's workspace, large enough for a call with these arguments; None where there is no need."""
        if not self._workspace_bytes:
            return None
        size = self._workspace_bytes(packed, count)
        if len(getattr(self._local, "memory", ())) < size:
            self._local.memory = aligned_empty(size, 64)
        return getattr(self._local, "memory", None)

    # ------------------------------------------------------------ arguments

    def _fill(self, arg, n, value, keep):
        """Write a Python value as argument number n; what must live as long goes to `keep`."""
        if isinstance(value, (bool, int, np.integer, np.bool_)):
            arg.kind = INT
            if not -(1 << 63) <= value < 1 << 63:
                raise InputError(f"{self._place(n)} is {value}, expected an integer that int64 holds")
            arg.value.integer = int(value)
        elif isinstance(value, (float, np.generic)):
            arg.kind, arg.value.real = REAL, float(value)
        elif isinstance(value, NDArray) and value.c_tensor is not None:
            arg.kind, arg.value.tensor = TENSOR, value.c_tensor[0]
            keep.append(value)
        else:
            kept = []
            arg.kind, arg.value.tensor = TENSOR, self._tensor(n, self._array(n, value), kept)
            keep += kept
            if isinstance(value, NDArray) and value.__array__().flags.writeable:
                value.c_tensor = kept  # its memory never moves

    def _array(self, n, value):
        if isinstance(value, NDArray):
            return value.__array__()
        if isinstance(value, np.ndarray):
            return value
        if hasattr(value, "__dlpack__"):
            if int(value.__dlpack_device__()[0]) != CPU:
                raise ValueError(f"the tensor is on DLPack's device type {value.__dlpack_device__()[0]}; copy it to "
                                 "the CPU first")
            return from_dlpack(value).__array__()
        raise TypeError(f"{self._place(n)} is a {type(value).__name__}, expected an NDArray, a numpy array or a number")

    def _tensor(self, n, array, keep):
        try:
            kind = _type_of(array.dtype)
        except TypeError as error:
            raise TypeError(f"{self._place(n)}: {error}") from None
        if not array.flags.writeable and n < len(self._is_output) and self._is_output[n]:
            raise InputError(f"{self._place(n)} is written, and is a read-only array: pass a copy")
        tensor, shape = FFI.new("ingot_tensor *"), FFI.new("int64_t[]", array.shape)
        keep += [tensor, shape, array]
        if not array.flags.c_contiguous:
            if any(s % array.itemsize for s in array.strides):
                raise InputError(f"{self._place(n)} has strides {array.strides} in bytes, expected multiples of the "
                                 f"element's {array.itemsize}: pass a contiguous copy")
            strides = FFI.new("int64_t[]", [s // array.itemsize for s in array.strides])
            keep.append(strides)
            tensor.strides = strides
        tensor.data = FFI.cast("void *", array.__array_interface__["data"][0])
        tensor.device, tensor.type, tensor.ndim, tensor.shape = _CPU, kind, array.ndim, shape
        return tensor

    def _place(self, n):
        """How messages begin, as the C's do."""
        known = n < len(self._is_output)
        return f"{self.name}: argument {FFI.string(self._function.params[n].name).decode() if known else n}"

    def __repr__(self):
        return f"<ingot PackedFunc {self.name}>"


for _kind in (FunctionType, BuiltinFunctionType, MethodType, partial):
    PackedFunc.register(_kind)  # functions of Python are called by scripts and programs in the same way

_CPU = {"device_type": 1, "device_id": 0}


@lru_cache(maxsize=None)
def _type_of(dtype):
    """The ingot_type of numpy's dtype. TypeError where there is none."""
    found = dtype_of(np.empty(0, dtype))
    code, bits = dlpack_type(found)
    return {"code": code, "bits": bits, "lanes": found.lanes}
