"""DLPack capsules of a device's memory, made and taken: what numpy does for the CPU's."""
from __future__ import annotations

import ctypes
import itertools
from dataclasses import dataclass

from ..ir.dtype import DataType

CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "bool": 6}
_NAMES = {0: "int", 1: "uint", 2: "float", 4: "bfloat"}
_NEW, _USED = b"dltensor", b"used_dltensor"


class DLDevice(ctypes.Structure):
    _fields_ = [("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32)]


class DLDataType(ctypes.Structure):
    _fields_ = [("type_code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", DLDevice), ("ndim", ctypes.c_int32), ("dtype", DLDataType),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


class DLManagedTensor(ctypes.Structure):
    pass


_DELETER = ctypes.CFUNCTYPE(None, ctypes.POINTER(DLManagedTensor))
DLManagedTensor._fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", _DELETER)]

_python = ctypes.pythonapi
_DESTROY = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_python.PyCapsule_New.restype = ctypes.py_object
_python.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, _DESTROY]
# Capsules by their addresses: a destructor sees one that is going.
_python.PyCapsule_GetPointer.restype = ctypes.c_void_p
for _function in (_python.PyCapsule_IsValid, _python.PyCapsule_GetPointer, _python.PyCapsule_SetName):
    _function.argtypes = [ctypes.c_void_p, ctypes.c_char_p]

_handed_out = {}  # number -> what a tensor of ours keeps alive until its taker deletes it
_numbers = itertools.count(1)


@_DELETER
def _delete(managed):
    _handed_out.pop(managed.contents.context, None)


@_DESTROY
def _destroy(capsule):
    """A capsule that nobody took deletes its tensor."""
    if _python.PyCapsule_IsValid(capsule, _NEW):
        _delete(ctypes.cast(_python.PyCapsule_GetPointer(capsule, _NEW), ctypes.POINTER(DLManagedTensor)))


def to_capsule(owner, pointer, shape, dtype, device):
    """A capsule of dense memory at an address, which `owner` keeps. BufferError for a dtype that DLPack lacks."""
    dtype = DataType(str(dtype))
    code = "bfloat" if str(dtype) == "bfloat16" else "bool" if dtype.is_bool else dtype.code
    if code not in CODES or dtype.bits % 8 and not dtype.is_bool or str(dtype).startswith("float8"):
        raise BufferError(f"a {dtype} array cannot be passed by DLPack")
    managed, number = DLManagedTensor(), next(_numbers)
    extents = (ctypes.c_int64 * max(len(shape), 1))(*shape)
    kind = DLDataType(CODES[code], 8 if dtype.is_bool else dtype.bits, 1)
    managed.tensor = DLTensor(pointer or None, DLDevice(device.device_type, device.index), len(shape), kind, extents,
                              None, 0)
    managed.context, managed.deleter = number, _delete
    _handed_out[number] = managed, extents, owner
    return _python.PyCapsule_New(ctypes.addressof(managed), _NEW, _destroy)


@dataclass
class Taken:
    """A tensor of another library: address of its first element, dtype as text, shape, DLPack's device. It is given
    back when the object ends."""

    pointer: int
    dtype: str
    shape: tuple
    device: tuple
    _managed: object

    def __del__(self):
        if self._managed is not None and self._managed.contents.deleter:
            self._managed.contents.deleter(self._managed)
            self._managed = None


def take(capsule):
    """The Taken of a capsule, which is used up. Raises ValueError for one that was, BufferError for what is not dense
    or of no dtype of ours."""
    address = id(capsule)
    if not _python.PyCapsule_IsValid(address, _NEW):
        raise ValueError("this is no DLPack capsule, or one that was taken before")
    managed = ctypes.cast(_python.PyCapsule_GetPointer(address, _NEW), ctypes.POINTER(DLManagedTensor))
    t = managed.contents.tensor
    shape = tuple(t.shape[:t.ndim])
    if t.strides and t.ndim and 0 not in shape:
        step = 1
        for extent, stride in zip(shape[::-1], t.strides[:t.ndim][::-1]):
            if extent != 1 and stride != step:
                raise BufferError("the tensor is not dense and row-major: make it contiguous first")
            step *= extent
    kind = t.dtype
    if kind.lanes != 1 or kind.type_code not in (*_NAMES, CODES["bool"]):
        raise BufferError(f"DLPack's dtype {kind.type_code} of {kind.bits} bits and {kind.lanes} lanes is none of ours")
    dtype = "bool" if kind.type_code == CODES["bool"] else f"{_NAMES[kind.type_code]}{kind.bits}"
    DataType(dtype)
    _python.PyCapsule_SetName(address, _USED)
    return Taken((t.data or 0) + t.byte_offset, dtype, shape, (t.device.device_type, t.device.device_id), managed)
