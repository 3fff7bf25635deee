"""Views: the same elements in the same order under another shape. The compiler aliases them where it can; their
lowering serves a view that ends up inside a fused kernel."""
from __future__ import annotations

import numpy as np

from ... import te
from ...expr import IntImm, const
from ...op import REQUIRED, register
from ..expr import TensorStructInfo
from .common import (fail, flat_index, is_one, normalize_axes, same_dim, shape_argument, shape_text, te_shape, tensor,
                     unflatten_index)


# ---------------------------------------------------------------- element counts and matching dimensions

def factors(dims):
    """(product of the static dimensions, the list of symbolic ones)."""
    static, symbolic = 1, []
    for d in dims:
        if isinstance(d, IntImm):
            static *= d.value
        else:
            symbolic.append(d)
    return static, symbolic


def _same_symbols(a, b):
    """True when two lists hold equal dimensions, in any order."""
    rest = list(b)
    for x in a:
        found = next((k for k, y in enumerate(rest) if same_dim(x, y)), None)
        if found is None:
            return False
        del rest[found]
    return not rest


def same_count(a, b):
    """True, False or None (not known): do two shapes have equally many elements?"""
    (static_a, symbols_a), (static_b, symbols_b) = factors(a), factors(b)
    if _same_symbols(symbols_a, symbols_b):
        return static_a == static_b
    return None


def matching_groups(a, b):
    """Split two shapes of equal element count into consecutive groups of equal count, as small as can be told.

    Returns [(axes of a, axes of b), ...]; a group whose count is not known to match is the last one.
    Example: (n, 3, 4, 5), (n, 12, 5) -> [([0], [0]), ([1, 2], [1]), ([3], [2])].
    """
    groups, i, j = [], 0, 0
    while i < len(a) or j < len(b):
        left, right = [], []
        i, j = _advance(a, i, left), _advance(b, j, right)
        while same_count([a[k] for k in left], [b[k] for k in right]) is not True and (i < len(a) or j < len(b)):
            behind = _is_behind([a[k] for k in left], [b[k] for k in right])
            if (behind and i < len(a)) or j == len(b):
                i = _advance(a, i, left)
            else:
                j = _advance(b, j, right)
        groups.append((left, right))
    return groups


def _advance(dims, k, group):
    if k < len(dims):
        group.append(k)
        k += 1
    return k


def _is_behind(a, b):
    """True when group `a` is the one to grow: fewer symbolic factors, else the smaller static product."""
    (static_a, symbols_a), (static_b, symbols_b) = factors(a), factors(b)
    return (len(symbols_a), static_a) < (len(symbols_b), static_b)


# ---------------------------------------------------------------- lowering

def lower_view(args, attrs, out, name="reshape"):
    """Express any view in te: for each group of dimensions of equal size, flatten the output's indices and
    unflatten."""
    x = args[0]
    shape = tuple(d.value if isinstance(d, IntImm) else d for d in x.shape)
    to = te_shape(out)
    groups = matching_groups(x.shape, out.shape)

    def element(*i):
        index = [const(0)] * x.ndim
        for mine, theirs in groups:
            flat = flat_index([i[k] for k in theirs], [to[k] for k in theirs])
            for k, value in zip(mine, unflatten_index(flat, [shape[k] for k in mine])):
                index[k] = const(0) if is_one(x.shape[k]) else value
        return x[tuple(index)]

    return te.compute(to, element, name=name)


# ---------------------------------------------------------------- the operators

def _infer_reshape(call):
    x, shape = tensor(call), shape_argument(call, 1)
    if any(isinstance(d, IntImm) and d.value < 0 for d in shape):
        fail(call, f"shape {shape_text(shape)} has a negative dimension; resolve -1 first")
    if same_count(x.shape, shape) is False:
        fail(call, f"{shape_text(x)} and {shape_text(shape)} differ in their number of elements")
    return TensorStructInfo(shape, x.dtype)


def _infer_expand_dims(call):
    x, axis = tensor(call), call.attrs["axis"]
    axes = normalize_axes(call, axis, x.ndim + (1 if isinstance(axis, int) else len(axis)))
    rest = iter(x.shape)
    rank = x.ndim + len(axes)
    return TensorStructInfo(tuple(const(1, "int64") if k in axes else next(rest) for k in range(rank)), x.dtype)


def _infer_squeeze(call):
    x, axis = tensor(call), call.attrs["axis"]
    if axis is None:
        return TensorStructInfo(tuple(d for d in x.shape if not is_one(d)), x.dtype)
    axes = normalize_axes(call, axis, x.ndim)
    for a in axes:
        if not is_one(x.shape[a]):
            fail(call, f"axis {a} of {shape_text(x)} is not 1")
    return TensorStructInfo(tuple(d for k, d in enumerate(x.shape) if k not in axes), x.dtype)


def _evaluate_squeeze(args, attrs):
    return np.squeeze(args[0], axis=attrs["axis"])


register("reshape", _infer_reshape, lower_view, lambda args, attrs: np.reshape(args[0], args[1]), "view", arity=(2, 2))
register("expand_dims", _infer_expand_dims, lambda *a: lower_view(*a, name="expand_dims"),
         lambda args, attrs: np.expand_dims(args[0], attrs["axis"]), "view", axis=REQUIRED)
register("squeeze", _infer_squeeze, lambda *a: lower_view(*a, name="squeeze"), _evaluate_squeeze, "view", axis=None)
