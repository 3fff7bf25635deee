"""Slices and ranges whose bounds are made of dimensions, or come from tensors that only a run knows.

The same arithmetic serves both: of dimensions it gives expressions, of tensors it gives a tensor, whose elements the
run reads as dimensions.
"""
from __future__ import annotations

import numpy as np

from ...ir.relax.control import tensor_to_shape
from ...ir.relax.expr import Constant, RelaxExpr, ShapeExpr
from ..shapes import Symbolic, dims_of, product, same, settle, upper
from .names import identifier


def is_known(value):
    """Whether a value is absent, constant or made of dimensions."""
    return value is None or isinstance(value, (Constant, Symbolic))


def as_dims(node, value, names, bounds, what):
    """The elements of an integer tensor [n] as dimensions. names, bounds: of those that only a run knows; for a bound
    None there must be one of the caller's, or the extent of that axis of the node's result that the model declares;
    what: they are, in the error for want of one."""
    if isinstance(value, Constant):
        return [int(v) for v in value.data.reshape(-1)]
    if isinstance(value, Symbolic) and all(upper(d) is not None for d in value.array.reshape(-1)):
        return list(value.array.reshape(-1))
    value = node.tensor(value)  # expressions of what a run decides that have no bound are read, as data are
    dims = [node.scope.decided(node, name, most, what, (0, k)) for k, (name, most) in enumerate(zip(names, bounds))]
    node.emit(tensor_to_shape(node.bind(value), dims))
    return dims


def run_dims(node, index, what):
    """Input `index` as a list of dimensions, also where only a run knows them; None where it is absent."""
    value = node.input(index)
    if is_known(value):
        return node.dims(index, what)
    shape = dims_of(value)
    if len(shape) > 1 or not all(isinstance(d, int) for d in shape):
        raise node.error(f"{what} must be a list of a length that is known when compiling")
    count = shape[0] if shape else 1
    stem = identifier(node.proto.input[index], "t")
    value = node.reshape(node.astype(value, "int64"), [count])
    return as_dims(node, value, [f"{stem}_{k}" for k in range(count)], [None] * count, what)


def _rank_of_shape(node):
    """How many elements input 1, a shape that only the run knows, has."""
    given = dims_of(node.input(1))
    if len(given) != 1 or not isinstance(given[0], int):
        raise node.error("the shape must be a list of a length that is known when compiling")
    return given[0]


def reshape_by_run(node):
    """Input 0 under a shape that only the run knows, 0 and -1 as in Reshape; the run checks the number of elements."""
    x, copied = node.input(0), node.input(1)
    dims, rank = dims_of(x), _rank_of_shape(node)
    vector = [node.const([v] * rank, "int64") for v in (0, 1, -1)]
    zero, one, rest = vector
    if not node.attr("allowzero", 0):
        own = settle(np.array([*(dims + [-2] * rank)[:rank], None], object)[:rank], "int64")
        copied = node.call("where", node.call("equal", copied, zero), node.tensor(own), copied)
    free = node.call("equal", copied, rest)
    known = node.call("prod", node.call("where", free, one, copied), axis=(0,), keepdims=True)
    total = node.tensor(settle(np.array([product(dims)], object), "int64"))
    left = node.call("divide", total, node.call("maximum", known, node.const([1], "int64")))
    sizes = node.bind(node.call("where", free, left, copied))
    names = [f"{node.stem}_d{k}" for k in range(rank)]
    return node.reshape(x, as_dims(node, sizes, names, [None] * rank, "the shape"))


def expand_by_run(node):
    """Input 0 repeated along its axes of one element, as often as only the run knows. Others keep their extent, which
    the run checks."""
    x, given = node.input(0), _rank_of_shape(node)
    dims = dims_of(x)
    rank = max(given, len(dims))
    dims = [1] * (rank - len(dims)) + dims
    wanted = node.input(1)
    if rank > given:
        wanted = node.call("concat", node.const([1] * (rank - given), "int64"), wanted, axis=0)
    if not all(isinstance(d, int) for d in dims):
        raise node.error("it expands symbolic dimensions by a shape that only the run knows; pin them with dims")
    mine, one, none = (node.const(v, "int64") for v in (dims, [1] * rank, [-1] * rank))
    fits = node.call("logical_or", node.call("equal", wanted, one), node.call("equal", wanted, mine))
    fits = node.call("logical_or", fits, node.call("equal", mine, one))
    sizes = node.call("where", fits, node.call("maximum", wanted, mine), none)  # -1 is none: the run ends
    empty = node.call("equal", wanted, node.const([0] * rank, "int64"))
    sizes = node.bind(node.call("where", node.call("logical_and", empty, node.call("equal", mine, one)), wanted, sizes))
    bounds = [None if d == 1 else d for d in dims]
    found = as_dims(node, sizes, [f"{node.stem}_d{k}" for k in range(rank)], bounds, "the shape")
    return node.broadcast(x, [m if d == 1 else d for d, m in zip(dims, found)])


# ---------------------------------------------------------------- slices

def slice_by_dims(node, starts, ends, axes, steps):
    """Input 0 from `starts` to `ends` (integer tensors [n]), both clamped to the axes as ONNX says."""
    x = node.input(0)
    dims, count = dims_of(x), len(axes)
    signs, strides = [1 if s > 0 else -1 for s in steps], [abs(s) for s in steps]
    extents = settle(np.array([*(dims[a] for a in axes), None], object)[:count], "int64")
    backward = node.const([int(s < 0) for s in signs], "int64")
    top, low = node.call("subtract", extents, backward), node.call("negative", backward)
    zero = node.const([0] * count, "int64")

    def clamped(value, least):
        value = node.astype(value, "int64")
        counted = node.call("where", node.call("less", value, zero), node.call("add", value, extents), value)
        return node.call("maximum", node.call("minimum", counted, top), least)

    first, last = clamped(starts, zero), clamped(ends, low)
    reach = node.call("multiply", node.call("subtract", last, first), node.const(signs, "int64"))
    reach = node.call("add", node.call("maximum", reach, zero), node.const([s - 1 for s in strides], "int64"))
    size = node.call("minimum", node.call("divide", reach, node.const(strides, "int64")), extents)
    bounds = [upper(dims[a]) for a in axes]
    begins = as_dims(node, first, [f"{node.stem}_begin{a}" for a in axes], bounds, "where the slice begins")
    sizes = as_dims(node, size, [f"{node.stem}_d{a}" for a in axes], bounds, "the extent of its slice")
    rows = [row for row in zip(axes, begins, sizes, steps)
            if not (isinstance(row[1], int) and row[1] == 0 and same(row[2], dims[row[0]]) and row[3] == 1)]
    if not rows:
        return x
    axes, begins, sizes, steps = zip(*sorted(rows, key=lambda row: row[0]))
    return node.call("slice_at", x, ShapeExpr(begins), ShapeExpr(sizes), axes=axes, strides=steps)


# ---------------------------------------------------------------- ranges

def _whole(node, x):
    """An operand of a range as integers; None where it is of floats that need not be whole."""
    if str(x.struct_info.dtype).startswith(("int", "uint")) or isinstance(x, Symbolic):
        return node.astype(x, "int64") if isinstance(x, Symbolic) else x
    if isinstance(x, Constant) and np.all(x.data == np.round(x.data)) and np.all(np.abs(x.data) < 1 << 53):
        return node.const(x.data, "int64")
    return None


def range_by_dims(node):
    """start, start + delta ... before limit, of which one at least is no constant."""
    start, limit, delta = (x if is_known(x) else node.reshape(x, []) for x in node.inputs)
    start, limit, delta = (settle(x.array.reshape(()), x.dtype) if isinstance(x, Symbolic) else x
                           for x in (start, limit, delta))
    dtype = str(limit.struct_info.dtype)
    number = node.const(0, "int64")
    whole = [_whole(node, x) for x in (start, limit, delta)]
    if isinstance(whole[2], Constant) and None not in whole:
        step = int(whole[2].data.reshape(-1)[0])
        if step == 0:
            raise node.error("delta is 0")
        reach = node.call("subtract", *(whole[1::-1] if step > 0 else whole[:2]))
        reach = node.call("add", node.call("maximum", node.astype(reach, "int64"), number),
                          node.const(abs(step) - 1, "int64"))
        count = node.call("divide", reach, node.const(abs(step), "int64"))
    else:
        wide = [node.astype(node.tensor(x), "float64") for x in (start, limit, delta)]
        steps = node.call("divide", node.call("subtract", wide[1], wide[0]), wide[2])
        count = node.call("maximum", node.astype(node.call("ceil", steps), "int64"), number)
    name = f"{node.stem}_d0"
    count = node.reshape(count, [1]) if isinstance(count, RelaxExpr) else count
    size, = as_dims(node, count, [name], [None], "the length of its range")
    turns = node.astype(node.positions(size), dtype)
    return node.call("add", node.call("multiply", turns, node.tensor(delta)), node.tensor(start))
