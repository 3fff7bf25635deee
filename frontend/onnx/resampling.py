"""Resize in general: any axes, one after the other, each by constant places and weights that are computed here.

What images of one or two spatial axes need most, image.resize2d does in one kernel (ops_resize.py).
"""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...ir.relax.ops.image import ARRAYS, FLOAT_POSITIONS, FLOAT_ROUNDINGS


@dataclass(frozen=True)
class Axis:
    """One axis that changes. scale: as the model gives it, or the ratio of sizes; roi: its (start, end), of
    tf_crop_and_resize, else None."""

    axis: int
    size: int
    out: int
    scale: float
    roi: tuple = None


def positions(axis, transform):
    """Where each element of the result lies in the input, as float64."""
    i, size, out, scale = np.arange(axis.out, dtype=np.float64), axis.size, axis.out, axis.scale
    if transform == "align_corners":  # of the rounded size, as runtimes and PyTorch have it
        return i * 0 if out == 1 else i * (size - 1) / (out - 1)
    if transform == "asymmetric":
        return i / scale
    if transform == "tf_crop_and_resize":
        start, end = axis.roi
        middle = 0.5 * (end - start) * (size - 1) if out == 1 else i * (end - start) * (size - 1) / (out - 1)
        return start * (size - 1) + middle + 0 * i
    if transform == "pytorch_half_pixel" and out == 1:
        return i * 0 - 0.5
    shift = size / 2 * (1 - out / (scale * size)) if transform == "half_pixel_symmetric" else 0
    return shift + (i + 0.5) / scale - 0.5


def nearest(axis, transform, rounding):
    """The element that is nearest to each position, in float32 where runtimes compute so."""
    if transform in FLOAT_POSITIONS and axis.out > 1:
        numbers = (np.float32(v) for v in (axis.size, axis.out, axis.scale))
        at = FLOAT_POSITIONS[transform](np.arange(axis.out, dtype=np.float32), *numbers, np.float32(0.5))
    else:
        at = positions(axis, transform).astype(np.float32)
    return np.clip(FLOAT_ROUNDINGS[rounding](at, ARRAYS), 0, axis.size - 1).astype(np.int64)


def _triangle(x, alpha):
    return np.clip(1 - np.abs(x), 0, 1)


def _cubic(x, alpha):
    """Keys' kernel."""
    x = np.abs(x)
    near = ((alpha + 2) * x - (alpha + 3)) * x * x + 1
    far = ((alpha * x - 5 * alpha) * x + 8 * alpha) * x - 4 * alpha
    return np.where(x <= 1, near, np.where(x < 2, far, 0))


KERNELS = {"linear": (1, _triangle), "cubic": (2, _cubic)}  # method -> (radius, kernel)


def taps(axis, transform, method, alpha, antialias, exclude_outside):
    """(places, weights), [elements of the result, terms]: of the input's elements around each position."""
    at, (radius, kernel) = positions(axis, transform), KERNELS[method]
    narrow = min(axis.scale, 1.0) if antialias else 1.0
    reach = int(np.ceil(radius / narrow))
    places = np.floor(at).astype(np.int64)[:, None] + np.arange(1 - reach, reach + 1)
    weights = kernel((places - at[:, None]) * narrow, alpha)
    if exclude_outside:
        weights = np.where((places >= 0) & (places < axis.size), weights, 0)
    if antialias or exclude_outside:
        total = weights.sum(axis=1, keepdims=True)
        weights = weights / np.where(total == 0, 1, total)
    used = np.flatnonzero(np.abs(weights).max(axis=0) > 0)
    used = slice(used[0], used[-1] + 1) if len(used) else slice(0, 1)
    return np.clip(places, 0, axis.size - 1)[:, used].astype(np.int32), weights[:, used]


def resampled(node, x, axes, transform, rounding, extrapolation):
    """x with each Axis of `axes` at its new size."""
    method, dtype = node.attr("mode", "nearest"), x.struct_info.dtype
    outside = []
    for axis in axes:
        if method == "nearest":
            x = node.call("take", x, node.const(nearest(axis, transform, rounding), "int64"), axis=axis.axis)
        else:
            places, weights = taps(axis, transform, method, node.attr("cubic_coeff_a", -0.75),
                                   node.attr("antialias", 0), node.attr("exclude_outside", 0))
            wide = dtype if dtype.bits > 16 else "float32"
            x = node.call("resample", x, node.const(places, "int32"), node.const(weights, wide), axis=axis.axis)
        at = positions(axis, transform)
        if transform == "tf_crop_and_resize" and ((at < 0) | (at > axis.size - 1)).any():
            shape = [-1 if k == axis.axis else 1 for k in range(x.struct_info.ndim)]
            outside.append(((at < 0) | (at > axis.size - 1)).reshape(shape))
    for mask in outside:
        x = node.call("where", node.const(mask, "bool"), node.const(extrapolation, dtype), x)
    return x
