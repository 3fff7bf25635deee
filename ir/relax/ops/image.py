"""image.resize2d: nearest and linear, over H and W of N, C, H, W, also of blocked tensors (layout "NCHW16c").

Output element i of an axis lies at position (a * i + b) / d of the input, with integers a, b, d: rounding is exact.
"""
from __future__ import annotations

import numpy as np

from ... import tir
from ...expr import cast, const, is_const_int
from ...op import REQUIRED, register
from ..expr import TensorStructInfo
from .common import fail, need_dtype, shape_text, te_shape
from .layout import check_layout, need_layout, through_plain
from .precision import narrow, sum_dtype, widen_array
from .window import over_windows

METHODS = ("nearest_neighbor", "linear")
# (input size, output size) -> (a, b, d)
TRANSFORMS = {
    "half_pixel": lambda size, out: (2 * size, size - out, 2 * out),
    "align_corners": lambda size, out: (size - 1, 0, out - 1) if out > 1 else (0, 0, 1),
    "asymmetric": lambda size, out: (size, 0, out),
}
# n / d rounded, for tir expressions and numpy arrays alike
ROUNDINGS = {
    "floor": lambda n, d: n // d,
    "ceil": lambda n, d: (n + (d - 1)) // d,
    "round_prefer_floor": lambda n, d: (n * 2 + (d - 1)) // (2 * d),
    "round_prefer_ceil": lambda n, d: (n * 2 + d) // (2 * d),
}
ROUNDINGS["round"] = ROUNDINGS["round_prefer_ceil"]


def _infer(call):
    x, size, method = need_layout(call, 0, check_layout(call, "layout")), call.attrs["size"], call.attrs["method"]
    need_dtype(call, x, "float" if method == "linear" else "any")
    for key, known in (("method", METHODS), ("coordinate_transformation_mode", TRANSFORMS),
                       ("rounding_method", ROUNDINGS)):
        if call.attrs[key] not in known:
            fail(call, f"{key}={call.attrs[key]!r} is none of {', '.join(map(repr, known))}")
    if len(size) != 2 or any(s < 1 for s in size):
        fail(call, f"size {tuple(size)} must be 2 integers of at least 1")
    if not all(is_const_int(d) for d in x.shape[2:4]):
        fail(call, f"input {shape_text(x)} must have static spatial dimensions (dims 2 and 3)")
    return TensorStructInfo((*x.shape[:2], *size, *x.shape[4:]), x.dtype)


def _positions(sizes, attrs):
    """(a, b, d) of each axis."""
    return [TRANSFORMS[attrs["coordinate_transformation_mode"]](int(n), out) for n, out in zip(sizes, attrs["size"])]


def _lower(args, attrs, out):
    x, sizes = args[0], args[0].shape[2:4]
    positions, rounding = _positions(sizes, attrs), ROUNDINGS[attrs["rounding_method"]]
    acc = sum_dtype(x.dtype)

    def hold(index, size):
        return tir.max(tir.min(index, size - 1), const(0, index.dtype))

    def nearest(n, c, *at):
        held = (hold(rounding(i * a + b, d), s) for i, s, (a, b, d) in zip(at, sizes, positions))
        return x[(n, c, *held, *at[2:])]

    def linear(n, c, *at):
        (y0, y1, wy), (x0, x1, wx) = (
            (hold((i * a + b) // d, s), hold((i * a + b) // d + 1, s), cast((i * a + b) % d, acc) * const(1 / d, acc))
            for i, s, (a, b, d) in zip(at, sizes, positions))
        top, bottom = (cast(x[(n, c, row, x0, *at[2:])], acc) * (1.0 - wx) + cast(x[(n, c, row, x1, *at[2:])], acc) * wx
                       for row in (y0, y1))
        return top * (1.0 - wy) + bottom * wy

    body = linear if attrs["method"] == "linear" else nearest
    return narrow(over_windows(te_shape(out), 2, body, "resize2d"), out.dtype)


def _evaluate(args, attrs):
    x = widen_array(np.asarray(args[0]))
    for axis, (size, out, (a, b, d)) in enumerate(zip(x.shape[2:], attrs["size"], _positions(x.shape[2:], attrs)), 2):
        at = np.arange(out) * a + b
        if attrs["method"] == "nearest_neighbor":
            x = np.take(x, np.clip(ROUNDINGS[attrs["rounding_method"]](at, d), 0, size - 1), axis)
            continue
        low, weight = at // d, (at % d / d).astype(x.dtype).reshape([-1 if k == axis else 1 for k in range(4)])
        x = (np.take(x, np.clip(low, 0, size - 1), axis) * (1 - weight)
             + np.take(x, np.clip(low + 1, 0, size - 1), axis) * weight)
    return x.astype(np.asarray(args[0]).dtype, copy=False)


register("image.resize2d", _infer, _lower, through_plain(_evaluate, "layout"), "injective", size=REQUIRED,
         method="linear", coordinate_transformation_mode="half_pixel", rounding_method="round", layout="NCHW")
