"""Transposed convolutions: attributes resolved into padding, one and three spatial dimensions by those of two."""
from __future__ import annotations

from ...ir.expr import PrimExpr
from ..shapes import MOST_DIM, dims_of
from .converter import converts
from .ops_nn import add_bias, kernel_of, lift, per_axis, spatial_rank
from .ops_tensor import pad_or_crop


@converts("ConvTranspose")
def conv_transpose(node):
    rank = spatial_rank(node, 3)
    x, w = node.input(0), node.input(1)
    kernel = kernel_of(node, w)
    strides, dilations, pads, extra = _transpose_window(node, kernel, dims_of(x)[2:])
    if rank == 3:
        return add_bias(node, _spread_convolution(node, x, w, strides, dilations, pads, extra), node.input(2), rank)
    if rank == 1:
        x, w = lift(node, x), lift(node, w)
        strides, dilations, extra, pads = (1, *strides), (1, *dilations), (0, *extra), (0, pads[0], 0, pads[1])
    result = node.call("nn.conv2d_transpose", x, w, strides=strides, padding=pads, output_padding=extra,
                       dilation=dilations, groups=node.attr("group", 1))
    if rank == 1:
        result = node.call("squeeze", result, axis=(2,))
    return add_bias(node, result, node.input(2), rank)


def _transpose_window(node, kernel, spatial):
    """(strides, dilations, pads, output_padding); output_shape and auto_pad are resolved into pads."""
    rank = len(kernel)
    strides, dilations = per_axis(node, "strides", rank), per_axis(node, "dilations", rank)
    extra = per_axis(node, "output_padding", rank, 0, 0)
    mode = node.choice("auto_pad", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")
    wanted = node.attr("output_shape")
    if wanted is None and mode in ("NOTSET", "VALID"):
        pads = per_axis(node, "pads", 2 * rank, 0, -MOST_DIM) if mode == "NOTSET" else (0,) * (2 * rank)
        return strides, dilations, pads, extra
    if any(isinstance(s, PrimExpr) for s in spatial):
        raise node.error("output_shape and auto_pad need static spatial dimensions; pin them with dims")
    wanted = per_axis(node, "output_shape", len(wanted))[-rank:] if wanted else [
        s * t for s, t in zip(spatial, strides)]
    totals = [t * (s - 1) + e + (k - 1) * d + 1 - o
              for t, s, e, k, d, o in zip(strides, spatial, extra, kernel, dilations, wanted)]
    extra = tuple(e - min(t, 0) for e, t in zip(extra, totals))
    totals = [max(t, 0) for t in totals]
    less, more = [t // 2 for t in totals], [t - t // 2 for t in totals]
    return strides, dilations, tuple(less + more if mode == "SAME_UPPER" else more + less), extra


def _spread_convolution(node, x, w, strides, dilations, pads, extra):
    """Any number of spatial dimensions: strides - 1 zeros between the elements of x, and a convolution with the
    mirrored kernel over that. It multiplies zeros, which phases of the strides would not."""
    group, spatial, kernel = node.attr("group", 1), dims_of(x)[2:], dims_of(w)[2:]
    inputs, outputs = dims_of(w)[:2]
    if group < 1 or not all(isinstance(c, int) for c in (inputs, outputs)) or inputs % group:
        raise node.error(f"attribute group {group} must divide the {inputs} input channels, which must be static")
    lead, rank = dims_of(x)[:2], len(spatial)
    if max(strides) > 1:
        x = node.reshape(x, [*lead, *(d for size in spatial for d in (size, 1))])
        gaps = [0, 0, *(g for s in strides for g in (0, s - 1))]
        x = node.bind(pad_or_crop(node, x, [0] * len(gaps), gaps))
        x = node.reshape(x, [*lead, *(n * s for n, s in zip(spatial, strides))])
    reaches = [(k - 1) * d for k, d in zip(kernel, dilations)]
    before = [r - p for r, p in zip(reaches, pads)]
    after = [r - p + e - (s - 1) for r, p, e, s in zip(reaches, pads[rank:], extra, strides)]
    x = pad_or_crop(node, node.bind(x), [0, 0, *before], [0, 0, *after])
    w = node.call("strided_slice", w, axes=tuple(range(2, 2 + rank)), begin=tuple(k - 1 for k in kernel),
                  end=(-1,) * rank, strides=(-1,) * rank)
    w = node.reshape(w, [group, inputs // group, outputs, *kernel])
    w = node.transpose(node.bind(w), (0, 2, 1, *range(3, 3 + rank)))
    w = node.reshape(node.bind(w), [group * outputs, inputs // group, *kernel])
    return node.call(f"nn.conv{rank}d", x, w, padding=(0,) * (2 * rank), dilation=dilations, groups=group)
