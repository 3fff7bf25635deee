"""Operators that copy elements: each output element is one input element (or a constant)."""
from __future__ import annotations

import numpy as np

from ... import te, tir
from ...expr import IntImm, cast, const, is_const_int
from ...op import REQUIRED, register
from ...tir.intrinsics import BYTES
from ..budget import MOST_ELEMENTS
from ..expr import TensorStructInfo, TupleStructInfo
from .common import (as_dim, broadcast_index, broadcast_shapes, fail, need_dtype, need_same_dtype, normalize_axis,
                     product, same_dim, same_shape, shape_argument, shape_text, simplify, te_shape, tensor, tensors,
                     unflatten_index)
from .copies import lower_concat, lower_pad, pads_planes


# ---------------------------------------------------------------- permute_dims, broadcast_to, tile

def _axes_of(call, rank):
    axes = call.attrs["axes"]
    if axes is None:
        return tuple(reversed(range(rank)))
    found = tuple(normalize_axis(call, a, rank) for a in axes)
    if sorted(found) != list(range(rank)):
        fail(call, f"axes {tuple(axes)} are no permutation of the {rank} axes of {shape_text(tensor(call))}")
    return found


def _infer_permute(call):
    x = tensor(call)
    return TensorStructInfo(tuple(x.shape[a] for a in _axes_of(call, x.ndim)), x.dtype)


def _lower_permute(args, attrs, out):
    x, = args
    axes = [a % x.ndim for a in attrs["axes"]] if attrs["axes"] is not None else list(reversed(range(x.ndim)))
    return te.compute(te_shape(out), lambda *i: x[tuple(i[axes.index(k)] for k in range(x.ndim))], name="permute_dims")


def _infer_broadcast_to(call):
    x, shape = tensor(call), shape_argument(call, 1)
    if x.ndim > len(shape) or not same_shape(broadcast_shapes(call, x.shape, shape), shape):
        fail(call, f"shape {shape_text(x)} does not broadcast to {shape_text(shape)}")
    return TensorStructInfo(shape, x.dtype)


def _lower_broadcast_to(args, attrs, out):
    x = args[0]
    return te.compute(te_shape(out), lambda *i: x[broadcast_index(i, x.shape, out.shape)], name="broadcast_to")


def _infer_tile(call):
    x, repeats = tensor(call), call.attrs["repeats"]
    more = len(repeats) - x.ndim
    if more < 0 or any(r < 0 for r in repeats):
        fail(call, f"repeats {tuple(repeats)} must hold one count per dimension of {shape_text(x)}")
    own = tuple(simplify(d * int(r)) for d, r in zip(x.shape, repeats[more:]))
    return TensorStructInfo(tuple(map(as_dim, repeats[:more])) + own, x.dtype)


def _lower_tile(args, attrs, out):
    x, = args
    more = len(attrs["repeats"]) - x.ndim
    return te.compute(te_shape(out), lambda *i: x[tuple(
        k if r == 1 or is_const_int(d, 0) else k % d  # nothing is read of no elements
        for k, d, r in zip(i[more:], x.shape, attrs["repeats"][more:]))], name="tile")


# ---------------------------------------------------------------- flip and repeat

def _infer_flip(call):
    x = tensor(call)
    normalize_axis(call, call.attrs["axis"], x.ndim)
    return x


def _lower_flip(args, attrs, out):
    x, = args
    axis = attrs["axis"] % x.ndim
    return te.compute(te_shape(out), lambda *i: x[
        i[:axis] + (x.shape[axis] - 1 - i[axis],) + i[axis + 1:]], name="flip")


def _infer_repeat(call):
    x, repeats = tensor(call), call.attrs["repeats"]
    if repeats < 1:
        fail(call, f"repeats={repeats} must be at least 1")
    if call.attrs["axis"] is None:  # of the elements in order
        return TensorStructInfo((simplify(as_dim(product(reversed(x.shape))) * repeats),), x.dtype)
    axis = normalize_axis(call, call.attrs["axis"], x.ndim)
    return TensorStructInfo(tuple(simplify(d * repeats) if k == axis else d for k, d in enumerate(x.shape)), x.dtype)


def _lower_repeat(args, attrs, out):
    x, = args
    if attrs["axis"] is None:
        return te.compute(te_shape(out), lambda i: x[tuple(unflatten_index(i // attrs["repeats"], x.shape))],
                          name="repeat")
    axis = attrs["axis"] % x.ndim
    return te.compute(te_shape(out), lambda *i: x[
        i[:axis] + (i[axis] // attrs["repeats"],) + i[axis + 1:]], name="repeat")


register("flip", _infer_flip, _lower_flip, lambda args, attrs: np.flip(args[0], attrs["axis"]).copy(), "injective",
         axis=REQUIRED)
register("repeat", _infer_repeat, _lower_repeat,
         lambda args, attrs: np.repeat(args[0], attrs["repeats"], attrs["axis"]), "injective", repeats=REQUIRED,
         axis=REQUIRED)
register("permute_dims", _infer_permute, _lower_permute, lambda args, attrs: np.transpose(args[0], attrs["axes"]),
         "injective", axes=None)
register("broadcast_to", _infer_broadcast_to, _lower_broadcast_to,
         lambda args, attrs: np.broadcast_to(args[0], args[1]).copy(), "injective", arity=(2, 2))
register("tile", _infer_tile, _lower_tile, lambda args, attrs: np.tile(args[0], attrs["repeats"]), "injective",
         repeats=REQUIRED)


# ---------------------------------------------------------------- concat and split

def infer_concat(call):
    infos = tensors(call)
    rank, dtype = infos[0].ndim, need_same_dtype(call, infos)
    shapes = " and ".join(shape_text(i) for i in infos)
    if any(i.ndim != rank for i in infos) or rank == 0:
        fail(call, f"operands must have one rank of at least 1, their shapes are {shapes}")
    axis = normalize_axis(call, call.attrs["axis"], rank)
    total = as_dim(0)
    for i in infos:
        total = total + i.shape[axis]
        for k in range(rank):
            if k != axis and not same_dim(i.shape[k], infos[0].shape[k]):
                fail(call, f"shapes {shapes} differ in axis {k}, which is not the concatenated axis {axis}")
    shape = infos[0].shape
    return TensorStructInfo(shape[:axis] + (simplify(total),) + shape[axis + 1:], dtype)


def _infer_split(call):
    x, sections = tensor(call), call.attrs["sections"]
    axis = normalize_axis(call, call.attrs["axis"], x.ndim)
    extent = x.shape[axis]
    if any(s < 0 for s in sections) or (isinstance(extent, IntImm) and sum(sections) != extent.value):
        fail(call, f"sections {tuple(sections)} do not add up to axis {axis} of {shape_text(x)}")
    if not isinstance(extent, IntImm):
        fail(call, f"axis {axis} of {shape_text(x)} is symbolic; split needs a known extent: pin it "
                   "(compile with dims={name: size}, or --dim name=size)")
    return TupleStructInfo(tuple(TensorStructInfo(x.shape[:axis] + (as_dim(s),) + x.shape[axis + 1:], x.dtype)
                                 for s in sections))


def _lower_split(args, attrs, out):
    x, = args
    axis, begin, parts = attrs["axis"] % x.ndim, 0, []
    for n, (section, info) in enumerate(zip(attrs["sections"], out.fields)):
        parts.append(te.compute(te_shape(info), lambda *i, b=begin: x[i[:axis] + (i[axis] + b,) + i[axis + 1:]],
                                name=f"split_{n}"))
        begin += section
    return tuple(parts)


def _evaluate_split(args, attrs):
    return tuple(np.split(args[0], np.cumsum(attrs["sections"])[:-1], axis=attrs["axis"]))


def _concat_te(args, attrs, out):
    """One expression: the inputs one behind the other as a chain of conditions."""
    axis = attrs["axis"] % args[0].ndim

    def element(*i):
        begins = [0]
        for x in args[:-1]:
            begins.append(begins[-1] + x.shape[axis])
        parts = [x[i[:axis] + (i[axis] - b,) + i[axis + 1:]] for x, b in zip(args, begins)]
        value = parts[-1]
        for part, end in reversed(list(zip(parts, begins[1:]))):
            value = tir.if_then_else(i[axis] < end, part, value)
        return value

    return te.compute(te_shape(out), element, name="concat")


register("concat", infer_concat, lower_concat, lambda args, attrs: np.concatenate(args, axis=attrs["axis"]),
         "injective", arity=(1, None), te=_concat_te, axis=REQUIRED)
register("split", _infer_split, _lower_split, _evaluate_split, "injective", sections=REQUIRED, axis=REQUIRED)


# ---------------------------------------------------------------- strided_slice

def _infer_slice(call):
    """begin and end are in bounds: 0 <= begin < extent, and end up to the extent (-1 to run down through 0).

    An `end` of None runs to the axis' last (or first) element, also of a symbolic axis.
    """
    x = tensor(call)
    axes, begins, ends, strides = (tuple(call.attrs[k]) for k in ("axes", "begin", "end", "strides"))
    if not len(axes) == len(begins) == len(ends) == len(strides):
        fail(call, f"axes {axes}, begin {begins}, end {ends} and strides {strides} must have one length")
    shape = list(x.shape)
    for axis, begin, end, stride in zip(axes, begins, ends, strides):
        axis = normalize_axis(call, axis, x.ndim)
        if stride == 0:
            fail(call, f"the stride of axis {axis} is 0")
        shape[axis] = _slice_extent(call, x, axis, (begin, end, stride))
    return TensorStructInfo(tuple(shape), x.dtype)


def _slice_extent(call, x, axis, part):
    begin, end, stride = part
    extent = x.shape[axis]
    if isinstance(extent, IntImm):
        low, high = (0, extent.value) if stride > 0 else (-1, extent.value - 1)
        end = (high if stride > 0 else low) if end is None else end
        if not (low <= end <= high and (low <= begin <= high)):
            fail(call, f"slice {part} leaves axis {axis} of {shape_text(x)}")
    elif end is None:
        last = extent - begin if stride > 0 else as_dim(begin + 1)
        step = abs(stride)
        return simplify(last if step == 1 else (last + (step - 1)) // step)
    elif min(begin, end) < (0 if stride > 0 else -1):
        fail(call, f"slice {part} of symbolic axis {axis} of {shape_text(x)} counts from its end; pin the dimension")
    return as_dim(max(0, -((begin - end) // stride)))


def _lower_slice(args, attrs, out):
    x, = args
    steps = {a % x.ndim: (b, s) for a, b, s in zip(attrs["axes"], attrs["begin"], attrs["strides"])}
    return te.compute(te_shape(out), lambda *i: x[tuple(
        k * steps[n][1] + steps[n][0] if n in steps else k for n, k in enumerate(i))], name="strided_slice")


def _evaluate_slice(args, attrs):
    x = args[0]
    index = [slice(None)] * x.ndim
    for axis, begin, end, stride in zip(attrs["axes"], attrs["begin"], attrs["end"], attrs["strides"]):
        index[axis] = slice(begin, None if stride < 0 and end == -1 else end, stride)
    return x[tuple(index)].copy()


register("strided_slice", _infer_slice, _lower_slice, _evaluate_slice, "injective",
         axes=REQUIRED, begin=REQUIRED, end=REQUIRED, strides=REQUIRED)


# ---------------------------------------------------------------- take and gather_elements

def _infer_take(call):
    x, indices = tensors(call)
    need_dtype(call, indices, "int")
    axis = normalize_axis(call, call.attrs["axis"], x.ndim)
    _need_elements(call, x, axis, indices)
    return TensorStructInfo(x.shape[:axis] + indices.shape + x.shape[axis + 1:], x.dtype)


def _need_elements(call, x, axis, indices):
    """An axis without elements has no valid index."""
    if is_const_int(x.shape[axis], 0) and not any(is_const_int(d, 0) for d in indices.shape):
        fail(call, f"axis {axis} of {shape_text(x)} has no elements that an index could mean")


def held_index(index, extent):
    """A data-dependent index: negative counts from the end; out of range is held inside, so that no read strays."""
    signed = cast(index, "int64") if index.dtype.code == "uint" or index.dtype.bits < extent.dtype.bits else index
    size = cast(extent, signed.dtype)
    wrapped = tir.select(signed < 0, signed + size, signed)
    return cast(tir.max(tir.min(wrapped, size - 1), const(0, signed.dtype)), extent.dtype)


def _lower_take(args, attrs, out):
    x, indices = args
    axis = attrs["axis"] % x.ndim
    last = axis + indices.ndim
    return te.compute(te_shape(out), lambda *i: x[
        i[:axis] + (held_index(indices[i[axis:last]], x.shape[axis]),) + i[last:]], name="take")


def hold_indices(indices, extent):
    """Apply held_index to an array of indices."""
    indices = np.asarray(indices)
    if indices.dtype == np.uint64:  # of which half have no int64
        indices = np.minimum(indices, np.uint64(extent))
    indices = indices.astype(np.int64)
    return np.clip(np.where(indices < 0, indices + extent, indices), 0, max(extent - 1, 0))


def _evaluate_take(args, attrs):
    axis = attrs["axis"]
    return np.asarray(np.take(args[0], hold_indices(args[1], args[0].shape[axis]), axis=axis))


def _infer_lookup(call):
    x, table = tensors(call)
    if x.dtype not in ("int8", "uint8"):
        fail(call, f"takes int8 or uint8, not {x.dtype}")
    if table.shape is None or table.ndim != 1 or not is_const_int(table.shape[0], BYTES):
        fail(call, f"a table has {BYTES} numbers, not {shape_text(table)}")
    return TensorStructInfo(x.shape, table.dtype)


def _lower_lookup(args, attrs, out):
    x, table = args
    least = x.dtype.min_value()
    return te.compute(te_shape(out), lambda *i: table[x[i].astype("int32") - least if least else
                                                      x[i].astype("int32")], name="lookup")


def _evaluate_lookup(args, attrs):
    x, table = args
    return table[x.astype(np.int32) - np.iinfo(x.dtype).min]


def _infer_gather_elements(call):
    x, indices = tensors(call)
    need_dtype(call, indices, "int")
    axis = normalize_axis(call, call.attrs["axis"], x.ndim)
    fits = indices.ndim == x.ndim and all(
        k == axis or same_dim(a, b) or (isinstance(a, IntImm) and isinstance(b, IntImm) and b.value <= a.value)
        for k, (a, b) in enumerate(zip(x.shape, indices.shape)))
    if not fits:
        fail(call, f"indices of shape {shape_text(indices)} do not fit inside {shape_text(x)} outside axis {axis}")
    _need_elements(call, x, axis, indices)
    return TensorStructInfo(indices.shape, x.dtype)


def _lower_gather_elements(args, attrs, out):
    x, indices = args
    axis = attrs["axis"] % x.ndim
    return te.compute(te_shape(out), lambda *i: x[
        i[:axis] + (held_index(indices[i], x.shape[axis]),) + i[axis + 1:]], name="gather_elements")


def _evaluate_gather_elements(args, attrs):
    x, indices = np.asarray(args[0]), np.asarray(args[1])
    axis = attrs["axis"] % x.ndim
    grid = list(np.ogrid[tuple(slice(0, n) for n in indices.shape)])
    grid[axis] = hold_indices(indices, x.shape[axis])
    return x[tuple(grid)]


register("take", _infer_take, _lower_take, _evaluate_take, "injective", arity=(2, 2), axis=0)
# table[x - the least number of x's dtype], elementwise, of bytes
register("lookup", _infer_lookup, _lower_lookup, _evaluate_lookup, "injective", arity=(2, 2))
register("gather_elements", _infer_gather_elements, _lower_gather_elements, _evaluate_gather_elements, "injective",
         arity=(2, 2), axis=0)


# ---------------------------------------------------------------- nn.pad

def _reflect(index, extent):
    """The index mirrored at both ends, for pads below the extent."""
    from_start = tir.select(index < 0, const(0, index.dtype) - index, index)
    return tir.select(from_start >= extent, (extent + extent) - 2 - from_start, from_start)


# where a padded position reads from: mode -> source(index, extent)
_PAD_SOURCES = {"reflect": _reflect, "edge": lambda k, n: tir.max(tir.min(k, n - 1), const(0, k.dtype)),
                "wrap": lambda k, n: k % n}


def _pads(attrs, rank):
    width = attrs["pad_width"]
    return [(int(width[2 * k]), int(width[2 * k + 1])) for k in range(rank)]


def _infer_pad(call):
    x, mode = tensor(call), call.attrs["pad_mode"]
    if mode != "constant" and mode not in _PAD_SOURCES:
        fail(call, f"pad_mode {mode!r} is none of constant, {', '.join(_PAD_SOURCES)}")
    if len(call.attrs["pad_width"]) != 2 * x.ndim:
        fail(call, f"pad_width {tuple(call.attrs['pad_width'])} needs a pair of numbers per dimension of "
                   f"{shape_text(x)}")
    pads = _pads(call.attrs, x.ndim)
    if mode != "constant" and any(min(p) < 0 for p in pads):
        fail(call, f"pad_width {tuple(call.attrs['pad_width'])} crops; only pad_mode 'constant' can")
    for k, (extent, pad) in enumerate(zip(x.shape, pads)):
        if max(map(abs, pad)) > MOST_ELEMENTS:
            fail(call, f"padding {pad} of axis {k} of {shape_text(x)} is beyond the {MOST_ELEMENTS} elements of a "
                       "tensor")
        if isinstance(extent, IntImm):
            limit = {"constant": None, "reflect": max(extent.value - 1, 0)}.get(mode, None if extent.value else 0)
            if limit is not None and max(pad) > limit:
                fail(call, f"{mode} by {pad} does not fit axis {k} of {shape_text(x)}")
            if extent.value + pad[0] + pad[1] < 0:
                fail(call, f"padding {pad} leaves less than nothing of axis {k} of {shape_text(x)}")
    return TensorStructInfo(tuple(simplify(d + (b + a)) for d, (b, a) in zip(x.shape, pads)), x.dtype)


def _lower_pad(args, attrs, out):
    x, pads = args[0], _pads(attrs, args[0].ndim)
    if attrs["pad_mode"] == "constant" and pads_planes(pads):
        return lower_pad(x, pads, _pad_value(attrs, x), out)
    return _pad_te(args, attrs, out)


def _pad_value(attrs, x):
    return attrs["pad_value"] if x.dtype.is_float else int(attrs["pad_value"])


def _pad_te(args, attrs, out):
    x, = args
    pads, source, value = _pads(attrs, x.ndim), _PAD_SOURCES.get(attrs["pad_mode"]), _pad_value(attrs, x)

    def element(*i):
        index = tuple(k - before if before else k for k, (before, _) in zip(i, pads))
        if source is not None:
            return x[tuple(source(k, d) if any(p) else k for k, d, p in zip(index, x.shape, pads))]
        inside = None
        for k, extent, (before, after) in zip(index, x.shape, pads):
            for test in ((k >= 0) if before > 0 else None, (k < extent) if after > 0 else None):
                inside = test if inside is None else inside if test is None else tir.And(inside, test)
        return x[index] if inside is None else tir.if_then_else(inside, x[index], const(value, x.dtype))

    return te.compute(te_shape(out), element, name="pad")


def _evaluate_pad(args, attrs):
    x = np.asarray(args[0])
    pads = _pads(attrs, x.ndim)
    x = x[tuple(slice(max(-b, 0), n - max(-a, 0)) for n, (b, a) in zip(x.shape, pads))]
    grow = [(max(b, 0), max(a, 0)) for b, a in pads]
    if attrs["pad_mode"] == "constant":
        return np.pad(x, grow, constant_values=np.asarray(attrs["pad_value"]).astype(x.dtype))
    return np.pad(x, grow, mode=attrs["pad_mode"])


register("nn.pad", _infer_pad, _lower_pad, _evaluate_pad, "injective", te=_pad_te, pad_width=REQUIRED,
         pad_mode="constant", pad_value=0.0)

