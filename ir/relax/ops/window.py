"""Sliding windows over the spatial axes of N, C, spatial tensors, shared by convolutions and pools.

Blocked tensors (layout.py) have their lanes behind. Padding lists the axes' beginnings, then their ends: (top, left,
bottom, right) in two dimensions.
"""
from __future__ import annotations

from itertools import product

import numpy as np

from ...expr import as_expr, const, is_const_int, logical_and
from ...te import compute
from ...tir import intrin
from .common import fail, shape_text


AXES = {1: ("n", "c", "x"), 2: ("n", "c", "y", "x"), 3: ("n", "c", "z", "y", "x")}
KERNEL_AXES = {1: ("kw",), 2: ("kh", "kw"), 3: ("kd", "kh", "kw")}


def over_windows(shape, rank, element, name):
    """te.compute over N, C, `rank` spatial axes and, of a blocked tensor, the lanes, with their names."""
    lanes = ("ci",) * (len(shape) - rank - 2)
    return compute(shape, lambda *i: element(*i), name=name, varargs_names=AXES[rank] + lanes)


def split_padding(padding):
    """(beginnings, ends) of a padding attribute."""
    half = len(padding) // 2
    return tuple(padding[:half]), tuple(padding[half:])


def check_window_attrs(call, rank):
    """InferError unless strides, padding and dilation have an entry per spatial axis (padding two), in range; without
    such an attribute dilation is 1."""
    for name, count, least in (("strides", rank, 1), ("padding", 2 * rank, 0), ("dilation", rank, 1)):
        values = call.attrs.get(name, (1,) * rank)
        if len(values) != count or any(v < least for v in values):
            fail(call, f"{name} {tuple(values)} must be {count} integers of at least {least}")


def reach(kernel, dilation):
    """Elements from the first to the last of a window, both counted."""
    return (kernel - 1) * dilation + 1


def output_size(size, kernel, stride, dilation, before, after, ceil_mode=False):
    """How many windows fit along an axis of `size` (an int or an expression).

    ceil_mode also counts a last window that overhangs the end, but only if it starts within the input or the
    padding before it (ONNX and PyTorch agree on this). Constants are gathered first, so that "same" padding
    of a symbolic size gives back that very variable.
    """
    border = before + after - reach(kernel, dilation)
    if not ceil_mode:
        return (size + (border + stride)) // stride
    return intrin.min((size + (border + 2 * stride - 1)) // stride, (size + (before + stride - 1)) // stride)


def output_sizes(call, sizes, kernel, ceil_mode=False):
    """output_size of each spatial axis, for the call's attributes. InferError when a window does not fit."""
    strides, padding, dilation = (call.attrs[k] for k in ("strides", "padding", "dilation"))
    outputs = []
    for axis, size in enumerate(sizes):
        before, after = padding[axis], padding[len(sizes) + axis]
        out = output_size(size, kernel[axis], strides[axis], dilation[axis], before, after, ceil_mode)
        if is_const_int(out) and out.value < 1:
            fail(call, f"the window {shape_text(kernel)} with dilation {tuple(dilation)} does not fit the input's "
                       f"spatial shape {shape_text(sizes)} with padding {tuple(padding)}: spatial axis {axis} needs "
                       f"{reach(kernel[axis], dilation[axis])}, there are {int(size) + before + after}")
        outputs.append(out)
    return tuple(outputs)


def transposed_sizes(call, sizes, kernel):
    """The spatial axes of a transposed convolution's output. InferError for an output_padding out of range, or where
    padding leaves nothing."""
    extra, strides, padding = (call.attrs[k] for k in ("output_padding", "strides", "padding"))
    dilation = call.attrs.get("dilation")  # None: the kernel holds the zeros of a dilated one, which bounds `extra` too
    most = kernel if dilation is None else dilation
    if len(extra) != len(kernel) or any(not 0 <= e < max(s, int(m)) for e, s, m in zip(extra, strides, most)):
        fail(call, f"output_padding {tuple(extra)} must be {len(kernel)} integers of at least 0 and below strides "
                   f"{tuple(strides)}" + (f" or dilation {tuple(dilation)}" if dilation else ""))
    dilation = dilation or (1,) * len(kernel)
    outputs = tuple((size - 1) * s + (reach(k, d) + e - b - a) for size, k, s, d, e, b, a
                    in zip(sizes, kernel, strides, dilation, extra, *split_padding(padding)))
    if any(is_const_int(o) and o.value < 1 for o in outputs):
        fail(call, f"padding {tuple(padding)} leaves nothing of the output of an input of spatial shape "
                   f"{shape_text(sizes)} with kernel {shape_text(kernel)}: it would be {shape_text(outputs)}")
    return outputs


def inside(indices, sizes, may_be_below, may_be_above):
    """The condition 0 <= index < size on every axis, without the sides that an axis cannot be left at."""
    condition = const(True)
    for index, size, low, high in zip(indices, sizes, may_be_below, may_be_above):
        if low:
            condition = logical_and(condition, index >= 0)
        if high:
            condition = logical_and(condition, index < size)
    return condition


def pad_stage(x, before, after):
    """The tensor `pad_temp`: x with zeros around its spatial axes; x itself when `before` and `after` are all 0."""
    if not any(before) and not any(after):
        return x
    rank = len(before)
    sizes = x.shape[2:2 + rank]

    def element(n, c, *i):
        source = tuple(k - b for k, b in zip(i, before))
        condition = inside(source, sizes, [b > 0 for b in before], [a > 0 for a in after])
        return intrin.if_then_else(condition, x[(n, c, *source, *i[rank:])], const(0, x.dtype))

    shape = x.shape[:2] + tuple(as_expr(s) + (b + a) for s, b, a in zip(sizes, before, after)) + x.shape[2 + rank:]
    return over_windows(shape, rank, element, "pad_temp")


def pad_array(x, before, after, fill=0):
    """x (numpy) with borders of `fill` on its trailing axes; x itself when there are none."""
    if not any(before) and not any(after):
        return x
    lead = ((0, 0),) * (x.ndim - len(before))
    return np.pad(x, lead + tuple(zip(before, after)), constant_values=fill)


def taps(kernel, strides, dilation, outputs):
    """For each window element in row-major order: the slices that pick it from all windows of a padded array."""
    for offsets in product(*(range(k) for k in kernel)):
        yield tuple(slice(o * d, o * d + s * (n - 1) + 1, s)
                    for o, d, s, n in zip(offsets, dilation, strides, outputs))
