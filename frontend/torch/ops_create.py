"""Tensors made of numbers, and conversions."""
from __future__ import annotations

import numpy as np

from ...ir.relax.expr import Constant, ShapeExpr, const
from .dtypes import category, dtype_of, is_dtype, torch
from .ops_complex import as_complex
from .table import ATEN, CONVERTERS, FUNCTIONS, converts


def _default_dtype():
    return dtype_of(torch().get_default_dtype())


def _sizes(size, more=()):
    """(2, 3), 2 and 2, 3 as a shape."""
    size = (size, *more) if more or isinstance(size, int) else size
    return tuple(getattr(size, "values", size)) if isinstance(size, (list, tuple, ShapeExpr)) else (size,)


def _dtype(b, given, like=None):
    """The dtype to make: the given one, that of a tensor, or torch's default."""
    return dtype_of(given) if given is not None else b.dtype(like) if like is not None else _default_dtype()


def _full(b, size, value, dtype):
    value = value if b.is_tensor(value) else const(value, dtype)
    return b.op("full", ShapeExpr(size), b.cast(value, dtype), dtype)


@converts("full")
def full(b, size, value, dtype=None, **options):
    kind = "bool" if isinstance(value, bool) else "int64" if isinstance(value, int) else None
    named = dtype_of(dtype) if dtype is not None else kind if kind and not options.get("python") else None
    return _full(b, _sizes(size), value, named or _default_dtype())


def _filled(value):
    def of_size(b, size, *more, dtype=None, **options):
        return _full(b, _sizes(size, more), value, _dtype(b, dtype))

    def like(b, x, dtype=None, **options):
        return _full(b, tuple(b.shape_of(x).values), value, _dtype(b, dtype, x))

    def new(b, x, size, *more, dtype=None, **options):
        return _full(b, _sizes(size, more), value, _dtype(b, dtype, x))
    return of_size, like, new


for _name, _value in (("ones", 1), ("zeros", 0)):
    CONVERTERS[_name], CONVERTERS[f"{_name}_like"], CONVERTERS[f"new_{_name}"] = _filled(_value)
CONVERTERS["new_empty"] = CONVERTERS["new_zeros"]


@converts("full_like")
def full_like(b, x, value, dtype=None, **options):
    return _full(b, tuple(b.shape_of(x).values), value, _dtype(b, dtype, x))


@converts("new_full")
def new_full(b, x, size, value, dtype=None, **options):
    return _full(b, _sizes(size), value, _dtype(b, dtype, x))


@converts("empty")
def empty(b, size, *more, dtype=None, **options):
    return b.op("zeros", _sizes(size, more), _dtype(b, dtype))


@converts("empty_like")
def empty_like(b, x, dtype=None, **options):
    return b.op("zeros_like", x) if dtype is None else b.op("zeros_like", x, dtype_of(dtype))


@converts("empty_permuted", "empty_strided", table=ATEN)
def empty_ordered(b, size, order, dtype=None, **options):
    return b.op("zeros", _sizes(size), _dtype(b, dtype))


@converts("fill", "fill_")
def fill(b, x, value):
    return _full(b, tuple(b.shape_of(x).values), value, b.dtype(x))


@converts("zero", "zero_")
def zero(b, x):
    return fill(b, x, 0)


@converts("arange")
def arange(b, *args, start=0, end=None, step=1, dtype=None, **options):
    """arange(end), (start, end) or (start, end, step)"""
    if len(args) == 1:
        end, = args
    elif args:
        start, end, step = (*args, step)[:3]
    if dtype is None:
        dtype = _default_dtype() if any(isinstance(v, float) for v in (start, end, step)) else "int64"
    return b.op("arange", start, end, step, dtype=dtype_of(dtype))


@converts("linspace")
def linspace(b, start, end, steps, dtype=None, **options):
    dtype = _dtype(b, dtype)
    if not b.is_tensor(start) and not b.is_tensor(end):
        return const(np.linspace(start, end, steps).astype(dtype), dtype)
    start, end = (b.as_operand(v, "float32" if dtype != "float64" else dtype) for v in (start, end))
    share = const(np.linspace(0, 1, steps).astype(b.dtype(start)), b.dtype(start))
    return b.cast(b.op("add", start, b.made("multiply", share, b.made("subtract", end, start))), dtype)


@converts("eye")
def eye(b, n, m=None, dtype=None, **options):
    return const(np.eye(n, m), _dtype(b, dtype))


@converts("scalar_tensor")
def scalar_tensor(b, value, dtype=None, **options):
    return b.as_operand(value, _dtype(b, dtype))


@converts("tensor", "as_tensor", table=FUNCTIONS)
def tensor(b, value, dtype=None, **options):
    if b.is_tensor(value):
        return value if dtype is None else b.cast(value, dtype_of(dtype))
    array = np.asarray(value)
    usual = {"f": _default_dtype(), "i": "int64", "b": "bool"}.get(array.dtype.kind)
    if usual is None:
        raise ValueError(f"torch.tensor of {value!r} is no tensor of numbers")
    return const(array, usual if dtype is None else dtype_of(dtype))


# ---------------------------------------------------------------- conversions

@converts("to", "_to_copy", "type_as")
def to(b, x, *args, dtype=None, **options):
    """A dtype among the arguments; devices and layouts say nothing here."""
    for a in args:
        if is_dtype(a) or b.is_tensor(a) or isinstance(a, str) and a in _DTYPES:
            dtype = b.dtype(a) if b.is_tensor(a) else a
    if dtype is None or isinstance(x, (int, float)):
        return x
    if "complex" in str(dtype):
        return as_complex(b, x, dtype)
    return b.op("astype", x, dtype_of(dtype))


_DTYPES = ("float32", "float16", "float64", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "bool")


@converts("type", "astype")
def as_type(b, x, dtype=None):
    return b.op("astype", x, dtype_of(dtype))


def _cast_to(dtype):
    return lambda b, x, memory_format=None: b.op("astype", x, dtype)


for _name in ("float", "half", "double", "int", "long", "bool", "bfloat16", "short"):
    FUNCTIONS[_name] = _cast_to(dtype_of(_name))


@converts("convert_element_type")
def convert_element_type(b, x, dtype):
    return b.op("astype", x, dtype_of(dtype))


@converts("is_floating_point")
def is_floating_point(b, x):
    return const(category(b.dtype(x)) == 2, "bool")


@converts("item", "_local_scalar_dense")
def item(b, x):
    if isinstance(x, Constant) and not x.data.shape:
        return x.data.item()
    raise ValueError("item() of a tensor makes a number that only a run knows")
