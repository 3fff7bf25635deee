"""Struct infos compared by proof, and what follows from those of arguments."""
from __future__ import annotations

from ..arith import Analyzer
from ..expr import IntImm, Mul, Var, substitute
from ..node import structural_equal, structure_key
from .expr import (DataflowVar, FuncStructInfo, PrimStructInfo, RelaxVar, ShapeStructInfo, TensorStructInfo,
                   TupleStructInfo)
from .ops.common import same_dim, same_shape


def is_row_call(call, spec):
    """Whether a call is one of its operator's row: with all its attributes, of tensors, shapes and numbers; else it is
    in classic form (graph_calls.py), as one of a shape or number that is a variable."""
    return spec is not None and set(call.attrs) == set(spec.attrs) and not any(
        isinstance(a, (RelaxVar, DataflowVar)) and isinstance(a.struct_info, (ShapeStructInfo, PrimStructInfo))
        for a in call.args)


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
    if isinstance(a, PrimStructInfo):
        if a.value is None or b.value is None:
            return a.dtype == b.dtype and a.value is b.value
        return a.dtype == b.dtype and same_number(a.value, b.value)
    return True


def same_number(a, b):
    """Whether two expressions are known to have one value: those of integers by proof."""
    return a is b or structural_equal(a, b) or a.dtype.is_int and b.dtype.is_int and same_dim(a, b)


def dims_told(info, actual):
    """[(dimension of `info`, what it is in `actual`)], for struct infos of the same form; those that are not known on
    both sides are left out."""
    if isinstance(info, TupleStructInfo) and isinstance(actual, TupleStructInfo):
        return [pair for a, b in zip(info.fields, actual.fields) for pair in dims_told(a, b)]
    mine, theirs = _dims(info), _dims(actual)
    return list(zip(mine, theirs)) if mine is not None and theirs is not None and len(mine) == len(theirs) else []


def _dims(info):
    if isinstance(info, TensorStructInfo):
        return info.dims
    if isinstance(info, PrimStructInfo):
        return None if info.value is None else (info.value,)
    return info.values if isinstance(info, ShapeStructInfo) else None


def new_dims(info):
    """The symbolic dimensions that a MatchCast to `info` defines: those that stand alone."""
    if isinstance(info, TupleStructInfo):
        return [d for f in info.fields for d in new_dims(f)]
    if isinstance(info, FuncStructInfo):
        return [d for p in info.params or () for d in new_dims(p)]
    dims = (info.value,) if isinstance(info, PrimStructInfo) else info.dims if isinstance(
        info, TensorStructInfo) else getattr(info, "values", None)
    return [d for d in dims or () if isinstance(d, Var)]


def told_dims(params, args):
    """{dimension of parameters of these struct infos: what it is for arguments of those}. One that stands alone nowhere is
    told by its multiples."""
    pairs = [pair for param, info in zip(params, args) for pair in dims_told(param, info)]
    dims = {}
    for mine, theirs in pairs:
        if isinstance(mine, Var):
            dims.setdefault(mine, theirs)
    for mine, theirs in pairs:
        if isinstance(mine, Mul) and isinstance(mine.a, Var) and isinstance(mine.b, IntImm) and mine.b.value > 0:
            dims.setdefault(mine.a, Analyzer().simplify(theirs // mine.b))
    return dims


def call_dims(func, args):
    """{dimension of a graph function's parameters: what it is for arguments of these struct infos}."""
    return told_dims([p.struct_info for p in func.params], args)


def dims_key(told):
    """A hashable key of what call_dims gives: that of calls for which a function in the caller's dimensions is one."""
    return tuple((id(d), structure_key(size)) for d, size in told.items())


def derived_info(params, ret, args):
    """`ret` of a function whose parameters have these struct infos, with the dimensions that the arguments tell."""
    return substitute(ret, told_dims(params, [a.struct_info for a in args]))


def call_info(func, args):
    """The struct info of a call of a function of the module: of its result, with the dimensions that the arguments
    tell. What a PrimFunc leaves in its arguments is no result."""
    info = func.struct_info
    return derived_info(info.params, info.ret, args)
