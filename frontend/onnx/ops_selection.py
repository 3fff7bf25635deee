"""Operators whose results have a size that the data decide: NonZero, Compress, Unique, NonMaxSuppression.

Each makes a tensor of the largest size and the number of rows that are meant; a dimension of the run is that number.
"""
from __future__ import annotations

import numpy as np

from ...ir.relax.control import tensor_to_shape
from ...ir.relax.expr import Constant, ShapeExpr
from ..shapes import dims_of, product, upper
from .converter import converts


def first_rows(node, values, number, name):
    """The first `number` ([1], int64) rows of some tensors, all of as many rows. name: of the dimension."""
    values = [node.bind(x) for x in values]
    if isinstance(number, Constant):
        rows = int(number.data.reshape(-1)[0])
    else:
        rows = node.scope.decided(node, name, upper(dims_of(values[0])[0]), "the number of its results")
        node.emit(tensor_to_shape(node.bind(number), [rows]))
    return [node.call("slice_at", x, ShapeExpr((0,)), ShapeExpr((rows,)), axes=(0,), strides=(1,)) for x in values]


def _count_name(node):
    return f"{node.stem}_count"


@converts("NonZero", 9)
def nonzero(node):
    """int64 [dimensions of x, how many]; a tensor without dimensions counts as one of one."""
    x = node.tensor(node.input(0))
    places, number = node.call("list_nonzero", x)
    rows, = first_rows(node, [places], number, _count_name(node))
    return node.transpose(rows, (1, 0))


@converts("Compress", 9)
def compress(node):
    """The slices of an axis, or of all elements in a row, for which the condition holds."""
    x, axis = node.input(0), node.attr("axis")
    if axis is None:
        x, axis = node.reshape(x, [product(dims_of(x))]), 0
    axis = node.axis(axis, len(dims_of(x)))
    extent, given = dims_of(x)[axis], dims_of(node.input(1))
    cond = node.tensor(node.input(1))
    if len(given) != 1:
        raise node.error("the condition must have one dimension")
    if isinstance(given[0], int) and isinstance(extent, int) and given[0] > extent:
        cond = node.call("strided_slice", cond, axes=(0,), begin=(0,), end=(extent,), strides=(1,))
    elif not (isinstance(given[0], int) and isinstance(extent, int)) and given[0] is not extent:
        raise node.error(f"the condition of {given[0]} elements is not known to fit an axis of {extent}; pin the "
                         "dimensions with dims")
    places, number = node.call("list_nonzero", cond)
    rows, = first_rows(node, [places], number, _count_name(node))
    return node.call("take", x, node.reshape(rows, [dims_of(node.bind(rows))[0]]), axis=axis)


@converts("Unique", 11)
def unique(node):
    """Of all elements, or of the slices of an axis."""
    x, axis = node.tensor(node.input(0)), node.attr("axis")
    if axis is None:
        x, axis = node.reshape(x, [product(dims_of(x))]), 0
    dims = dims_of(node.bind(x))
    axis = node.axis(axis, len(dims))
    front = node.transpose(x, [axis, *(k for k in range(len(dims)) if k != axis)])
    rest = product(dims[:axis] + dims[axis + 1:])
    first, inverse, counts, number = node.call("list_unique", node.reshape(front, [dims[axis], rest]),
                                               sorted=bool(node.attr("sorted", 1)))
    first, counts = (node.bind(r) for r in first_rows(node, [first, counts], number, _count_name(node)))
    return node.call("take", x, first, axis=axis), first, inverse, counts


@converts("NonMaxSuppression", 10)
def non_max_suppression(node):
    """The largest number of boxes is the bound of the result where it is a constant."""
    boxes, scores = node.input(0), node.input(1)
    dtype = str(boxes.struct_info.dtype)
    limit, overlap, least = (
        node.const(usual, kind) if node.input(k) is None else node.bind(node.reshape(node.input(k), []))
        for k, usual, kind in ((2, 0, "int64"), (3, 0, dtype), (4, -np.inf, dtype)))
    most = int(limit.data) if isinstance(limit, Constant) else np.iinfo(np.int32).max
    if most <= 0:
        return node.const(np.zeros((0, 3)), "int64")
    places, number = node.call("image.list_boxes", boxes, scores, limit, overlap, least,
                               most=min(most, np.iinfo(np.int32).max), corners=not node.attr("center_point_box", 0))
    rows, = first_rows(node, [places], number, _count_name(node))
    return rows
