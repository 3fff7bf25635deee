"""Resize and Upsample: images of another size."""
from __future__ import annotations

import numpy as np

from .converter import converts
from .shapes import dims_of

MODES = {"nearest": "nearest_neighbor", "linear": "linear", "cubic": "cubic"}
# half_pixel_symmetric centers what is lost where sizes are rounded; else it is half_pixel.
TRANSFORMS = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric")
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


@converts("Upsample", 7)
def upsample_v7(node):
    return _resize(node, node.attr("scales"), None, "asymmetric", "floor")


@converts("Upsample", 9)
@converts("Resize", 10)
def upsample_v9(node):
    return _resize(node, _floats(node, 1, "scales"), None, "asymmetric", "floor")


@converts("Resize", 11, 13, 18, 19)
def resize(node):
    """Scales, or from the same opset on sizes, of all axes; from opset 18 on of `axes`."""
    transform = node.choice("coordinate_transformation_mode", *TRANSFORMS)
    for name, usual in (("exclude_outside", 0), ("antialias", 0), ("keep_aspect_ratio_policy", "stretch")):
        if node.attr(name, usual) != usual:
            raise node.error(f"attribute {name} is {node.attr(name)!r}; only {usual!r} is supported")
    return _resize(node, _floats(node, 2, "scales"), node.ints(3, "sizes"), transform,
                   node.choice("nearest_mode", *ROUNDINGS))


def _floats(node, index, what):
    """An input of floats as a list; None where it is absent, or empty, which stands for that."""
    values = node.constant(index, what)
    return None if values is None or not values.size else [float(v) for v in values.reshape(-1)]


def _resize(node, scales, sizes, transform, rounding):
    x = node.input(0)
    dims = dims_of(x)
    if (scales is None) == (not sizes):
        raise node.error("needs either scales or sizes")
    axes = node.axes(node.attr("axes", range(len(dims))), len(dims))
    given = scales or sizes
    if len(given) != len(axes):
        raise node.error(f"has {len(given)} {'scales' if scales else 'sizes'} for {len(axes)} axes")
    given = dict(zip(axes, given))
    same = [all(a not in given or given[a] == (1 if scales else dims[a]) for a in range(k)) for k in (2, len(dims))]
    if same[1]:
        return x
    if len(dims) not in (3, 4) or not same[0]:
        raise node.error("resizes images of 1 or 2 spatial dimensions, batch and channels before them as they are")
    spatial = dims[2:]
    if not all(isinstance(d, int) for d in spatial):
        raise node.error("needs static spatial dimensions; pin them with dims")
    factors = [given.get(a, 1) for a in range(2, len(dims))] if scales else []
    if any(not f > 0 for f in factors) or any(s < 1 for s in sizes or ()):
        raise node.error(f"{'scales' if scales else 'sizes'} must be positive")
    # in float32, as runtimes do: 3.3 is less than 33 tenths there, and ten times it are 33
    exact = [np.float32(d) * np.float32(f) for d, f in zip(spatial, factors)]
    size = [int(np.floor(e)) for e in exact] if scales else [given.get(a, d) for a, d in enumerate(spatial, 2)]
    if min(size) < 1:
        raise node.error(f"nothing would be left: scales {tuple(factors)} of {tuple(spatial)}")
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
