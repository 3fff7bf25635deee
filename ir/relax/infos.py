"""Struct infos compared by proof."""
from __future__ import annotations

from ..node import structural_equal
from .expr import FuncStructInfo, PrimStructInfo, ShapeStructInfo, TensorStructInfo, TupleStructInfo
from .ops.common import same_shape


def same_info(a, b):
    """Whether two struct infos say the same, dimensions compared by proof."""
    if type(a) is not type(b):
        return False
    if isinstance(a, TensorStructInfo):
        if a.dtype != b.dtype or (a.shape is None) != (b.shape is None):
            return False
        if not (isinstance(a.shape, tuple) and isinstance(b.shape, tuple)):
            return a.ndim == b.ndim and a.shape is b.shape
        return same_shape(a.shape, b.shape)
    if isinstance(a, TupleStructInfo):
        return len(a.fields) == len(b.fields) and all(map(same_info, a.fields, b.fields))
    if isinstance(a, ShapeStructInfo):
        return a.ndim == b.ndim if a.values is None or b.values is None else same_shape(a.values, b.values)
    if isinstance(a, FuncStructInfo):
        return structural_equal(a, b)
    return not isinstance(a, PrimStructInfo) or a.dtype == b.dtype
