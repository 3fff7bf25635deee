"""Complex tensors as pairs of real ones: rotations of positions, spectra.

Programs here have no complex dtype. What torch makes complex (view_as_complex, complex, polar, constants, transforms) is a
Pair in the graph's values, and no input or result of a function.
"""
from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...ir.relax.expr import RelaxExpr, TupleStructInfo, const
from ..shapes import product
from .table import CONVERTERS, converts, find


@dataclass(frozen=True)
class Pair:
    """A complex tensor: its real and imaginary part, of one shape and dtype."""
    real: RelaxExpr
    imag: RelaxExpr

    @property
    def struct_info(self):
        """That of each part."""
        return self.real.struct_info


# Operators that treat real and imaginary parts alike.
_PARTWISE = frozenset("""view reshape view_copy transpose permute t numpy_T unsqueeze squeeze expand expand_as select
slice index_select narrow flatten unflatten contiguous clone alias detach lift_fresh lift_fresh_copy flip roll repeat sum
mean cumsum neg negative movedim index split split_with_sizes chunk unbind cat concat stack tril triu constant_pad_nd pad
getitem swapaxes positive unfold""".split())


def convert_complex(b, name, args, kwargs):
    """What an operator of complex tensors gives. Raises ValueError for one that is not known here."""
    base = name.partition(".")[0].removeprefix("_")
    base = base[:-1] if base.endswith("_") and not base.startswith("_") else base
    if base in _OPERATORS:
        return _OPERATORS[base](b, *args, **kwargs)
    if base in _PARTWISE or base == "unsafe_view":
        return _partwise(find(name), b, args, kwargs)
    if base in ("to", "to_copy") and all(_is_complex_dtype(v) for v in (*args[1:], *kwargs.values()) if _is_dtype(v)):
        return args[0]
    raise ValueError(f"{base} of complex tensors is not supported; known: {', '.join(sorted(_OPERATORS))}, and "
                     "operators that move elements")


def holds_pair(value):
    """Whether a value among arguments is complex."""
    if isinstance(value, (list, tuple)):
        return any(map(holds_pair, value))
    return isinstance(value, (Pair, complex)) or isinstance(value, dict) and any(map(holds_pair, value.values()))


def _is_dtype(value):
    return type(value).__name__ == "dtype"


def _is_complex_dtype(value):
    return "complex" in str(value)


def _partwise(convert, b, args, kwargs):
    real, imag = (convert(b, *_part(args, k), **_part(kwargs, k)) for k in ("real", "imag"))
    if isinstance(getattr(real, "struct_info", None), TupleStructInfo):
        real, imag = ([b.emit(v[k]) for k in range(len(v.struct_info.fields))] for v in (real, imag))
    return [Pair(*pair) for pair in zip(real, imag)] if isinstance(real, (list, tuple)) else Pair(real, imag)


def _part(value, which):
    """A value with one part of each Pair."""
    if isinstance(value, Pair):
        return getattr(value, which)
    if isinstance(value, dict):
        return {k: _part(v, which) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        if holds_pair(value) and any(isinstance(v, RelaxExpr) for v in value) and not isinstance(value, tuple):
            raise ValueError("real and complex tensors in one list are not supported: make all complex")
        return type(value)(_part(v, which) for v in value)
    return value


def _parts(value):
    """(real part, imaginary part or None)"""
    return (value.real, value.imag) if isinstance(value, (Pair, complex)) else (value, None)


def _call(name):
    return lambda b, x, y: CONVERTERS[name](b, x, y)


_add, _sub, _mul, _div = map(_call, ("add", "sub", "mul", "div"))


# ---------------------------------------------------------------- makers

@converts("view_as_complex", "view_as_complex_copy")
def view_as_complex(b, x):
    return Pair(*(b.op("take", x, const(k, "int64"), axis=b.rank(x) - 1) for k in (0, 1)))


def as_complex(b, x, dtype):
    """A real tensor in a complex dtype."""
    real = b.cast(x, "float64" if "128" in str(dtype) else "float32")
    return Pair(real, b.op("zeros_like", real))


@converts("complex")
def complex_(b, real, imag):
    return Pair(*_same_shape(b, *b.common(real, imag)))


@converts("polar")
def polar(b, size, angle):
    return complex_(b, _mul(b, size, b.op("cos", angle)), _mul(b, size, b.op("sin", angle)))


def _same_shape(b, real, imag):
    """Both, in the shape that they broadcast to."""
    if b.dims(real) == b.dims(imag):
        return real, imag
    shape = np.broadcast_shapes(tuple(b.dims(real)), tuple(b.dims(imag)))
    return tuple(x if tuple(b.dims(x)) == shape else b.op("broadcast_to", x, list(shape)) for x in (real, imag))


# ---------------------------------------------------------------- arithmetic

def _sum(combine):
    def convert(b, x, y, alpha=1):
        if alpha != 1:
            raise ValueError("alpha of complex tensors is not supported")
        (a, c), (e, f) = _parts(x), _parts(y)
        real = combine(b, a, e)
        imag = combine(b, 0.0 if c is None else c, f) if f is not None else c
        return Pair(*_same_shape(b, real, b.as_operand(imag, b.dtype(real))))
    return convert


def _product(times):
    def convert(b, x, y):
        (a, c), (e, f) = _parts(x), _parts(y)
        if c is None or f is None:
            alone, (re, im) = (a, (e, f)) if c is None else (e, (a, c))
            pair = [(alone, v) if c is None else (v, alone) for v in (re, im)]
            return Pair(*(times(b, *p) for p in pair))
        return Pair(_sub(b, times(b, a, e), times(b, c, f)), _add(b, times(b, a, f), times(b, c, e)))
    return convert


def _quotient(b, x, y):
    """By a complex number: of both over its larger part, so that squares stay in the dtype."""
    e, f = _parts(y)
    if f is None:
        return Pair(*(_div(b, v, e) for v in (x.real, x.imag)))
    if not b.is_tensor(e):
        return _multiply(b, x, 1 / y)
    most = b.op("maximum", b.op("abs", e), b.op("abs", f))
    e, f = _div(b, e, most), _div(b, f, most)
    square = _mul(b, most, _add(b, _mul(b, e, e), _mul(b, f, f)))
    top = _multiply(b, x, Pair(e, b.op("negative", f)))
    return Pair(_div(b, top.real, square), _div(b, top.imag, square))


def _exp(b, x):
    return polar(b, b.op("exp", x.real), x.imag)


_multiply = _product(_mul)
_products = {name: _product(_call("matmul")) for name in ("matmul", "mm", "bmm")}
_OPERATORS = {
    "add": _sum(_add), "sub": _sum(_sub), "mul": _multiply, "multiply": _multiply, "div": _quotient, "exp": _exp,
    "truediv": _quotient, **_products, "abs": lambda b, x: CONVERTERS["hypot"](b, x.real, x.imag),
    "angle": lambda b, x: CONVERTERS["atan2"](b, x.imag, x.real), "real": lambda b, x: x.real,
    "imag": lambda b, x: x.imag, "conj": lambda b, x: Pair(x.real, b.op("negative", x.imag)),
    "conj_physical": lambda b, x: Pair(x.real, b.op("negative", x.imag)), "resolve_conj": lambda b, x: x,
    "view_as_real": lambda b, x: CONVERTERS["stack"](b, [x.real, x.imag], -1),
    "view_as_real_copy": lambda b, x: CONVERTERS["stack"](b, [x.real, x.imag], -1),
}
for _name in ("view_as_real", "view_as_real_copy", "imag"):
    CONVERTERS.setdefault(_name, lambda b, *args, **kwargs: _only_complex(b))
for _name in ("real", "conj", "conj_physical"):
    CONVERTERS.setdefault(_name, lambda b, x: x)


@converts("angle")
def angle(b, x):
    """Of real numbers: pi of those below 0."""
    x = b.floats(x)
    turned = b.made("where", b.made("less", x, b.const_like(0, x)), b.const_like(math.pi, x), b.const_like(0, x))
    return b.op("where", b.made("isnan", x), x, turned)


def _only_complex(b):
    raise ValueError("the operator takes a complex tensor")


# ---------------------------------------------------------------- transforms

def _turned(b, x, axis, matrix):
    """The elements of an axis, by a matrix [elements, results]."""
    rank = b.rank(x)
    order = [k for k in range(rank) if k != axis] + [axis]
    moved = x if axis == rank - 1 else b.op("permute_dims", x, order)
    found = b.op("matmul", moved, const(np.ascontiguousarray(matrix), b.dtype(x)))
    return found if axis == rank - 1 else b.op("permute_dims", found, np.argsort(order).tolist())


def _axis(b, x, dim):
    """(the axis, its static size)"""
    axis = dim % b.rank(x)
    size = b.dims(x)[axis]
    if not isinstance(size, int):
        raise ValueError(f"a transform of the symbolic dimension {size} is not supported: pin it")
    return axis, size


def _waves(rows, columns, size):
    """The angles 2 pi j k / size, with j k reduced first."""
    return 2 * np.pi * (np.outer(np.arange(rows), np.arange(columns)) % size) / size


def _along(b, x, dim, forward):
    axis, size = _axis(b, x.real, dim)
    angles = _waves(size, size, size) * (-1 if forward else 1)
    cos, sin = np.cos(angles), np.sin(angles)
    return Pair(_sub(b, _turned(b, x.real, axis, cos), _turned(b, x.imag, axis, sin)),
                _add(b, _turned(b, x.real, axis, sin), _turned(b, x.imag, axis, cos)))


def _scaled(b, x, count, normalization):
    factor = (1, count ** -0.5, 1 / count)[normalization]
    return x if factor == 1 else _multiply(b, x, factor) if isinstance(x, Pair) else _mul(b, x, factor)


@converts("fft_r2c")
def fft_r2c(b, x, dim, normalization=0, onesided=True):
    axis, size = _axis(b, x, dim[-1])
    angles = _waves(size, size // 2 + 1 if onesided else size, size)
    found = Pair(_turned(b, x, axis, np.cos(angles)), _turned(b, x, axis, -np.sin(angles)))
    for d in dim[:-1]:
        found = _along(b, found, d, True)
    return _scaled(b, found, product([b.dims(x)[d] for d in dim]), normalization)


def _fft_c2c(b, x, dim, normalization=0, forward=True):
    count = product([b.dims(x.real)[d] for d in dim])
    for d in dim:
        x = _along(b, x, d, forward)
    return _scaled(b, x, count, normalization)


def _fft_c2r(b, x, dim, normalization=0, last_dim_size=None):
    for d in dim[:-1]:
        x = _along(b, x, d, False)
    axis, size = _axis(b, x.real, dim[-1])
    angles, twice = _waves(size, last_dim_size, last_dim_size), np.full((size, 1), 2.0)
    twice[0] = 1
    if last_dim_size % 2 == 0:
        twice[last_dim_size // 2] = 1
    found = _sub(b, _turned(b, x.real, axis, np.cos(angles) * twice), _turned(b, x.imag, axis, np.sin(angles) * twice))
    count = product([b.dims(x.real)[d] for d in dim[:-1]]) * last_dim_size
    return _scaled(b, found, count, normalization)


_OPERATORS.update({"fft_c2c": _fft_c2c, "fft_c2r": _fft_c2r})
for _name in ("fft_c2c", "fft_c2r"):
    CONVERTERS[_name] = lambda b, *args, **kwargs: _only_complex(b)


@converts("stft")
def stft(b, x, n_fft, hop_length=None, win_length=None, window=None, normalized=False, onesided=None,
         return_complex=None, align_to_window=None):
    """[..., bins, frames] of a real signal [..., length]."""
    axis, size = _axis(b, x, -1)
    length = n_fft if win_length is None else win_length
    if window is not None and length < n_fft:
        before = (n_fft - length) // 2
        window = b.op("nn.pad", window, [before, n_fft - length - before])
    elif length < n_fft:
        raise ValueError("a win_length below n_fft needs a window")
    places = np.arange(0, size - n_fft + 1, hop_length or n_fft // 4)[:, None] + np.arange(n_fft)
    frames = b.op("take", x, const(places, "int64"), axis=axis)
    frames = frames if window is None else _mul(b, frames, window)
    found = fft_r2c(b, frames, [-1], 1 if normalized else 0, onesided is not False)
    found = Pair(*(CONVERTERS["transpose"](b, v, -1, -2) for v in (found.real, found.imag)))
    return found if return_complex else _OPERATORS["view_as_real"](b, found)


__all__ = ["Pair", "as_complex", "convert_complex", "holds_pair"]
