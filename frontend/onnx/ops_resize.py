"""Resize and Upsample: images of another size."""
from __future__ import annotations

from fractions import Fraction

import numpy as np

from ...ir.relax.ops.image import FINEST
from ..shapes import MOST_DIM, dims_of, same_dims, shape_text, simplify
from .converter import converts
from .operands import check
from .resampling import Axis, resampled
from .run_places import Numbers, numbers, result_dims, spread
from .run_shapes import is_known

MODES = {"nearest": "nearest_neighbor", "linear": "linear", "cubic": "cubic"}
# half_pixel_symmetric centers what is lost where sizes are rounded; else it is half_pixel.
TRANSFORMS = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric")
CROP = "tf_crop_and_resize"  # of a part of the image, the input roi
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


@converts("Upsample", 7)
def upsample_v7(node):
    return _resize(node, list(node.attr("scales")), None, "asymmetric", "floor")


@converts("Upsample", 9)
def upsample(node):
    if not is_known(node.input(1)):
        return _by_run(node, node.input(1), None, None, "asymmetric", lambda shrinks: "floor")
    return _resize(node, _floats(node, 1, "scales"), None, "asymmetric", "floor")


@converts("Resize", 10)
def resize_v10(node):
    """Rounds to the element before where it enlarges, and to the one behind where it shrinks, as runtimes do."""
    def rounding(shrinks):
        if len(shrinks) > 1 and node.attr("mode") == "nearest":
            raise node.error("scales that enlarge one axis and shrink another are not supported with mode 'nearest' in "
                             "opset 10; convert the model to opset 11")
        return "ceil" if True in shrinks else "floor"

    if not is_known(node.input(1)):
        return _by_run(node, node.input(1), None, None, "asymmetric", rounding)
    scales = _floats(node, 1, "scales")
    return _resize(node, scales, None, "asymmetric", rounding({s < 1 for s in scales or () if s != 1}))


@converts("Resize", 11, 13, 18, 19)
def resize(node):
    """Scales or sizes, of all axes, or from opset 18 on of `axes`."""
    transform = node.choice("coordinate_transformation_mode", *TRANSFORMS, CROP)
    policy = node.choice("keep_aspect_ratio_policy", "stretch", "not_larger", "not_smaller")
    rounding, roi = node.choice("nearest_mode", *ROUNDINGS), node.input(1) if transform == CROP else None
    given = [v for v in (node.input(2), roi, node.input(3) if policy != "stretch" else None) if not is_known(v)]
    if given and (is_known(node.input(3)) or policy != "stretch"):
        return _by_run(node, node.input(2), node.input(3), roi, transform, lambda shrinks: rounding, policy)
    scales, sizes = _floats(node, 2, "scales"), node.dims(3, "sizes")
    special = any(node.attr(name, 0) for name in ("exclude_outside", "antialias")) and node.attr("mode") != "nearest"
    special = special or transform == CROP or policy != "stretch" and not scales
    if special or _is_general(node, scales, sizes, transform):
        return _resample(node, scales, sizes, transform, rounding, policy)
    return _resize(node, scales, sizes, transform, rounding)


def _by_run(node, scales, sizes, roi, transform, rounding, policy="stretch"):
    """With scales, a region, or sizes that keep the ratio, that a run decides; the model declares the result's shape.
    rounding: function ({whether an axis shrinks, of those that change}) -> how places are rounded."""
    x = node.input(0)
    dims = dims_of(x)
    axes = list(node.axes(node.attr("axes", range(len(dims))), len(dims)))
    scales, sizes = (None if v is None or dims_of(v) == [0] else v for v in (scales, sizes))
    if (scales is None) == (sizes is None) or dims_of(sizes if scales is None else scales) != [len(axes)]:
        raise node.error(f"needs either scales or sizes, one for each of {len(axes)} axes")
    if not all(isinstance(d, int) and d > 0 for d in dims):
        raise node.error("scales or sizes are decided by a run, and dimensions are symbolic; pin them with dims")
    own = np.array([dims[a] for a in axes])
    if scales is not None:
        ratios = numbers(node, scales, "float32")
        exact = ratios * own
        outs = exact.call("floor")
        if transform == "align_corners":  # of other sizes the standard's tests and runtimes differ
            check(node, (outs == exact).all().value)
        ratios = ratios.astype(np.float64)
    else:
        ratios = numbers(node, sizes).clip(0, MOST_DIM).astype(np.float64) / own
        outs = ratios * own
        if policy != "stretch":
            common = ratios.call("min" if policy == "not_larger" else "max", axis=(0,), keepdims=True)
            ratios = common + np.zeros(len(axes))
            outs = ratios * own
        outs = (outs + 0.5).call("floor")
    outs = ((outs >= 1) & (outs <= 1 << 30)).where(outs, 0).astype(np.int64)  # also of what is no number
    all_axes = Numbers(node, node.const(axes, "int64"))
    check(node, (outs > 0).all().value)
    outs = result_dims(node, spread(node, [outs], all_axes, len(dims), [dims])[0], "the extent of its result")
    if not all(isinstance(n, int) for n in outs):
        raise node.error("scales or sizes are decided by a run, which needs a result of a declared static shape")
    region = None if roi is None else numbers(node, roi, "float64")
    if region is not None:
        if dims_of(region.value) != [2 * len(axes)]:
            raise node.error(f"roi must hold the start and the end of each of {len(axes)} axes")
        check(node, (abs(region) <= 1 << 20).all().value)
    if min(outs) < 1:
        raise node.error(f"nothing would be left of {shape_text(dims)}: {shape_text(outs)} is declared")
    for value, sample in ((scales, [_scale(dims[a], outs[a]) for a in axes]), (sizes, [outs[a] for a in axes]),
                          (roi, [0.0] * len(axes) + [1.0] * len(axes))):
        for name, given in zip(node.proto.input[1:], node.inputs[1:]):
            if value is not None and given is value:
                node.scope.note_sample(name, sample)
    rows = [Axis(a, dims[a], outs[a], ratios.at(k),
                 None if region is None else (region.at(k), region.at(k + len(axes)))) for k, a in enumerate(axes)]
    shrinks = {r.out < r.size for r in rows if r.out != r.size}
    return resampled(node, x, rows, transform, rounding(shrinks), node.attr("extrapolation_value", 0.0))


def _scale(size, out):
    """A float32 scale that makes `out` of `size`."""
    scale = np.float32(out / size)
    return float(scale if np.floor(np.float32(size) * scale) == out else np.nextafter(scale, np.float32(np.inf)))


def _is_general(node, scales, sizes, transform):
    """Whether other axes change than one or two last ones of an image, or sizes are none that scales give exactly."""
    dims = dims_of(node.input(0))
    given = _by_axis(node, dims, scales, sizes)
    changed = [a for a, value in given.items() if not (value == 1 if scales else same_dims([value], [dims[a]]))]
    if not changed:
        return False
    if len(dims) not in (3, 4) or min(changed) < 2:
        return True
    inexact = scales and any(isinstance(dims[a], int) and float(np.float32(dims[a]) * np.float32(given[a])) % 1
                             for a in changed)
    return bool(transform == "half_pixel_symmetric" and inexact)


def _resample(node, scales, sizes, transform, rounding, policy):
    """Axis after axis, see resampling.py."""
    x = node.input(0)
    dims = dims_of(x)
    given = _by_axis(node, dims, scales, sizes)
    roi = _floats(node, 1, "roi") if transform == CROP else None
    if transform == CROP and (roi is None or len(roi) != 2 * len(given)):
        raise node.error(f"roi must hold the start and the end of each of {len(given)} axes")
    axes = list(node.axes(node.attr("axes", range(len(dims))), len(dims)))
    changed = [a for a, v in given.items()
               if not (v == 1 if scales else same_dims([v], [dims[a]])) or roi and _part(roi, axes.index(a)) != (0, 1)]
    if not all(isinstance(v, int) for a in changed for v in (dims[a], *([] if scales else [given[a]]))):
        raise node.error("needs static sizes of the axes that change; pin them with dims")
    ratios = {a: given[a] if scales else given[a] / dims[a] for a in (given if policy != "stretch" else changed)}
    if policy != "stretch" and not scales:
        common = (min if policy == "not_larger" else max)(ratios.values())
        changed, ratios = list(given), dict.fromkeys(given, common)
        outs = {a: int(common * dims[a] + 0.5) for a in given}
    else:
        outs = {a: int(np.floor(np.float32(dims[a]) * np.float32(given[a]))) if scales else given[a] for a in changed}
    if min(outs.values(), default=1) < 1:
        raise node.error(f"nothing would be left of {shape_text(dims)}: {'scales' if scales else 'sizes'} "
                         f"{tuple(given.values())}")
    node.check_size([outs.get(a, d) for a, d in enumerate(dims)], 0)
    rows = [Axis(a, dims[a], outs[a], ratios[a], _part(roi, axes.index(a)) if roi else None) for a in changed]
    rows = [r for r in rows if r.size != r.out or r.roi or r.scale != 1]
    return resampled(node, x, rows, transform, rounding, node.attr("extrapolation_value", 0.0))


def _part(roi, k):
    return roi[k], roi[len(roi) // 2 + k]


def _floats(node, index, what):
    """An input of floats as a list; None where it is absent, or empty, which stands for that."""
    values = node.constant(index, what)
    return None if values is None or not values.size else [float(v) for v in values.reshape(-1)]


def _resize(node, scales, sizes, transform, rounding):
    x = node.input(0)
    dims = dims_of(x)
    given = _by_axis(node, dims, scales, sizes)
    changed = [a for a, value in given.items() if not (value == 1 if scales else same_dims([value], [dims[a]]))]
    if not changed:
        return x
    if len(dims) not in (3, 4) or min(changed) < 2:
        raise node.error("resizes images of 1 or 2 spatial dimensions, batch and channels before them as they are")
    spatial, wanted = dims[2:], [given.get(a, 1 if scales else d) for a, d in enumerate(dims)][2:]
    factors = wanted if scales else []
    size = [_scaled(node, d, f) for d, f in zip(spatial, factors)] if scales else wanted
    if any(isinstance(s, int) and s < 1 for s in size):
        raise node.error(f"nothing would be left of {tuple(spatial)}: "
                         + (f"scales {tuple(factors)}" if scales else f"sizes {tuple(size)}"))
    if same_dims(size, spatial):  # whatever the scales: so runtimes have it
        return x
    static = all(isinstance(d, int) for d in (*spatial, *size))
    if transform == "half_pixel_symmetric":
        if not all(np.float32(d) * np.float32(f) == s if isinstance(d, int) else float(f).is_integer()
                   for d, f, s in zip(spatial, factors, size)):
            raise node.error("coordinate_transformation_mode 'half_pixel_symmetric' with scales that give no whole "
                             "sizes is not supported; use sizes")
        transform = "half_pixel"
    attrs = dict(method=MODES[node.choice("mode", *MODES)], coordinate_transformation_mode=transform,
                 rounding_method=rounding, cubic_alpha=node.attr("cubic_coeff_a", -0.75))
    if len(spatial) == 2:
        return _resized(node, x, size, factors, static, attrs)
    image = node.reshape(x, [*dims[:2], 1, *spatial])
    image = _resized(node, image, [1, *size], [1.0, *factors] if factors else [], static, attrs)
    return node.reshape(image, [*dims[:2], *size])


def _scaled(node, extent, scale):
    """An extent that is scaled, in float32, as runtimes do: 3.3 is less than 33 tenths there, and ten times it are
    33."""
    if isinstance(extent, int):
        return int(np.floor(np.float32(extent) * np.float32(scale)))
    exact = Fraction(float(np.float32(scale)))
    if exact.denominator > FINEST:
        raise node.error(f"scales the symbolic dimension {extent} by {scale}, which is no fraction with a small "
                         "denominator; pin it with dims")
    return simplify(extent * exact.numerator // exact.denominator)


def _resized(node, x, size, scales, static, attrs):
    if static:
        return node.call("image.resize2d", x, size=tuple(size), scales=tuple(scales), **attrs)
    return node.call("image.resize2d", x, list(size), scales=tuple(scales), **attrs)


def _by_axis(node, dims, scales, sizes):
    """{axis: its scale, or its size}."""
    if (scales is None) == (not sizes):
        raise node.error("needs either scales or sizes")
    kind, values = ("scales", scales) if scales else ("sizes", sizes)
    axes = node.axes(node.attr("axes", range(len(dims))), len(dims))
    if len(values) != len(axes):
        raise node.error(f"has {len(values)} {kind} for {len(axes)} axes")
    if scales and not all(0 < s <= MOST_DIM for s in scales):
        raise node.error(f"scales {tuple(scales)} must be positive, and at most {MOST_DIM}")
    return dict(sorted(zip(axes, values)))
