"""Operators of images: sampling at positions that data holds, regions, deformable convolutions, columns, cropping."""
from __future__ import annotations

import numpy as np

from ..shapes import MOST_DIM, dims_of, product
from .converter import converts
from .ops_nn import add_bias, kernel_of, per_axis
from .ops_tensor import pad_or_crop


@converts("GridSample", 16, 20)
def grid_sample(node):
    """Modes were called bilinear and bicubic before opset 20."""
    names = {"bilinear": "linear", "bicubic": "cubic"}
    mode = node.choice("mode", *(("bilinear", "nearest", "bicubic") if node.opset < 20 else
                                 ("linear", "nearest", "cubic")))
    return node.call("nn.grid_sample", node.input(0), node.input(1), mode=names.get(mode, mode),
                     padding_mode=node.choice("padding_mode", "zeros", "border", "reflection"),
                     align_corners=bool(node.attr("align_corners", 0)))


@converts("AffineGrid", 20)
def affine_grid(node):
    """The positions from -1 to 1 of an image's elements, with a 1, by each matrix of theta."""
    theta, size = node.input(0), node.ints(1, "size")
    rank = len(size) - 2
    if rank not in (2, 3) or dims_of(theta)[1:] != [rank, rank + 1] or min(size) < 1:
        raise node.error(f"size {size} must be [N, C, H, W] or [N, C, D, H, W], and theta [N, {rank}, {rank + 1}]")
    node.check_size([*size[2:], rank + 1], 8)
    corners = bool(node.attr("align_corners", 0))
    axes = [np.linspace(-1, 1, n) if corners and n > 1 else np.zeros(1) if corners else (np.arange(n) * 2 + 1) / n - 1
            for n in size[2:]]
    grid = np.stack([*reversed(np.meshgrid(*axes, indexing="ij")), np.ones(size[2:])], -1)
    points = node.const(grid.reshape(-1, rank + 1), theta.struct_info.dtype)
    result = node.call("matmul", points, node.transpose(theta, (0, 2, 1)))
    return node.reshape(result, [dims_of(theta)[0], *size[2:], rank])


@converts("DeformConv", 19)
def deform_conv(node):
    x, w, offset, bias, mask = (node.input(k) for k in range(5))
    if x.struct_info.ndim != 4 or w.struct_info.ndim != 4:
        raise node.error("takes images and weights of 2 spatial dimensions")
    kernel_of(node, w)
    dims = dims_of(offset)
    groups = node.attr("offset_group", 1)
    if mask is None:
        mask = node.filled([dims[0], groups * product(dims_of(w)[2:]), *dims[2:]], 1, x.struct_info.dtype)
    result = node.call("nn.deform_conv2d", x, w, offset, mask, strides=per_axis(node, "strides", 2),
                       padding=per_axis(node, "pads", 4, 0, 0), dilation=per_axis(node, "dilations", 2),
                       groups=node.attr("group", 1), offset_groups=groups)
    return add_bias(node, result, bias, 2)


# ---------------------------------------------------------------- regions of interest

@converts("RoiAlign", 10, 16)
def roi_align(node):
    """Positions are half an element less from opset 16 on, unless coordinate_transformation_mode says otherwise."""
    half = node.opset >= 16 and node.choice("coordinate_transformation_mode", "half_pixel",
                                            "output_half_pixel") == "half_pixel"
    return node.call("nn.roi_align", *node.inputs, output_size=(node.attr("output_height"), node.attr("output_width")),
                     spatial_scale=float(node.attr("spatial_scale")), sampling_ratio=node.attr("sampling_ratio", 0),
                     mode=node.choice("mode", "avg", "max"), half_pixel=half)


@converts("MaxRoiPool", 1)
def max_roi_pool(node):
    """rois are [R, 5]: the image's number first."""
    x, rois = node.input(0), node.input(1)
    if dims_of(rois)[1:] != [5] or len(node.attr("pooled_shape")) != 2:
        raise node.error("rois must be [R, 5], and pooled_shape two numbers")
    parts = node.call("split", rois, sections=(1, 4), axis=1)
    batch = node.astype(node.reshape(parts[0], [dims_of(rois)[0]]), "int64")
    return node.call("nn.max_roi_pool", x, parts[1], batch, output_size=tuple(node.attr("pooled_shape")),
                     spatial_scale=float(node.attr("spatial_scale")))


# ---------------------------------------------------------------- windows, back into images

@converts("Col2Im", 18)
def col2im(node):
    image, block = tuple(node.ints(1, "image_shape")), tuple(node.ints(2, "block_shape"))
    rank = len(image)
    if max(*image, *block) > MOST_DIM:
        raise node.error(f"image_shape {image} and block_shape {block} must be at most {MOST_DIM}")
    return node.call("nn.col2im", node.input(0), image_shape=image, block_shape=block,
                     strides=per_axis(node, "strides", rank), padding=per_axis(node, "pads", 2 * rank, 0, 0),
                     dilation=per_axis(node, "dilations", rank))


@converts("MaxUnpool", 9, 11)
def max_unpool(node):
    """Each element goes where its index says, in the image that the window's attributes give; zeros surround it where
    output_shape is greater."""
    x, indices, shape = node.input(0), node.input(1), node.ints(2, "output_shape")
    dims = dims_of(x)
    rank = len(dims) - 2
    kernel = per_axis(node, "kernel_shape", rank)
    strides, pads = per_axis(node, "strides", rank), per_axis(node, "pads", 2 * rank, 0, 0)
    if not all(isinstance(d, int) for d in dims):
        raise node.error("takes tensors of static shape; pin the symbolic dimensions with dims")
    image = [(d - 1) * s - pads[k] - pads[rank + k] + n
             for k, (d, s, n) in enumerate(zip(dims[2:], strides, kernel))]
    if min(image) < 1 or shape and len(shape) != len(dims):
        raise node.error(f"makes no image: {image}, output_shape {shape}")
    total = product([*dims[:2], *image])
    places, values = (node.reshape(v, [product(dims)]) for v in (indices, x))
    flat = node.call("scatter_elements", node.filled([total], 0, x.struct_info.dtype), places, values, axis=0)
    result = node.reshape(flat, [*dims[:2], *image])
    if not shape:
        return result
    return pad_or_crop(node, result, [0] * len(dims), [s - d for s, d in zip(shape, [*dims[:2], *image])])


@converts("CenterCropPad", 18)
def center_crop_pad(node):
    """Axes of other sizes, of which the middle stays."""
    x, shape = node.input(0), node.ints(1, "shape")
    dims = dims_of(x)
    axes = node.axes(node.attr("axes", range(len(dims))), len(dims))
    if len(shape) != len(axes) or min(shape) < 1:
        raise node.error(f"shape {shape} must have a size of at least 1 for each of {len(axes)} axes")
    before, after = [0] * len(dims), [0] * len(dims)
    for axis, size in zip(axes, shape):
        if not isinstance(dims[axis], int):
            raise node.error(f"axis {axis} of size {dims[axis]} must be static; pin it with dims")
        more = size - dims[axis]
        before[axis] = more // 2 if more > 0 else -(-more // 2)
        after[axis] = more - before[axis]
    return pad_or_crop(node, x, before, after)
