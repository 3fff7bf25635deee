"""Functions of relax.op on tensors that are made of several operators. See composites.py."""
from __future__ import annotations

import math

import numpy as np

from .. import tir
from ..expr import Var, as_expr, is_const_int
from ..op import InferError
from ..tir.index_map import IndexMap
from .classic import dtype_of, plain, shape_of
from .composites import axis_in, operands
from .expr import ShapeExpr
from .ops.common import simplify


def _static(name, dims):
    sizes = tuple(map(plain, dims))
    if not all(isinstance(s, int) for s in sizes):
        raise InferError(f"{name} needs static shapes, got {sizes}: pin them (compile with dims={{name: size}})")
    return sizes


# ---------------------------------------------------------------- sorting

def sort(ops, x, axis=-1, descending=False):
    return ops("topk", x, shape_of(x)[axis_in("sort", axis, len(shape_of(x)))], axis, "values", descending)


def argsort(ops, data, axis=-1, descending=False, dtype="int32"):
    extent = shape_of(data)[axis_in("argsort", axis, len(shape_of(data)))]
    return ops("topk", data, extent, axis, "indices", descending, dtype)


def topk(ops, data, k=1, axis=-1, ret_type="both", largest=True, dtype=None):
    """ret_type: "both", "values" or "indices"; k below 1, or beyond the extent, takes all. dtype: of the indices, int32
    where none is said."""
    if ret_type not in ("both", "values", "indices"):
        raise InferError(f"topk: ret_type {ret_type!r} is none of both, values, indices")
    extent = shape_of(data)[axis_in("topk", axis, len(shape_of(data)))]
    k = plain(k)
    k = plain(extent) if isinstance(k, int) and k < 1 else k
    k = min(k, plain(extent)) if isinstance(k, int) and isinstance(plain(extent), int) else k  # there are no more
    call = ops.core("topk", data, k=k, axis=axis, largest=bool(largest))
    dtype = dtype or "int32"
    if ret_type == "both" and dtype == "int64":
        return call
    values, indices = ops.items(call, 2)
    indices = indices if dtype == "int64" else ops("astype", indices, dtype)
    return {"both": lambda: ops.tuple(values, indices), "values": lambda: values, "indices": lambda: indices}[
        ret_type]()


topk.over = True


# ---------------------------------------------------------------- slices of axes that are symbolic

_FAR = (1 << 31) - 1  # an end from here on is the axis'


def strided_slice(ops, x, axes, begin, end, strides=None, assume_inbound=False):
    """x[begin:end:strides] along axes. Positions on a symbolic axis are held inside it, whose extent a run tells, unless
    they are assumed to lie there."""
    axes, begin, end = (v if isinstance(v, tuple) else (v,) for v in map(plain, (axes, begin, end)))
    strides = (1,) * len(begin) if strides is None else plain(strides)
    strides = strides * len(begin) if isinstance(strides, tuple) and len(strides) == 1 else strides
    dims = shape_of(x)
    fit = len(axes) == len(begin) == len(end) == len(strides) and all(
        isinstance(s, int) and s and isinstance(a, int) and -len(dims) <= a < len(dims) for s, a in zip(strides, axes))
    parts = list(zip(axes, begin, end, strides))
    if not fit or plain(assume_inbound) or not any(_needs_hold(plain(as_expr(dims[a])), b, e) for a, b, e, _ in parts):
        return ops.core("strided_slice", x, axes, begin, end, strides)
    found = [held_part(as_expr(dims[a]), b, e, s) for a, b, e, s in parts]
    return ops("slice_at", x, ShapeExpr(tuple(b for b, _ in found)), ShapeExpr(tuple(n for _, n in found)),
               tuple(a % len(dims) for a in axes), strides)


def _needs_hold(extent, begin, end):
    """Whether the elements of a slice depend on a symbolic extent by more than where it ends."""
    numbers = all(p is None or isinstance(p, int) for p in (begin, end))
    if isinstance(extent, int) and numbers:
        return False
    return not numbers or any(p is not None and p < 0 for p in (begin, end)) or end is not None and end < _FAR


def held_part(extent, begin, end, step):
    """(the first place, how many) of the slice of one axis."""
    low, high = (0, extent) if step > 0 else (-1, extent - 1)

    def held(p, default, most=high):
        if p is None or isinstance(p, int) and p >= _FAR:
            return default
        if isinstance(p, int) and p < 0:
            return simplify(tir.max(extent + p, low))
        if isinstance(p, int):
            return as_expr(p, "int64") if p == 0 and step > 0 else tir.min(as_expr(p, "int64"), high)
        p = tir.max(tir.if_then_else(p.astype("int64") < 0, p.astype("int64") + extent, p.astype("int64")), low)
        return p if most is None else tir.min(p, most)
    first = held(begin, as_expr(0, "int64") if step > 0 else high, None if step > 0 else high)  # beyond are no elements
    last = as_expr(-1, "int64") if step < 0 and (end is None or isinstance(end, int) and end == -1) else held(end, high)
    a, b, size = (first, last, step) if step > 0 else (last, first, -step)
    count = b - a if size == 1 else tir.floordiv(b + (size - 1) - a, size)
    if is_const_int(first, 0) and step > 0:
        return first, simplify(count)
    ordered = isinstance(begin, int) and isinstance(end, int) and 0 <= begin <= end and step > 0
    return first, count if ordered else tir.max(count, 0)


strided_slice.over = True


# ---------------------------------------------------------------- sums

def summed_axes(name, shape, target):
    """The axes of `shape` that a sum to `target` adds up; those that lead, and those that target has as 1."""
    more = len(shape) - len(target)
    if more < 0:
        raise InferError(f"{name}: the target has {len(target)} dimensions, the tensor {len(shape)}")
    kept = []
    for k, (a, b) in enumerate(zip(shape[more:], target)):
        a, b = plain(as_expr(a)), plain(as_expr(b))
        if b == 1 and isinstance(b, int) and not (isinstance(a, int) and a == 1):
            kept.append(k + more)
        elif not is_const_int(simplify(as_expr(a) - as_expr(b)), 0):
            raise InferError(f"{name}: dimension {a} does not sum to {b}")
    return tuple(range(more)), tuple(kept)


@operands("x shape")
def collapse_sum_to(ops, x, shape):
    """The sum of what broadcasting to x's shape would have copied."""
    target = tuple(getattr(shape, "values", shape))
    lead, kept = summed_axes("collapse_sum_to", shape_of(x), target)
    x = ops("sum", x, list(lead)) if lead else x
    x = ops("sum", x, [k - len(lead) for k in kept], True) if kept else x
    return ops.declared(x, target)


@operands("x like")
def collapse_sum_like(ops, x, like):
    return collapse_sum_to(ops, x, shape_of(like))


@operands("operands")
def einsum(ops, operands, subscripts):  # noqa: F811 (TVM's name)
    """numpy's einsum, without an ellipsis."""
    tensors = list(getattr(operands, "fields", operands if isinstance(operands, (list, tuple)) else [operands]))
    terms, right, _ = einsum_terms(ops.same_dims, subscripts, tensors)
    labels = [*right, *sorted(set("".join(terms)) - set(right))]
    result = None
    for term, t in zip(terms, tensors):
        t, term = _diagonal(ops, t, term)
        order = [term.index(c) for c in labels if c in term]
        t = ops("permute_dims", t, tuple(order)) if order != list(range(len(order))) else t
        missing = [k for k, c in enumerate(labels) if c not in term]
        t = ops("expand_dims", t, missing) if missing else t
        result = t if result is None else ops("multiply", result, t)
    inner = list(range(len(right), len(labels)))
    return ops("sum", result, inner) if inner else result


def einsum_terms(same_dims, subscripts, tensors):
    """(the letters of each operand's axes, of the result's, {letter: extent}); what broadcasts has the extent that is
    not 1. Letters of an ellipsis are capitals that subscripts leave over. same_dims(what, a, b) raises where dimensions
    differ."""
    left, arrow, right = subscripts.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(tensors):
        raise InferError(f"einsum: {subscripts!r} names {len(terms)} operands, got {len(tensors)}")
    terms, rest = _without_ellipsis(terms, tensors)
    left, right = ",".join(terms), right.replace("...", rest)
    if not arrow:
        right = rest + "".join(sorted(c for c in set(left) - {",", *rest} if left.count(c) == 1))
    extents = {}
    for term, t in zip(terms, tensors):
        if len(term) != len(shape_of(t)):
            raise InferError(f"einsum: {term!r} names {len(term)} axes of a tensor of {len(shape_of(t))}")
        for c, d in zip(term, shape_of(t)):
            known = extents.setdefault(c, d)
            if plain(as_expr(known)) != 1 and plain(as_expr(d)) != 1:
                same_dims(f"einsum: axis {c}", (known,), (d,))
            extents[c] = d if plain(as_expr(known)) == 1 and isinstance(plain(as_expr(known)), int) else known
    return terms, right, extents


def _without_ellipsis(terms, tensors):
    """(the terms with letters for what "..." stands for, these letters)"""
    hidden = [len(shape_of(t)) - len(term) + 3 if "..." in term else 0 for term, t in zip(terms, tensors)]
    letters = [c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if not any(c in t for t in terms)][:max(hidden)]
    named = [term.replace("...", "".join(letters[len(letters) - n:])) for term, n in zip(terms, hidden)]
    return named, "".join(letters)


def _diagonal(ops, x, term):
    """A tensor whose term names no axis twice: of one that does, the diagonal."""
    for c in sorted(set(term)):
        while term.count(c) > 1:
            a, b = term.index(c), term.rindex(c)
            size, = _static("einsum of a diagonal", shape_of(x)[a:a + 1])
            mask = np.zeros([size if k in (a, b) else 1 for k in range(len(term))], dtype_of(x).numpy)
            mask[tuple(np.arange(size) if k in (a, b) else 0 for k in range(len(term)))] = 1
            x = ops("sum", ops("where", ops("greater", ops.constant(mask), 0), x, ops("full_like", x, 0)), [b])
            term = term[:b] + term[b + 1:]
    return x, term


# ---------------------------------------------------------------- made of numbers

@operands("n m k")
def eye(ops, n, m=None, k=0, dtype="float32"):
    """Ones where column - row is k."""
    n, m, k = (plain(v) for v in (n, n if m is None else m, k))
    ones = ops("full", (n, m), 1.0, dtype)
    return ops("tril", ops("triu", ones, k), k)


@operands("x k")
def eye_like(ops, x, k=0, dtype=None):
    shape = shape_of(x)
    if len(shape) != 2:
        raise InferError(f"eye_like: takes a tensor of 2 dimensions, it has {len(shape)}")
    return eye(ops, *shape, k, dtype or dtype_of(x))


@operands("window_size periodic alpha beta")
def hamming_window(ops, window_size, periodic=True, alpha=0.54, beta=0.46, dtype="float32"):
    size = plain(window_size)
    if not isinstance(size, int) or size < 1:
        raise InferError(f"hamming_window: window_size must be a number of at least 1, it is {size}")
    count = size if plain(periodic) else max(size - 1, 1)
    at = np.arange(size) * (2 * math.pi / count)
    return ops.constant((plain(alpha) - plain(beta) * np.cos(at)).astype(dtype))


def wrap_param(ops, data, dtype="float32"):
    """A constant in another dtype."""
    return ops("astype", data, dtype)


# ---------------------------------------------------------------- quantization

def _scales(ops, name, data, scale, zero_point, axis):
    """The scale and zero point so that they broadcast along an axis."""
    rank = len(shape_of(data))
    axis = 0 if not rank else axis_in(name, axis, rank)
    shaped = []
    for v in (scale, zero_point):
        own = shape_of(v)
        if len(own) > 1:
            raise InferError(f"{name}: scale and zero_point have one dimension, or none")
        if own and plain(own[0]) != 1:
            ops.same_dims(f"{name}: axis {axis} and its scales", shape_of(data)[axis:axis + 1], own)
        own_axes = tuple(range(1, rank - axis)) if own else ()
        shaped.append(ops("expand_dims", v, own_axes) if own_axes else v)
    return shaped


@operands("data scale zero_point")
def quantize(ops, data, scale, zero_point, axis=-1, out_dtype="int8"):
    """round(data / scale) + zero_point, held in the range of out_dtype."""
    scale, zero_point = _scales(ops, "quantize", data, scale, zero_point, axis)
    low, high = ops.range_of(out_dtype)
    wide = dtype_of(data)
    value = ops("add", ops("round", ops("divide", data, ops("astype", scale, wide))), ops("astype", zero_point, wide))
    return ops("astype", ops("clip", value, low, high), out_dtype)


@operands("data scale zero_point")
def dequantize(ops, data, scale, zero_point, axis=-1, out_dtype="float32"):
    """(data - zero_point) * scale"""
    scale, zero_point = _scales(ops, "dequantize", data, scale, zero_point, axis)
    value = ops("subtract", ops("astype", data, "float32"), ops("astype", zero_point, "float32"))
    return ops("astype", ops("multiply", value, ops("astype", scale, "float32")), out_dtype)


# ---------------------------------------------------------------- elements

@operands("x mask")
def masked_fill(ops, x, mask, value):
    return ops("where", mask, ops("full_like", x, value), x)


@operands("prob uniform_sample sample_indices")
def multinomial_from_uniform(ops, prob, uniform_sample, sample_indices=None, dtype="int64"):
    """For each sample the class of its row of `prob` in whose part of the sum it lies: (samples, 1). One above the sum,
    which rounding may leave below 1, is of the last class that adds to it."""
    if len(shape_of(prob)) != 2 or len(shape_of(uniform_sample)) != 2:
        raise InferError("multinomial_from_uniform: prob and uniform_sample must have 2 dimensions")
    sums = ops("cumsum", prob, 1)
    if sample_indices is not None:
        ops.same_dims("multinomial_from_uniform: samples", shape_of(uniform_sample)[:1], shape_of(sample_indices)[:1])
        sums = ops("take", sums, ops("reshape", sample_indices, (-1,)), 0)
    else:
        ops.same_dims("multinomial_from_uniform: samples", shape_of(uniform_sample)[:1], shape_of(prob)[:1])
    whole = ops("max", sums, [1], True)
    below = ops("logical_and", ops("greater_equal", uniform_sample, sums), ops("less", sums, whole))
    return ops("sum", ops("astype", below, dtype), [1], True)


def layout_transform(ops, x, index_map=None, pad_value=None, axis_separators=(), input_axis_separators=(), **own):
    """The elements of x where index_map, a function of indices or an IndexMap, puts them. Between named layouts
    (src_layout ...) it is the table's operator."""
    if index_map is None:
        return ops.core("layout_transform", x, **own)
    shape = shape_of(x)
    index_map = index_map if isinstance(index_map, IndexMap) else IndexMap.from_func(
        index_map, len(shape), index_dtype="int64")
    if len(index_map.initial_indices) != len(shape):
        raise InferError(f"layout_transform: the index map takes {len(index_map.initial_indices)} indices, the tensor "
                         f"has {len(shape)} dimensions")
    if pad_value is not None and plain(pad_value) is not None:
        ops.value_of("layout_transform", x, pad_value)
    target = tuple(index_map.map_shape(shape))
    moves = _moves(index_map, shape, target)
    if moves is not None:
        return ops("permute_dims", x, moves)
    sizes, _ = _static("layout_transform", shape), _static("layout_transform", target)
    places = index_map.map_ndarray(np.arange(1, np.prod(sizes, dtype=np.int64) + 1).reshape(sizes)) - 1
    filled = ops("take", ops("reshape", x, (-1,)), ops.constant(np.maximum(places, 0)), 0)
    if (places >= 0).all():
        return filled
    return ops("where", ops.constant(places >= 0), filled, ops("full_like", filled, plain(pad_value or 0)))


def _moves(index_map, shape, target):
    """The order of axes that an index map is, None where it is more than that."""
    axes = [next((k for k, v in enumerate(index_map.initial_indices) if v is i), None) if isinstance(i, Var) else None
            for i in index_map.final_indices]
    return tuple(axes) if None not in axes and len(set(axes)) == len(axes) == len(shape) else None


layout_transform.over = True
TENSORS = {
    "layout_transform": layout_transform, "strided_slice": strided_slice,
    "sort": sort, "argsort": argsort, "topk": topk, "collapse_sum_to": collapse_sum_to,
    "collapse_sum_like": collapse_sum_like, "einsum": einsum, "eye": eye, "eye_like": eye_like,
    "hamming_window": hamming_window, "wrap_param": wrap_param, "quantize": quantize, "dequantize": dequantize,
    "masked_fill": masked_fill, "multinomial_from_uniform": multinomial_from_uniform,
}
__all__ = ["TENSORS", "einsum_terms", "held_part", "summed_axes"]
