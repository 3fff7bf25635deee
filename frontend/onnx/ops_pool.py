"""Pooling: windows and whole planes."""
from __future__ import annotations

import numpy as np

from ..shapes import dims_of
from .converter import converts
from .ops_math import scalar_like
from .ops_nn import per_axis, window
from .ops_tensor import pad_or_crop


def _pool(node, kind):
    """nn.{max,avg}_pool{1,2,3}d. A window that takes in a whole plane, with no padding that counts, is a reduction."""
    x = node.input(0)
    spatial = dims_of(x)[2:]
    if not 1 <= len(spatial) <= 3:
        raise node.error("pooling takes an input with 1 to 3 spatial dimensions")
    kernel = tuple(node.attr("kernel_shape"))
    strides, pads, dilations = window(node, kernel, spatial)
    kernel = per_axis(node, "kernel_shape", len(spatial))
    counted = kind == "avg" and bool(node.attr("count_include_pad", 0)) and any(pads)
    if not counted and _covers(node, kernel, spatial, strides, pads, dilations):
        axes = tuple(range(2, 2 + len(spatial)))
        return node.call("max" if kind == "max" else "mean", x, axis=axes, keepdims=True)
    attrs = {"count_include_pad": counted} if kind == "avg" else {}
    return node.call(f"nn.{kind}_pool{len(spatial)}d", x, pool_size=kernel, strides=strides, padding=pads,
                     dilation=dilations, ceil_mode=bool(node.attr("ceil_mode", 0)), **attrs)


def _covers(node, kernel, spatial, strides, pads, dilations):
    """True when there is a single window, and it sees every element of the plane."""
    ceil = bool(node.attr("ceil_mode", 0))
    for axis, size in enumerate(spatial):
        before, after = pads[axis], pads[axis + len(spatial)]
        k, stride = kernel[axis], strides[axis]
        if not isinstance(size, int) or dilations[axis] != 1 or k < before + size:
            return False
        slack = size + before + after - k
        if slack < 0 and not ceil:
            return False  # the window does not fit: an error of the operator's
        windows = 1 + (-(-slack // stride) if ceil else slack // stride)
        if ceil and (windows - 1) * stride >= size + before:
            windows -= 1
        if windows != 1:
            return False
    return True


@converts("MaxPool", 1, 8)
def max_pool(node):
    result = _pool(node, "max")
    return (result, _positions(node, node.bind(result))) if node.wants(1) else result


def _positions(node, pooled):
    """Where the maxima lie in the whole tensor; by storage_order 1 as if planes were stored by columns."""
    x = node.input(0)
    dims = dims_of(x)
    spatial = dims[2:]
    if not all(isinstance(d, int) for d in dims):
        raise node.error("the output Indices needs a static shape; pin the symbolic dimensions with dims")
    kernel = tuple(node.attr("kernel_shape"))
    strides, pads, dilations = window(node, kernel, spatial)
    place = node.call("nn.pool_positions", x, pooled, pool_size=kernel, strides=strides, padding=pads,
                      dilation=dilations, ceil_mode=bool(node.attr("ceil_mode", 0)))
    plane = int(np.prod(spatial))
    if node.attr("storage_order", 0) and len(spatial) > 1:
        order = np.arange(plane).reshape(spatial[::-1]).transpose().reshape(-1)  # of each element by rows
        place = node.call("take", node.const(order, "int64"), place, axis=0)
    planes = np.arange(dims[0] * dims[1]).reshape(*dims[:2], *[1] * len(spatial)) * plane
    return node.call("add", place, node.const(planes, "int64"))


@converts("AveragePool", 1, 7)
def average_pool(node):
    return _pool(node, "avg")


@converts("LpPool", 1, 2)
def lp_pool(node):
    """The p-norms of windows: sums are means of windows, all of whose elements count, by their number."""
    x, p = node.input(0), node.attr("p", 2)
    spatial = dims_of(x)[2:]
    if not 1 <= len(spatial) <= 3 or not all(isinstance(d, int) for d in spatial):
        raise node.error("takes an input with 1 to 3 spatial dimensions of static size")
    kernel = tuple(node.attr("kernel_shape"))
    strides, pads, dilations = window(node, kernel, spatial)
    kernel = per_axis(node, "kernel_shape", len(spatial))
    before, after = list(pads[:len(spatial)]), list(pads[len(spatial):])
    for k, (size, n, s, d) in enumerate(zip(spatial, kernel, strides, dilations)):
        slack = size + before[k] + after[k] - (n - 1) * d - 1
        if node.attr("ceil_mode", 0) and slack > 0 and (slack + s - 1) // s * s < size + before[k]:
            after[k] += -slack % s
    powers = pad_or_crop(node, _power(node, x, p), [0, 0, *before], [0, 0, *after])
    means = node.call(f"nn.avg_pool{len(spatial)}d", powers, pool_size=kernel, strides=strides, dilation=dilations)
    return _root(node, node.call("multiply", means, scalar_like(node, float(np.prod(kernel)), x)), p)


def _power(node, x, p):
    """|x|^p."""
    if p in (1, 2):
        return node.call("abs" if p == 1 else "square", x)
    return node.call("power", node.call("abs", x), scalar_like(node, p, x))


def _root(node, x, p):
    if p in (1, 2):
        return x if p == 1 else node.call("sqrt", x)
    return node.call("power", x, scalar_like(node, 1 / p, x))


@converts("GlobalLpPool", 1, 2)
def global_lp_pool(node):
    x, p = node.input(0), node.attr("p", 2)
    rank = x.struct_info.ndim
    if rank < 3:
        raise node.error("global pooling takes an input with spatial dimensions")
    return _root(node, node.call("sum", _power(node, x, p), axis=tuple(range(2, rank)), keepdims=True), p)


def _global(op):
    def convert(node):
        rank = node.input(0).struct_info.ndim
        if rank < 3:
            raise node.error("global pooling takes an input with spatial dimensions")
        return node.call(op, node.input(0), axis=tuple(range(2, rank)), keepdims=True)
    return convert


converts("GlobalAveragePool")(_global("mean"))
converts("GlobalMaxPool")(_global("max"))
