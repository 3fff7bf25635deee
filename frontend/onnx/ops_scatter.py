"""Operators whose places data decides: scatters, gathers by several axes, sorting, running sums, one-hot."""
from __future__ import annotations

from functools import reduce

import numpy as np

from ...ir.relax.expr import Constant
from ..shapes import dims_of
from .converter import converts
from .ops_math import scalar_like
from .run_shapes import as_dims


# ---------------------------------------------------------------- scatter and gather

@converts("ScatterElements", 11)
@converts("Scatter", 9)
def scatter_elements(node):
    axis = node.axis(node.attr("axis", 0), node.input(0).struct_info.ndim)
    return node.call("scatter_elements", *node.inputs, axis=axis, reduction=_reduction(node))


@converts("ScatterND", 11)
def scatter_nd(node):
    return node.call("scatter_nd", *node.inputs, reduction=_reduction(node))


def _reduction(node):
    return node.choice("reduction", "none", "add", "mul", "min", "max")


@converts("GatherND", 11)
def gather_nd(node):
    return node.call("gather_nd", node.input(0), node.input(1), batch_dims=node.attr("batch_dims", 0))


def update_rows(node, cache, update, axis, start):
    """A cache with an update from row `start` ([1], None for 0) on; a run refuses one that leaves it."""
    begin = 0
    if start is not None:
        size = dims_of(cache)[axis]
        begin, = as_dims(node, node.reshape(start, [1]), [f"{node.stem}_begin"], [size], "where the update begins")
    return node.call("update_slice", cache, update, axis=axis, begin=begin)


@converts("TensorScatter", 24)
def tensor_scatter(node):
    """Rows of a cache, each batch from its own index on: read from the update where that reaches."""
    cache, update, start = node.input(0), node.input(1), node.input(2)
    dims = dims_of(cache)
    axis = node.axis(node.attr("axis", -2), len(dims))
    if axis == 0:
        raise node.error("attribute axis 0 is the batch")
    circular = node.choice("mode", "linear", "circular") == "circular"
    if dims[0] == 1 and not circular:
        return update_rows(node, cache, update, axis, start)
    return scattered(node, cache, update, axis, start, circular)


def scattered(node, cache, update, axis, start=None, circular=False):
    """Rows of a cache along an axis, each batch from start[b] on those of the update, which may go on at 0."""
    dims = dims_of(cache)
    size, count = dims[axis], dims_of(update)[axis]
    if not isinstance(size, int) or not isinstance(count, int) or count > size:
        raise node.error(f"axis {axis} of the cache, {size}, and of the update, {count}, must be static, and the "
                         "update no longer")
    places = node.const(np.arange(size).reshape([-1 if k == axis else 1 for k in range(len(dims))]), "int64")
    if start is not None:
        start = node.reshape(start, [dims[0]] + [1] * (len(dims) - 1))
        places = node.call("subtract", places, start)
    if circular:
        places = node.call("floor_mod", places, node.const(size, "int64"))
    inside = node.call("logical_and", node.call("greater_equal", places, node.const(0, "int64")),
                       node.call("less", places, node.const(count, "int64")))
    held = node.call("clip", places, min=0, max=count - 1)
    rows = node.call("gather_elements", update, node.broadcast(held, dims), axis=axis)
    return node.call("where", inside, rows, cache)


@converts("ReverseSequence", 10)
def reverse_sequence(node):
    """The first elements of each sequence, as many as its length says, from the last to the first."""
    x, lengths = node.input(0), node.input(1)
    dims = dims_of(x)
    batch, time = node.attr("batch_axis", 1), node.attr("time_axis", 0)
    if {batch, time} != {0, 1} or len(dims) < 2:
        raise node.error(f"attributes batch_axis {batch} and time_axis {time} must be 0 and 1")
    if not isinstance(dims[time], int):
        raise node.error(f"the time axis {dims[time]} must be static; pin it with dims")
    shape = [-1 if k == time else 1 for k in range(len(dims))]
    steps = node.const(np.arange(dims[time]).reshape(shape), "int64")
    lengths = node.reshape(lengths, [dims[batch] if k == batch else 1 for k in range(len(dims))])
    mirrored = node.call("subtract", node.call("subtract", lengths, node.const(1, "int64")), steps)
    places = node.call("where", node.call("less", steps, lengths), mirrored, steps)
    return node.call("gather_elements", x, node.broadcast(places, dims), axis=time)


# ---------------------------------------------------------------- running sums and products

def _running(op):
    def convert(node):
        """Of an axis that data decides, all are computed, and one is taken."""
        x, axis = node.input(0), node.input(1)
        rank = x.struct_info.ndim
        if dims_of(axis) not in ([], [1]):
            raise node.error("axis must be a scalar")
        if isinstance(axis, Constant):
            return _along(node, x, op, node.axis(int(axis.data.reshape(())), rank))
        axis = node.reshape(axis, [])
        result = _along(node, x, op, rank - 1)
        for k in range(rank - 1):
            same = reduce(lambda a, b: node.call("logical_or", a, b),
                          (node.call("equal", axis, scalar_like(node, v, axis)) for v in (k, k - rank)))
            result = node.call("where", same, _along(node, x, op, k), result)
        return result
    return convert


def _along(node, x, op, axis):
    if node.attr("reverse", 0):
        x = node.call("flip", x, axis=axis)
    result = node.call(op, x, axis=axis, exclusive=bool(node.attr("exclusive", 0)))
    return node.call("flip", result, axis=axis) if node.attr("reverse", 0) else result


converts("CumSum", 11)(_running("cumsum"))
converts("CumProd", 26)(_running("cumprod"))


# ---------------------------------------------------------------- top k, hardmax, one-hot

@converts("TopK", 1)
def top_k_v1(node):
    return _top_k(node, node.attr("k"))


@converts("TopK", 10, 11)
def top_k(node):
    k = node.ints(1, "k")
    if len(k) != 1:
        raise node.error("k must be one number")
    return _top_k(node, k[0])


def _top_k(node, k):
    """Unsorted results may have any order: also the sorted one."""
    axis = node.axis(node.attr("axis", -1), node.input(0).struct_info.ndim)
    return node.call("topk", node.input(0), k=k, axis=axis, largest=bool(node.attr("largest", 1)))


@converts("Hardmax", 1)
def hardmax_v1(node):
    """Before opset 13 the tensor is a matrix, [axes before `axis`, the others]."""
    x = node.input(0)
    dims = dims_of(x)
    axis = node.axis(node.attr("axis", 1), len(dims))
    if not all(isinstance(d, int) for d in dims[axis:]):
        raise node.error("the axes from `axis` on must be static; pin them with dims")
    before = [*dims[:axis], int(np.prod(dims[axis:]))]
    return node.reshape(_hardmax(node, node.reshape(x, before), axis), dims)


@converts("Hardmax", 13)
def hardmax(node):
    x = node.input(0)
    return _hardmax(node, x, node.axis(node.attr("axis", -1), x.struct_info.ndim))


def _hardmax(node, x, axis):
    """1 where the first maximum is."""
    size = dims_of(x)[axis]
    if not isinstance(size, int):
        raise node.error(f"axis {axis} of size {size} must be static; pin it with dims")
    first = node.call("argmax", x, axis=axis)
    return node.call("one_hot", first, depth=size, axis=axis, dtype=str(x.struct_info.dtype))


@converts("OneHot", 9)
def one_hot(node):
    """values[1] where an index names the place, values[0] elsewhere; indices below 0 count from the end from opset 11
    on, and others out of range name none."""
    indices, depth, values = node.input(0), node.constant(1, "depth"), node.input(2)
    if depth.size != 1 or dims_of(values) != [2]:
        raise node.error("depth must be one number, and values two")
    depth = int(depth.reshape(()))
    axis = node.axis(node.attr("axis", -1), indices.struct_info.ndim + 1)
    indices = node.astype(indices, "int64")
    below = node.call("less", indices, node.const(0, "int64"))
    indices = node.call("where", below, node.call("add", indices, node.const(depth, "int64")), indices)
    hot = node.call("one_hot", indices, depth=depth, axis=axis, dtype="bool")
    off, on = (node.reshape(node.call("take", values, node.const([k], "int64"), axis=0), []) for k in (0, 1))
    return node.call("where", hot, on, off)


@converts("Det", 11)
def det(node):
    return node.call("det", node.input(0))
