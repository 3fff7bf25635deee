"""topi's functions of images and of blocks of them: sizes, grids, crops, space and channels."""
from __future__ import annotations

from .. import te, tir
from ..expr import as_expr, cast, const
from ..op import InferError
from ..relax.classic import plain
from ..relax.ops.common import simplify
from ..relax.ops.injective import held_index
from .apply import View, fits
from .convolutions import placed
from .elements import compute
from .network import resize2d, spread
from .reductions import reduced
from .windows import pad

_CHANNELS_FIRST = {"NCW": 1, "NCHW": 2, "NCDHW": 3}


def _channels_first(layout, rank):
    if _CHANNELS_FIRST.get(layout) != rank:
        wanted = next(k for k, v in _CHANNELS_FIRST.items() if v == rank)
        raise InferError(f"layout={layout!r} is not supported, it must be {wanted!r}")


# ---------------------------------------------------------------- sizes

def resize1d(ops, data, roi, size, layout="NCW", method="linear", coordinate_transformation_mode="half_pixel",
             rounding_method="", bicubic_alpha=-0.5, bicubic_exclude=0, extrapolation_value=0.0, out_dtype=None,
             output_shape=None):
    """data (N, C, W); see resize2d."""
    _channels_first(layout, 1)
    row = View((*data.shape[:2], as_expr(1), data.shape[2]), data.dtype, lambda n, c, _, x: data[n, c, x])
    out = resize2d(ops, row, roi, (1, *spread(size, 1, "size")), "NCHW",
                   method, coordinate_transformation_mode, rounding_method, bicubic_alpha, bicubic_exclude,
                   extrapolation_value, out_dtype)
    return ops("squeeze", out, 2)


def resize3d(ops, data, roi, size, layout="NCDHW", method="linear", coordinate_transformation_mode="half_pixel",
             rounding_method="", bicubic_alpha=-0.5, bicubic_exclude=0, extrapolation_value=0.0, out_dtype=None,
             output_shape=None):
    """data (N, C, D, H, W): the images of each depth, then the depths of each element; see resize2d."""
    _channels_first(layout, 3)
    deep, high, wide = spread(size, 3, "size")
    n, c, d, h, w = data.shape
    how = ("NCHW", method, coordinate_transformation_mode, rounding_method, bicubic_alpha, bicubic_exclude,
           extrapolation_value)
    images = View((n, c * d, h, w), data.dtype, lambda b, k, y, x: data[b, k // d, k % d, y, x])
    images = resize2d(ops, images, roi, (high, wide), *how, out_dtype)
    depths = View((n, c, d, as_expr(high * wide)), images.dtype, lambda b, k, z, at: images[
        b, k * d + z, at // wide, at % wide])
    depths = resize2d(ops, depths, None, (deep, high * wide), *how)
    return ops("reshape", depths, (n, c, deep, high, wide))


def upsampling3d(ops, data, scale_d, scale_h, scale_w, layout="NCDHW", method="nearest_neighbor",
                 coordinate_transformation_mode="half_pixel", output_shape=None):
    size = output_shape or tuple(int(round(int(n) * s)) for n, s in zip(data.shape[2:], (scale_d, scale_h, scale_w)))
    method = {"trilinear": "linear"}.get(method, method)
    return resize3d(ops, data, None, size, layout, method, coordinate_transformation_mode)


def crop_and_resize(ops, data, boxes, box_indices, crop_size, layout="NCHW", method="bilinear",
                    extrapolation_value=None, out_dtype=None):
    """(boxes, C, *crop_size): of each box (y1, x1, y2, x2; 0 to 1 of its image) crop_size samples, with its corners;
    outside the image extrapolation_value, 0 where there is none."""
    if layout not in ("NCHW", "NHWC"):
        raise InferError(f"layout={layout!r} is not supported, it must be 'NCHW' or 'NHWC'")
    if method not in ("bilinear", "nearest_neighbor"):
        raise InferError(f"method={method!r} is neither 'bilinear' nor 'nearest_neighbor'")
    fits("boxes", boxes.shape[1:], (4,))
    fits("box_indices", box_indices.shape, boxes.shape[:1])
    places = [layout.index(c) for c in "NCHW"]
    sizes, dtype = [data.shape[k] for k in places[2:]], out_dtype or data.dtype
    outside = const(extrapolation_value or 0, "float32")

    def position(box, axis, at, count):
        low, high = boxes[box, axis], boxes[box, axis + 2]
        span = cast(as_expr(sizes[axis]) - 1, "float32")
        if count == 1:
            return (low + high) * 0.5 * span
        return (low + cast(at, "float32") * ((high - low) * const(1 / (count - 1), "float32"))) * span

    def element(*i):
        box, c, *at = (i[k] for k in places)
        image = held_index(box_indices[box], data.shape[places[0]])
        ps = [position(box, k, a, n) for k, (a, n) in enumerate(zip(at, crop_size))]
        inside = tir.all(*(tir.all(p >= 0.0, p <= cast(as_expr(n) - 1, "float32")) for p, n in zip(ps, sizes)))

        def load(y, x):
            spot = [tir.max(tir.min(cast(v, "int32"), cast(as_expr(n), "int32") - 1), 0) for v, n in zip((y, x), sizes)]
            return cast(data[placed((image, c, *spot), places)], "float32")
        if method == "nearest_neighbor":
            value = load(*(tir.round(p) for p in ps))
        else:
            (y, x), (dy, dx) = [tir.floor(p) for p in ps], [p - tir.floor(p) for p in ps]
            top = load(y, x) + (load(y, x + 1.0) - load(y, x)) * dx
            bottom = load(y + 1.0, x) + (load(y + 1.0, x + 1.0) - load(y + 1.0, x)) * dx
            value = top + (bottom - top) * dy
        return cast(tir.if_then_else(inside, value, outside), dtype)
    shape = {"N": boxes.shape[0], "C": data.shape[places[1]], "H": crop_size[0], "W": crop_size[1]}
    return te.compute(tuple(shape[c] for c in layout), element, name="crop_and_resize")


# ---------------------------------------------------------------- grids

def affine_grid(ops, data, target_shape):
    """(N, 2, *target_shape): x and y in -1 to 1 of each element's place under the matrices data (N, 2, 3)."""
    if len(target_shape) != 2 or min(plain(target_shape)) < 2:
        raise InferError(f"target_shape must be 2 numbers above 1, it is {tuple(target_shape)}")
    steps = [const((2.0 - 1e-7) / (n - 1), data.dtype) for n in plain(target_shape)]

    def element(n, axis, i, j):
        y, x = (const(-1, data.dtype) + cast(at, data.dtype) * step for at, step in zip((i, j), steps))
        return data[n, axis, 0] * x + data[n, axis, 1] * y + data[n, axis, 2]
    return te.compute((data.shape[0], 2, *target_shape), element, name="affine_grid")


def grid_sample(ops, data, grid, method="bilinear", layout="NCHW", padding_mode="zeros", align_corners=True):
    """data (N, C, spatial) at the places grid (N, axes, spatial), x first, -1 to 1."""
    _channels_first(layout, data.ndim - 2)
    last = View((grid.shape[0], *grid.shape[2:], grid.shape[1]), grid.dtype, lambda n, *i: grid[(n, i[-1], *i[:-1])])
    method = {"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}.get(method, method)
    return ops("nn.grid_sample", data, last, mode=method, padding_mode=padding_mode, align_corners=align_corners)


def _deformable(layout):
    def deformable_conv2d(ops, data, offset, kernel, strides, padding, dilation, deformable_groups, groups, out_dtype):
        """Each element of the window is read where the offsets (y, x) move it."""
        if layout == "NHWC":
            data, offset = (View((x.shape[0], x.shape[3], *x.shape[1:3]), x.dtype,
                                 lambda n, c, y, z, x=x: x[n, y, z, c])
                            for x in (data, offset))
            own = kernel
            kernel = View((own.shape[3], own.shape[2], *own.shape[:2]), own.dtype, lambda o, i, y, z: own[y, z, i, o])
        window, b = kernel.shape[2:], data.shape[0]
        ones = te.compute((b, deformable_groups * window[0] * window[1], *offset.shape[2:]),
                          lambda *i: const(1, data.dtype), name="mask")
        out = ops("nn.deform_conv2d", data, kernel, offset, ones, strides=strides, padding=padding, dilation=dilation,
                  groups=groups, offset_groups=deformable_groups)
        return out if layout == "NCHW" else ops("permute_dims", out, (0, 2, 3, 1))
    return deformable_conv2d


# ---------------------------------------------------------------- blocks

def space_to_batch_nd(ops, data, block_shape, pad_before, pad_after, pad_value=0.0):
    """The elements of each block of the axes from 1 on become images of the batch."""
    count = len(block_shape)
    rest = (0,) * (data.ndim - 1 - count)
    padded = pad(ops, data, (0, *pad_before, *rest), (0, *pad_after, *rest), pad_value)
    sizes = [_divided(n, b) for n, b in zip(padded.shape[1:], block_shape)]
    split = [v for pair in zip(sizes, block_shape) for v in pair]
    x = ops("reshape", padded, (data.shape[0], *split, *padded.shape[1 + count:]))
    blocks, outer = [2 + 2 * n for n in range(count)], [1 + 2 * n for n in range(count)]
    x = ops("permute_dims", x, (*blocks, 0, *outer, *range(1 + 2 * count, x.ndim)))
    return ops("reshape", x, (-1, *sizes, *padded.shape[1 + count:]))


def batch_to_space_nd(ops, data, block_shape, crop_begin_list, crop_end_list):
    """The inverse of space_to_batch_nd, then a crop."""
    count, blocks = len(block_shape), 1
    for b in block_shape:
        blocks *= b
    batch, rest = _divided(data.shape[0], blocks), data.shape[1 + count:]
    x = ops("reshape", data, (*block_shape, batch, *data.shape[1:]))
    pairs = [v for n in range(count) for v in (count + 1 + n, n)]
    x = ops("permute_dims", x, (count, *pairs, *range(2 * count + 1, x.ndim)))
    sizes = [simplify(as_expr(n) * b) for n, b in zip(data.shape[1:], block_shape)]
    x = ops("reshape", x, (batch, *sizes, *rest))
    axes = tuple(range(1, 1 + count))
    ends = tuple(plain(simplify(n - e)) for n, e in zip(sizes, crop_end_list))
    return ops("strided_slice", x, axes, tuple(crop_begin_list), ends)


def _divided(dim, by):
    if plain(simplify(tir.floormod(as_expr(dim), by))) != 0:
        raise InferError(f"dimension {dim} does not divide into blocks of {by}")
    return simplify(as_expr(dim) // by)


def depth_to_space(ops, data, block_size, layout="NCHW", mode="DCR"):
    """Channels become blocks; mode: whether the blocks' places come before the channels that stay ("DCR") or after."""
    return _between(data, block_size, layout, mode, True)


def space_to_depth(ops, data, block_size, layout="NCHW"):
    """Blocks become channels, their places before the channels that were."""
    return _between(data, block_size, layout, "DCR", False)


def _between(data, block, layout, mode, to_space):
    if layout not in ("NCHW", "NHWC") or mode not in ("DCR", "CDR"):
        raise InferError(f"layout={layout!r} and mode={mode!r} must be 'NCHW' or 'NHWC', and 'DCR' or 'CDR'")
    places = [layout.index(c) for c in "NCHW"]
    n, c, h, w = (as_expr(data.shape[k]) for k in places)
    few = _divided(c, block * block) if to_space else c
    shape = (n, few, h * block, w * block) if to_space else (
        n, c * block * block, _divided(h, block), _divided(w, block))

    def element(*i):
        b, k, y, x = (i[p] for p in places)
        if to_space:
            spot = y % block * block + x % block
            source = (b, few * spot + k if mode == "DCR" else k * block * block + spot, y // block, x // block)
        else:
            spot = k // few
            source = (b, k % few, y * block + spot // block, x * block + spot % block)
        return data[placed(source, places)]
    return te.compute(placed(shape, places), element, name="depth_to_space" if to_space else "space_to_depth")


# ---------------------------------------------------------------- others of topi.nn

def fifo_buffer(ops, data, buffer, axis):
    """The last of buffer and data along an axis, as many as the buffer has."""
    joined = ops("concat", [buffer, data], axis)
    begin, size = plain(as_expr(data.shape[axis])), plain(as_expr(buffer.shape[axis]))
    return ops("strided_slice", joined, (axis,), (begin,), (begin + size,))


def nll_loss(ops, predictions, targets, weights, reduction, ignore_index):
    """-predictions[n, target, ...] * weights[target], 0 at targets that are ignore_index; their mean by weights, their
    sum, or all."""
    if reduction not in ("mean", "sum", "none"):
        raise InferError(f"reduction={reduction!r} is none of mean, sum, none")
    fits("targets", targets.shape, (*predictions.shape[:1], *predictions.shape[2:]) if predictions.ndim > 1 else ())
    classes = predictions.shape[1 if predictions.ndim > 1 else 0]
    fits("weights", weights.shape, (classes,))

    def weighted(value):
        def element(*i):
            target = targets[i]
            counts = target != const(ignore_index, target.dtype)
            return tir.if_then_else(counts, value(i, held_index(target, classes)), const(0, predictions.dtype))
        return compute(targets.shape, element, "nll_loss", "ax")

    def loss(i, target):
        return (const(0, predictions.dtype) - predictions[(*i[:1], target, *i[1:])]) * weights[target]
    losses, weight_of = weighted(loss), lambda i, target: weights[target]
    if reduction == "none" or reduction == "sum" and not targets.ndim:
        return losses
    parts = [losses] if reduction == "sum" else [losses, weighted(weight_of)]
    sums = [reduced("nll_loss", te.sum, p) if p.ndim else p for p in parts]
    return sums[0] if reduction == "sum" else compute((), lambda: sums[0][()] / sums[1][()], "T_divide", "ax")


def _scale_shift(axes):
    """Input * Scale + Shift, which have the axes named."""
    def function(ops, Input, Scale, Shift):  # noqa: N803
        for what, given in (("Scale", Scale), ("Shift", Shift)):
            fits(what, given.shape, [Input.shape[a] for a in axes])
        return te.compute(Input.shape, lambda *i: Input[i] * Scale[tuple(i[a] for a in axes)] + Shift[
            tuple(i[a] for a in axes)], name="ScaleShift")
    return function


COMPOSITES = {
    **{f"image.{f.__name__}": f for f in (resize1d, resize3d, crop_and_resize, affine_grid, grid_sample)},
    **{f"nn.{f.__name__}": f for f in (space_to_batch_nd, batch_to_space_nd, depth_to_space, space_to_depth,
                                       fifo_buffer, nll_loss, upsampling3d)},
    "nn.deformable_conv2d_nchw": _deformable("NCHW"), "nn.deformable_conv2d_nhwc": _deformable("NHWC"),
    "nn.scale_shift_nhwc": _scale_shift((3,)), "nn.scale_shift_nchwc": _scale_shift((1, 4)),
}
