"""Data types: a DataType is a string such as "float32", "int8", "bool" or "float32x16" that knows its parts."""
from __future__ import annotations

import re

import numpy as np

_PATTERN = re.compile(r"^(float|bfloat|int|uint)(\d+)(?:x(\d+))?$")
_VALID_BITS = {"float": (16, 32, 64), "bfloat": (16,), "int": (1, 4, 8, 16, 32, 64), "uint": (1, 4, 8, 16, 32, 64)}


class DataType(str):
    """A dtype string with its parts: `code` (float, bfloat, int, uint, bool, handle, void), `bits`, `lanes`."""

    __slots__ = ("code", "bits", "lanes")

    def __new__(cls, text):
        if type(text) is cls:
            return text
        known = _INTERNED.get(text)
        if known is None:
            known = _INTERNED[str(text)] = cls._parse(str(text))
        return known

    @classmethod
    def _parse(cls, text):
        self = str.__new__(cls, text)
        base, _, lanes = text.partition("x") if text.startswith("bool") else (text, "", "")
        if base == "bool":
            self.code, self.bits, self.lanes = "bool", 8, int(lanes or 1)
        elif text in ("handle", "void", ""):
            self.code, self.bits, self.lanes = text or "void", 64 if text == "handle" else 0, 1
        else:
            match = _PATTERN.match(text)
            if not match or int(match[2]) not in _VALID_BITS[match[1]]:
                raise ValueError(f"unknown dtype {text!r}; examples: 'float32', 'int8', 'bool', 'float32x16'")
            self.code, self.bits, self.lanes = match[1], int(match[2]), int(match[3] or 1)
        return self

    @property
    def bytes(self):
        """Bytes of one value, all lanes."""
        return (self.bits + 7) // 8 * self.lanes

    @property
    def element(self):
        """The dtype of one lane."""
        return self.with_lanes(1)

    def with_lanes(self, lanes):
        if lanes == self.lanes:
            return self
        base = "bool" if self.code == "bool" else f"{self.code}{self.bits}"
        return DataType(base if lanes == 1 else f"{base}x{lanes}")

    @property
    def is_float(self):
        return self.code in ("float", "bfloat")

    @property
    def is_int(self):
        return self.code in ("int", "uint")

    @property
    def is_bool(self):
        return self.code == "bool"

    @property
    def numpy(self):
        """The numpy dtype of one lane; ValueError where numpy has none (bfloat16, int4)."""
        if self.code == "bfloat" or self.bits < 8:
            raise ValueError(f"numpy has no dtype for {self}")
        return np.dtype("bool" if self.code == "bool" else f"{self.code}{self.bits}")

    def min_value(self):
        """Least value of one lane (-inf for floats)."""
        if self.is_float:
            return float("-inf")
        return -(1 << (self.bits - 1)) if self.code == "int" else 0

    def max_value(self):
        """Greatest value of one lane (inf for floats)."""
        if self.is_float:
            return float("inf")
        if self.is_bool:
            return 1
        return (1 << (self.bits - 1)) - 1 if self.code == "int" else (1 << self.bits) - 1

    def __repr__(self):
        return f'"{str(self)}"'

    def __reduce__(self):
        return DataType, (str(self),)


_INTERNED: dict[str, DataType] = {}
