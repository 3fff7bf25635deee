"""How constants lie in memory: in fewer bits than their elements take in arithmetic, one row for each form.

Elements of less than a byte share one, the first in its lowest bits, as ONNX has them. Wider ones that are whole
numbers lie in the narrowest integers that hold them, less a `base` where that makes them fit. A kernel whose attribute
"stored" names the form of a parameter reads its elements by an expression (transform/stored.py); what it computes is
the same.
"""
from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ..dtype import DataType
from ..expr import Add, Broadcast, Cast, Div, FloatImm, IntImm, Mod, Ramp, cast
from ..pieces import everywhere
from .intrin import intrinsic
from .stmt import BufferLoad

ATTRIBUTE = "stored"  # of a PrimFunc: the form of each argument of its calls, "" where that is as it is
LEAST_BYTES = 1024  # of a constant of wider elements that is stored otherwise
NARROW = ("uint8", "int8", "int16")  # integers that wider numbers lie in, the best first
WIDE = ("float32", "int32")  # the dtypes of elements that may lie in these


@dataclass(frozen=True)
class Stored:
    """A form: words of `dtype`, each of so many elements of `bits` bits, or of one number less `base`."""

    dtype: str
    bits: int
    base: int = 0

    def __str__(self):
        return f"{self.bits} bits" if self.per_word > 1 else f"{self.dtype}{self.base:+}" if self.base else self.dtype

    @staticmethod
    def named(text):
        """The form that str calls so."""
        found = re.fullmatch(r"(?:(\d+) bits)|(\w+?)([+-]\d+)?", text)
        return FEW_BITS[int(found[1])] if found[1] else Stored(found[2], DataType(found[2]).bits, int(found[3] or 0))

    @property
    def per_word(self):
        return DataType(self.dtype).bits // self.bits

    def words(self, count):
        """How many words hold `count` elements: a number or an expression."""
        return (count + (self.per_word - 1)) // self.per_word

    def encode(self, array):
        """The words of an array: in its shape, or one after the other where they hold several elements."""
        if self.per_word == 1:
            return (array - array.dtype.type(self.base) if self.base else array).astype(self.dtype)
        flat = np.ascontiguousarray(array).reshape(-1)
        bits = np.zeros(-(-flat.size // self.per_word) * self.per_word, np.uint8)
        bits[:flat.size] = flat.view(np.uint8) & (1 << self.bits) - 1
        words = bits.reshape(-1, self.per_word) << np.arange(self.per_word, dtype=np.uint8) * np.uint8(self.bits)
        return np.bitwise_or.reduce(words, axis=1)

    def load(self, words, index, dtype):
        """The element at a flat index, a number or a Ramp, as an expression of `dtype`."""
        if self.per_word > 1:
            per_word = IntImm(index.dtype, self.per_word)
            place = cast(Mod(index, per_word) * self.bits, "int32")  # no index is negative
            bits = intrinsic("bit_field", BufferLoad(words, (Div(index, per_word),)), place, self.bits)
            return bits if dtype == words.dtype else Cast(dtype, bits)
        value = Cast(dtype, BufferLoad(words, (index,)))
        if not self.base:
            return value
        base = FloatImm(dtype.element, self.base) if dtype.is_float else IntImm(dtype.element, self.base)
        return Add(value, Broadcast(base, index.lanes) if isinstance(index, Ramp) else base)


# Elements of fewer bits than a byte, by how many.
FEW_BITS = {bits: Stored("uint8", bits) for bits in (2, 4)}


def stored_form(array):
    """The Stored of a constant; None where it lies as it is."""
    dtype = DataType(array.dtype.name)
    if dtype.bits < 8:
        return FEW_BITS.get(dtype.bits)
    if str(dtype) not in WIDE or array.nbytes < LEAST_BYTES or not _is_whole(array):
        return None
    return _narrowest(int(array.min()), int(array.max()))


@lru_cache(maxsize=None)
def _narrowest(least, most):
    """The form of whole numbers of a range: in integers that hold them all, or hold them less the least one."""
    limits = {name: np.iinfo(name) for name in NARROW}
    fits = [name for name, info in limits.items() if info.min <= least and most <= info.max]
    if fits and limits[fits[0]].bits == 8:
        return Stored(fits[0], 8)
    if most - least < 1 << 8:
        return Stored("uint8", 8, least)
    return Stored(fits[0], limits[fits[0]].bits) if fits else None


def _is_whole(array):
    """Whether all elements are whole numbers, of which none is -0, an infinity or NaN."""
    if array.dtype.kind != "f":
        return True

    def whole(values):
        zeros = (values == 0) & np.signbit(values)
        return bool(((values == np.rint(values)) & np.isfinite(values) & ~zeros).all())

    return everywhere(array, whole)
