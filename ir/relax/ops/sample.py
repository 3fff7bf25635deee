"""Images read at positions that data holds: nn.grid_sample, nn.roi_align, nn.max_roi_pool, nn.deform_conv2d.

Positions are floats, of a tensor in the dtype of sums. Before they become indices they are held near the image, so that
no number is too great for an index and none strays; a NaN is one of those.
"""
from __future__ import annotations

from functools import reduce
from itertools import product
from operator import add, mul

import numpy as np

from ... import te, tir
from ...expr import cast, const, is_const_int
from ...op import REQUIRED, register
from ..expr import TensorStructInfo
from .common import fail, need_dtype, need_rank, need_same_dtype, same_dim, shape_text, te_shape, tensors
from .precision import narrow, sum_dtype, widen_array

MODES, PADDINGS = ("nearest", "linear", "cubic"), ("zeros", "border", "reflection")
CUBIC = -0.75
MOST_SAMPLES = 4096  # along one axis of one bin of a region


class Arrays:
    """The operations on positions, for numpy arrays; Expressions has them for expressions."""

    floor, rint, absolute, where = np.floor, np.rint, np.abs, staticmethod(np.where)

    @staticmethod
    def number(value, like):
        return like.dtype.type(value)

    @staticmethod
    def hold(x, low, high):
        return np.clip(np.where(np.isnan(x), x.dtype.type(low), x), low, high)

    @staticmethod
    def index(x):
        return x.astype(np.int64)

    @staticmethod
    def both(*conditions):
        return reduce(np.logical_and, conditions)


class Expressions:
    """See Arrays."""

    floor, rint, absolute, where = map(staticmethod, (tir.floor, tir.round, tir.abs, tir.select))

    @staticmethod
    def number(value, like):
        return const(float(value), like.dtype)

    @staticmethod
    def hold(x, low, high):
        low, high = const(float(low), x.dtype), const(float(high), x.dtype)
        return tir.select(x > low, tir.select(x < high, x, high), low)  # NaN is above nothing

    @staticmethod
    def index(x):
        return cast(x, "int32")

    @staticmethod
    def both(*conditions):
        return tir.all(*conditions)


# ---------------------------------------------------------------- nn.grid_sample

def _infer_grid(call):
    """x [N, C, spatial], grid [N, positions, number of spatial axes], the last of which is the first coordinate."""
    x, grid = tensors(call)
    need_dtype(call, x, "float")
    need_dtype(call, grid, "float")
    rank = x.ndim - 2
    if rank < 1 or grid.ndim != rank + 2 or not is_const_int(grid.shape[-1], rank) or not same_dim(
            x.shape[0], grid.shape[0]):
        fail(call, f"grid {shape_text(grid)} must be [N, positions, {rank}] for {rank} spatial axes of "
                   f"{shape_text(x)}")
    if not all(is_const_int(d) and d.value > 0 for d in x.shape[2:]):
        fail(call, f"{shape_text(x)} must have static spatial dimensions of at least 1")
    for name, known in (("mode", MODES), ("padding_mode", PADDINGS)):
        if call.attrs[name] not in known:
            fail(call, f"{name}={call.attrs[name]!r} is none of {', '.join(known)}")
    return TensorStructInfo((*x.shape[:2], *grid.shape[1:-1]), x.dtype)


def _denormalized(g, size, corners, ops):
    """The position, in elements, of a coordinate from -1 to 1."""
    one, half = ops.number(1, g), ops.number(0.5, g)
    if corners:
        return (g + one) * half * ops.number(size - 1, g)
    return ((g + one) * ops.number(size, g) - one) * half


def _reflected(p, low, high, ops):
    """p mirrored at low and high as often as needed; low where there is nothing between."""
    span = high - low
    if span == 0:
        return p * ops.number(0, p) + ops.number(low, p)
    far = ops.absolute(p - ops.number(low, p))
    turns = ops.floor(far / ops.number(span, p))
    rest = far - turns * ops.number(span, p)
    odd = turns - ops.floor(turns * ops.number(0.5, p)) * ops.number(2, p)
    return ops.where(odd == ops.number(0, p), rest + ops.number(low, p), ops.number(high, p) - rest)


def _weights(mode, part, ops):
    """The weights of the elements from the first on, by how far the position is behind the one at or before it."""
    one = ops.number(1, part)
    if mode == "linear":
        return one - part, part
    a = CUBIC

    def near(t):
        return ((ops.number(a + 2, t) * t - ops.number(a + 3, t)) * t) * t + one

    def far(t):
        return ((ops.number(a, t) * t - ops.number(5 * a, t)) * t + ops.number(8 * a, t)) * t - ops.number(4 * a, t)

    return far(part + one), near(part), near(one - part), far(ops.number(2, part) - part)


def _padded_index(p, size, attrs, ops):
    """(index, whether it is inside or None) of a whole position."""
    corners = attrs["align_corners"]
    if attrs["padding_mode"] == "zeros":
        inside = ops.both(p >= ops.number(0, p), p <= ops.number(size - 1, p))
        return ops.index(ops.hold(p, 0, size - 1)), inside
    if attrs["padding_mode"] == "reflection":
        low, high = (0, size - 1) if corners else (-0.5, size - 0.5)
        p = _reflected(p, low, high, ops)
        p = ops.floor(p + ops.number(0.5, p)) if corners else ops.floor(p + ops.number(0.001, p))
    return ops.index(ops.hold(p, 0, size - 1)), None


def _taps(g, size, attrs, ops):
    """[(index, inside or None, weight or None)] along an axis."""
    p = _denormalized(g, size, attrs["align_corners"], ops)
    if attrs["mode"] == "nearest":
        return [(*_padded_index(ops.rint(p), size, attrs, ops), None)]
    low, high = (0, size - 1) if attrs["align_corners"] else (-0.5, size - 0.5)
    if attrs["mode"] == "cubic":
        pass  # each of its elements is held inside, or mirrored, by itself
    elif attrs["padding_mode"] == "border":
        inside = ops.both(p >= ops.number(low, p), p <= ops.number(high, p))
        p = ops.where(inside, p, ops.hold(p, 0, size - 1))
    elif attrs["padding_mode"] == "reflection":
        p = _reflected(p, low, high, ops)
    first = ops.floor(p)
    begin, weights = {"linear": 0, "cubic": -1}[attrs["mode"]], _weights(attrs["mode"], p - first, ops)
    return [(*_padded_index(first + ops.number(begin + k, p), size, attrs, ops), w) for k, w in enumerate(weights)]


def _sampled(load, taps, zero, ops):
    """The sum of load(indices) by the weights of all combinations of taps, with `zero` outside."""
    def term(combination):
        value = load([index for index, _, _ in combination])
        conditions = [c for _, c, _ in combination if c is not None]
        value = ops.where(ops.both(*conditions), value, zero) if conditions else value
        weights = [w for _, _, w in combination if w is not None]
        return value * reduce(mul, weights) if weights else value

    return reduce(add, map(term, product(*taps)))


def _lower_grid(args, attrs, out):
    x, grid = args
    acc, sizes = sum_dtype(x.dtype), [int(d) for d in x.shape[2:]]

    def element(n, c, *at):
        taps = [_taps(grid[(n, *at, len(sizes) - 1 - k)].astype(acc), size, attrs, Expressions)
                for k, size in enumerate(sizes)]
        return _sampled(lambda index: x[(n, c, *index)].astype(acc), taps, const(0, acc), Expressions)

    return narrow(te.compute(te_shape(out), element, name="grid_sample"), out.dtype)


def _evaluate_grid(args, attrs):
    x = widen_array(np.asarray(args[0]))
    grid = np.asarray(args[1]).astype(x.dtype)
    sizes = x.shape[2:]
    result = np.empty((*x.shape[:2], *grid.shape[1:-1]), args[0].dtype)
    for n in range(len(x)):
        taps = [_taps(grid[n, ..., len(sizes) - 1 - k], size, attrs, Arrays) for k, size in enumerate(sizes)]
        result[n] = _sampled(lambda index, n=n: x[n][(slice(None), *index)], taps, x.dtype.type(0), Arrays)
    return result


register("nn.grid_sample", _infer_grid, _lower_grid, _evaluate_grid, "injective", (2, 2), mode="linear",
         padding_mode="zeros", align_corners=False)


# ---------------------------------------------------------------- nn.deform_conv2d

def _infer_deform(call):
    """x [N, C, H, W], weight [O, C / groups, KH, KW], offset [N, offset_groups * KH * KW * 2, OH, OW], mask [N,
    offset_groups * KH * KW, OH, OW]."""
    x, w, offset, mask = tensors(call)
    for n in range(4):
        need_rank(call, n, 4)
    need_dtype(call, x, "float")
    need_same_dtype(call, (x, w, offset, mask))
    groups, of_offsets = call.attrs["groups"], call.attrs["offset_groups"]
    static = [*x.shape[1:], *w.shape]
    if not all(map(is_const_int, static)):
        fail(call, f"{shape_text(x)} and weight {shape_text(w)} must be static but for the batch")
    c, o, kernel = x.shape[1].value, w.shape[0].value, w.shape[2].value * w.shape[3].value
    if c != w.shape[1].value * groups or o % groups or c % of_offsets:
        fail(call, f"{groups} groups and {of_offsets} of offsets do not fit {shape_text(x)} and weight {shape_text(w)}")
    if not is_const_int(offset.shape[1], of_offsets * kernel * 2) or not is_const_int(mask.shape[1],
                                                                                      of_offsets * kernel):
        fail(call, f"offset {shape_text(offset)} and mask {shape_text(mask)} must have {of_offsets * kernel * 2} and "
                   f"{of_offsets * kernel} channels")
    outputs = [(int(x.shape[2 + k]) + call.attrs["padding"][k] + call.attrs["padding"][2 + k]
                - (int(w.shape[2 + k]) - 1) * call.attrs["dilation"][k] - 1) // call.attrs["strides"][k] + 1
               for k in range(2)]
    for info in (offset, mask):
        if not all(is_const_int(d, n) for d, n in zip(info.shape[2:], outputs)):
            fail(call, f"offset {shape_text(offset)} and mask {shape_text(mask)} must be of the output's size "
                       f"{tuple(outputs)}")
    return TensorStructInfo((x.shape[0], w.shape[0], *outputs), x.dtype)


def _bilinear(load, p, sizes, zero, ops):
    """The value between elements at the positions p; zero outside."""
    attrs = {"padding_mode": "zeros", "align_corners": True}
    taps = []
    for at, size in zip(p, sizes):
        first = ops.floor(ops.hold(at, -2, size + 1))
        part = ops.hold(at, -2, size + 1) - first
        taps.append([(*_padded_index(first + ops.number(k, at), size, attrs, ops), w)
                     for k, w in enumerate(_weights("linear", part, ops))])
    return _sampled(load, taps, zero, ops)


def _lower_deform(args, attrs, out):
    x, w, offset, mask = args
    acc, sizes = sum_dtype(x.dtype), [int(d) for d in x.shape[2:]]
    kh, kw = (int(d) for d in w.shape[2:])
    of_offsets, per_offset = attrs["offset_groups"], int(x.shape[1]) // attrs["offset_groups"]
    n, _, oh, ow = te_shape(out)

    def column(n, c, ky, kx, y, z):
        tap = ((c // per_offset if of_offsets > 1 else 0) * kh + ky) * kw + kx
        p = []
        for axis, (i, k) in enumerate(((y, ky), (z, kx))):
            base = i * attrs["strides"][axis] - attrs["padding"][axis] + k * attrs["dilation"][axis]
            p.append(cast(base, acc) + offset[n, tap * 2 + axis, y, z].astype(acc))
        value = _bilinear(lambda index: x[(n, c, *index)].astype(acc), p, sizes, const(0, acc), Expressions)
        return value * mask[n, tap, y, z].astype(acc)

    columns = te.compute((n, x.shape[1], kh, kw, oh, ow), column, name="deform_columns")
    per_group, own = int(w.shape[1]), int(w.shape[0]) // attrs["groups"]
    k, a, b = (te.reduce_axis((0, e), name) for e, name in ((per_group, "k"), (kh, "kh"), (kw, "kw")))

    def element(n, o, y, z):
        source = k.var + o // own * per_group if attrs["groups"] > 1 else k.var
        return te.sum(columns[n, source, a.var, b.var, y, z] * w[o, k.var, a.var, b.var].astype(acc), [k, a, b])

    return narrow(te.compute(te_shape(out), element, name="deform_conv2d"), out.dtype)


def _evaluate_deform(args, attrs):
    x, w, offset, mask = (widen_array(np.asarray(a)) for a in args)
    batch, channels, *sizes = x.shape
    kh, kw = w.shape[2:]
    oh, ow = offset.shape[2:]
    per_offset, groups = channels // attrs["offset_groups"], attrs["groups"]
    columns = np.empty((batch, channels, kh * kw, oh, ow), x.dtype)
    for n, c, tap in np.ndindex(batch, channels, kh * kw):
        number = c // per_offset * kh * kw + tap
        p = []
        for axis, k in enumerate(divmod(tap, kw)):
            base = np.arange((oh, ow)[axis]) * attrs["strides"][axis] - attrs["padding"][axis]
            base = (base + k * attrs["dilation"][axis]).reshape((-1, 1) if axis == 0 else (1, -1))
            p.append((base + offset[n, number * 2 + axis]).astype(x.dtype))
        value = _bilinear(lambda index, n=n, c=c: x[(n, c, *index)], p, sizes, x.dtype.type(0), Arrays)
        columns[n, c, tap] = value * mask[n, number]
    columns = columns.reshape(batch, groups, -1, oh * ow)
    result = np.einsum("gok,ngkp->ngop", w.reshape(groups, len(w) // groups, -1), columns)
    return result.reshape(batch, len(w), oh, ow).astype(args[0].dtype)


register("nn.deform_conv2d", _infer_deform, _lower_deform, _evaluate_deform, "reduction", (4, 4), strides=(1, 1),
         padding=(0, 0, 0, 0), dilation=(1, 1), groups=1, offset_groups=1)


# ---------------------------------------------------------------- regions of interest

def _infer_rois(call):
    """x [N, C, H, W], rois [R, 4] with corners x1, y1, x2, y2, batch [R]: the image of each."""
    x, rois, batch = tensors(call)
    need_rank(call, 0, 4)
    need_rank(call, 1, 2)
    need_rank(call, 2, 1)
    need_dtype(call, x, "float")
    need_same_dtype(call, (x, rois))
    need_dtype(call, batch, "int")
    if not is_const_int(rois.shape[1], 4) or not same_dim(rois.shape[0], batch.shape[0]):
        fail(call, f"rois {shape_text(rois)} must be [R, 4], and batch {shape_text(batch)} [R]")
    if not all(is_const_int(d) and d.value > 0 for d in x.shape[2:]) or min(call.attrs["output_size"]) < 1:
        fail(call, f"{shape_text(x)} must have static spatial dimensions, and output_size "
                   f"{tuple(call.attrs['output_size'])} be at least 1")
    if call.attrs.get("sampling_ratio", 1) < 0 or call.attrs.get("mode", "avg") not in ("avg", "max"):
        fail(call, f"sampling_ratio {call.attrs['sampling_ratio']} must be at least 0, mode avg or max")
    return TensorStructInfo((rois.shape[0], x.shape[1], *call.attrs["output_size"]), x.dtype)


def _roi_edges(corner, attrs, ops):
    """[(start, size of a bin)] of y and x; corner(k): a roi's k-th number."""
    edges = []
    for axis in (1, 0):
        low, high = (corner(axis + 2 * end) * ops.number(attrs["spatial_scale"], corner(0)) for end in (0, 1))
        shift = ops.number(0.5 if attrs["half_pixel"] else 0, low)
        size = high - low
        if not attrs["half_pixel"]:
            one = ops.number(1, size)
            size = ops.where(size > one, size, one)
        edges.append((low - shift, size / ops.number(attrs["output_size"][1 - axis], low)))
    return edges


def _roi_taps(start, bin_size, p, k, count, size, ops):
    """Two taps of an axis, of the sample k of `count`, with weights that are 0 where it is too far outside."""
    at = start + p * bin_size + (k + ops.number(0.5, start)) * bin_size / count
    near = ops.both(at >= ops.number(-1, at), at <= ops.number(size, at))
    held = ops.hold(at, 0, size - 1)
    low = ops.hold(ops.floor(held), 0, max(size - 2, 0))
    part = held - low
    zero, one = ops.number(0, at), ops.number(1, at)
    return [(ops.index(low), None, ops.where(near, one - part, zero)),
            (ops.index(ops.hold(low + one, 0, size - 1)), None, ops.where(near, part, zero))]


def _image_of(batch, r, x):
    """The number of a roi's image, held inside."""
    return tir.max(tir.min(cast(batch[r], "int32"), cast(x.shape[0], "int32") - 1), const(0, "int32"))


def _lower_roi_align(args, attrs, out):
    x, rois, batch = args
    acc, sizes, count = sum_dtype(x.dtype), [int(d) for d in x.shape[2:]], attrs["sampling_ratio"]
    if not count:
        return _lower_roi_align_by_size(args, attrs, out)
    ky, kx = (te.reduce_axis((0, count), name) for name in ("ky", "kx"))

    def element(r, c, y, z):
        edges, image = _roi_edges(lambda k: rois[r, k].astype(acc), attrs, Expressions), _image_of(batch, r, x)
        taps = [_roi_taps(*edge, cast(p, acc), cast(k.var, acc), const(float(count), acc), size, Expressions)
                for edge, p, k, size in zip(edges, (y, z), (ky, kx), sizes)]

        def load(index):
            return x[(image, c, *index)].astype(acc)

        if attrs["mode"] == "max":
            terms = [load([t[0] for t in both]) * both[0][2] * both[1][2] for both in product(*taps)]
            return te.max(reduce(tir.max, terms), [ky, kx])
        return te.sum(_sampled(load, taps, const(0, acc), Expressions), [ky, kx])

    total = te.compute(te_shape(out), element, name="roi_align")
    if attrs["mode"] == "avg":
        whole = te.compute(te_shape(out), lambda *i: total[i] * const(1 / count ** 2, acc), name="roi_align_mean")
        return narrow(whole, out.dtype)
    return narrow(total, out.dtype)


def _samples(bin_size, ops):
    """How many samples a bin has along an axis where its size decides: one for each element, at least one."""
    return ops.hold(ops.number(0, bin_size) - ops.floor(ops.number(0, bin_size) - bin_size), 1, MOST_SAMPLES)


def _lower_roi_align_by_size(args, attrs, out):
    """As many samples as a bin has elements: loops whose ends data decides."""
    acc, sizes = sum_dtype(out.dtype), [int(d) for d in args[0].shape[2:]]

    def body(ins, outs):
        ib = tir.ir_builder.create()
        x, rois, batch, target = (ib.buffer_ptr(b) for b in (*ins, outs[0]))
        counts, total = ib.allocate("int32", (2,), "samples"), ib.allocate(acc, (1,), "total")
        scopes = [ib.for_range(0, d, name) for d, name in zip(outs[0].shape, "rcyz")]
        r, c, y, z = (s.__enter__() for s in scopes)
        edges = _roi_edges(lambda k: rois[r, k].astype(acc), attrs, Expressions)
        for axis, (_, size) in enumerate(edges):
            counts[axis] = cast(_samples(size, Expressions), "int32")
        total[0] = const(0.0, acc) if attrs["mode"] == "avg" else tir.min_value(acc)
        with ib.for_range(0, counts[0], "ky") as ky:
            with ib.for_range(0, counts[1], "kx") as kx:
                taps = [_roi_taps(*edge, cast(p, acc), cast(k, acc), cast(counts[n], acc), size, Expressions)
                        for n, (edge, p, k, size) in enumerate(zip(edges, (y, z), (ky, kx), sizes))]
                image = _image_of(batch, r, ins[0])
                terms = [x[(image, c, *(t[0] for t in both))].astype(acc) * both[0][2] * both[1][2]
                         for both in product(*taps)]
                combine = add if attrs["mode"] == "avg" else tir.max
                total[0] = combine(total[0], reduce(combine, terms))
        area = cast(counts[0], acc) * cast(counts[1], acc)
        target[r, c, y, z] = total[0] / area if attrs["mode"] == "avg" else total[0]
        for scope in reversed(scopes):
            scope.__exit__(None, None, None)
        return ib.get()

    return narrow(te.extern([te_shape(out)], list(args), body, "roi_align", [acc])[0], out.dtype)


def _evaluate_roi_align(args, attrs):
    x, rois = (widen_array(np.asarray(a)) for a in args[:2])
    batch = np.clip(np.asarray(args[2]), 0, len(x) - 1)
    (oh, ow), sizes = attrs["output_size"], x.shape[2:]
    result = np.empty((len(rois), x.shape[1], oh, ow), x.dtype)
    for r, roi in enumerate(rois):
        edges = _roi_edges(lambda k, roi=roi: roi[k], attrs, Arrays)
        counts = [attrs["sampling_ratio"] or int(_samples(size, Arrays)) for _, size in edges]
        grids = [np.arange(o * n).astype(x.dtype).reshape((-1, 1) if a == 0 else (1, -1))
                 for a, (o, n) in enumerate(zip((oh, ow), counts))]
        taps = [_roi_taps(*edge, g // n, g % n, x.dtype.type(n), size, Arrays)
                for edge, g, n, size in zip(edges, grids, counts, sizes)]

        def load(index, r=r):
            return x[batch[r]][(slice(None), *np.broadcast_arrays(*index))]

        terms = [load([t[0] for t in both]) * both[0][2] * both[1][2] for both in product(*taps)]
        samples = reduce(np.maximum if attrs["mode"] == "max" else np.add, terms)
        blocks = samples.reshape(-1, oh, counts[0], ow, counts[1])
        result[r] = blocks.max(axis=(2, 4)) if attrs["mode"] == "max" else blocks.mean(axis=(2, 4))
    return result.astype(args[0].dtype)


register("nn.roi_align", _infer_rois, _lower_roi_align, _evaluate_roi_align, "opaque", (3, 3), output_size=REQUIRED,
         spatial_scale=1.0, sampling_ratio=REQUIRED, mode="avg", half_pixel=True)


# ---------------------------------------------------------------- nn.max_roi_pool

def _roi_bins(corner, axis, p, size, attrs, ops):
    """[first, end) of the bin p of an axis (0: y), rounded outwards and held inside."""
    scale, out = attrs["spatial_scale"], attrs["output_size"][axis]
    low, high = (corner(1 - axis + 2 * end) for end in (0, 1))
    half, one = ops.number(0.5, low), ops.number(1, low)
    low, high = (ops.floor(v * ops.number(scale, v) + half) for v in (low, high))
    extent = high - low + one
    step = ops.where(extent > one, extent, one) / ops.number(out, low)
    first = ops.floor(p * step) + low
    end = low - ops.floor(ops.number(0, low) - (p + one) * step)
    return ops.index(ops.hold(first, 0, size)), ops.index(ops.hold(end, 0, size))


def _lower_max_roi(args, attrs, out):
    x, rois, batch = args
    acc, sizes = sum_dtype(x.dtype), [int(d) for d in x.shape[2:]]
    ky, kx = (te.reduce_axis((0, size), name) for size, name in zip(sizes, ("ky", "kx")))

    def element(r, c, y, z):
        image, conditions = _image_of(batch, r, x), []
        for axis, (p, k) in enumerate(((y, ky), (z, kx))):
            first, end = _roi_bins(lambda n: rois[r, n].astype(acc), axis, cast(p, acc), sizes[axis], attrs,
                                   Expressions)
            conditions += [k.var >= first, k.var < end]
        return te.max(tir.select(tir.all(*conditions), x[image, c, ky.var, kx.var].astype(acc), tir.min_value(acc)),
                      [ky, kx])

    peak = te.compute(te_shape(out), element, name="max_roi_pool_value")
    whole = te.compute(te_shape(out), lambda *i: tir.select(peak[i] > tir.min_value(acc), peak[i], const(0, acc)),
                       name="max_roi_pool")  # an empty bin is 0
    return narrow(whole, out.dtype)


def _evaluate_max_roi(args, attrs):
    x, rois = (widen_array(np.asarray(a)) for a in args[:2])
    batch = np.clip(np.asarray(args[2]), 0, len(x) - 1)
    oh, ow = attrs["output_size"]
    result = np.zeros((len(rois), x.shape[1], oh, ow), x.dtype)
    for r, y, z in np.ndindex(len(rois), oh, ow):
        window = [slice(*(int(e) for e in _roi_bins(lambda n, r=r: rois[r, n], axis, x.dtype.type(p), size, attrs,
                                                    Arrays)))
                  for axis, (p, size) in enumerate(zip((y, z), x.shape[2:]))]
        part = x[batch[r]][(slice(None), *window)].reshape(x.shape[1], -1)
        if part.size:
            result[r, :, y, z] = part.max(axis=1)
    return result.astype(args[0].dtype)


register("nn.max_roi_pool", _infer_rois, _lower_max_roi, _evaluate_max_roi, "reduction", (3, 3), output_size=REQUIRED,
         spatial_scale=1.0)
