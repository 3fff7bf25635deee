"""topi's functions that move elements, where the graph's operators compute indices in another way than TVM."""
from __future__ import annotations

from .. import te, tir
from ..expr import Select, as_expr, cast, const, is_const_int
from ..op import InferError
from ..relax.classic import plain
from ..relax.composites import axis_in
from ..relax.ops.common import flat_index, simplify
from .elements import compute


def _unravelled(flat, shape):
    """The indices of row-major offset `flat`, the first within its extent, too."""
    found = []
    for extent in reversed(shape):
        found.append(tir.floormod(flat, extent))
        flat = tir.floordiv(flat, extent)
    return tuple(reversed(found))


def reshaped(x, shape):
    """The elements in row-major order, in another shape."""
    if any(is_const_int(d, 0) for d in (*map(as_expr, shape), *x.shape)):
        return compute(shape, lambda *i: const(0, x.dtype), "T_reshape", "ax")

    def element(*i):
        return x[_unravelled(flat_index(i, shape), x.shape)] if x.ndim else x[()]
    return compute(shape, element, "T_reshape", "ax")


def reshape(ops, a, newshape):
    checked = ops("reshape", a, newshape)  # what -1 stands for, and that the elements are as many
    return reshaped(a, checked.shape)


def concatenate(ops, a_tuple, axis=0):
    tensors = list(a_tuple)
    axis = axis_in("concatenate", plain(axis) or 0, tensors[0].ndim)
    checked = ops("concat", tensors, axis)

    def element(*i):
        value, at = tensors[0][i], i[axis]
        for before, x in zip(tensors, tensors[1:]):
            at = at - before.shape[axis]
            value = tir.if_then_else(at >= 0, x[(*i[:axis], at, *i[axis + 1:])], value)
        return value
    return compute(checked.shape, element, "T_concat", "ax")


def split(ops, ary, indices_or_sections, axis=0):
    """Parts, as many as a number says, the last what remains, or that begin where numbers say."""
    axis, given = axis_in("split", plain(axis), ary.ndim), plain(indices_or_sections)
    size, name = as_expr(ary.shape[axis]), "T_split"
    if isinstance(given, int):
        step, name = simplify(tir.floordiv(size + (given - 1), given)), "T_split_sections"
        begins = [const(0, size.dtype), *(simplify(step * n) for n in range(1, given))]
    else:
        begins = [_held(as_expr(b).astype(size.dtype), size) for b in (0, *given)]
    ends = [*begins[1:], size]

    def part(begin, end):
        extent = simplify(end - begin)
        if not isinstance(given, int) and not is_const_int(extent):
            extent = simplify(tir.max(extent, const(0, extent.dtype)))
        shape = (*ary.shape[:axis], extent, *ary.shape[axis + 1:])
        return compute(shape, lambda *i: ary[(*i[:axis], i[axis] + begin, *i[axis + 1:])], name, "ax")
    return [part(b, e) for b, e in zip(begins, ends)]


def _held(place, size):
    """A place held in 0 to size."""
    return place if is_const_int(place, 0) else simplify(tir.min(tir.max(place, const(0, place.dtype)), size))


def take(ops, a, indices, axis=None, batch_dims=0, mode="clip"):
    """mode "clip": indices outside are held inside; "wrap": they begin again; "nan": NaN stands there, below 0 as well;
    "fast": there are none."""
    if batch_dims:
        raise InferError(f"batch_dims={batch_dims} is not supported, it must be 0")
    if mode not in ("clip", "wrap", "fast", "nan"):
        raise InferError(f"mode={mode!r} is none of clip, wrap, fast, nan")
    if mode == "nan" and not a.dtype.is_float:
        raise InferError(f"mode='nan' gives NaN for indices outside, which {a.dtype} has not")
    axis = None if axis is None else axis_in("take", plain(axis), a.ndim)
    count = flat_size(a.shape) if axis is None else as_expr(a.shape[axis])
    at = () if isinstance(indices, (int, tir.PrimExpr)) else indices.shape

    def place(i):
        index = as_expr(indices) if isinstance(indices, (int, tir.PrimExpr)) else indices[i]
        if index.dtype.bits < 32:  # which need not hold the count
            index = cast(index, "int32")
        if mode == "fast":
            return index
        if mode == "wrap":
            return tir.truncmod(tir.truncmod(index, cast(count, index.dtype)) + cast(count, index.dtype),
                                cast(count, index.dtype))
        return tir.min(tir.max(const(0, index.dtype), index), cast(count - 1, index.dtype))

    def inside(i, value):
        """A value, or NaN where the index is no place."""
        if mode != "nan":
            return value
        index = as_expr(indices) if isinstance(indices, (int, tir.PrimExpr)) else indices[i]
        index = cast(index, "int64")
        outside = tir.any(index < const(0, "int64"), index >= cast(count, "int64"))
        return tir.if_then_else(outside, const(float("nan"), a.dtype), value)

    if axis is None:
        return compute(at, lambda *i: inside(i, a[_unravelled(place(i), a.shape)]), "T_take", "ax")
    shape = (*a.shape[:axis], *at, *a.shape[axis + 1:])
    last = axis + len(at)
    return compute(shape, lambda *i: inside(i[axis:last], a[(*i[:axis], place(i[axis:last]), *i[last:])]), "T_take",
                   "ax")


def repeat(ops, a, repeats, axis=None):
    """Each element `repeats` times along `axis`, of the flattened tensor where that is None."""
    a = a if axis is not None else reshaped(a, (simplify(flat_size(a.shape)),))
    axis, count = axis_in("repeat", plain(axis) or 0, a.ndim), plain(repeats)
    if not isinstance(count, int) or count < 0:
        raise InferError(f"repeats must be a number from 0 on, it is {count}")
    shape = (*a.shape[:axis], const(count, a.shape[axis].dtype) * a.shape[axis], *a.shape[axis + 1:])
    return compute(shape, lambda *i: a[(*i[:axis], tir.floordiv(i[axis], max(count, 1)), *i[axis + 1:])], "T_repeat",
                   "ax")


def tile(ops, a, reps):
    """The tensor as often along each axis as reps say, which count from the last; more of them make axes."""
    given = plain(reps)
    given = (given,) if isinstance(given, int) else tuple(given)
    if not all(isinstance(n, int) and n >= 0 for n in given):
        raise InferError(f"reps must be numbers from 0 on, they are {given}")
    more = max(len(given) - a.ndim, 0)
    given = (1,) * (a.ndim - len(given)) + given
    shape = [const(n, "int64") if k < more else as_expr(a.shape[k - more]) * n for k, n in enumerate(given)]
    if any(is_const_int(d, 0) for d in shape):
        return compute(shape, lambda *i: const(0, a.dtype), "T_tile", "ax")
    return compute(shape, lambda *i: a[tuple(tir.floormod(v, d) for v, d in zip(i[more:], a.shape))], "T_tile", "ax")


def flat_size(shape):
    """The number of elements."""
    total = as_expr(1)
    for d in shape:
        total = total * d
    return total


def full(ops, shape, dtype, fill_value):
    value = fill_value[()] if isinstance(fill_value, te.Tensor) else plain(fill_value)
    value = cast(value, dtype) if isinstance(value, tir.PrimExpr) else const(value, dtype)
    return compute(shape, lambda *i: value, "T_full", "ax")


def expand_dims(ops, a, axis, num_newaxis=1):
    """New axes of 1 before `axis`, or a list of the axes that are new."""
    given = plain(axis)
    if isinstance(given, int):
        first = axis_in("expand_dims", given, a.ndim + 1)
        given = range(first, first + plain(num_newaxis))
    rank = a.ndim + len(given)
    new = {axis_in("expand_dims", k, rank) for k in given}
    own = iter(a.shape)
    shape = [1 if k in new else next(own) for k in range(rank)]
    return compute(shape, lambda *i: a[tuple(v for k, v in enumerate(i) if k not in new)], "T_expand_dims", "ax")


def squeeze(ops, a, axis=None):
    """Without `axis`, or all axes of 1; those that are not are refused."""
    checked = ops("squeeze", a, axis)
    given = [k for k, d in enumerate(a.shape) if is_const_int(d, 1)] if axis is None else plain(axis)
    gone = {axis_in("squeeze", k, a.ndim) for k in ((given,) if isinstance(given, int) else given)}
    kept = [k for k in range(a.ndim) if k not in gone]

    def element(*i):
        at = dict(zip(kept, i))
        return a[tuple(at.get(k, 0) for k in range(a.ndim))]
    return compute([a.shape[k] for k in kept], element, "T_squeeze", "ax") if checked.ndim == len(kept) else checked


def trilu(ops, data, k, upper):
    """The elements on diagonal k and above it (upper), or below it, zero elsewhere."""
    def element(*i):
        row, diagonal = i[-2], i[-1] - as_expr(k).astype(i[-1].dtype)
        return Select(row <= diagonal if upper else row >= diagonal, data[i], const(0, data.dtype))
    return compute(data.shape, element, "trilu", "i")


def eye(ops, n, m=None, k=0, dtype="float32"):
    def element(i, j):
        return tir.if_then_else(i.equal(j - as_expr(k).astype(j.dtype)), const(1, dtype), const(0, dtype))
    return te.compute((n, n if m is None else m), element, name="eye")


def arange(ops, start, stop=None, step=1, dtype="float32"):
    """start, start + step ... below stop; of one number, from 0 to it."""
    start, stop = (0, start) if stop is None else (start, stop)
    start, stop, step = map(as_expr, (start, stop, step))
    if not all(e.dtype.is_int for e in (start, stop, step)) or not is_const_int(step):
        return ops("arange", plain(start), plain(stop), plain(step), dtype)
    gap = stop - start + (step - 1) if step.value > 0 else start - stop - step - 1
    count = simplify(tir.floordiv(gap, step if step.value > 0 else -step))
    return compute([tir.max(count, 0) if is_const_int(count) else count], lambda i: cast(
        start + step * i, dtype), "T_arange", "ax")


COMPOSITES = {f.__name__: f for f in (
    arange, concatenate, expand_dims, eye, full, repeat, reshape, split, squeeze, take, tile, trilu)}
