"""save_param_dict, load_param_dict: arrays by name as bytes, in the format that TVM reads and writes."""
from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

from ..codegen.c_types import C_TYPES, dlpack_type
from ..ir.dtype import DataType
from .ndarray import NDArray, dtype_of

_LIST, _ARRAY = 0xF7E58D4F05049CB7, 0xDD5E40F096B4A13F  # what a file and each array begin with
_DTYPES = {dlpack_type(DataType(name)): DataType(name).numpy for name in C_TYPES}


def save_param_dict(params):
    """The bytes of {name: NDArray or array}."""
    parts = [struct.pack("<QQQ", _LIST, 0, len(params))]
    for name in params:
        parts += [struct.pack("<Q", len(name.encode())), name.encode()]
    parts.append(struct.pack("<Q", len(params)))
    for value in params.values():
        data = np.ascontiguousarray(value.numpy() if hasattr(value, "numpy") else value).reshape(np.shape(value))
        code, bits = dlpack_type(dtype_of(data))
        parts += [struct.pack(f"<QQiiiBBH{data.ndim}qq", _ARRAY, 0, 1, 0, data.ndim, code, bits, 1, *data.shape,
                              data.nbytes), data.tobytes()]
    return bytearray(b"".join(parts))


def save_param_dict_to_file(params, path):
    """Write what save_param_dict gives."""
    Path(path).write_bytes(save_param_dict(params))


def load_param_dict(param_bytes):
    """{name: NDArray} of bytes that save_param_dict made. Raises ValueError for others."""
    reader = _Reader(bytes(param_bytes))
    try:
        magic, _, count = reader.take("QQQ")
        if magic != _LIST:
            raise ValueError("it begins otherwise")
        names = [reader.raw(*reader.take("Q")).decode() for _ in range(count)]
        (arrays,) = reader.take("Q")
        if arrays != count:
            raise ValueError(f"{arrays} arrays for {count} names")
        return {name: reader.array() for name in names}
    except (struct.error, ValueError, KeyError, UnicodeDecodeError) as error:
        raise ValueError(f"not the bytes of parameters: {error}") from None


def load_param_dict_from_file(path):
    """{name: NDArray} of a file."""
    return load_param_dict(Path(path).read_bytes())


class _Reader:
    """What comes next in bytes."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, form):
        values = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return values

    def raw(self, size):
        if size > len(self.data) - self.at:
            raise ValueError("it ends early")
        self.at += size
        return self.data[self.at - size:self.at]

    def array(self):
        magic, _, _, _, ndim, code, bits, lanes = self.take("QQiiiBBH")
        if magic != _ARRAY or lanes != 1:
            raise ValueError("an array begins otherwise")
        *shape, size = self.take(f"{ndim}qq")
        data = np.frombuffer(self.raw(size), _DTYPES[code, bits])
        return NDArray(data.reshape(shape).copy())


__all__ = ["load_param_dict", "load_param_dict_from_file", "save_param_dict", "save_param_dict_to_file"]
