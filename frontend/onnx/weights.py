"""Weights that stay where they are: in the bytes of the model's file, or in files beside it.

A protobuf message of a model would hold a copy of all its weights, and each array one more. So large weights are cut
out of the bytes before these are parsed (`without_weights`), and arrays are views of the bytes. Files from LARGE_FILE
bytes on are mapped into memory, not read: their pages are taken as they are used, and given back.
"""
from __future__ import annotations

import mmap
import os
import secrets
import stat
from dataclasses import dataclass, field

from onnx import TensorProto

LARGE_FILE = 256 << 20  # bytes from which on a file is mapped
LEAST_CUT = 1 << 10  # bytes of weights that stay out of the message
INSIDE = "\0" + secrets.token_hex(8)  # the location of weights that lie in the model's own bytes: no model knows it

# ---------------------------------------------------------------- files


class FileMap(mmap.mmap):
    """A file that is mapped into memory, to be read. Its pages follow the file: `check` tells whether it changed."""

    def __new__(cls, file, path):
        self = super().__new__(cls, file.fileno(), 0, access=mmap.ACCESS_READ)
        self.file, self.path, self.stamp = file, path, _stamp(file)
        return self

    def check(self):
        """Raise ValueError unless the file is as it was when it was mapped."""
        if _stamp(self.file) != self.stamp:
            raise ValueError(f"the weights in {self.path} changed after the model was read; compile it again, and "
                             "leave the file alone until the C is written")


def _stamp(file):
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns


def _opened(path):
    """A file to read: (the open file, its status). A FIFO does not wait for its writer."""
    file = open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb")
    return file, os.fstat(file.fileno())


def contents(path):
    """The bytes of a file, those of a large one as a FileMap. Raises OSError."""
    file, status = _opened(path)
    if stat.S_ISREG(status.st_mode) and status.st_size >= LARGE_FILE:
        return FileMap(file, path)
    with file:
        return file.read()


@dataclass(frozen=True)
class Source:
    """Where the weights of a model are. folder: of the files beside it, None where it has no place; data: the model's
    own bytes, None where it came as a message."""

    folder: str | None = None
    data: bytes | FileMap | None = None
    maps: dict = field(default_factory=dict)  # of large files, by path

    def read(self, path, offset, size):
        """(`size` bytes of a file from `offset` on, or b"" where it has fewer; how many it has; whether it is a regular
        file). Raises OSError."""
        if path not in self.maps:
            file, status = _opened(path)
            with file:
                regular = stat.S_ISREG(status.st_mode)
                held = max(min(status.st_size - offset, size), 0) if regular else 0
                if not regular or held != size:
                    return b"", held, regular
                if status.st_size < LARGE_FILE:
                    file.seek(offset)
                    return file.read(size), held, regular
            self.maps[path] = FileMap(open(path, "rb"), path)
        whole = memoryview(self.maps[path])
        return whole[offset:offset + size], max(min(len(whole) - offset, size), 0), True


# ---------------------------------------------------------------- the wire format of protobuf

_GRAPH, _INITIALIZER, _RAW = 7, 5, 9  # numbers of ModelProto.graph, GraphProto.initializer, TensorProto.raw_data
_STRINGS, _EXTERNAL = 6, (13, 14)  # of TensorProto: string_data; external_data and data_location
_SIZES = {1: 8, 5: 4}  # bytes of the wire types of constant size; 0 is a varint, 2 has its length before it
_BYTES = 2


class _Malformed(ValueError):
    """Bytes that are no message, or one in which nothing is cut."""


def without_weights(data):
    """The bytes of a ModelProto whose initializers of LEAST_CUT bytes or more are external data at INSIDE, with the
    place where they are in `data`. None where there are none, or where `data` is no ModelProto."""
    try:
        with memoryview(data) as view:
            return _rewritten(view, 0, len(view), (_GRAPH, _INITIALIZER))
    except (_Malformed, IndexError):
        return None


def _rewritten(view, begin, end, path):
    """The message in view[begin:end], weights cut out of the messages at `path`, the numbers of fields; None where
    there are none."""
    if not path:
        return _tensor(view, begin, end)
    parts, kept = [], begin
    for number, kind, start, first, last in _fields(view, begin, end):
        changed = _rewritten(view, first, last, path[1:]) if (number, kind) == (path[0], _BYTES) else None
        if changed is not None:
            parts += [view[kept:start], _varint(number << 3 | _BYTES), _varint(len(changed)), changed]
            kept = last
    return b"".join([*parts, view[kept:end]]) if parts else None


def _tensor(view, begin, end):
    """A TensorProto without its raw_data; None where that is small, or where its data are elsewhere too."""
    if end - begin < LEAST_CUT:
        return None
    fields = list(_fields(view, begin, end))
    raw = [f for f in fields if f[0] == _RAW]
    if len(raw) != 1 or any(f[0] in (_STRINGS, *_EXTERNAL) for f in fields) or raw[0][4] - raw[0][3] < LEAST_CUT:
        return None
    _, kind, start, first, last = raw[0]
    if kind != _BYTES:
        raise _Malformed
    rest = TensorProto(data_location=TensorProto.EXTERNAL)
    for key, value in ("location", INSIDE), ("offset", str(first)), ("length", str(last - first)):
        rest.external_data.add(key=key, value=value)
    return b"".join([view[begin:start], view[last:end], rest.SerializeToString()])


def _fields(view, begin, end):
    """The fields of the message in view[begin:end]: (number, wire type, where it starts, its bytes' start and end)."""
    at = begin
    while at < end:
        start = at
        tag, at = _number(view, at)
        number, kind = tag >> 3, tag & 7
        if kind == _BYTES:
            size, at = _number(view, at)
        elif kind == 0:
            size = _number(view, at)[1] - at
        elif kind in _SIZES:
            size = _SIZES[kind]
        else:
            raise _Malformed
        if not number or at + size > end:
            raise _Malformed
        yield number, kind, start, at, at + size
        at += size


def _number(view, at):
    """(the varint at a place, the place behind it)."""
    value = shift = 0
    while True:
        byte = view[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
        if shift > 63:
            raise _Malformed


def _varint(value):
    """A number as a varint."""
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])
