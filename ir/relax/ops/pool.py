"""Pooling over one, two or three spatial axes: nn.max_pool1d ... nn.max_pool3d, nn.avg_pool1d ... nn.avg_pool3d;
nn.adaptive_avg_pool2d and nn.adaptive_max_pool2d. Those of two axes also take blocked tensors: layout="NCHW16c"."""
from __future__ import annotations

from functools import partial, reduce

import numpy as np

from ... import te
from ...expr import as_expr, is_const_int
from ...op import REQUIRED, register
from ...tir import intrin
from ..expr import TensorStructInfo
from .common import fail, need_dtype, need_rank, shape_text, short_name, te_shape
from .layout import check_layout, need_layout, through_plain
from .precision import is_float, narrow, sum_dtype, widen_array
from .window import (KERNEL_AXES, check_window_attrs, inside, output_size, output_sizes, over_windows, pad_array, reach,
                     split_padding, taps)


def _infer(rank):
    def infer(call):
        x = _input(call, rank)
        pool, padding, dilation = (call.attrs[k] for k in ("pool_size", "padding", "dilation"))
        need_dtype(call, x, "float" if "avg" in call.op else "number")
        if len(pool) != rank or any(p < 1 for p in pool):
            fail(call, f"pool_size {tuple(pool)} must be {rank} integers of at least 1")
        check_window_attrs(call, rank)
        for pad, kernel, d in zip(padding, pool * 2, dilation * 2):
            if pad >= reach(kernel, d):
                fail(call, f"padding {tuple(padding)} must be below the window {tuple(pool)} with dilation "
                           f"{tuple(dilation)}: a window would see nothing but padding")
        outputs = output_sizes(call, x.shape[2:2 + rank], pool, call.attrs["ceil_mode"])
        return TensorStructInfo((*x.shape[:2], *outputs, *x.shape[2 + rank:]), x.dtype)
    return infer


def _input(call, rank):
    """The struct info of the input, blocked where attribute layout says so."""
    return need_layout(call, 0, check_layout(call, "layout")) if rank == 2 else need_rank(call, 0, rank + 2)


# ---------------------------------------------------------------- lowering

class _Windows:
    """The windows of a call over the te tensor x: where they start, and which sides of x they can overhang."""

    def __init__(self, x, attrs, out_shape):
        self.x, self.sizes, self.out_shape = x, x.shape[2:2 + len(attrs["pool_size"])], out_shape
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
        return over_windows(self.out_shape, len(self.pool), element, name)

    def starts(self, spatial):
        return [i * s - b for i, s, b in zip(spatial, self.strides, self.before)]

    def load(self, n, c, rest, outside):
        """The element of x that the reduce axes point at; `outside` where there is none. rest: spatial indices, and
        that of the lane in a blocked tensor."""
        at = tuple(start + k.var * d for start, k, d in zip(self.starts(rest), self.axes, self.dilation))
        value = self.x[(n, c, *at, *rest[len(self.axes):])]
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
    fill = -np.inf if is_float(args[0]) else np.iinfo(args[0].dtype).min
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
        if _rank == 2:
            _evaluate, _more = through_plain(_evaluate, "layout"), {**_more, "layout": "NCHW"}
        register(_name, _infer(_rank), _lower(short_name(_name)), _evaluate, "reduction", (1, 1), **_attrs, **_more)


# ---------------------------------------------------------------- adaptive: the output's size decides the windows

def _adaptive_window(i, size, out):
    """[first, end) of output position i: floor(i * size / out) to ceil((i + 1) * size / out)."""
    return i * size // out, ((i + 1) * size + (out - 1)) // out


def _widest_window(size, out):
    """How many elements the widest window has; of a symbolic size no window has more."""
    if isinstance(size, int):
        return max(end - first for first, end in (_adaptive_window(i, size, out) for i in range(out)))
    return size if out == 1 else (size - 1) // out + 2


def _infer_adaptive(call):
    x, size = _input(call, 2), call.attrs["output_size"]
    need_dtype(call, x, "float" if "avg" in call.op else "number")
    if len(size) != 2 or any(s < 1 for s in size):
        fail(call, f"output_size {tuple(size)} must be 2 integers of at least 1")
    if any(is_const_int(d) and d.value < 1 for d in x.shape[2:4]):
        fail(call, f"input {shape_text(x)} must have spatial dimensions (dims 2 and 3) of at least 1")
    return TensorStructInfo((*x.shape[:2], *size, *x.shape[4:]), x.dtype)


def _lower_adaptive(args, attrs, out, name):
    x, acc = args[0], sum_dtype(out.dtype) if "avg" in name else out.dtype
    sizes, outs = [int(s) if is_const_int(s) else s for s in x.shape[2:4]], attrs["output_size"]
    widest = [_widest_window(s, o) for s, o in zip(sizes, outs)]
    kernel = [te.reduce_axis((0, w), k) for w, k in zip(widest, KERNEL_AXES[2])]
    reducer, outside = (te.sum, as_expr(0.0, acc)) if "avg" in name else (te.max, intrin.min_value(acc))

    def element(n, c, *at):
        windows, lanes = [_adaptive_window(i, s, o) for i, s, o in zip(at, sizes, outs)], at[2:]
        source = tuple(first + k.var for (first, _), k in zip(windows, kernel))
        held = inside(source, [end for _, end in windows], [False] * 2, [
            o > 1 and (not isinstance(s, int) or s % o > 0) for s, o in zip(sizes, outs)])
        return reducer(intrin.if_then_else(held, x[(n, c, *source, *lanes)].astype(acc), outside), kernel)

    total = over_windows(te_shape(out), 2, element, name + "_sum" if "avg" in name else name)
    if "max" in name:
        return total

    def mean(n, c, *at):
        count = reduce(lambda a, b: a * b, (end - first for first, end in (
            _adaptive_window(i, s, o) for i, s, o in zip(at, sizes, outs))))
        return total[(n, c, *at)] / as_expr(count).astype(acc)

    return narrow(over_windows(te_shape(out), 2, mean, name), out.dtype)


def _evaluate_adaptive(args, attrs, function):
    x, outs = args[0], attrs["output_size"]
    result = np.empty((*x.shape[:2], *outs), x.dtype)
    for at in np.ndindex(*outs):
        window = tuple(slice(*_adaptive_window(i, s, o)) for i, s, o in zip(at, x.shape[2:], outs))
        result[(..., *at)] = function(widen_array(x[(..., *window)]), axis=(2, 3))
    return result


for _name, _function in (("adaptive_avg_pool2d", np.mean), ("adaptive_max_pool2d", np.max)):
    register(f"nn.{_name}", _infer_adaptive, partial(_lower_adaptive, name=_name),
             through_plain(partial(_evaluate_adaptive, function=_function), "layout"), "reduction",
             output_size=REQUIRED, layout="NCHW")
