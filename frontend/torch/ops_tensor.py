"""Shapes and orders of elements."""
from __future__ import annotations

import numpy as np

from ...ir.expr import PrimExpr
from ...ir.relax.expr import Constant, ShapeExpr, const
from ..shapes import product, quotient, simplify
from .table import ATEN, CONVERTERS, FUNCTIONS, converts


def _listed(dims, more=()):
    """dims as one list or as several arguments."""
    if not more and isinstance(dims, (list, tuple, ShapeExpr)):
        return list(getattr(dims, "values", dims))
    return [dims, *more]


# ---------------------------------------------------------------- sizes

@converts("sym_size", "size")
def size(b, x, dim=None):
    return b.shape_of(x) if dim is None else b.dims(x)[dim]


ATEN["sym_size.int"] = lambda b, x, dim: size(b, x, dim)


@converts("numel", "sym_numel")
def numel(b, x):
    return product(b.dims(x))


FUNCTIONS["numel"] = lambda b, x: _as_constant(numel(b, x))
CONVERTERS["dim"] = CONVERTERS["ndimension"] = lambda b, x: b.rank(x)


def _as_constant(value):
    return const(value, "int32") if isinstance(value, int) else value


# ---------------------------------------------------------------- views

@converts("reshape", "view", "_unsafe_view", "view_copy")
def reshape(b, x, shape, *more):
    dims = _listed(shape, more)
    if -1 in [d for d in dims if isinstance(d, int)] and any(isinstance(d, PrimExpr) for d in (*dims, *b.dims(x))):
        rest = [d for d in dims if not (isinstance(d, int) and d == -1)]
        left = quotient(b.dims(x), rest)
        if left is not None:
            dims = [left if isinstance(d, int) and d == -1 else d for d in dims]
    return b.op("reshape", x, dims)


ATEN["view.dtype"] = lambda b, x, dtype: b.op("bitcast", x, dtype)
CONVERTERS["reshape_as"] = CONVERTERS["view_as"] = lambda b, x, other: b.op("reshape", x, b.dims(other))


@converts("flatten")
def flatten(b, x, start_dim=0, end_dim=-1):
    dims = b.dims(x)
    if not dims:
        return b.op("reshape", x, [1])
    first, last = start_dim % len(dims), end_dim % len(dims)
    return b.op("reshape", x, [*dims[:first], product(dims[first:last + 1]), *dims[last + 1:]])


ATEN["flatten.using_ints"] = CONVERTERS["flatten"]
CONVERTERS["ravel"] = lambda b, x: b.op("reshape", x, [-1])


@converts("unflatten")
def unflatten(b, x, dim, sizes):
    dims = b.dims(x)
    dim %= len(dims)
    sizes = _listed(sizes)
    if -1 in sizes:
        sizes[sizes.index(-1)] = quotient([dims[dim]], [s for s in sizes if s != -1])
    return b.op("reshape", x, [*dims[:dim], *sizes, *dims[dim + 1:]])


@converts("unsqueeze", "unsqueeze_copy")
def unsqueeze(b, x, dim):
    return b.op("expand_dims", x, dim)


@converts("squeeze", "squeeze_copy")
def squeeze(b, x, dim=None):
    """The axes of 1 are taken out, all or those of `dim`; others stay."""
    if dim is None:
        return b.op("squeeze", x, None)
    one = isinstance(dim, int)
    dims = [dim] if one else dim
    gone = [d for d in dims if not isinstance(b.dims(x)[d], int) or b.dims(x)[d] == 1]
    return b.op("squeeze", x, gone[0] if one else gone) if gone else x


@converts("permute", "permute_copy")
def permute(b, x, dims, *more):
    return b.op("permute_dims", x, _listed(dims, more))


@converts("transpose", "swapaxes", "swapdims", "transpose_copy")
def transpose(b, x, dim0, dim1):
    order = list(range(b.rank(x)))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return b.op("permute_dims", x, order)


@converts("t", "numpy_T", "t_copy")
def t(b, x):
    return x if b.rank(x) < 2 else b.op("permute_dims", x, list(range(b.rank(x)))[::-1])


@converts("mT", "mH", "adjoint", "matrix_H")
def mt(b, x):
    """Of real tensors."""
    return transpose(b, x, -2, -1)


def _of_rank(least):
    """A tensor, or each of several, with at least so many dimensions: new ones in front, a fourth behind."""
    def convert(b, x, *more):
        if more or isinstance(x, (list, tuple)):
            return tuple(convert(b, t) for t in ((x, *more) if more else x))
        shape = b.dims(x)
        if len(shape) >= least:
            return x
        return b.op("reshape", x, [*shape, 1] if len(shape) == 2 else [1, *shape, 1, 1][:least])
    return convert


CONVERTERS.update({f"atleast_{n}d": _of_rank(n) for n in (1, 2, 3)})


@converts("movedim", "moveaxis")
def movedim(b, x, source, destination):
    rank = b.rank(x)
    source, destination = ([d % rank for d in _listed(v)] for v in (source, destination))
    rest = iter(d for d in range(rank) if d not in source)
    places = dict(zip(destination, source))
    return b.op("permute_dims", x, [places[d] if d in places else next(rest) for d in range(rank)])


@converts("expand", "expand_copy")
def expand(b, x, sizes, *more, implicit=False):
    sizes, dims = _listed(sizes, more), b.dims(x)
    dims = [1] * (len(sizes) - len(dims)) + dims
    return b.op("broadcast_to", x, [d if isinstance(s, int) and s == -1 else s for s, d in zip(sizes, dims)])


@converts("broadcast_to")
def broadcast_to(b, x, sizes):
    return b.op("broadcast_to", x, _listed(sizes))


@converts("expand_as")
def expand_as(b, x, other):
    return b.op("broadcast_to", x, b.shape_of(other))


@converts("repeat")
def repeat(b, x, sizes, *more):
    return b.op("tile", x, _listed(sizes, more))


@converts("tile")
def tile(b, x, dims, *more):
    return b.op("tile", x, _listed(dims, more))


@converts("repeat_interleave")
def repeat_interleave(b, x, repeats, dim=None, output_size=None):
    if not isinstance(repeats, int):
        raise ValueError("repeat_interleave needs a number of repeats, not a tensor: the result's shape depends on it")
    return b.op("repeat", x, repeats, dim)


@converts("unfold")
def unfold(b, x, dimension, size, step):
    """Windows of `size` elements of an axis, every `step`; the windows' elements are the last axis."""
    extent = b.dims(x)[dimension]
    if not isinstance(extent, int):
        raise ValueError(f"unfold of the symbolic dimension {extent} is not supported: pin it")
    dimension %= b.rank(x)
    places = np.arange(0, extent - size + 1, step)[:, None] + np.arange(size)
    windows = b.op("take", x, Constant(places), axis=dimension)
    order = [k for k in range(b.rank(windows)) if k != dimension + 1]
    return b.op("permute_dims", windows, [*order, dimension + 1])


@converts("flip")
def flip(b, x, dims, *more):
    for dim in _listed(dims, more):
        x = b.op("flip", x, dim)
    return x


@converts("roll")
def roll(b, x, shifts, dims=()):
    shifts, dims = _listed(shifts), _listed(dims)
    if not dims:
        flat = roll(b, b.op("reshape", x, [-1]), shifts, [0])
        return b.op("reshape", flat, b.dims(x))
    for shift, dim in zip(shifts, dims):
        extent = b.dims(x)[dim]
        if isinstance(extent, int) and not extent:
            continue
        at = (extent - shift % extent) if isinstance(extent, int) else (-shift if shift <= 0 else extent - shift)
        parts = [b.op("strided_slice", x, [dim], [first], [last]) for first, last in ((at, extent), (0, at))]
        x = b.op("concat", parts, dim)
    return x


# ---------------------------------------------------------------- several tensors

@converts("cat", "concat", "concatenate")
def cat(b, tensors, dim=0, axis=None):
    tensors = [x for x in tensors if b.dims(x) != [0]] or list(tensors)  # torch's empty lists of old
    return b.op("concat", b.common(*tensors), axis=dim if axis is None else axis)


@converts("stack")
def stack(b, tensors, dim=0):
    rank = b.rank(tensors[0])
    dim = dim % (rank + 1)
    if dim == rank:
        return b.op("concat", [b.op("expand_dims", x, dim) for x in tensors], axis=dim)
    joined, dims = b.op("concat", tensors, axis=dim), b.dims(tensors[0])
    return b.op("reshape", joined, [*dims[:dim], len(tensors), *dims[dim:]])


CONVERTERS["hstack"] = lambda b, tensors: cat(b, tensors, 0 if b.rank(tensors[0]) == 1 else 1)


@converts("split", "split_with_sizes", "unsafe_split", "split_copy", "split_with_sizes_copy")
def split(b, x, split_size, dim=0):
    extent = b.dims(x)[dim]
    if isinstance(split_size, (list, tuple)):
        ends = np.cumsum(np.array(split_size, object))[:-1]
        return b.op("split", x, [simplify(e) for e in ends], dim) if len(ends) else (x,)
    if not isinstance(extent, int):
        raise ValueError(f"split into parts of {split_size} of the symbolic dimension {extent}: how many parts there "
                         "are is not known; pin it")
    if split_size >= extent:
        return (x,)
    if extent % split_size:
        return b.op("split", x, list(range(split_size, extent, split_size)), dim)
    return b.op("split", x, extent // split_size, dim)


@converts("chunk", "unsafe_chunk")
def chunk(b, x, chunks, dim=0):
    extent = b.dims(x)[dim]
    if isinstance(extent, int) and extent:
        return split(b, x, -(-extent // chunks), dim)
    return b.op("split", x, chunks, dim) if chunks > 1 else (x,)


@converts("tensor_split")
def tensor_split(b, x, indices_or_sections, dim=0):
    """At places, or into so many parts, of which the first have one element more."""
    extent, at = b.dims(x)[dim], indices_or_sections
    at = at.data.tolist() if isinstance(at, Constant) else at
    if isinstance(at, int):
        if not isinstance(extent, int):
            raise ValueError(f"tensor_split of the symbolic dimension {extent} into {at} parts: pin it")
        size_of_one, more = divmod(extent, at)
        at = [k * size_of_one + min(k, more) for k in range(1, at)]
    return tuple(ATEN["slice"](b, x, dim, first, last) for first, last in zip((0, *at), (*at, None)))


def _split_along(axis):
    return lambda b, x, at: tensor_split(b, x, at, axis if axis != 1 or b.rank(x) > 1 else 0)


CONVERTERS.update({"vsplit": _split_along(0), "hsplit": _split_along(1), "dsplit": _split_along(2)})


@converts("unbind", "unbind_copy")
def unbind(b, x, dim=0):
    extent = b.dims(x)[dim]
    if not isinstance(extent, int):
        raise ValueError(f"unbind of the symbolic dimension {extent}: pin it")
    parts = b.op("split", x, list(range(1, extent + 1)), dim)  # a last part without elements, as TVM's has
    return b.emit(b.expr([b.op("squeeze", b.emit(parts[k]), [dim]) for k in range(extent)]))


@converts("meshgrid")
def meshgrid(b, *tensors, indexing="ij"):
    tensors = tensors[0] if isinstance(tensors[0], (list, tuple)) else tensors
    rank, sizes = len(tensors), [b.dims(x)[0] if b.rank(x) else 1 for x in tensors]
    order = list(range(rank))
    if indexing == "xy" and rank > 1:
        order[:2] = [1, 0]
    grids = []
    for k, x in zip(order, tensors):
        shape = [1] * rank
        shape[k] = sizes[order.index(k)]
        grids.append(b.op("broadcast_to", b.op("reshape", x, shape), [sizes[order.index(d)] for d in range(rank)]))
    return grids


# ---------------------------------------------------------------- borders

_PADS = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@converts("pad", "constant_pad_nd")
def pad(b, x, pad, mode="constant", value=None):
    """pad: before and after, of the last axis first."""
    if mode not in _PADS and isinstance(mode, (int, float)):  # constant_pad_nd(x, pad, value)
        mode, value = "constant", mode
    if mode not in _PADS:
        raise ValueError(f"padding of mode {mode!r} is not supported; modes: {', '.join(_PADS)}")
    pairs = [tuple(pad[k:k + 2]) for k in range(0, len(pad), 2)]
    pairs = [(0, 0)] * (b.rank(x) - len(pairs)) + pairs[::-1]
    for axis, pair in enumerate(pairs):  # less than nothing cuts off
        if min(pair) < 0:
            extent = b.dims(x)[axis]
            x = b.op("strided_slice", x, [axis], [max(-pair[0], 0)], [extent + min(pair[1], 0)])
    widths = [max(w, 0) for pair in pairs for w in pair]
    if not any(widths):
        return x
    return b.op("nn.pad", x, widths, _PADS[mode], 0.0 if value is None else value)


for _mode, _ranks in (("reflection", (1, 2, 3)), ("replication", (1, 2, 3))):
    for _rank in _ranks:
        ATEN[f"{_mode}_pad{_rank}d"] = lambda b, x, pads, mode=_mode: pad(
            b, x, pads, "reflect" if mode == "reflection" else "replicate")


# ---------------------------------------------------------------- triangles

def _triangle(name):
    return lambda b, x, diagonal=0: b.op(name, x, diagonal)


CONVERTERS.update({"tril": _triangle("tril"), "triu": _triangle("triu")})


@converts("diagonal")
def diagonal(b, x, offset=0, dim1=0, dim2=1):
    rank, dims = b.rank(x), b.dims(x)
    dim1, dim2 = dim1 % rank, dim2 % rank
    rest = [d for d in range(rank) if d not in (dim1, dim2)]
    rows, columns = dims[dim1], dims[dim2]
    if not isinstance(rows, int) or not isinstance(columns, int):
        raise ValueError("diagonal of symbolic dimensions is not supported: pin them")
    length = max(min(rows - max(-offset, 0), columns - max(offset, 0)), 0)
    places = np.arange(length) * (columns + 1) + (offset if offset >= 0 else -offset * columns)
    flat = b.op("reshape", b.op("permute_dims", x, [*rest, dim1, dim2]), [*(dims[d] for d in rest), rows * columns])
    return b.op("take", flat, Constant(places), axis=len(rest))


