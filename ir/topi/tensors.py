"""topi's functions of tensors that are no operator of a graph: sorting, looking up, masks, windows, tables of indices.

`ops` are the operators under relax.op's names, on te tensors. Places that tensors hold are kept inside what they index,
so that no access strays; negative ones count from the end.
"""
from __future__ import annotations

import math

from .. import te, tir
from ..expr import IntImm, Select, as_expr, cast, const, is_const_int
from ..op import InferError
from ..relax.classic import plain
from ..relax.composites import axis_in
from ..relax.composites_tensor import TENSORS, einsum_terms, summed_axes
from ..relax.ops.common import product, simplify
from ..relax.ops.injective import held_index
from .apply import fits
from .elements import compute
from .shared import TensorOps, number


def _rank(what, x, rank):
    if x.ndim != rank:
        raise InferError(f"{what} must have {rank} dimensions, it has {x.ndim}")


# ---------------------------------------------------------------- sorting and searching

def sort(ops, data, axis=-1, is_ascend=1):
    return TENSORS["sort"](TensorOps(ops), data, axis, not is_ascend)


def argsort(ops, data, valid_count=None, axis=-1, is_ascend=1, dtype="float32"):
    """Where the elements in order stand."""
    if valid_count is not None:
        raise InferError("valid_count is not supported: sort the valid part, a strided_slice")
    return TENSORS["argsort"](TensorOps(ops), data, axis, not is_ascend, dtype)


def topk(ops, data, k=1, axis=-1, ret_type="both", is_ascend=False, dtype="int64"):
    """[values, indices], or the one that ret_type names."""
    return TENSORS["topk"](TensorOps(ops), data, k, axis, ret_type, not is_ascend, dtype)


def searchsorted(ops, sorted_sequence, values, right=False, out_dtype="int64"):
    """For each value the place in its sequence, along the last axis, before which it would stand (right: behind equal
    ones). Sequences have the leading dimensions of the values, or one dimension for all."""
    if sorted_sequence.ndim == 0:
        raise InferError("sorted_sequence must have 1 dimension or more, it has none")
    if sorted_sequence.ndim > 1:
        TensorOps.same_dims("the leading dimensions", sorted_sequence.shape[:-1], values.shape[:-1])
    j = te.reduce_axis((0, sorted_sequence.shape[-1]), "j")

    def count(*i):
        element = sorted_sequence[(*(i[:-1] if sorted_sequence.ndim > 1 else ()), j.var)]
        value = values[i]
        before = element <= value if right else element < value
        return te.sum(cast(before, out_dtype), axis=j)
    return te.compute(values.shape, count, name="searchsorted")


# ---------------------------------------------------------------- elements at places

_MODES = {"update": "none", "add": "add", "mul": "mul", "min": "min", "max": "max"}


def _reduction(mode):
    if mode not in _MODES:
        raise InferError(f"mode {mode!r} is none of {', '.join(_MODES)}")
    return _MODES[mode]


def _front_last(ops, x):
    """A tensor whose first axis is its last."""
    return ops("permute_dims", x, (*range(1, x.ndim), 0))


def gather_nd(ops, a, indices, batch_dims=0):
    """indices (depth, ...): the first axis has the places, after batch_dims leading dimensions of both."""
    return ops("gather_nd", a, _front_last(ops, indices), batch_dims)


def scatter_nd(ops, data, indices, updates, mode):
    """indices (depth, ...): the first axis has the places."""
    return ops("scatter_nd", data, _front_last(ops, indices), updates, _reduction(mode))


def scatter_elements(ops, data, indices, updates, axis=0, reduction="update"):
    return ops("scatter_elements", data, indices, updates, axis, _reduction(reduction))


def adv_index(ops, data, indices):
    """numpy's data[indices]: tensors of integers, which broadcast, for the leading axes."""
    if not 1 <= len(indices) <= data.ndim:
        raise InferError(f"takes 1 to {data.ndim} tensors of indices, got {len(indices)}")
    whole = indices[0]
    for more in indices[1:]:  # what all broadcast to
        whole = ops("add", whole, ops("astype", more, whole.dtype))
    spread = [ops("broadcast_to", t, tuple(whole.shape)) for t in indices]
    rank = whole.ndim

    def element(*i):
        places = [held_index(t[i[:rank]], data.shape[n]) for n, t in enumerate(spread)]
        return data[(*places, *i[rank:])]
    return te.compute((*whole.shape, *data.shape[len(indices):]), element, name="adv_index")


def strided_set(ops, a, v, begin, end, strides=None):
    """a, with v at the slice [begin:end:strides]; all three are numbers or tensors of one number an axis."""
    _rank("v", v, a.ndim)

    def part(given, n, default):
        return cast(as_expr(default if given is None or n >= _count(given) else given[n]), "int64")
    steps = [part(strides, n, 1) for n in range(a.ndim)]
    dims = [cast(as_expr(d), "int64") for d in a.shape]
    first = [_held(part(begin, n, 0), d, s) for n, (d, s) in enumerate(zip(dims, steps))]
    last = [_held(part(end, n, d), d, s) for n, (d, s) in enumerate(zip(dims, steps))]

    def element(*i):
        inside, places = [], []
        for n, at in enumerate(i):
            at = cast(at, "int64")
            down = steps[n] < 0
            inside += [Select(down, tir.all(at <= first[n], at > last[n]), tir.all(at >= first[n], at < last[n])),
                       tir.floormod(at - first[n], steps[n]).equal(0)]
            places.append(tir.floordiv(at - first[n], steps[n]))
        limit = [tir.max(tir.min(p, cast(as_expr(d), "int64") - 1), 0) for p, d in zip(places, v.shape)]
        return tir.if_then_else(tir.all(*inside), v[tuple(limit)], a[i])
    return te.compute(a.shape, element, name="strided_set")


def _count(given):
    return number(given.shape[0], "the number of axes") if hasattr(given, "shape") else len(given)


def _held(position, dim, step):
    """A position of a slice inside its axis, as numpy counts it."""
    position = Select(position < 0, position + dim, position)
    up = tir.max(tir.min(position, dim), 0)
    down = tir.max(tir.min(position, dim - 1), -1)
    return simplify(Select(step < 0, down, up))


def dynamic_strided_slice(ops, a, begin, end, strides, output_shape):
    """The slice that tensors of one number for each of the leading axes say, of a shape that is known."""
    count, dims = _count(begin), [cast(as_expr(d), "int64") for d in a.shape]
    if count > a.ndim:
        raise InferError(f"begin has {count} numbers for {a.ndim} axes")
    for what, given in (("end", end), ("strides", strides)):
        fits(what, given.shape, (count,))
    fits("the result", tuple(output_shape)[count:], a.shape[count:])

    def element(*i):
        places = []
        for n, at in enumerate(i[:count]):
            step = cast(strides[n], "int64")
            place = _held(cast(begin[n], "int64"), dims[n], step) + cast(at, "int64") * step
            places.append(tir.max(tir.min(place, dims[n] - 1), 0))
        return a[(*places, *i[count:])]
    return te.compute(tuple(output_shape), element, name="T_strided_slice_dynamic")


def slice_lengths(ops, a, begin, end, strides):
    """The dimensions of dynamic_strided_slice of all axes, int64; a stride of 0 counts as 1."""
    for what, given in (("begin", begin), ("end", end), ("strides", strides)):
        fits(what, given.shape, (a.ndim,))

    def length(n):
        extent = cast(as_expr(a.shape[0]), "int64")
        for k, d in enumerate(a.shape[1:], 1):
            extent = Select(n.equal(k), cast(as_expr(d), "int64"), extent)
        step = cast(strides[n], "int64")
        step = Select(step.equal(0), const(1, "int64"), step)
        first, last = (_held(cast(v[n], "int64"), extent, step) for v in (begin, end))
        down = step < 0
        gap, size = Select(down, first - last, last - first), Select(down, -step, step)
        return tir.max(tir.floordiv(gap + size - 1, size), 0)
    return compute((a.ndim,), length, "T_shape_func_strided_slice_dynamic", "i")


def sparse_to_dense(ops, sparse_indices, output_shape, sparse_values, default_value=0):
    """sparse_values at sparse_indices, of 0, 1 or 2 dimensions (values; values of n places), default_value elsewhere.
    Of values for one place the last counts."""
    shape, rank = tuple(output_shape), len(output_shape)
    count = sparse_indices.shape[0] if sparse_indices.ndim else 1
    if sparse_indices.ndim > 2 or sparse_indices.ndim < 2 and rank != 1:
        raise InferError(f"sparse_indices of {sparse_indices.ndim} dimensions name no places in {rank} dimensions")
    fits("sparse_indices", sparse_indices.shape[1:], (rank,)[:max(sparse_indices.ndim - 1, 0)])
    if sparse_values.ndim:
        fits("sparse_values", sparse_values.shape, (count,))

    def place(n, axis):
        return sparse_indices[((), (n,), (n, axis))[sparse_indices.ndim]]

    def value(n):
        return sparse_values[n] if sparse_values.ndim else sparse_values[()]
    default = default_value[()] if hasattr(default_value, "shape") else default_value

    def element(*i):
        found = cast(as_expr(default), sparse_values.dtype)
        for n in range(number(count, "the number of sparse values")):
            hit = tir.all(*(cast(place(n, k), "int64").equal(cast(i[k], "int64")) for k in range(rank)))
            found = tir.if_then_else(hit, value(n), found)
        return found
    return te.compute(shape, element, name="sparse_to_dense")


def unravel_index(ops, indices, shape):
    """(axes, ...): the places of row-major offsets in a tensor of `shape`, itself a tensor."""
    count = number(shape.shape[0], "the number of axes")

    def place(axis, *i):
        rest, found = indices[i], None
        for n in reversed(range(count)):
            extent = te.max(cast(shape[n], indices.dtype), const(1, indices.dtype))  # an empty tensor has no places
            at = rest if n == 0 else tir.floormod(rest, extent)
            found = at if found is None else Select(as_expr(axis).equal(n), at, found)
            rest = tir.floordiv(rest, extent)
        return found
    return te.compute((count, *indices.shape), place, name="unravel_index")


# ---------------------------------------------------------------- masks and orders

def sequence_mask(ops, data, valid_length, mask_value=0, axis=0):
    """data (time, batch, ...) or, with axis=1, (batch, time, ...): mask_value from each sequence's end on."""
    if axis not in (0, 1):
        raise InferError(f"axis must be 0 or 1, it is {axis}")
    if data.ndim < 2:
        raise InferError(f"data must have an axis of time and one of sequences, it has {data.ndim} dimensions")
    fits("valid_length", valid_length.shape, (data.shape[1 - axis],))

    def element(*i):
        inside = i[axis].astype("int64") < cast(valid_length[i[1 - axis]], "int64")
        return tir.if_then_else(inside, data[i], const(mask_value, data.dtype))
    return te.compute(data.shape, element, name="sequence_mask")


def reverse_sequence(ops, a, seq_lengths, seq_axis=1, batch_axis=0):
    """The first seq_lengths[batch] elements along seq_axis in reverse."""
    seq_axis, batch_axis = (axis_in("reverse_sequence", k, a.ndim) for k in (seq_axis, batch_axis))
    fits("seq_lengths", seq_lengths.shape, (a.shape[batch_axis],))

    def element(*i):
        length = tir.min(cast(seq_lengths[i[batch_axis]], "int64"), cast(a.shape[seq_axis], "int64"))
        at = cast(i[seq_axis], "int64")
        turned = Select(at < length, length - 1 - at, at)
        return a[(*i[:seq_axis], turned, *i[seq_axis + 1:])]
    return te.compute(a.shape, element, name="reverse_sequence")


def matrix_set_diag(ops, data, diagonal, k=0, align="RIGHT_LEFT"):
    """data, with `diagonal` on the diagonals k, or k[0] to k[1] (then its last axis but one is the diagonal, the
    highest first). align: to which side shorter diagonals above and below the main one are padded."""
    low, high = (k, k) if isinstance(k, int) else (k[0], k[-1])
    sides = align.split("_")
    if len(sides) != 2 or not set(sides) <= {"LEFT", "RIGHT"}:
        raise InferError(f"align {align!r} is none of RIGHT_LEFT, LEFT_RIGHT, LEFT_LEFT, RIGHT_RIGHT")
    fits("the diagonal", diagonal.shape[:-1], (*data.shape[:-2], *(() if low == high else (high - low + 1,))))
    rows, columns = (cast(as_expr(d), "int32") for d in data.shape[-2:])
    longest = cast(as_expr(diagonal.shape[-1]), "int32")
    fits("each diagonal", (longest,), (tir.min(rows + min(high, 0), columns - max(low, 0)),))

    def element(*i):
        row, column = (cast(v, "int32") for v in i[-2:])
        d = column - row
        length = tir.min(rows + tir.min(d, 0), columns - tir.max(d, 0))
        shifts = [longest - length if side == "RIGHT" else const(0) for side in sides]
        at = row - tir.max(-d, 0) + Select(d > 0, shifts[0], shifts[1])
        at = tir.max(tir.min(at, longest - 1), 0)
        which = () if low == high else (tir.max(tir.min(high - d, high - low), 0),)
        lead = i[:-2]
        return tir.if_then_else(tir.all(d >= low, d <= high), diagonal[(*lead, *which, at)], data[i])
    return te.compute(data.shape, element, name="matrix_set_diag")


# ---------------------------------------------------------------- shapes

def meshgrid(ops, a_tuple, indexing="ij"):
    """The tensors of one dimension or none, each along an axis of its own; "xy" exchanges the first two."""
    if indexing not in ("ij", "xy"):
        raise InferError(f"indexing must be 'ij' or 'xy', it is {indexing!r}")
    order = list(range(len(a_tuple)))
    if indexing == "xy" and len(order) > 1:
        order[:2] = 1, 0
    sizes = [a_tuple[n].shape[0] if a_tuple[n].ndim else 1 for n in order]

    def grid(n, x):
        at = order.index(n)
        return te.compute(tuple(sizes), lambda *i: x[i[at]] if x.ndim else x[()], name=f"meshgrid_{n}")
    return [grid(n, x) for n, x in enumerate(a_tuple)]


def expand_like(ops, a, shape_like, axis):
    """a, with new axes at `axis` so that its shape is that of shape_like; along them it repeats."""
    axes = sorted(axis_in("expand_like", k, shape_like.ndim) for k in ((axis,) if isinstance(axis, int) else axis))
    if a.ndim + len(axes) != shape_like.ndim and not (a.ndim == 1 and len(axes) == shape_like.ndim):
        raise InferError(f"{a.ndim} dimensions and {len(axes)} axes do not make the {shape_like.ndim} of shape_like")
    fits("the tensor", a.shape, [d for k, d in enumerate(shape_like.shape) if k not in axes] or (1,) * a.ndim)
    return te.compute(shape_like.shape, lambda *i: a[tuple(
        v for k, v in enumerate(i) if k not in axes) or (0,) * a.ndim], name="expand_like")


def shape(ops, array, dtype="int32"):
    """The dimensions, as a tensor."""
    def dim(n):
        found = cast(as_expr(array.shape[0]), dtype) if array.ndim else const(0, dtype)
        for k in range(1, array.ndim):
            found = Select(n.equal(k), cast(as_expr(array.shape[k]), dtype), found)
        return found
    return te.compute((array.ndim,), dim, name="T_shape")


def ndarray_size(ops, array, dtype="int32"):
    """The number of elements, as a tensor without dimensions."""
    return te.compute((), lambda *i: cast(as_expr(product(array.shape)), dtype), name="ndarray_size")


def sliding_window(ops, data, axis, window_shape, strides):
    """Windows over the axes from `axis` on: (..., windows of each axis, window_shape)."""
    axis = axis_in("sliding_window", axis, data.ndim)
    if len(window_shape) != data.ndim - axis or len(strides) != len(window_shape):
        raise InferError(f"axes {axis} to {data.ndim - 1} need a window and a stride each, got {len(window_shape)} and "
                         f"{len(strides)}")
    counts = [simplify((as_expr(d) - w) // s + 1) for d, w, s in zip(data.shape[axis:], window_shape, strides)]
    n = len(counts)

    def element(*i):
        windows, inside = i[axis:axis + n], i[axis + n:]
        return data[(*i[:axis], *(w * s + k for w, s, k in zip(windows, strides, inside)))]
    return te.compute((*data.shape[:axis], *counts, *window_shape), element, name="sliding_window")


# ---------------------------------------------------------------- products and transforms

def tensordot(ops, a, b, axes):
    """The sum of products over `axes`: the last of a and the first of b, or lists of those of each."""
    if isinstance(axes, int):
        if not 0 <= axes <= min(a.ndim, b.ndim):
            raise InferError(f"axes is {axes}, the tensors have {a.ndim} and {b.ndim} dimensions")
        of_a, of_b = list(range(a.ndim - axes, a.ndim)), list(range(axes))
    else:
        of_a, of_b = ([axis_in("tensordot", k, x.ndim) for k in ((v,) if isinstance(v, int) else v)]
                      for v, x in zip(axes, (a, b)))
    TensorOps.same_dims("the summed dimensions", [a.shape[k] for k in of_a], [b.shape[k] for k in of_b])
    sums = [te.reduce_axis((0, a.shape[k]), f"k{n}") for n, k in enumerate(of_a)]
    rest_a, rest_b = ([k for k in range(x.ndim) if k not in taken] for x, taken in ((a, of_a), (b, of_b)))

    def element(*i):
        def at(taken, free, values):
            found = dict(zip(free, values)) | {k: s.var for k, s in zip(taken, sums)}
            return tuple(found[k] for k in sorted(found))
        product_ = a[at(of_a, rest_a, i[:len(rest_a)])] * b[at(of_b, rest_b, i[len(rest_a):])]
        return te.sum(product_, axis=sums) if sums else product_
    return te.compute((*(a.shape[k] for k in rest_a), *(b.shape[k] for k in rest_b)), element, name="T_tensordot")


def dft(ops, re_data, im_data, inverse):
    """[the real, the imaginary part] of the discrete Fourier transform along the last axis."""
    fits("im_data", im_data.shape, re_data.shape)
    extent = max(number(re_data.shape[-1], "the last dimension"), 1)  # of none there is nothing to sum
    sign, scale = (1, 1 / extent) if inverse else (-1, 1)

    def part(own, other, factor, name):
        def element(*i):
            k = te.reduce_axis((0, re_data.shape[-1]), "k")
            turn = cast(tir.floormod(cast(i[-1], "int64") * cast(k.var, "int64"), extent), re_data.dtype)
            angle = turn * const(sign * 2 * math.pi / extent, re_data.dtype)
            value = own[(*i[:-1], k.var)] * tir.cos(angle) + other[(*i[:-1], k.var)] * tir.sin(angle) * factor
            return te.sum(value * const(scale, re_data.dtype), axis=k)
        return te.compute(re_data.shape, element, name=name)
    return [part(re_data, im_data, const(-1, re_data.dtype), "dft_re"),
            part(im_data, re_data, const(1, re_data.dtype), "dft_im")]


def stft(ops, data, n_fft, hop_length, win_length, window, normalized, onesided, output_shape):
    """(batch, frequencies, frames, 2): the Fourier transforms of frames of n_fft values, hop_length apart."""
    n_fft, length = int(n_fft), int(win_length)
    if length > n_fft:
        raise InferError(f"win_length {length} is more than the n_fft {n_fft} values of a frame")
    fits("the window", window.shape, (length,))
    used = simplify(as_expr(data.shape[-1]) - (as_expr(output_shape[2]) - 1) * int(hop_length) - n_fft)
    if isinstance(used, IntImm) and used.value < 0:
        raise InferError(f"{output_shape[2]} frames do not fit {data.shape[-1]} values: {-used.value} more are needed")
    pad, dtype = (n_fft - length) // 2, data.dtype
    scale = const(1 / math.sqrt(n_fft) if normalized else 1, dtype)

    def element(b, f, t, which):
        k = te.reduce_axis((0, length), "k")
        turn = cast(tir.floormod(cast(f, "int64") * (cast(k.var, "int64") + pad), n_fft), dtype)
        angle = turn * const(2 * math.pi / n_fft, dtype)
        value = data[b, t * int(hop_length) + pad + k.var] * window[k.var]
        return te.sum(value * Select(which.equal(0), tir.cos(angle), -tir.sin(angle)) * scale, axis=k)
    return te.compute(tuple(output_shape), element, name="stft")


def collapse_sum(ops, data, target_shape):
    """The sum over what broadcasting to data's shape would have copied."""
    target = tuple(target_shape)
    lead, kept = summed_axes("collapse_sum", data.shape, target)
    over = {k: te.reduce_axis((0, data.shape[k]), f"k{k}") for k in (*lead, *kept)}

    def element(*i):
        value = data[tuple(over[k].var if k in over else i[k - len(lead)] for k in range(data.ndim))]
        return te.sum(value, axis=list(over.values())) if over else value
    return compute(target, element, f"{data.op.name}_red" if data.op else "T_sum", "ax")


def einsum(ops, subscripts, *operand):
    """numpy's einsum: one sum of products. Diagonals, an ellipsis and axes of 1 that broadcast are taken, too."""
    terms, right, extents = einsum_terms(TensorOps.same_dims, subscripts, operand)
    over = {c: te.reduce_axis((0, extents[c]), c) for c in sorted(set("".join(terms)) - set(right))}

    def element(*i):
        at, value = {**dict(zip(right, i)), **{c: axis.var for c, axis in over.items()}}, None
        for term, t in zip(terms, operand):
            part = t[tuple(0 if is_const_int(d, 1) and not is_const_int(extents[c], 1) else at[c]
                           for c, d in zip(term, map(as_expr, t.shape)))]
            value = part if value is None else value * part
        return te.sum(value, axis=list(over.values())) if over else value
    return compute(tuple(extents[c] for c in right), element, "T_einsum", "ax")


COMPOSITES = {f.__name__: f for f in (
    adv_index, argsort, collapse_sum, dft, dynamic_strided_slice, einsum, expand_like, gather_nd, matrix_set_diag,
    meshgrid, ndarray_size, reverse_sequence, scatter_elements, scatter_nd, searchsorted, sequence_mask, shape,
    slice_lengths, sliding_window, sort, sparse_to_dense, stft, strided_set, tensordot, topk, unravel_index)}
COMPOSITES["reinterpret"] = lambda ops, x, dtype: ops("bitcast", x, dtype)
COMPOSITES["eye"] = lambda ops, n, m=None, k=0, dtype="float32": TENSORS["eye"](TensorOps(ops), n, m, k, dtype)
