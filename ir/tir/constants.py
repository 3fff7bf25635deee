"""Arrays whose elements a program holds: what T.allocate_const allocates.

A constant is the value of a LetStmt whose variable points to it, and buffers lie over that pointer
(T.Buffer(..., data=pointer)). Nothing allocates memory for it, so no pass moves, shares or shrinks it; nobody may
store into it, which the verifier holds.
"""
from __future__ import annotations

from math import prod

import numpy as np

from ..dtype import DataType
from ..elements import Elements
from ..expr import IntImm, PrimExpr
from ..node import node


@node
class ConstantArray(PrimExpr):
    """A pointer to elements that do not change. data: an array of `elements` in `extents`, which must not be written to;
    None where only `index` says which it is: a number among the module's attribute "constants"."""

    data: np.ndarray
    elements: DataType
    extents: tuple
    index: int = None
    annotations: dict = None

    def __post_init__(self):
        object.__setattr__(self, "elements", DataType(self.elements))

    @classmethod
    def of(cls, data, dtype, extents, annotations=None, index=None):
        """The ConstantArray of numbers, nested as they like, or of an array. Raises ValueError where extents are no
        numbers or have another product than there are elements, and for vectors."""
        dtype, extents = DataType(dtype), tuple(getattr(e, "value", e) for e in extents)
        if dtype.lanes != 1 or not (dtype.is_float or dtype.is_int or dtype.is_bool):
            raise ValueError(f"a constant array holds numbers, not {dtype}")
        if not all(isinstance(e, int) and e >= 0 for e in extents):
            raise ValueError(f"the extents of a constant array are numbers, not ({', '.join(map(str, extents))})")
        if data is not None:
            data = _array(data, dtype, extents)
        elif index is None:
            raise ValueError('a constant array has data, or a number among the module\'s "constants"')
        return cls(data, dtype, extents, index, dict(annotations or {}))

    @property
    def dtype(self):
        return DataType("handle")

    def known(self):
        """The array. Raises ValueError where it is in the module alone."""
        if self.data is None:
            raise ValueError(f'the elements of a constant are number {self.index} of the module\'s attribute "constants": '
                             "build the module, not this function of it alone")
        return self.data


def _array(data, dtype, extents):
    if hasattr(data, "numpy"):
        data = data.numpy()
    if not isinstance(data, np.ndarray):
        data = _numbers(data)
    data = np.asarray(data)
    if data.size != prod(extents):
        raise ValueError(f"a constant array of extents {list(extents)} has {prod(extents)} elements, not {data.size}")
    if not dtype.is_float and data.dtype.kind == "f" and data.size:
        raise ValueError(f"a constant array of {dtype} is given floats")
    with np.errstate(over="ignore"):
        made = np.ascontiguousarray(data.astype(dtype.numpy)).reshape(extents)
    if not dtype.is_float and not np.array_equal(made.astype(object), data.reshape(extents).astype(object)):
        raise ValueError(f"a constant array of {dtype} is given numbers that {dtype} has not")
    return made


def _numbers(data):
    """Nested lists of Python's numbers."""
    if isinstance(data, (list, tuple)):
        return [_numbers(x) for x in data]
    return getattr(data, "value", data)


def _elements(let):
    data = let.value.data
    return None if data is None else Elements.of(data)


# The fields of TVM's AllocateConst: how a LetStmt over a ConstantArray has them.
TVM_FIELDS = {
    "buffer_var": lambda let: let.var, "dtype": lambda let: let.value.elements, "data": _elements,
    "extents": lambda let: tuple(IntImm("int32", e) for e in let.value.extents),
    "irmod_storage_idx": lambda let: let.value.index, "annotations": lambda let: let.value.annotations,
}

__all__ = ["ConstantArray", "TVM_FIELDS"]
