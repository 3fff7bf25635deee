"""Winograd convolutions whose products are scaled: what those by digits and by pairs have in common.

The tiles of a plane are rows of a product. Those of a row of tiles, of all planes (u, .), share a scale: that of the
image's rows once transformed, B^T d. What the second transform makes of them, V, is within the `bounds` of its columns.
"""
from __future__ import annotations

import numpy as np

from ... import te
from .common import fail, same_dim, shape_text
from .winograd import KERNEL, chosen, matrices


def bounds(tile, kernel=KERNEL):
    """How large d B may be, for each of its columns, where |d| is at most 1."""
    return tuple(float(sum(map(abs, row))) for row in matrices(tile, kernel)[2])


def limits(tile, kernel):
    """The bounds as numbers of the planes (u, v), [planes, 1]."""
    columns = bounds(tile, kernel)
    return np.tile(columns, len(columns))[:, None]


def plane_matrices(u):
    """[planes, input channels, output channels] of a transformed kernel U [OB, planes, IB, i, o]."""
    out_blocks, planes, in_blocks, inner, lanes = u.shape
    return u.transpose(1, 2, 3, 0, 4).reshape(planes, in_blocks * inner, out_blocks * lanes)


def check_planes(call, x, maker, **operands):
    """Refuse operands, by name, of other shapes than these for an image: those that `maker` makes."""
    for name, (given, shape) in operands.items():
        if not all(map(same_dim, given.shape, shape)):
            fail(call, f"{name} {shape_text(given)} must be {shape} for tile={call.attrs['tile']}, "
                       f"out_channels={call.attrs['out_channels']} and image {shape_text(x)}: those of {maker}")


def plane_inverses(scale, inverse_of, attrs, name):
    """The stage [n, ty, u, v] of inverse_of(scale, bound) of scales [n, ty, u]."""
    return te.compute((*scale.shape, scale.shape[-1]), lambda n, ty, u, v: chosen(v, [
        inverse_of(scale[n, ty, u], bound) for bound in bounds(attrs["tile"], attrs["kernel"])]), name=name)
