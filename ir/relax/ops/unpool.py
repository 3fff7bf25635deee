"""Operators on windows: nn.pool_positions, where the maxima of nn.max_pool lie; nn.col2im, images as sums of their
windows' columns; resample, weighted sums of elements at constant places along an axis."""
from __future__ import annotations

from functools import reduce

import numpy as np

from ... import te, tir
from ...expr import cast, const, is_const_int, logical_or
from ...op import REQUIRED, register
from ..expr import TensorStructInfo
from .common import (fail, flat_index, need_dtype, need_rank, need_same_dtype, normalize_axis, same_shape, shape_text,
                     te_shape, tensors)
from .precision import narrow, sum_dtype, widen_array
from .window import check_window_attrs, inside, output_sizes, reach, split_padding


# ---------------------------------------------------------------- nn.pool_positions

def _infer_positions(call):
    """nn.pool_positions(x, y), where y is what the pool of these attributes makes of x."""
    x, y = tensors(call)
    need_same_dtype(call, (x, y))
    rank = len(call.attrs["pool_size"])
    need_rank(call, 0, rank + 2)
    check_window_attrs(call, rank)
    if not all(map(is_const_int, x.shape[2:])):
        fail(call, f"{shape_text(x)} must have static spatial dimensions")
    outputs = output_sizes(call, x.shape[2:], call.attrs["pool_size"], call.attrs["ceil_mode"])
    if not same_shape(y.shape, (*x.shape[:2], *outputs)):
        fail(call, f"the pooled tensor {shape_text(y)} does not fit {shape_text(x)}")
    return TensorStructInfo(y.shape, "int64")


def _lower_positions(args, attrs, out):
    """The first element of a window, in row-major order, that is the maximum; a NaN is the maximum of all."""
    x, y = args
    sizes = [int(d) for d in x.shape[2:]]
    before, _ = split_padding(attrs["padding"])
    axes = [te.reduce_axis((0, k), f"k{n}") for n, k in enumerate(attrs["pool_size"])]
    none = const(int(np.prod(sizes)) - 1, "int64")

    def element(n, c, *at):
        source = tuple(i * s - b + k.var * d for i, s, b, k, d in zip(
            at, attrs["strides"], before, axes, attrs["dilation"]))
        held = inside(source, sizes, [True] * len(sizes), [True] * len(sizes))
        value = tir.if_then_else(held, x[(n, c, *source)], tir.min_value(x.dtype))
        found = value == y[(n, c, *at)]
        if x.dtype.is_float:
            found = logical_or(found, tir.isnan(value))
        flat = cast(flat_index(source, sizes), "int64")
        return te.min(tir.select(tir.all(held, found), flat, none), axes)

    return te.compute(te_shape(out), element, name="pool_positions")


def _evaluate_positions(args, attrs):
    x, y = (np.asarray(a) for a in args)
    sizes, (before, _) = x.shape[2:], split_padding(attrs["padding"])
    result = np.full(y.shape, int(np.prod(sizes)) - 1, np.int64)
    for offset in reversed(list(np.ndindex(*attrs["pool_size"]))):  # the first one stays
        places, held = [], np.ones(y.shape[2:], bool)
        for k, (n, size) in enumerate(zip(y.shape[2:], sizes)):
            at = np.arange(n) * attrs["strides"][k] - before[k] + offset[k] * attrs["dilation"][k]
            shape = [-1 if a == k else 1 for a in range(len(sizes))]
            held &= ((at >= 0) & (at < size)).reshape(shape)
            places.append(np.clip(at, 0, size - 1).reshape(shape))
        value = x[(slice(None), slice(None), *np.broadcast_arrays(*places))]
        flat = np.ravel_multi_index(tuple(np.broadcast_arrays(*places)), sizes)
        found = held & ((value == y) | (value != value))
        result = np.where(found, flat, result)
    return result


register("nn.pool_positions", _infer_positions, _lower_positions, _evaluate_positions, "reduction", (2, 2),
         pool_size=REQUIRED, strides=REQUIRED, padding=REQUIRED, dilation=REQUIRED, ceil_mode=False)


# ---------------------------------------------------------------- nn.col2im

def _blocks(attrs):
    """How many windows fit along each axis."""
    before, after = split_padding(attrs["padding"])
    return [(size + b + a - reach(k, d)) // s + 1 for size, b, a, k, d, s in zip(
        attrs["image_shape"], before, after, attrs["block_shape"], attrs["dilation"], attrs["strides"])]


def _infer_col2im(call):
    x, image, block = need_rank(call, 0, 3), call.attrs["image_shape"], call.attrs["block_shape"]
    need_dtype(call, x, "number")
    if len(image) != len(block) or min(*image, *block) < 1:
        fail(call, f"image_shape {tuple(image)} and block_shape {tuple(block)} must be as many integers of at least 1")
    check_window_attrs(call, len(image))
    count, size = _blocks(call.attrs), int(np.prod(block))
    fits = is_const_int(x.shape[1]) and x.shape[1].value % size == 0
    if min(count) < 1 or not fits or not is_const_int(x.shape[2], int(np.prod(count))):
        fail(call, f"{shape_text(x)} must hold a multiple of {size} rows (dim 1) and {count} windows (dim 2)")
    return TensorStructInfo((x.shape[0], x.shape[1].value // size, *image), x.dtype)


def _lower_col2im(args, attrs, out):
    """Each element of the image is the sum over the elements of a window, where such a window is."""
    x, count = args[0], _blocks(attrs)
    before, _ = split_padding(attrs["padding"])
    acc, block = sum_dtype(x.dtype), attrs["block_shape"]
    axes = [te.reduce_axis((0, k), f"k{n}") for n, k in enumerate(block)]

    def element(n, c, *at):
        begins = [i + b - k.var * d for i, b, k, d in zip(at, before, axes, attrs["dilation"])]
        windows = [b // s for b, s in zip(begins, attrs["strides"])]
        whole = [b % s == 0 for b, s in zip(begins, attrs["strides"]) if s > 1]
        held = tir.all(inside(windows, count, [True] * len(count), [True] * len(count)), *whole)
        row = c * int(np.prod(block)) + flat_index([k.var for k in axes], block)
        value = tir.if_then_else(held, x[n, row, flat_index(windows, count)].astype(acc), const(0, acc))
        return te.sum(value, axes)

    return narrow(te.compute(te_shape(out), element, name="col2im"), out.dtype)


def _evaluate_col2im(args, attrs):
    x, image, block = widen_array(np.asarray(args[0])), attrs["image_shape"], attrs["block_shape"]
    before, after = split_padding(attrs["padding"])
    count = _blocks(attrs)
    columns = x.reshape(len(x), -1, int(np.prod(block)), *count)
    padded = np.zeros((*columns.shape[:2], *(n + b + a for n, b, a in zip(image, before, after))), x.dtype)
    for number, offset in enumerate(np.ndindex(*block)):
        window = tuple(slice(o * d, o * d + s * (n - 1) + 1, s) for o, d, s, n in zip(
            offset, attrs["dilation"], attrs["strides"], count))
        padded[(..., *window)] += columns[:, :, number]
    result = padded[(..., *(slice(b, b + n) for n, b in zip(image, before)))]
    return result.astype(args[0].dtype)


register("nn.col2im", _infer_col2im, _lower_col2im, _evaluate_col2im, "reduction", (1, 1), image_shape=REQUIRED,
         block_shape=REQUIRED, strides=REQUIRED, padding=REQUIRED, dilation=REQUIRED)


# ---------------------------------------------------------------- resample

def _infer_resample(call):
    """resample(x, places, weights): places, int32, and weights are [elements of the result, terms of the sum]."""
    x, places, weights = tensors(call)
    need_dtype(call, x, "float")
    axis = normalize_axis(call, call.attrs["axis"], x.ndim)
    if places.dtype != "int32" or places.ndim != 2 or not same_shape(places.shape, weights.shape):
        fail(call, f"places {shape_text(places)} of {places.dtype} and weights {shape_text(weights)} must be matrices "
                   "of one shape, the places int32")
    if weights.dtype != sum_dtype(x.dtype):
        fail(call, f"weights must be {sum_dtype(x.dtype)}, not {weights.dtype}")
    return TensorStructInfo((*x.shape[:axis], places.shape[0], *x.shape[axis + 1:]), x.dtype)


def _lower_resample(args, attrs, out):
    x, places, weights = args
    axis, acc = attrs["axis"] % x.ndim, sum_dtype(x.dtype)
    extent, k = x.shape[axis], te.reduce_axis((0, places.shape[1]), "k")

    def element(*i):
        place = tir.max(tir.min(cast(places[i[axis], k.var], extent.dtype), extent - 1), const(0, extent.dtype))
        return te.sum(x[(*i[:axis], place, *i[axis + 1:])].astype(acc) * weights[i[axis], k.var], k)

    return narrow(te.compute(te_shape(out), element, name="resample"), out.dtype)


def _evaluate_resample(args, attrs):
    x, places, weights = widen_array(np.asarray(args[0])), *map(np.asarray, args[1:])
    axis = attrs["axis"] % x.ndim
    shape = [-1 if k == axis else 1 for k in range(x.ndim)]
    places = np.clip(places, 0, x.shape[axis] - 1)
    total = reduce(np.add, (np.take(x, places[:, k], axis) * weights[:, k].reshape(shape)
                            for k in range(places.shape[1])))
    return total.astype(args[0].dtype)


register("resample", _infer_resample, _lower_resample, _evaluate_resample, "reduction", (3, 3), axis=REQUIRED)
