"""Operators that order elements along an axis, or continue from one to the next: sorts, medians, searches, scans."""
from __future__ import annotations

import math

import numpy as np

from ...ir.relax.expr import const
from .dtypes import category, dtype_of
from .ops_reduce import any_
from .table import ATEN, CONVERTERS, FUNCTIONS, converts


# ---------------------------------------------------------------- scans

def _scan(name):
    def convert(b, x, dim, dtype=None, out=None):
        if out is not None:
            raise ValueError(f"out= of {name} is not supported: use the result")
        if dtype is None and category(b.dtype(x)) < 2:
            dtype = "int64"
        x = b.cast(x, "int64") if b.dtype(x) == "bool" else x
        return b.op(name, x, dim, None if dtype is None else dtype_of(dtype))
    return convert


CONVERTERS.update({"cumsum": _scan("cumsum"), "cumprod": _scan("cumprod")})


@converts("logcumsumexp")
def logcumsumexp(b, x, dim):
    return b.op("logcumsumexp", b.floats(x), axis=dim)


def _extremum_so_far(name):
    """(values, where the last of them is)"""
    def convert(b, x, dim):
        pair = b.op(name, b.cast(x, "uint8") if b.dtype(x) == "bool" else x, axis=dim)
        return b.cast(b.emit(pair[0]), b.dtype(x)), b.emit(pair[1])
    return convert


CONVERTERS.update({name: _extremum_so_far(name) for name in ("cummax", "cummin")})


# ---------------------------------------------------------------- orders

@converts("argsort")
def argsort(b, x, dim=-1, descending=False, stable=False):
    return b.op("argsort", x, dim, descending)


ATEN["argsort.stable"] = lambda b, x, stable=False, dim=-1, descending=False: b.op(
    "argsort", x, dim, descending, "int64")


@converts("sort", table=ATEN)
def sort(b, x, dim=-1, descending=False, stable=None):
    """(values, indices)"""
    extent = b.dims(x)[dim] if b.rank(x) else 1
    pair = b.op("topk", x, extent, dim, "both", descending, "int64")
    return b.emit(pair[0]), b.emit(pair[1])


ATEN["sort.stable"] = lambda b, x, stable=None, dim=-1, descending=False: sort(b, x, dim, descending)
FUNCTIONS["sort"] = lambda b, x, dim=-1, descending=False: b.op("sort", x, dim, descending)


@converts("kthvalue")
def kthvalue(b, x, k, dim=-1, keepdim=False):
    """(the k-th smallest of an axis, where it is)"""
    pair = b.op("topk", x, k, dim, "both", False, "int64")
    found = [b.op("take", b.emit(pair[n]), const(np.array([k - 1]), "int64"), axis=dim) for n in (0, 1)]
    return tuple(f if keepdim else b.op("squeeze", f, [dim]) for f in found)


def _static(b, x, dim, name):
    """The extent of an axis, which an operator needs."""
    extent = b.dims(x)[dim]
    if not isinstance(extent, int):
        raise ValueError(f"the {name} of the symbolic dimension {extent} is not supported: pin it")
    return extent


@converts("median")
def median(b, x, dim=None, keepdim=False):
    """Of an even number the lower of the middle two; NaN where one is NaN."""
    flat = x if dim is not None else b.op("reshape", x, [-1])
    dim = 0 if dim is None else dim
    value, place = kthvalue(b, flat, (_static(b, flat, dim, "median") + 1) // 2, dim, keepdim)
    if category(b.dtype(x)) == 2:
        odd = any_(b, b.op("isnan", flat), dim, keepdim)
        place = b.op("where", odd, b.op("astype", b.made("argmax", flat, dim, keepdim), "int64"), place)
        value = b.op("where", odd, b.const_like(math.nan, x), value)
    return value if flat is not x else (value, place)


@converts("nanmedian")
def nanmedian(b, x, dim=None, keepdim=False):
    """The median of the numbers alone: NaN, which stands behind them, does not count."""
    if category(b.dtype(x)) != 2:
        return median(b, x, dim, keepdim)
    flat = x if dim is not None else b.op("reshape", x, [-1])
    axis = 0 if dim is None else dim
    pair = b.op("topk", flat, _static(b, flat, axis, "median"), axis, "both", False, "int64")
    numbers = b.made("logical_not", b.made("isnan", flat))
    count = b.op("sum", b.made("astype", numbers, "int64"), [axis], keepdims=True)
    most = b.op("maximum", b.made("subtract", count, const(1, "int64")), const(0, "int64"))
    middle = b.op("floor_divide", most, const(2, "int64"))
    found = [b.op("gather_elements", b.emit(pair[n]), middle, axis=axis) for n in (0, 1)]
    found = [f if keepdim else b.op("squeeze", f, [axis]) for f in found]
    return found[0] if dim is None else tuple(found)


@converts("mode")
def mode(b, x, dim=-1, keepdim=False):
    """(the most frequent number of an axis, of several the least; the last place where it is). NaN equals nothing, so
    that only an axis of nothing else has it, at its first place."""
    dtype, dim = b.dtype(x), dim % b.rank(x)
    last = b.rank(x) - 1
    rows = b.op("permute_dims", x, [*(k for k in range(last + 1) if k != dim), dim]) if dim != last else x
    same = b.op("equal", b.made("expand_dims", rows, last + 1), b.made("expand_dims", rows, last))
    count = b.op("sum", b.made("astype", same, "int32"), [last + 1])
    often = b.op("equal", count, b.made("max", count, last, True))
    numbers = b.cast(rows, "uint8") if dtype == "bool" else rows
    info = np.iinfo(b.dtype(numbers)) if category(b.dtype(numbers)) != 2 else None
    most = b.const_like(math.inf if info is None else info.max, numbers)
    value = b.op("min", b.made("where", often, numbers, most), last, True)
    place = b.op("arange", 0, _static(b, rows, last, "mode"), 1, "int64")
    place = b.op("max", b.made("where", b.made("equal", numbers, value), place, const(0, "int64")), last, True)
    value = b.cast(value, dtype)
    axes = list(range(last))
    back = [*axes[:dim], last, *axes[dim:]]
    found = [b.op("permute_dims", f, back) if dim != last else f for f in (value, place)] if keepdim else [
        b.op("squeeze", f, [last]) for f in (value, place)]
    return tuple(found)


@converts("topk")
def topk(b, x, k, dim=-1, largest=True, sorted=True):  # noqa: A002 (torch's name)
    return b.op("topk", x, k=k, axis=dim, largest=largest, ret_type="both", dtype="int64")


# ---------------------------------------------------------------- searches

@converts("searchsorted")
def searchsorted(b, sequence, x, out_int32=False, right=False, side=None, sorter=None):
    """How many elements of an ordered sequence, along its last axis, stand before a number; right: those equal to it
    too. NaN stands behind all numbers, and a NaN that is searched for behind everything."""
    if sorter is not None:
        raise ValueError("a sorter is not supported: gather the sequence by it first")
    right = side == "right" if side is not None else right
    sequence, numbers = b.common(sequence, x)
    columns = b.made("expand_dims", numbers, b.rank(numbers))
    rows = sequence if b.rank(sequence) == 1 else b.op("expand_dims", sequence, b.rank(sequence) - 1)
    before = b.op("less_equal" if right else "less", rows, columns)
    if category(b.dtype(numbers)) == 2:
        before = b.op("logical_or", before, b.op("isnan", columns))
    return b.op("sum", b.made("astype", before, "int32" if out_int32 else "int64"), [-1])


@converts("bucketize")
def bucketize(b, x, boundaries, out_int32=False, right=False):
    return searchsorted(b, boundaries, x, out_int32, right)


@converts("isin")
def isin(b, x, test, assume_unique=False, invert=False):
    """Whether elements are among others."""
    x, test = b.common(x, test)
    flat = b.op("reshape", test, [-1])
    same = b.op("equal", b.made("expand_dims", x, b.rank(x)), flat)
    found = b.op("any", same, [b.rank(x)])
    return b.op("logical_not", found) if invert else found


@converts("histc")
def histc(b, x, bins=100, min=0, max=0):  # noqa: A002 (torch's names)
    """How many elements lie in each of equal parts of a range, of which the last has its end too."""
    if min == max:
        raise ValueError("histc counts over the range of its data where min is max; say the range")
    flat, dtype = b.op("reshape", x, [-1]), b.dtype(x)
    low, high = (b.const_like(v, x) for v in (min, max))
    inside = b.op("logical_and", b.made("greater_equal", flat, low), b.made("less_equal", flat, high))
    part = b.op("divide", b.made("multiply", b.made("subtract", flat, low), b.const_like(bins, x)),
                b.made("subtract", high, low))
    part = b.op("astype", b.made("where", inside, part, b.const_like(0, x)), "int64")
    part = b.op("minimum", part, const(bins - 1, "int64"))
    return b.op("scatter_elements", b.made("full", [bins], b.const_like(0, x), dtype), part,
                b.made("astype", inside, dtype), axis=0, reduction="add")
