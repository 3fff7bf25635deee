"""Reductions over axes. One row each."""
from __future__ import annotations

from functools import partial

import numpy as np

from ... import te, tir
from ...expr import IntImm, cast, const, logical_or
from ...op import register
from ..expr import TensorStructInfo
from .common import (as_dim, fail, flat_index, need_dtype, normalize_axes, normalize_axis, product, shape_text,
                     te_shape, tensor)
from .precision import is_float, narrow, sum_dtype, widen_array


def _reduced_shape(shape, axes, keepdims):
    return tuple(as_dim(1) if k in axes else d for k, d in enumerate(shape) if keepdims or k not in axes)


def _infer(call, dtypes, needs_elements):
    x = tensor(call)
    need_dtype(call, x, dtypes)
    axes = normalize_axes(call, call.attrs["axis"], x.ndim)
    _check_elements(call, x, axes, needs_elements)
    return TensorStructInfo(_reduced_shape(x.shape, axes, call.attrs["keepdims"]), x.dtype)


def _check_elements(call, x, axes, needs_elements):
    if needs_elements and any(isinstance(x.shape[a], IntImm) and x.shape[a].value == 0 for a in axes):
        _fail_empty(call, shape_text(x), axes)


def _fail_empty(call, shape, axes):
    fail(call, f"nothing to choose from: {shape} is empty along axis {', '.join(map(str, axes))}")


def _some_of(name, function):
    """numpy's function that needs an element of each axis that it reduces, as the operator `name`."""
    def reduced(x, axis, **attrs):
        axes = range(x.ndim) if axis is None else _plain_axes(axis, x.ndim)
        if any(x.shape[a] == 0 for a in axes):  # of symbolic shape, which no inference refused
            _fail_empty(name, x.shape, axes)
        return function(x, axis=axis, **attrs)
    return reduced


class Reduction:
    """How reduced indices combine with output indices: used by every reduction's lowering."""

    def __init__(self, x, axes, keepdims):
        self.x, self.keepdims = x, keepdims
        self.axes = {a: te.reduce_axis((0, x.shape[a]), f"k{a}") for a in axes}

    def at(self, indices):
        """The input index for output `indices`, reduced axes replaced by their IterVars' variables."""
        rest = iter(indices)
        out = []
        for k in range(self.x.ndim):
            own = next(rest) if self.keepdims or k not in self.axes else None
            out.append(self.axes[k].var if k in self.axes else own)
        return tuple(out)

    @property
    def iter_vars(self):
        return tuple(self.axes.values())

    def count(self, dtype):
        """How many elements each result reduces."""
        return cast(product(self.x.shape[a] for a in self.axes), dtype)


def _lower(args, attrs, out, name, reducer):
    x, = args
    axes = [a for a in range(x.ndim)] if attrs["axis"] is None else _plain_axes(attrs["axis"], x.ndim)
    shape, wide = te_shape(out), sum_dtype(x.dtype)
    if not axes:
        return te.compute(shape, lambda *i: x[i], name=name)
    space = Reduction(x, axes, attrs["keepdims"])
    whole = te.compute(shape, lambda *i: reducer(cast(x[space.at(i)], wide), space.iter_vars),
                       name=name + "_sum" if name == "mean" else name)
    if name == "mean":
        divide = (lambda a, b: a / b) if x.dtype.is_float else tir.truncdiv
        whole = te.compute(shape, lambda *i, total=whole: divide(total[i], space.count(wide)), name="mean")
    return narrow(whole, x.dtype)


def _plain_axes(axis, rank):
    return sorted(a % rank for a in ((axis,) if isinstance(axis, int) else axis))


def _evaluate(args, attrs, function):
    x, axis = np.asarray(args[0]), attrs["axis"]
    axis = axis if axis is None or isinstance(axis, int) else tuple(axis)
    return np.asarray(function(widen_array(x), axis=axis, keepdims=attrs["keepdims"])).astype(x.dtype)


def _numpy_mean(x, axis, keepdims):
    """Integers truncate toward zero."""
    if is_float(x):
        return np.mean(x, axis=axis, keepdims=keepdims)
    total = np.sum(x, axis=axis, keepdims=keepdims, dtype=x.dtype)
    count = x.size // max(total.size, 1)
    return (total // count + ((total % count != 0) & (total < 0))).astype(x.dtype)


# name, dtypes taken, needs at least one element, te reducer, numpy
ROWS = [
    ("sum", "number", False, te.sum, lambda x, **k: np.sum(x, dtype=x.dtype, **k)),
    ("prod", "number", False, te.prod, lambda x, **k: np.prod(x, dtype=x.dtype, **k)),
    ("mean", "number", False, te.sum, _numpy_mean),
    ("max", "any", True, te.max, np.max),
    ("min", "any", True, te.min, np.min),
]
BOOLEAN_ROWS = [
    ("all", "bool", False, te.min, np.all),
    ("any", "bool", False, te.max, np.any),
]

for _name, _dtypes, _needs, _reducer, _numpy in ROWS + BOOLEAN_ROWS:
    register(_name, partial(_infer, dtypes=_dtypes, needs_elements=_needs),
             partial(_lower, name=_name, reducer=_reducer),
             partial(_evaluate, function=_some_of(_name, _numpy) if _needs else _numpy),
             "reduction", axis=None, keepdims=False)


# ---------------------------------------------------------------- variance and standard deviation

def _lower_spread(args, attrs, out, name):
    """Two passes, mean first, so that a large mean costs no digits; of the population: divided by the count."""
    x, = args
    axes = list(range(x.ndim)) if attrs["axis"] is None else _plain_axes(attrs["axis"], x.ndim)
    shape, wide = te_shape(out), sum_dtype(x.dtype)
    first, second = Reduction(x, axes, attrs["keepdims"]), Reduction(x, axes, attrs["keepdims"])
    total = te.compute(shape, lambda *i: te.sum(cast(x[first.at(i)], wide), first.iter_vars), name=name + "_sum")

    def square(*i):
        deviation = cast(x[second.at(i)], wide) - total[i] / second.count(wide)
        return te.sum(deviation * deviation, second.iter_vars)

    squares = te.compute(shape, square, name=name + "_squares")
    root = tir.sqrt if name == "std" else lambda v: v
    return narrow(te.compute(shape, lambda *i: root(squares[i] / second.count(wide)), name=name), x.dtype)


for _name, _numpy in (("variance", np.var), ("std", np.std)):
    register(_name, partial(_infer, dtypes="float", needs_elements=True), partial(_lower_spread, name=_name),
             partial(_evaluate, function=_some_of(_name, _numpy)), "reduction", axis=None, keepdims=False)


# ---------------------------------------------------------------- argmax and argmin

def _infer_arg(call):
    """axis: one, or None for the position in the whole tensor as if it were flat."""
    x = tensor(call)
    need_dtype(call, x, "number")
    axis = call.attrs["axis"]
    axes = tuple(range(x.ndim)) if axis is None else (normalize_axis(call, axis, x.ndim),)
    _check_elements(call, x, axes, True)
    return TensorStructInfo(_reduced_shape(x.shape, axes, call.attrs["keepdims"]), "int64")


def _lower_arg(args, attrs, out, name, reducer):
    """Two passes: the extreme value, then the first (or last) position that holds it. A NaN is the extreme of all."""
    x, = args
    axes, last = range(x.ndim) if attrs["axis"] is None else [attrs["axis"] % x.ndim], attrs["select_last_index"]
    shape = te_shape(out)
    space, again = (Reduction(x, axes, attrs["keepdims"]) for _ in range(2))
    extreme = te.compute(shape, lambda *i: reducer(x[space.at(i)], space.iter_vars), name=name + "_value")
    flat = cast(flat_index([iv.var for iv in again.iter_vars], [x.shape[a] for a in axes]), "int64")
    none = const(0, "int64") if last else again.count("int64") - 1

    def position(*i):
        value = x[again.at(i)]
        found = value == extreme[i]
        if x.dtype.is_float:  # the extreme of numbers with a NaN among them is NaN, which equals nothing
            found = logical_or(found, tir.isnan(value))
        return (te.max if last else te.min)(tir.select(found, flat, none), again.iter_vars)

    return te.compute(shape, position, name=name)


def _evaluate_arg(args, attrs, function):
    x, axis = np.asarray(args[0]), attrs["axis"]
    if not attrs["select_last_index"]:
        return np.asarray(function(x, axis=axis, keepdims=attrs["keepdims"])).astype(np.int64)
    flipped = np.asarray(function(np.flip(x, axis), axis=axis, keepdims=attrs["keepdims"]))
    return ((x.size if axis is None else x.shape[axis]) - 1 - flipped).astype(np.int64)


for _name, _reducer, _numpy in (("argmax", te.max, np.argmax), ("argmin", te.min, np.argmin)):
    register(_name, _infer_arg, partial(_lower_arg, name=_name, reducer=_reducer),
             partial(_evaluate_arg, function=_some_of(_name, _numpy)), "reduction", axis=None, keepdims=False,
             select_last_index=False)
