"""Pooling over one, two or three spatial axes: nn.max_pool1d ... nn.max_pool3d, nn.avg_pool1d ... nn.avg_pool3d."""
from __future__ import annotations

from functools import reduce

import numpy as np

from ... import te
from ...expr import as_expr, is_const_int
from ...op import REQUIRED, register
from ...tir import intrin
from ..expr import TensorStructInfo
from .common import fail, need_dtype, need_rank, short_name, te_shape
from .precision import narrow, sum_dtype, widen_array
from .window import (KERNEL_AXES, NAMED, check_window_attrs, inside, output_size, output_sizes, pad_array, reach,
                     split_padding, taps)


def _infer(rank):
    def infer(call):
        x = need_rank(call, 0, rank + 2)
        pool, padding, dilation = (call.attrs[k] for k in ("pool_size", "padding", "dilation"))
        need_dtype(call, x, "float" if "avg" in call.op else "number")
        if len(pool) != rank or any(p < 1 for p in pool):
            fail(call, f"pool_size {tuple(pool)} must be {rank} integers of at least 1")
        check_window_attrs(call, rank)
        for pad, kernel, d in zip(padding, pool * 2, dilation * 2):
            if pad >= reach(kernel, d):
                fail(call, f"padding {tuple(padding)} must be below the window {tuple(pool)} with dilation "
                           f"{tuple(dilation)}: a window would see nothing but padding")
        outputs = output_sizes(call, x.shape[2:], pool, call.attrs["ceil_mode"])
        return TensorStructInfo((*x.shape[:2], *outputs), x.dtype)
    return infer


# ---------------------------------------------------------------- lowering

class _Windows:
    """The windows of a call over the te tensor x: where they start, and which sides of x they can overhang."""

    def __init__(self, x, attrs, out_shape):
        self.x, self.sizes, self.out_shape = x, x.shape[2:], out_shape
        self.pool, self.strides, self.dilation = (tuple(attrs[k]) for k in ("pool_size", "strides", "dilation"))
        self.before, self.after = split_padding(attrs["padding"])
        self.axes = [te.reduce_axis((0, k), name) for k, name in zip(self.pool, KERNEL_AXES[len(self.pool)])]
        self.below = [b > 0 for b in self.before]
        self.above = [self._overhangs(i, out_shape[2 + i], attrs["ceil_mode"]) for i in range(len(self.pool))]

    def _overhangs(self, axis, out_size, ceil_mode):
        size, out_size = self.sizes[axis], as_expr(out_size)
        if not (is_const_int(size) and is_const_int(out_size)):
            return self.after[axis] > 0 or ceil_mode
        last_start = (out_size.value - 1) * self.strides[axis] - self.before[axis]
        return last_start + reach(self.pool[axis], self.dilation[axis]) > size.value

    def compute(self, element, name):
        return te.compute(self.out_shape, NAMED[len(self.pool)](element), name=name)

    def starts(self, spatial):
        return [i * s - b for i, s, b in zip(spatial, self.strides, self.before)]

    def load(self, n, c, spatial, outside):
        """The element of x that the reduce axes point at; `outside` where there is none."""
        at = tuple(start + k.var * d for start, k, d in zip(self.starts(spatial), self.axes, self.dilation))
        value = self.x[(n, c, *at)]
        condition = inside(at, self.sizes, self.below, self.above)
        return value if is_const_int(condition) else intrin.if_then_else(condition, value, outside)

    def count(self, spatial, include_pad):
        """How many elements a window holds: those of x, or with include_pad those of x and its padding."""
        counts = []
        for axis, start in enumerate(self.starts(spatial)):
            kernel, d, below, above = self.pool[axis], self.dilation[axis], self.below[axis], self.above[axis]
            end = self.sizes[axis] - 1
            if include_pad:
                below, end = False, end + self.after[axis]
            last = intrin.min((end - start) // d, kernel - 1) if above else kernel - 1
            first = intrin.max((d - 1 - start) // d, 0) if below else 0
            counts.append(last - first + 1)
        return reduce(lambda a, b: a * b, counts)


def _lower_max(name):
    def lower(args, attrs, out):
        windows = _Windows(args[0], attrs, te_shape(out))
        outside = intrin.min_value(out.dtype)
        return windows.compute(lambda n, c, *i: te.max(windows.load(n, c, i, outside), windows.axes), name)
    return lower


def _lower_avg(name):
    def lower(args, attrs, out):
        windows, acc = _Windows(args[0], attrs, te_shape(out)), sum_dtype(out.dtype)
        zero = as_expr(0.0, out.dtype)
        total = windows.compute(lambda n, c, *i: te.sum(windows.load(n, c, i, zero).astype(acc), windows.axes),
                                name + "_sum")

        def element(n, c, *i):
            return total[(n, c, *i)] / as_expr(windows.count(i, attrs["count_include_pad"])).astype(acc)

        return narrow(windows.compute(element, name), out.dtype)
    return lower


# ---------------------------------------------------------------- reference

def _geometry(x, attrs):
    """Per spatial axis: (number of windows, window size, stride, dilation, padding before, padding after)."""
    axes = list(zip(*(attrs[k] for k in ("pool_size", "strides", "dilation")), *split_padding(attrs["padding"])))
    return [(int(output_size(size, *axis, attrs["ceil_mode"])), *axis) for size, axis in zip(x.shape[2:], axes)]


def _padded_taps(x, attrs, fill):
    """One array per window element, shaped as the output; elements outside x are `fill`."""
    outputs, kernel, strides, dilation, before, _ = zip(*_geometry(x, attrs))
    ends = [(n - 1) * s + reach(k, d) - b for n, k, s, d, b in zip(outputs, kernel, strides, dilation, before)]
    padded = pad_array(x, before, [max(end - size, 0) for end, size in zip(ends, x.shape[2:])], fill)
    return (padded[(..., *window)] for window in taps(kernel, strides, dilation, outputs))


def _evaluate_max(args, attrs):
    fill = -np.inf if args[0].dtype.kind == "f" else np.iinfo(args[0].dtype).min
    return _accumulate(np.maximum, _padded_taps(args[0], attrs, fill))


def _evaluate_avg(args, attrs):
    x = widen_array(args[0])
    total = _accumulate(np.add, _padded_taps(x, attrs, 0))
    for axis, (size, (windows, kernel, stride, dilation, before, after)) in enumerate(
            zip(x.shape[2:], _geometry(x, attrs))):
        low, high = (-before, size + after) if attrs["count_include_pad"] else (0, size)
        at = (np.arange(windows) * stride - before)[:, None] + np.arange(kernel) * dilation
        counts = ((at >= low) & (at < high)).sum(axis=1).astype(x.dtype)
        total /= counts.reshape((-1,) + (1,) * (x.ndim - 3 - axis))
    return total.astype(args[0].dtype, copy=False)


def _accumulate(function, parts):
    result = next(parts).copy()
    for part in parts:
        function(result, part, out=result)
    return result


# ---------------------------------------------------------------- rows

for _rank in (1, 2, 3):
    _attrs = dict(pool_size=REQUIRED, strides=(1,) * _rank, padding=(0, 0) * _rank, dilation=(1,) * _rank,
                  ceil_mode=False)
    for _name, _lower, _evaluate, _more in (
            (f"nn.max_pool{_rank}d", _lower_max, _evaluate_max, {}),
            (f"nn.avg_pool{_rank}d", _lower_avg, _evaluate_avg, {"count_include_pad": False})):
        register(_name, _infer(_rank), _lower(short_name(_name)), _evaluate, "reduction", (1, 1), **_attrs, **_more)
