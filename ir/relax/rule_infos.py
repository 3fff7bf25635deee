"""What rules.py and window_rules.py ask of struct info, and give."""
from __future__ import annotations

from ..expr import IntImm
from .expr import TensorStructInfo
from .ops.common import InferTypeError, as_dim, fail, simplify


def info_of(name, value):
    info = getattr(value, "struct_info", None)
    if not isinstance(info, TensorStructInfo):
        fail(name, f"takes tensors, got {info if info is not None else value!r}", InferTypeError)
    return info


def dims_in(info):
    """The dimensions that stand in the struct info itself."""
    return info.shape if isinstance(info.shape, tuple) else None


def result_of(info, dims, ndim=None, dtype=None):
    dtype = info.dtype if dtype is None else dtype
    if dims is not None:
        return TensorStructInfo(tuple(dims), dtype)
    return TensorStructInfo(None, dtype, info.ndim if ndim is None else ndim)


def differ(a, b):
    """Whether two dimensions are known to differ."""
    difference = simplify(as_dim(a) - b)
    return isinstance(difference, IntImm) and difference.value != 0


__all__ = ["differ", "dims_in", "info_of", "result_of"]
