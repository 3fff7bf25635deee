"""Data types: a DataType is a string such as "float32", "int8", "bool" or "float32x16" that knows its parts."""
from __future__ import annotations

import math
import re

import ml_dtypes
import numpy as np

from .upper import upper

# name of one lane -> (code, bits)
_ELEMENTS = {"float16": ("float", 16), "float32": ("float", 32), "float64": ("float", 64), "bfloat16": ("bfloat", 16),
             **{f"float8_{form}": ("float", 8) for form in ("e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz", "e8m0fnu")},
             "float4_e2m1fn": ("float", 4), "bool": ("bool", 8), "handle": ("handle", 64),
             "void": ("void", 0), "": ("void", 0),
             **{f"{code}{b}": (code, b) for code in ("int", "uint") for b in (1, 2, 4, 8, 16, 32, 64)}}
_WITHOUT_INFINITY = {"float8_e4m3fn": 448.0, "float8_e4m3fnuz": 240.0, "float8_e5m2fnuz": 57344.0,
                     "float8_e8m0fnu": 2.0 ** 127, "float4_e2m1fn": 6.0}  # and their greatest number
# Spellings of TVM's for the same types
_ALIASES = {"float": "float32", "int": "int32", "uint": "uint32", "bfloat": "bfloat16",  # as TVM has them
            "e4m3_float8": "float8_e4m3fn", "e5m2_float8": "float8_e5m2", "uint1": "bool"}


class DataTypeCode:
    """The numbers of TVM's runtime for kinds of dtypes, where a bool is an unsigned integer."""

    INT, UINT, FLOAT, HANDLE, BFLOAT = range(5)
    Float8E4M3FN, Float8E5M2, Float4E2M1FN = 6, 7, 8


_TYPE_CODES = {"int": DataTypeCode.INT, "uint": DataTypeCode.UINT, "bool": DataTypeCode.UINT,
               "float": DataTypeCode.FLOAT, "handle": DataTypeCode.HANDLE, "void": DataTypeCode.HANDLE,
               "bfloat": DataTypeCode.BFLOAT}
_SMALL_CODES = {"float8_e4m3fn": DataTypeCode.Float8E4M3FN, "float8_e5m2": DataTypeCode.Float8E5M2,
                "float4_e2m1fn": DataTypeCode.Float4E2M1FN,
                "float8_e4m3fnuz": 11, "float8_e5m2fnuz": 13, "float8_e8m0fnu": 14}  # DLPack's


class ScalableLanes(int):
    """The lanes of a vector whose length the processor knows: `factor` times T.vscale(). As an int it is negative, so
    that it is no count; in names of dtypes it is "vscalex4"."""

    def __new__(cls, factor):
        if factor < 1:
            raise ValueError(f"a vector has a positive number of lanes, not {factor} times T.vscale()")
        return super().__new__(cls, -factor)

    @property
    def factor(self):
        return -int(self)

    b = factor

    @property
    def a(self):
        """T.vscale(): as the product that they are, lanes have its operands."""
        return upper("vscale")()

    def __str__(self):
        return f"vscalex{self.factor}"

    def __format__(self, spec):
        return format(str(self), spec)

    def __repr__(self):
        return f"T.vscale() * {self.factor}"


class DataType(str):
    """A dtype string with its parts: `code` (float, bfloat, int, uint, bool, handle, void), `bits`, `lanes`.

    `element` is the dtype of one lane. float8_e4m3fn and those with "fnuz" have no infinity: what exceeds their range
    becomes NaN, and in float4_e2m1fn the greatest number.
    """

    __slots__ = ("code", "bits", "lanes", "_base")

    def __new__(cls, text):
        if type(text) is cls:
            return text
        known = _INTERNED.get(text)
        if known is None:
            made = cls._parse(str(text))
            known = _INTERNED[str(text)] = _INTERNED.setdefault(str(made), made)
        return known

    @classmethod
    def _parse(cls, text):
        base, _, lanes = text.rpartition("x")
        base, lanes = (base, int(lanes)) if re.fullmatch("[1-9][0-9]*", lanes) and base else (text, 1)
        if base.endswith("xvscale"):
            base, lanes = base.removesuffix("xvscale"), ScalableLanes(lanes)
        base = _ALIASES.get(base, base)
        if base not in _ELEMENTS or (lanes != 1 and base in ("void", "")):
            raise ValueError(f"unknown dtype {text!r}; examples: 'float32', 'int8', 'bool', 'float32x16'")
        self = str.__new__(cls, base if lanes == 1 else f"{base}x{lanes}")
        self.code, self.bits = _ELEMENTS[base]
        self.lanes, self._base = lanes, base
        return self

    @property
    def bytes(self):
        """Bytes of one value, all lanes."""
        return (self.bits + 7) // 8 * self.lanes

    def itemsize(self):
        """`bytes`, as TVM names it. ValueError where the number of lanes is not known."""
        if isinstance(self.lanes, ScalableLanes):
            raise ValueError(f"how many bytes {self} has is not known before a run")
        return self.bytes

    @property
    def type_code(self):
        """The number that stands for `code` where programs inspect tensors, as TVM's DataType has it."""
        return _SMALL_CODES.get(self._base, _TYPE_CODES[self.code])

    @property
    def element(self):
        """The dtype of one lane."""
        return self.with_lanes(1)

    def with_lanes(self, lanes):
        if lanes == self.lanes:
            return self
        return DataType(self._base if lanes == 1 else f"{self._base}x{lanes}")

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
        """The numpy dtype of one lane, of ml_dtypes where numpy has none (bfloat16, float8, int4).

        ValueError where there is none at all.
        """
        plain = self.is_bool or self.bits >= 8 and (self.is_int or self.code == "float" and self.bits > 8)
        found = self._base if plain else getattr(ml_dtypes, self._base, None)
        if found is None:
            raise ValueError(f"numpy has no dtype for {self}")
        return np.dtype(found)

    def hold(self, value):
        """A Python number as one lane holds it: floats of 16 bits and fewer are rounded.

        float32 keeps the digits it was given. ValueError when out of range: of a finite float, where the nearest one of
        the dtype is an infinity.
        """
        if self.is_float:
            fits = self._has_infinity() if math.isinf(value) else not abs(value) >= _LIMITS.get(self._base, math.inf)
        else:
            fits = self.code in ("handle", "void") or self.min_value() <= value <= self.max_value()
        if not fits:
            raise ValueError(f"{value} is out of the range of {self}")
        return float(np.float64(value).astype(self.numpy)) if self.is_float and self.bits < 32 else value

    def _has_infinity(self):
        return self._base not in _WITHOUT_INFINITY

    def holds(self, value):
        """Whether a Python number is in the range of one lane."""
        try:
            self.hold(value)
        except ValueError:
            return False
        return True

    def min_value(self):
        """Least value of one lane (-inf for floats that have it); of int1, whose values are 0 and 1 as in TVM, 0."""
        if self.is_float:
            return 2.0 ** -127 if self._base == "float8_e8m0fnu" else -self.max_value()
        return -(1 << (self.bits - 1)) if self.code == "int" and self.bits > 1 else 0

    def max_value(self):
        """Greatest value of one lane (inf for floats that have it)."""
        if self.is_float:
            return _WITHOUT_INFINITY.get(self._base, math.inf)
        if self.is_bool:
            return 1
        return (1 << (self.bits - 1)) - 1 if self.code == "int" and self.bits > 1 else (1 << self.bits) - 1

    def finite_range(self):
        """The least and the greatest finite number of one lane."""
        if not self.is_float:
            return self.min_value(), self.max_value()
        info = ml_dtypes.finfo(self._base)
        return float(info.min), float(info.max)

    def __repr__(self):
        return f'"{str(self)}"'

    def __reduce__(self):
        return DataType, (str(self),)


def _limit(name):
    """The least positive number that a float dtype cannot round to a finite one: half a step above its greatest."""
    info = ml_dtypes.finfo(name)
    greatest = float(info.max)
    return greatest + math.ldexp(float(info.eps) / 2, math.frexp(greatest)[1] - 1)


_LIMITS = {name: _limit(name) for name, (_, bits) in _ELEMENTS.items() if "float" in name and bits <= 32}
_INTERNED: dict[str, DataType] = {}
