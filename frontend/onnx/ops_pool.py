"""Pooling: windows and whole planes."""
from __future__ import annotations

from ..shapes import dims_of
from .converter import converts
from .ops_nn import per_axis, window


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


@converts("MaxPool", 8)
def max_pool(node):
    if node.attr("storage_order", 0):
        raise node.error("storage_order 1 (column major) is not supported")
    if node.wants(1):
        raise node.error("the output Indices is not supported")
    return _pool(node, "max")


@converts("AveragePool", 7)
def average_pool(node):
    return _pool(node, "avg")


def _global(op):
    def convert(node):
        rank = node.input(0).struct_info.ndim
        if rank < 3:
            raise node.error("global pooling takes an input with spatial dimensions")
        return node.call(op, node.input(0), axis=tuple(range(2, rank)), keepdims=True)
    return convert


converts("GlobalAveragePool")(_global("mean"))
converts("GlobalMaxPool")(_global("max"))
