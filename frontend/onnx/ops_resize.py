"""Resize and Upsample: images of another size."""
from __future__ import annotations

import numpy as np

from ..shapes import MOST_DIM, dims_of, same_dims
from .converter import converts

MODES = {"nearest": "nearest_neighbor", "linear": "linear", "cubic": "cubic"}
# half_pixel_symmetric centers what is lost where sizes are rounded; else it is half_pixel.
TRANSFORMS = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric")
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


@converts("Upsample", 7)
def upsample_v7(node):
    return _resize(node, list(node.attr("scales")), None, "asymmetric", "floor")


@converts("Upsample", 9)
def upsample(node):
    return _resize(node, _floats(node, 1, "scales"), None, "asymmetric", "floor")


@converts("Resize", 10)
def resize_v10(node):
    """Rounds to the element before where it enlarges, and to the one behind where it shrinks, as runtimes do."""
    scales = _floats(node, 1, "scales")
    shrinks = {s < 1 for s in scales or () if s != 1}
    if len(shrinks) > 1 and node.attr("mode") == "nearest":
        raise node.error("scales that enlarge one axis and shrink another are not supported with mode 'nearest' in "
                         "opset 10; convert the model to opset 11")
    return _resize(node, scales, None, "asymmetric", "ceil" if True in shrinks else "floor")


@converts("Resize", 11, 13, 18, 19)
def resize(node):
    """Scales or sizes, of all axes, or from opset 18 on of `axes`."""
    transform = node.choice("coordinate_transformation_mode", *TRANSFORMS)
    for name, usual in (("exclude_outside", 0), ("antialias", 0), ("keep_aspect_ratio_policy", "stretch")):
        if node.attr(name, usual) != usual:
            raise node.error(f"attribute {name} is {node.attr(name)!r}; only {usual!r} is supported")
    return _resize(node, _floats(node, 2, "scales"), node.dims(3, "sizes"), transform,
                   node.choice("nearest_mode", *ROUNDINGS))


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
    if not all(isinstance(d, int) for d in (*spatial, *([] if scales else wanted))):
        raise node.error("needs static spatial dimensions; pin them with dims")
    factors = wanted if scales else []
    # in float32, as runtimes do: 3.3 is less than 33 tenths there, and ten times it are 33
    exact = [np.float32(d) * np.float32(f) for d, f in zip(spatial, factors)]
    size = [int(np.floor(e)) for e in exact] if scales else wanted
    if min(size) < 1:
        raise node.error(f"nothing would be left of {tuple(spatial)}: "
                         + (f"scales {tuple(factors)}" if scales else f"sizes {tuple(size)}"))
    if list(size) == list(spatial):  # whatever the scales: so runtimes have it
        return x
    if transform == "half_pixel_symmetric":
        if any(e != s for e, s in zip(exact, size)):
            raise node.error("coordinate_transformation_mode 'half_pixel_symmetric' with scales that give no whole "
                             "sizes is not supported; use sizes")
        transform = "half_pixel"
    attrs = dict(method=MODES[node.choice("mode", *MODES)], coordinate_transformation_mode=transform,
                 rounding_method=rounding, cubic_alpha=node.attr("cubic_coeff_a", -0.75))
    if len(spatial) == 2:
        return node.call("image.resize2d", x, size=tuple(size), scales=tuple(factors), **attrs)
    image = node.call("image.resize2d", node.reshape(x, [*dims[:2], 1, *spatial]), size=(1, *size),
                      scales=(1.0, *factors) if factors else (), **attrs)
    return node.reshape(image, [*dims[:2], *size])


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
