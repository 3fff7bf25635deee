"""image.resize2d: nearest, linear and cubic, over H and W of N, C, H, W, also of blocked tensors (layout "NCHW16c").

Output element i of an axis lies at position (a * i + b) / d of the input, with integers a, b, d. The ratio of sizes
decides them, or `scales` where those are given: sizes are rounded, and scales need not be their ratio. The nearest
element is the one that onnxruntime finds: it computes positions in float32, where ties are within 1e-6 of a half. Where
that is what integers give, integers are computed, else floats. Cubic interpolation is Keys' (1981), with his a as
cubic_alpha.

The size is an attribute, or where dimensions are symbolic a second argument, a shape.
"""
from __future__ import annotations

from fractions import Fraction
from functools import reduce
from math import gcd
from operator import add
from types import SimpleNamespace

import numpy as np

from ... import tir
from ...expr import IntImm, PrimExpr, as_expr, cast, const, is_const_int
from ...op import register
from ..expr import TensorStructInfo
from .common import fail, need_dtype, shape_argument, te_shape
from .layout import check_layout, need_layout, through_plain
from .precision import narrow, sum_dtype, widen_array
from .window import over_windows

METHODS = ("nearest_neighbor", "linear", "cubic")
FINEST = 1 << 12  # the largest denominator of a scale, which arrives as a float32
CHECKED = 1 << 13  # elements of an axis of any size for which integers and floats are compared


def _at_least_one(value):
    return max(value, 1) if isinstance(value, int) else tir.max(value, 1)


# (input size, output size), or their ratio's, -> (a, b, d)
TRANSFORMS = {
    "half_pixel": lambda size, out: (2 * size, size - out, 2 * out),
    "align_corners": lambda size, out: (size - 1, 0, _at_least_one(out - 1)),  # the only element is the first
    "asymmetric": lambda size, out: (size, 0, out),
}
TRANSFORMS["pytorch_half_pixel"] = TRANSFORMS["half_pixel"]  # but a single element is the first
# n / d rounded, for tir expressions and numpy arrays alike
ROUNDINGS = {
    "floor": lambda n, d: n // d,
    "ceil": lambda n, d: (n + (d - 1)) // d,
    "round_prefer_floor": lambda n, d: (n * 2 + (d - 1)) // (2 * d),
    "round_prefer_ceil": lambda n, d: (n * 2 + d) // (2 * d),
}
ROUNDINGS["round"] = ROUNDINGS["round_prefer_ceil"]
# The same of a position in float32, for tir expressions and numpy arrays alike: floor and ceil are theirs.
NEAR_TIE = 1e-6
FLOAT_ROUNDINGS = {
    "floor": lambda x, ops: ops.floor(x),
    "ceil": lambda x, ops: ops.ceil(x),
    "round_prefer_floor": lambda x, ops: ops.floor(x) + ops.step(x - ops.floor(x) - ops.half >= ops.near),
    "round_prefer_ceil": lambda x, ops: ops.floor(x) + ops.step(x - ops.floor(x) - ops.half > -ops.near),
}
FLOAT_ROUNDINGS["round"] = FLOAT_ROUNDINGS["round_prefer_ceil"]
FLOAT_POSITIONS = {
    "half_pixel": lambda i, size, out, scale, half: (i + half) / scale - half,
    "align_corners": lambda i, size, out, scale, half: i * (size - 1) / (out - 1),
    "asymmetric": lambda i, size, out, scale, half: i / scale,
}
FLOAT_POSITIONS["pytorch_half_pixel"] = FLOAT_POSITIONS["half_pixel"]
ARRAYS = SimpleNamespace(floor=np.floor, ceil=np.ceil, half=np.float32(0.5), near=np.float32(NEAR_TIE),
                         step=lambda test: test.astype(np.float32), number=np.float32)
EXPRESSIONS = SimpleNamespace(floor=tir.floor, ceil=tir.ceil, half=const(0.5, "float32"),
                              near=const(NEAR_TIE, "float32"), step=lambda test: cast(test, "float32"),
                              number=lambda x: cast(x if isinstance(x, PrimExpr) else const(float(x), "float32"),
                                                    "float32"))
# method -> (the first element that is looked at, from the one at or before the position on; their weights)
TAPS = {
    "linear": (0, lambda t, alpha: (1.0 - t, t)),
    "cubic": (-1, lambda t, alpha: (_far(t + 1.0, alpha), _near(t, alpha), _near(1.0 - t, alpha),
                                    _far(2.0 - t, alpha))),
}


def _near(t, alpha):
    """Keys' weight at a distance of at most 1."""
    return ((alpha + 2.0) * t - (alpha + 3.0)) * t * t + 1.0


def _far(t, alpha):
    """Keys' weight at a distance of 1 to 2."""
    return ((alpha * t - 5.0 * alpha) * t + 8.0 * alpha) * t - 4.0 * alpha


def _infer(call):
    x, method = need_layout(call, 0, check_layout(call, "layout")), call.attrs["method"]
    size = shape_argument(call, 1) if len(call.args) > 1 else call.attrs["size"]
    need_dtype(call, x, "float" if method in TAPS else "any")
    for key, known in (("method", METHODS), ("coordinate_transformation_mode", TRANSFORMS),
                       ("rounding_method", ROUNDINGS)):
        if call.attrs[key] not in known:
            fail(call, f"{key}={call.attrs[key]!r} is none of {', '.join(map(repr, known))}")
    if size is None or len(size) != 2 or any(is_const_int(s) and int(s) < 1 for s in map(as_expr, size)):
        fail(call, f"size {size} must be 2 integers of at least 1")
    scales = call.attrs["scales"]
    if len(scales) not in (0, 2) or any(not 1 / FINEST <= s <= FINEST for s in scales):
        fail(call, f"scales {tuple(scales)} must be none, or 2 numbers of 1/{FINEST} to {FINEST}")
    return TensorStructInfo((*x.shape[:2], *size, *x.shape[4:]), x.dtype)


def _sizes(args, attrs):
    """The input's and the output's extents, an int or an expression each."""
    sizes, outs = args[0].shape[2:4], args[1] if len(args) > 1 else attrs["size"]
    return tuple(tuple(int(d) if isinstance(d, (int, IntImm)) else d for d in part) for part in (sizes, outs))


def _positions(sizes, outs, attrs):
    """(a, b, d) of each axis, without a common divisor."""
    mode = attrs["coordinate_transformation_mode"]
    ratios = list(zip(sizes, outs))
    if attrs["scales"] and mode != "align_corners":
        exact = (Fraction(s).limit_denominator(FINEST) for s in attrs["scales"])
        ratios = [(s.denominator, s.numerator) for s in exact]
    positions = []
    for out, ratio in zip(outs, ratios):
        a, b, d = TRANSFORMS[mode](*ratio)
        if mode == "pytorch_half_pixel":
            if isinstance(out, int):
                a, b, d = (0, 0, 1) if out == 1 else (a, b, d)
            else:
                b = tir.Select(out == 1, const(0, out.dtype), as_expr(b).astype(out.dtype))
        common = gcd(a, b, d) if all(isinstance(v, int) for v in (a, b, d)) else 1
        positions.append((a // common, b // common, d // common) if common > 1 else (a, b, d))
    return positions


def _rounding(size, out, attrs):
    """Which rounding finds the nearest elements along an axis. As in TVM, "round" of asymmetric positions takes each
    element as often as its axis becomes longer, where that is a whole number."""
    repeats = (attrs["rounding_method"] == "round" and attrs["coordinate_transformation_mode"] == "asymmetric"
               and not attrs["scales"] and isinstance(size, int) and isinstance(out, int) and out % max(size, 1) == 0)
    return "floor" if repeats else attrs["rounding_method"]


def _nearest_of_float(i, axis, size, out, attrs, ops):
    """The nearest element of output element i along axis 0 or 1, before it is held inside, as a float32."""
    mode, rounding = attrs["coordinate_transformation_mode"], _rounding(size, out, attrs)
    if isinstance(out, int) and out == 1 and mode in ("pytorch_half_pixel", "align_corners"):
        return i * ops.number(0)
    size, last = ops.number(size), ops.number(out if isinstance(out, int) else tir.max(out, 2))
    scale = ops.number(np.float32(attrs["scales"][axis])) if attrs["scales"] else ops.number(out) / size
    at = FLOAT_POSITIONS[mode](i, size, last, scale, ops.half)
    if mode == "pytorch_half_pixel" and not isinstance(out, int):
        at = tir.Select(out == 1, ops.number(0), at)
    return FLOAT_ROUNDINGS[rounding](at, ops)


def _nearest_elements(axis, size, out, attrs):
    """The nearest element of each output element along axis 0 or 1."""
    at = _nearest_of_float(np.arange(out, dtype=np.float32), axis, size, out, attrs, ARRAYS)
    return np.clip(at, 0, size - 1).astype(np.int64)


def _finds_nearest(axis, size, out, attrs, position):
    """Whether integers find the nearest elements along an axis; of symbolic sizes, whether they do for many."""
    if not isinstance(size, int) or not isinstance(out, int):
        size, out = FINEST * CHECKED, CHECKED
    if not all(isinstance(v, int) for v in position):
        return False
    a, b, d = position
    found = ROUNDINGS[_rounding(size, out, attrs)](np.arange(out) * a + b, d)
    return np.array_equal(np.clip(found, 0, size - 1), _nearest_elements(axis, size, out, attrs))


def _lower(args, attrs, out):
    x, (sizes, outs) = args[0], _sizes(args, attrs)
    positions = _positions(sizes, outs, attrs)
    acc, alpha = sum_dtype(x.dtype), attrs["cubic_alpha"]

    def hold(index, size):
        return tir.max(tir.min(index, size - 1), const(0, index.dtype))

    exact = [_finds_nearest(axis, size, out_, attrs, positions[axis]) for axis, (size, out_) in enumerate(
        zip(sizes, outs))] if attrs["method"] == "nearest_neighbor" else ()

    def element(i, axis):
        a, b, d = positions[axis]
        if exact[axis]:
            return ROUNDINGS[_rounding(sizes[axis], outs[axis], attrs)](i * a + b, d)
        return cast(_nearest_of_float(cast(i, "float32"), axis, sizes[axis], outs[axis], attrs, EXPRESSIONS), i.dtype)

    def nearest(n, c, *at):
        held = (hold(element(at[axis], axis), size) for axis, size in enumerate(sizes))
        return x[(n, c, *held, *at[2:])]

    def taps(i, size, position):
        """[(index, weight)] along an axis."""
        (a, b, d), (begin, weights) = position, TAPS[attrs["method"]]
        part = cast((i * a + b) % d, acc)
        part = part * const(1 / d, acc) if isinstance(d, int) else part / cast(d, acc)
        return [(hold((i * a + b) // d + (begin + k), size), w) for k, w in enumerate(weights(part, alpha))]

    def interpolated(n, c, *at):
        rows, columns = map(taps, at[:2], sizes, positions)
        return reduce(add, (reduce(add, (cast(x[(n, c, row, column, *at[2:])], acc) * across
                                         for column, across in columns)) * down for row, down in rows))

    body = nearest if attrs["method"] == "nearest_neighbor" else interpolated
    return narrow(over_windows(te_shape(out), 2, body, "resize2d"), out.dtype)


def _evaluate(args, attrs):
    x, (sizes, outs) = widen_array(np.asarray(args[0])), _sizes(args, attrs)
    for axis, (size, out, (a, b, d)) in enumerate(zip(sizes, outs, _positions(sizes, outs, attrs)), 2):
        at = np.arange(out) * a + b
        if attrs["method"] == "nearest_neighbor":
            x = np.take(x, _nearest_elements(axis - 2, size, out, attrs), axis)
            continue
        begin, weights = TAPS[attrs["method"]]
        part = (at % d / d).astype(x.dtype).reshape([-1 if k == axis else 1 for k in range(4)])
        x = reduce(add, (np.take(x, np.clip(at // d + (begin + k), 0, size - 1), axis) * weight
                         for k, weight in enumerate(weights(part, attrs["cubic_alpha"]))))
    return x.astype(np.asarray(args[0]).dtype, copy=False)


register("image.resize2d", _infer, _lower, through_plain(_evaluate, "layout"), "injective", (1, 2), size=None,
         method="linear", coordinate_transformation_mode="half_pixel", rounding_method="round", layout="NCHW",
         cubic_alpha=-0.75, scales=())
