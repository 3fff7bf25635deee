"""Resize in general: any axes, one after the other, each by places and weights that are computed here, or by the run
where it decides scales or regions.

What images of one or two spatial axes need most, image.resize2d does in one kernel (ops_resize.py).
"""
from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from ...ir.relax.ops.image import ARRAYS, FLOAT_POSITIONS, FLOAT_ROUNDINGS
from .run_places import Numbers

TENSORS = SimpleNamespace(floor=lambda x: x.call("floor"), ceil=lambda x: x.call("ceil"), half=ARRAYS.half,
                          near=ARRAYS.near, step=lambda test: test.astype(np.float32))


@dataclass(frozen=True)
class Axis:
    """One axis that changes. scale: as the model gives it, or the ratio of sizes; roi: its (start, end), of
    tf_crop_and_resize, else None. These are floats, or float64 Numbers that the run decides."""

    axis: int
    size: int
    out: int
    scale: float
    roi: tuple = None


def positions(axis, transform):
    """Where each element of the result lies in the input: a float64 array, or Numbers, held near to the input."""
    at = _positions(axis, transform)
    return at.clip(-4.0, axis.size + 4.0) if isinstance(at, Numbers) else at


def _positions(axis, transform):
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
        return i * 0
    shift = size / 2 * (1 - out / (scale * size)) if transform == "half_pixel_symmetric" else 0
    return shift + (i + 0.5) / scale - 0.5


def nearest(axis, transform, rounding):
    """The element that is nearest to each position, in float32 where runtimes compute so."""
    if transform in FLOAT_POSITIONS and axis.out > 1:
        numbers = (v.astype(np.float32) if isinstance(v, Numbers) else np.float32(v)
                   for v in (axis.size, axis.out, axis.scale))
        at = FLOAT_POSITIONS[transform](np.arange(axis.out, dtype=np.float32), *numbers, np.float32(0.5))
    else:
        at = positions(axis, transform).astype(np.float32)
    ops = TENSORS if isinstance(at, Numbers) else ARRAYS
    return FLOAT_ROUNDINGS[rounding](at, ops).clip(0, axis.size - 1).astype(np.int64)


def _where(test, yes, no):
    return test.where(yes, no) if isinstance(test, Numbers) else np.where(test, yes, no)


def _triangle(x, alpha):
    return (1 - abs(x)).clip(0, 1)


def _cubic(x, alpha):
    """Keys' kernel."""
    x = abs(x)
    near = ((alpha + 2) * x - (alpha + 3)) * x * x + 1
    far = ((alpha * x - 5 * alpha) * x + 8 * alpha) * x - 4 * alpha
    return _where(x <= 1, near, _where(x < 2, far, 0))


KERNELS = {"linear": (1, _triangle), "cubic": (2, _cubic)}  # method -> (radius, kernel)


def taps(axis, transform, method, alpha, antialias, exclude_outside):
    """(places, weights), [elements of the result, terms]: of the input's elements around each position."""
    at, (radius, kernel) = positions(axis, transform), KERNELS[method]
    narrow, least = 1.0, 1.0
    if antialias and isinstance(axis.scale, Numbers):  # which is at least what gives the size, rounded
        narrow, least = axis.scale.call("minimum", 1.0), min((axis.out - 0.5) / axis.size, 1.0)
    elif antialias:
        narrow = least = min(axis.scale, 1.0)
    reach = int(np.ceil(radius / least))
    first = at.call("floor") if isinstance(at, Numbers) else np.floor(at)
    places = first.reshape(axis.out, 1) + np.arange(1 - reach, reach + 1)
    weights = kernel((places - at.reshape(axis.out, 1)) * narrow, alpha)
    if exclude_outside:
        weights = _where((places >= 0) & (places < axis.size), weights, 0)
    if antialias or exclude_outside:
        total = weights.sum(axis=1, keepdims=True)
        weights = weights / _where(total == 0, 1, total)
    if isinstance(weights, Numbers):
        return (places.clip(0, axis.size - 1) if isinstance(places, Numbers) else np.clip(places, 0, axis.size - 1)
                ).astype(np.int32), weights
    used = np.flatnonzero(np.abs(weights).max(axis=0) > 0)
    used = slice(used[0], used[-1] + 1) if len(used) else slice(0, 1)
    return np.clip(places, 0, axis.size - 1)[:, used].astype(np.int32), weights[:, used]


def resampled(node, x, axes, transform, rounding, extrapolation):
    """x with each Axis of `axes` at its new size."""
    method, dtype = node.attr("mode", "nearest"), x.struct_info.dtype
    outside = []
    for axis in axes:
        if method == "nearest":
            x = node.call("take", x, _tensor(node, nearest(axis, transform, rounding), "int64"), axis=axis.axis)
        else:
            places, weights = taps(axis, transform, method, node.attr("cubic_coeff_a", -0.75),
                                   node.attr("antialias", 0), node.attr("exclude_outside", 0))
            wide = dtype if dtype.bits > 16 else "float32"
            x = node.call("resample", x, _tensor(node, places, "int32"), _tensor(node, weights, wide), axis=axis.axis)
        if transform == "tf_crop_and_resize":
            at = positions(axis, transform)
            mask = (at < 0) | (at > axis.size - 1)
            if isinstance(mask, Numbers) or mask.any():
                outside.append(mask.reshape(*(axis.out if k == axis.axis else 1 for k in range(x.struct_info.ndim))))
    for mask in outside:
        x = node.call("where", _tensor(node, mask, "bool"), node.const(extrapolation, dtype), x)
    return x


def _tensor(node, value, dtype):
    return node.astype(value.value, dtype) if isinstance(value, Numbers) else node.const(value, dtype)
