"""Elements by their places: slices, tables of indices, scattered writes."""
from __future__ import annotations

import math

import numpy as np

from ...ir.expr import LE, Min, PrimExpr, binary
from ...ir.relax.expr import Constant, ShapeExpr, TupleStructInfo, const
from ..shapes import prove, same, simplify
from .dtypes import category
from .table import ATEN, CONVERTERS, FUNCTIONS, converts

_END = (1 << 63) - 1  # torch's end of all slices


# ---------------------------------------------------------------- one axis

@converts("select", "select_copy")
def select(b, x, dim, index):
    if isinstance(index, PrimExpr):
        index = b.tensor(index, "int64")
    elif not b.is_tensor(index):
        index = const(_natural(index, b.dims(x)[dim]), "int64")
    return b.op("take", x, index, dim)


def _natural(index, extent):
    """An index that counts from the end, from the beginning where that is known."""
    return index + extent if index < 0 and isinstance(extent, int) else index


@converts("slice", "slice_copy", table=ATEN)
def slice_(b, x, dim=0, start=None, end=None, step=1):
    return _sliced(b, x, dim, start, end, step)


def _sliced(b, x, dim, start, end, step):
    """x[start:end:step] of an axis."""
    extent = b.dims(x)[dim]
    start = 0 if start is None else start
    if isinstance(extent, int) and isinstance(start, int) and (end is None or isinstance(end, int)):
        return b.op("strided_slice", x, [dim], [start], [_END if end is None else end], [step])
    first, last = _bound(start, extent), extent if end is None else _bound(end, extent)
    size = b.result_dim(dim)
    size = simplify((last - first + step - 1) // step) if size is None else size
    if same(first, 0) and same(size, extent):
        return x
    return b.op("slice_at", x, [first], [size], axes=[dim], strides=[step])


def _bound(at, extent):
    """Where a slice begins or ends, from 0 to the extent."""
    if isinstance(at, int) and at >= _END:
        return extent
    if isinstance(at, int) and at < 0:
        return simplify(extent + at)
    if isinstance(at, int) and at == 0 or prove(binary(LE, at, extent)) is True:
        return at
    return simplify(binary(Min, at, extent))


@converts("narrow", "narrow_copy")
def narrow(b, x, dim, start, length):
    if all(isinstance(v, int) for v in (start, length, b.dims(x)[dim])):
        return b.op("strided_slice", x, [dim], [start], [start + length])
    return b.op("slice_at", x, [start], [length], axes=[dim], strides=[1])


@converts("index_select")
def index_select(b, x, dim, index):
    return b.op("take", x, index, dim)


@converts("take")
def take(b, x, index):
    """Of the elements in order, whatever the shape."""
    return b.op("take", x, b.op("astype", index, "int32"))


@converts("gather")
def gather(b, x, dim, index, sparse_grad=False):
    return b.op("gather_elements", x, index, axis=dim)


@converts("take_along_dim")
def take_along_dim(b, x, index, dim=None):
    """As gather, of tensors that broadcast along the other axes."""
    if dim is None:
        return b.op("gather_elements", b.op("reshape", x, [-1]), b.op("reshape", index, [-1]), axis=0)
    (*sizes,), (*places,) = b.dims(x), b.dims(index)
    for k in {*range(len(sizes))} - {dim % len(sizes)}:
        sizes[k] = places[k] = sizes[k] if same(places[k], 1) else places[k]
    x, index = (v if list(b.dims(v)) == dims else b.op("broadcast_to", v, dims)
                for v, dims in ((x, sizes), (index, places)))
    return b.op("gather_elements", x, index, axis=dim)


# ---------------------------------------------------------------- x[...]

@converts("getitem")
def getitem(b, x, index):
    if isinstance(x, (list, tuple, dict)):
        return x[index]
    if isinstance(x, ShapeExpr):
        values = [v.value if hasattr(v, "value") else v for v in x.values]
        return ShapeExpr(tuple(values[index])) if isinstance(index, slice) else values[index]
    if isinstance(x.struct_info, TupleStructInfo):
        return b.emit(x[index]) if not hasattr(x, "fields") else x.fields[index]
    index = index if isinstance(index, tuple) else (index,)
    if isinstance(x, Constant) and not any(map(b.is_tensor, index)) and not any(
            isinstance(i, PrimExpr) for i in index):
        return Constant(np.ascontiguousarray(x.data[index]))
    return _indexed(b, x, index)


def _indexed(b, x, index):
    """Slices of all axes, then the tensors among the indices, then new axes and those that numbers take out."""
    used = sum(i is not None and i is not Ellipsis for i in index)
    rest = b.rank(x) - used
    if Ellipsis not in [i for i in index if not b.is_tensor(i)]:
        index = (*index, Ellipsis)
    whole, seen = [], False
    for i in index:
        more = not b.is_tensor(i) and i is Ellipsis
        whole += ([slice(None)] * rest if not seen else []) if more else [i]
        seen = seen or more
    tensors, gone, new = [], [], []
    begin, end, strides, axis = [], [], [], 0
    dims = b.dims(x)
    for i in whole:
        if i is None:
            new.append(axis)
            continue
        extent = dims[axis]
        if b.is_tensor(i):
            tensors.append((axis, i))
            first, last, step = 0, extent, 1
        elif isinstance(i, slice):
            first = 0 if i.start is None else i.start
            last, step = extent if i.stop is None else i.stop, 1 if i.step is None else i.step
        else:
            at = _natural(i, extent) if isinstance(i, int) else i
            first, last, step = at, at + 1, 1
            gone.append(axis)
        begin, end, strides, axis = [*begin, first], [*end, last], [*strides, step], axis + 1
    return _viewed(b, _taken(b, x, tensors, (begin, end, strides)), tensors, gone, new)


def _taken(b, x, tensors, bounds):
    if len(tensors) == 1 and b.rank(tensors[0][1]) == 1:
        axis, index = tensors[0]
        x = b.op("take", x, index, axis)
        bounds[1][axis] = b.dims(x)[axis]
        tensors = []
    if all(isinstance(v, int) for v in (*bounds[0], *bounds[1], *b.dims(x))):
        x = b.op("strided_slice", x, list(range(b.rank(x))), *bounds)
    else:
        for axis, part in enumerate(zip(*bounds)):
            x = _sliced(b, x, axis, *part)
    return by_tensors(b, x, [dict(tensors).get(k) for k in range(b.rank(x))]) if tensors else x


def _viewed(b, x, tensors, gone, new):
    """`x` without axes that numbers took out, and with new ones."""
    if len(tensors) > 1 or tensors and b.rank(tensors[0][1]) != 1:
        if gone or new:
            raise ValueError("an index of several tensors beside numbers or None is not supported")
        return x
    shape = []
    for axis, d in enumerate([*b.dims(x), None]):
        shape += [1] * new.count(axis)
        shape += [] if d is None or axis in gone else [d]
    return b.op("reshape", x, shape)


@converts("index", "_unsafe_index", table=ATEN)
def index_(b, x, indices):
    return by_tensors(b, x, indices)


def by_tensors(b, x, indices):
    """x[i, :, j]: a tensor or None for each axis; axes behind the last are whole."""
    indices = [*indices, *[None] * (b.rank(x) - len(indices))]
    axes = [k for k, i in enumerate(indices) if i is not None]
    _no_masks(b, indices)
    if len(axes) == 1:
        return b.op("take", x, _wrapped(b, indices[axes[0]], b.dims(x)[axes[0]]), axes[0])
    together = axes == list(range(axes[0], axes[0] + len(axes)))
    order = [*axes, *(k for k in range(len(indices)) if k not in axes)]
    front = x if order == sorted(order) else b.op("permute_dims", x, order)
    points = _points(b, [_wrapped(b, indices[k], b.dims(x)[k]) for k in axes])
    found = b.op("gather_nd", front, points)
    at, rank = axes[0] if together else 0, b.rank(points) - 1
    if not at:
        return found
    rest = list(range(rank, b.rank(found)))
    return b.op("permute_dims", found, [*rest[:at], *range(rank), *rest[at:]])


def _no_masks(b, indices):
    if any(i is not None and b.dtype(i) == "bool" for i in indices):
        raise ValueError("an index of bools gives a shape that only a run knows; use torch.where")


def _wrapped(b, index, extent):
    """Indices that may count from the end, from the beginning."""
    if isinstance(index, Constant):
        low = index.data.min(initial=0)
        return Constant(np.where(index.data < 0, index.data + extent, index.data)) if low < 0 and isinstance(
            extent, int) else index
    return index


def _points(b, indices):
    """Indices of axes, broadcast, as the last axis of one tensor."""
    shape = np.broadcast_shapes(*[tuple(b.dims(i)) for i in indices])
    columns = []
    for i in indices:
        i = b.cast(i, "int64")
        i = i if tuple(b.dims(i)) == shape else b.op("broadcast_to", i, list(shape))
        columns.append(b.op("expand_dims", i, len(shape)))
    return b.op("concat", columns, axis=len(shape))


# ---------------------------------------------------------------- writes

@converts("scatter")
def scatter(b, x, dim, index, src=None, value=None, reduce=None):
    src = value if src is None else src
    if not b.is_tensor(src):
        src = b.op("full", b.shape_of(index), b.const_like(src, x), b.dtype(x))
    how = {} if reduce is None else {"reduction": {"add": "add", "multiply": "mul"}.get(reduce, reduce)}
    return b.op("scatter_elements", x, index, src, axis=dim, **how)


@converts("scatter_add")
def scatter_add(b, x, dim, index, src):
    return b.op("scatter_elements", x, index, src, axis=dim, reduction="add")


@converts("scatter_reduce")
def scatter_reduce(b, x, dim, index, src, reduce, include_self=True):
    names = {"sum": "add", "mean": "add", "prod": "mul", "amax": "max", "amin": "min"}
    if reduce not in names or reduce == "mean" and category(b.dtype(x)) != 2:
        raise ValueError(f"scatter_reduce by {reduce!r} of {b.dtype(x)} is not supported")
    base = x if include_self else b.op("scatter_elements", x, index, _like(b, index, _NEUTRAL[reduce], x), axis=dim)
    result = b.op("scatter_elements", base, index, src, axis=dim, reduction=names[reduce])
    if reduce != "mean":
        return result
    ones = _like(b, index, 1, x)
    count = _like(b, x, 1, x) if include_self else _like(b, x, 0, x)
    count = b.op("scatter_elements", count, index, ones, axis=dim, reduction="add")
    return b.op("divide", result, b.op("maximum", count, b.const_like(1, x)))


# What a reduction's first element changes nothing to; where x is kept out, it is written before.
_NEUTRAL = {"sum": 0, "mean": 0, "prod": 1, "amax": -math.inf, "amin": math.inf}


def _like(b, shaped, value, x):
    """A value, in the shape of one tensor and the dtype of another. Of integers, infinities are the ends."""
    if category(b.dtype(x)) != 2 and value in (math.inf, -math.inf):
        value = getattr(np.iinfo(b.dtype(x)), "max" if value > 0 else "min")
    return b.op("full", b.shape_of(shaped), b.const_like(value, x), b.dtype(x))


@converts("index_put")
def index_put(b, x, indices, values, accumulate=False):
    axes = [k for k, i in enumerate(indices) if i is not None]
    if len(axes) == 1 and b.dtype(indices[axes[0]]) == "bool" and axes == [0] and not b.rank(values):
        mask = indices[0]
        mask = b.op("reshape", mask, [*b.dims(mask), *[1] * (b.rank(x) - b.rank(mask))])
        values = b.cast(values, b.dtype(x))
        return b.op("where", mask, b.op("add", x, values) if accumulate else values, x)
    _no_masks(b, indices)
    order = [*axes, *(k for k in range(b.rank(x)) if k not in axes)]
    front = x if order == sorted(order) else b.op("permute_dims", x, order)
    points = _points(b, [_wrapped(b, indices[k], b.dims(x)[k]) for k in axes])
    at, rest = b.dims(points)[:-1], b.dims(front)[len(axes):]
    # of axes side by side, the places stand where those were; else first
    before = axes[0] if axes == list(range(axes[0], axes[0] + len(axes))) else 0
    values = b.op("broadcast_to", b.cast(values, b.dtype(x)), [*rest[:before], *at, *rest[before:]])
    if before:
        turned = [*range(before, before + len(at)), *range(before), *range(before + len(at), len(at) + len(rest))]
        values = b.op("permute_dims", values, turned)
    written = b.op("scatter_nd", front, points, values, **({"reduction": "add"} if accumulate else {}))
    return written if front is x else b.op("permute_dims", written, np.argsort(order).tolist())


@converts("select_scatter")
def select_scatter(b, x, src, dim, index):
    return slice_scatter(b, x, b.op("expand_dims", src, dim), dim, index, index + 1 or None)


@converts("slice_scatter")
def slice_scatter(b, x, src, dim=0, start=None, end=None, step=1):
    """`x` with a slice of an axis replaced."""
    extent = b.dims(x)[dim]
    start, end = (0 if start is None else start), (extent if end is None else end)
    if step == 1:
        first, last = _bound(start, extent), _bound(end, extent)
        if isinstance(extent, int):
            first, last = min(first, extent), min(last, extent)
        parts = [(0, first), None, (last, extent)]
        joined = [src if p is None else narrow(b, x, dim, p[0], simplify(p[1] - p[0])) for p in parts
                  if p is None or not same(*p)]
        return b.op("concat", joined, axis=dim) if len(joined) > 1 else src
    if not isinstance(extent, int):
        raise ValueError("slice_scatter with a step needs a static dimension")
    places = np.arange(extent)[start:end:step]
    shape = [1] * b.rank(x)
    shape[dim] = len(places)
    index = b.op("broadcast_to", Constant(places.reshape(shape)), b.dims(src))
    return b.op("scatter_elements", x, index, src, axis=dim)


@converts("copy", "copy_")
def copy(b, x, source, non_blocking=False):
    """What is written over `x`."""
    source = b.as_operand(source, b.dtype(x))
    return source if b.dims(source) == b.dims(x) else b.op("broadcast_to", source, b.shape_of(x))


def _masked_fill(b, x, mask, value):
    value = value if b.is_tensor(value) else const(value)
    return b.op("where", mask, b.op("full_like", x, value), x)


@converts("masked_fill", table=FUNCTIONS)
def masked_fill_function(b, x, mask, value):
    return _masked_fill(b, x, mask, value)


@converts("masked_fill")
def masked_fill(b, x, mask, value):
    value = b.as_operand(value, b.dtype(x))
    return b.op("where", mask, value, x)


@converts("masked_scatter")
def masked_scatter(b, x, mask, source):
    """Where the mask holds, the elements of `source` in order."""
    rank = max(b.rank(x), b.rank(mask))
    own, masked = ([1] * (rank - b.rank(v)) + list(b.dims(v)) for v in (x, mask))
    dims = [m if same(d, 1) else d for d, m in zip(own, masked)]
    x, mask = (v if list(b.dims(v)) == dims else b.op("broadcast_to", v, dims) for v in (x, mask))
    if any(same(d, 0) for d in b.dims(source)):  # the mask holds nowhere
        return x
    flat, source = ((v if b.rank(v) == 1 else b.op("reshape", v, [-1])) for v in (mask, source))
    place = b.op("cumsum", b.cast(flat, "int32"), 0, dtype="int32")
    place = b.op("subtract", place, const(1, "int32"))
    found = b.op("take", source, place, axis=0)
    return b.op("where", mask, found if len(dims) == 1 else b.op("reshape", found, dims), x)


# ---------------------------------------------------------------- attributes

@converts("getattr", table=FUNCTIONS)
def getattr_(b, x, name):
    known = {"dtype": lambda: b.dtype(x), "shape": lambda: b.shape_of(x), "ndim": lambda: b.rank(x),
             "device": lambda: "cpu", "T": lambda: b.op("permute_dims", x), "mT": lambda: CONVERTERS["transpose"](
                 b, x, -1, -2), "requires_grad": lambda: False}
    if b.is_tensor(x) and name in known:
        return known[name]()
    if b.is_tensor(x):
        raise ValueError(f"the attribute {name!r} of a tensor is not known; known: {', '.join(known)}")
    return getattr(x, name)


