"""Convolutions: nn.conv1d, nn.conv2d, nn.conv3d, nn.conv2d_transpose. Inputs are N, C, spatial axes; no bias.

out_dtype (default: the operands', which are then of one) is also the dtype of the sum: int32 for operands of 8 bits.
Weights are [O, I / groups, kernel] ("OIHW"), for the transposed one [I, O / groups, kernel] ("IOHW"). nn.conv2d also
takes packed weights and blocked activations: conv_layouts.py, and weights for processors without vectors:
conv_planar.py.
"""
from __future__ import annotations

import math

import numpy as np

from ... import te
from ...dtype import DataType
from ...expr import as_expr, const, is_const_int, logical_and
from ...op import register
from ...tir import intrin
from ..expr import TensorStructInfo
from . import conv_layouts, conv_planar
from .common import dim_text, fail, need_dtype, need_rank, need_same_dtype, same_dim, shape_text, short_name, te_shape
from .conv_layouts import check_groups, conv_axes, input_channel, result_dtype, static_kernel, window_position
from .precision import as_dtype, narrow, of_few_bits, sum_dtype, widen_array
from .window import (check_window_attrs, output_sizes, over_windows, pad_array, pad_stage, reach, split_padding, taps,
                     transposed_sizes)

COLUMN_BYTES = 1 << 20  # of float32 columns that a reference convolution multiplies at a time: they stay in caches
_LAYOUTS = {1: "OIW", 2: "OIHW", 3: "OIDHW"}


# ---------------------------------------------------------------- struct info

def _infer_conv(call):
    rank = _RANKS[call.op]
    if conv_planar.is_planar(call.attrs):
        return conv_planar.infer(call)
    form = conv_layouts.form_of(call.attrs) if "data_layout" in call.attrs else None
    if form:
        return conv_layouts.infer(call, form)
    x, w = need_rank(call, 0, rank + 2), need_rank(call, 1, rank + 2)
    dtype = result_dtype(call, x, w)
    check_window_attrs(call, rank)
    groups = check_groups(call)
    if call.attrs["kernel_layout"] != _LAYOUTS[rank]:
        packed = " or OIHW{n}o" if rank == 2 else ""
        fail(call, f"kernel_layout {call.attrs['kernel_layout']!r} must be {_LAYOUTS[rank]}{packed}")
    channels = w.shape[0]
    _need_channels(call, w, 0)
    if is_const_int(channels) and channels.value % groups:
        fail(call, f"groups={groups} does not divide the {channels.value} output channels of weight "
                   f"{shape_text(w)} (dim 0)")
    if not same_dim(x.shape[1], w.shape[1] * groups):
        fail(call, f"input {shape_text(x)} has {dim_text(x.shape[1])} channels (dim 1), but weight {shape_text(w)} "
                   f"with groups={groups} takes {dim_text(w.shape[1])} * {groups} (its dim 1 times groups)")
    outputs = output_sizes(call, x.shape[2:], static_kernel(call, w, rank))
    return TensorStructInfo((x.shape[0], channels, *outputs), dtype)


def _need_channels(call, w, axis):
    if is_const_int(w.shape[axis]) and w.shape[axis].value == 0:
        fail(call, f"weight {shape_text(w)} has no output channels (dim {axis})")


# ---------------------------------------------------------------- lowering

def _lower_conv(name):
    def lower(args, attrs, out):
        x, w = args
        if conv_planar.is_planar(attrs):
            return conv_planar.lower(x, w, attrs, out)
        form = conv_layouts.form_of(attrs) if "data_layout" in attrs else None
        if form:
            return conv_layouts.lower(x, w, attrs, out, form)
        x = pad_stage(x, *split_padding(attrs["padding"]))
        result = _valid_conv(name, x, w, te_shape(out), attrs, sum_dtype(out.dtype))
        return narrow(result, out.dtype)
    return lower


def _valid_conv(name, x, w, shape, attrs, acc):
    ic, *kernel = axes = conv_axes(w.shape[1], w.shape[2:])
    in_channel = input_channel(attrs["groups"], w.shape[0], w.shape[1])

    def element(n, c, *spatial):
        source = x[(n, in_channel(c, ic.var), *window_position(spatial, kernel, attrs))]
        weight = w[(c, ic.var, *(k.var for k in kernel))]
        return te.sum(source.astype(acc) * weight.astype(acc), axes)

    return over_windows(shape, len(kernel), element, name)


# ---------------------------------------------------------------- reference

def _summed_exactly(w):
    """Weights with which products of float32 add up in float64. BLAS adds up rows in an order of their place, in tiles
    and in threads: equal channels would differ in their last digits, which a softmax of large numbers makes much of.
    """
    return w.astype(np.float64) if w.dtype == np.float32 else w


def _evaluate_conv(args, attrs):
    x, w = args
    if conv_planar.is_planar(attrs):
        return conv_planar.evaluate(_evaluate_conv, x, w, attrs)
    form = conv_layouts.form_of(attrs) if "data_layout" in attrs else None
    if form:
        return conv_layouts.evaluate(_evaluate_conv, x, w, attrs, form)
    dtype = DataType(attrs.get("out_dtype") or x.dtype.name).numpy
    acc = np.float64 if of_few_bits(x, w, dtype) else sum_dtype(dtype.name).numpy
    x, w = x.astype(acc, copy=False), w.astype(acc, copy=False)
    x = pad_array(x, *split_padding(attrs["padding"]))
    kernel, groups = w.shape[2:], attrs["groups"]
    outputs = [(size - reach(k, d)) // s + 1
               for size, k, s, d in zip(x.shape[2:], kernel, attrs["strides"], attrs["dilation"])]
    weight = _summed_exactly(w).reshape(groups, w.shape[0] // groups, -1)
    windows = list(taps(kernel, attrs["strides"], attrs["dilation"], outputs))
    result = np.empty((x.shape[0], w.shape[0], *outputs), x.dtype)
    rows = max(1, COLUMN_BYTES // max(1, x.itemsize * x.shape[1] * len(windows) * math.prod(outputs[1:])))
    for image, into in zip(x, result):  # one at a time, and some rows of it: all columns would not fit
        for first in range(0, outputs[0], rows):
            some = slice(first, min(first + rows, outputs[0]))
            columns = np.empty((x.shape[1], len(windows), some.stop - first, *outputs[1:]), weight.dtype)
            for k, window in enumerate(windows):
                columns[:, k] = image[(slice(None), *window)][:, some]
            into[:, some] = (weight @ columns.reshape(groups, weight.shape[2], -1)).reshape(into[:, some].shape)
    return as_dtype(result, dtype)


# ---------------------------------------------------------------- transposed

def _infer_transpose(call):
    x, w = need_rank(call, 0, 4), need_rank(call, 1, 4)
    dtype = need_same_dtype(call, (x, w))
    need_dtype(call, x, "number")
    check_window_attrs(call, 2)
    groups = check_groups(call)
    if call.attrs["kernel_layout"] != "IOHW":
        fail(call, f"kernel_layout {call.attrs['kernel_layout']!r} must be IOHW")
    if not same_dim(x.shape[1], w.shape[0]):
        fail(call, f"input {shape_text(x)} has {dim_text(x.shape[1])} channels (dim 1), but weight {shape_text(w)} "
                   f"takes {dim_text(w.shape[0])} (dim 0)")
    _need_channels(call, w, 1)
    if is_const_int(w.shape[0]) and w.shape[0].value % groups:
        fail(call, f"groups={groups} does not divide the {w.shape[0].value} input channels of weight {shape_text(w)}"
                   f" (dim 0)")
    outputs = transposed_sizes(call, x.shape[2:], static_kernel(call, w, 2))
    return TensorStructInfo((x.shape[0], w.shape[1] * groups, *outputs), dtype)


def _lower_transpose(args, attrs, out):
    """A valid convolution with the mirrored kernel over the input spread out by the strides."""
    x, w = args
    shape, groups = te_shape(out), attrs["groups"]
    kernel_reach = [reach(int(k), d) for k, d in zip(w.shape[2:], attrs["dilation"])]
    spread = _spread_stage(x, shape, attrs["strides"], kernel_reach, split_padding(attrs["padding"])[0])
    per_group = x.shape[1] // groups
    ic, kh, kw = axes = conv_axes(per_group, w.shape[2:])
    acc = sum_dtype(x.dtype)

    def element(n, c, y, x):
        channel = ic.var if groups == 1 else c // w.shape[1] * per_group + ic.var
        source = spread[(n, channel, *window_position((y, x), (kh, kw), {**attrs, "strides": (1, 1)}))]
        own = c if groups == 1 else c % w.shape[1]
        weight = w[channel, own, w.shape[2] - 1 - kh.var, w.shape[3] - 1 - kw.var]
        return te.sum(source.astype(acc) * weight.astype(acc), axes)

    return narrow(te.compute(shape, element, name="conv2d_transpose"), out.dtype)


def _spread_stage(data, shape, strides, kernel_reach, before):
    """`pad_temp`: data with strides - 1 zeros between its elements and the zeros around that a full correlation needs.

    shape: the output's. before: the attribute's padding, which removes from the output's beginning.
    """
    border = [r - 1 - b for r, b in zip(kernel_reach, before)]
    sizes = tuple(as_expr(s) + (r - 1) for s, r in zip(shape[2:], kernel_reach))

    def element(n, c, y, x):
        at = [i - b for i, b in zip((y, x), border)]
        condition = const(True)
        for i, s, b, size in zip(at, strides, border, data.shape[2:]):
            if b > 0:
                condition = logical_and(condition, i >= 0)
            condition = logical_and(condition, i < (size - 1) * s + 1)
            if s > 1:
                condition = logical_and(condition, i % s == 0)
        return intrin.if_then_else(condition, data[(n, c, *(i // s for i, s in zip(at, strides)))],
                                   const(0, data.dtype))

    return te.compute((*data.shape[:2], *sizes), element, name="pad_temp")


def _evaluate_transpose(args, attrs):
    """Every input element adds its multiple of the kernel to the output."""
    x, w = args
    dtype, x, w = x.dtype, widen_array(x), widen_array(w)
    groups, kernel, strides, dilation = attrs["groups"], w.shape[2:], attrs["strides"], attrs["dilation"]
    before, after = split_padding(attrs["padding"])
    batch, channels, sizes = x.shape[0], w.shape[1] * groups, x.shape[2:]
    weight = _summed_exactly(w).reshape(groups, w.shape[0] // groups, w.shape[1], -1)
    columns = x.reshape(batch, groups, w.shape[0] // groups, -1)
    full = [(n - 1) * s + reach(k, d) + e
            for n, k, s, d, e in zip(sizes, kernel, strides, dilation, attrs["output_padding"])]
    result = np.zeros((batch, channels, *full), x.dtype)
    for k, window in enumerate(taps(kernel, strides, dilation, sizes)):  # the products of all would not fit
        part = weight[..., k].transpose(0, 2, 1) @ columns
        result[(slice(None), slice(None), *window)] += part.reshape(batch, channels, *sizes)
    crop = tuple(slice(b, n - a) for b, a, n in zip(before, after, full))
    return result[(slice(None), slice(None), *crop)].astype(dtype, copy=False)


# ---------------------------------------------------------------- rows

_RANKS = {"nn.conv1d": 1, "nn.conv2d": 2, "nn.conv3d": 3}

for _name, _rank in _RANKS.items():
    register(_name, _infer_conv, _lower_conv(short_name(_name)), _evaluate_conv, "anchor", (2, 2), strides=(1,) * _rank,
             padding=(0, 0) * _rank, dilation=(1,) * _rank, groups=1, kernel_layout=_LAYOUTS[_rank], out_dtype=None,
             **(conv_layouts.ATTRS if _rank == 2 else {}))

register("nn.conv2d_transpose", _infer_transpose, _lower_transpose, _evaluate_transpose, "anchor", (2, 2),
         strides=(1, 1), padding=(0, 0, 0, 0), output_padding=(0, 0), dilation=(1, 1), groups=1, kernel_layout="IOHW")
