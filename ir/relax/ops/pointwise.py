"""Convolutions of 1x1 as products: what those by digits and by pairs have in common. Rows are points of a blocked image
[N, IB, H, W, 16], columns those of the kernel as a matrix."""
from __future__ import annotations

import numpy as np

from ..expr import TensorStructInfo
from .common import fail, shape_text
from .winograd import whole_blocks


def kernel_matrix(w):
    """[input channels, output channels] of a packed kernel [OB, IB, 1, 1, i, o] of nn.conv2d."""
    w = whole_blocks(w)
    return w[:, :, 0, 0].transpose(1, 2, 0, 3).reshape(w.shape[1] * w.shape[4], -1)


def infer_points(call, x, columns, scales):
    """The TensorStructInfo of a product of so many columns, which have these scales, with the points that strides
    leave."""
    lanes, strides = x.shape[4].value, call.attrs["strides"]
    if columns % lanes:
        fail(call, f"scales {shape_text(scales)} must be of whole blocks of {lanes} channels")
    if len(strides) != 2 or min(strides) < 1:
        fail(call, f"strides {tuple(strides)} must be 2 integers of at least 1, for rows and columns")
    sizes = (-(-d.value // s) for d, s in zip(x.shape[2:4], strides))
    return TensorStructInfo((x.shape[0], columns // lanes, *sizes, lanes), "float32")


def points_of(x, strides):
    """The reference's rows [N, H, W, channels] of an image."""
    down, right = strides
    x = x[:, :, ::down, ::right].transpose(0, 2, 3, 1, 4)
    return x.reshape(*x.shape[:3], -1)


def image_of(rows, lanes):
    """The blocked image of points [N, H, W, channels]."""
    return np.ascontiguousarray(rows.reshape(*rows.shape[:3], -1, lanes).transpose(0, 3, 1, 2, 4))
