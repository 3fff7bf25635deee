"""Tensor expressions, with TVM's names."""
import operator as _operator

from .. import tir as _tir
from ..expr import IterVar, const  # noqa: F401
from ..tir.intrinsics import INTRINSICS
from .create import create_prim_func  # noqa: F401
from .operation import (  # noqa: F401
    compute, extern, extern_primfunc, placeholder, reduce_axis, scan, size_var, tag_scope, thread_axis, var)
from .reduction import comm_reducer, max, min, prod, sum  # noqa: F401
from .tensor import (  # noqa: F401
    CommReducer, ComputeOp, ExternOp, Operation, PlaceholderOp, ProducerLoad, Reduce, ScanOp, Tensor, TensorSlice)

# The expressions that te lends from tir under the same names.
_FROM_TIR = frozenset((*INTRINSICS, *"""
    all any if_then_else Select min_value max_value power popcount isfinite div indexdiv indexmod truncdiv truncmod
    floordiv floormod ceildiv likely""".split()))
# Two-sided functions of numbers, expressions and tensors, which broadcast.
add, subtract, multiply = _operator.add, _operator.sub, _operator.mul


def __getattr__(name):
    if name in _FROM_TIR:
        return getattr(_tir, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
