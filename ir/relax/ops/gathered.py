"""nn.conv2d_gathered: convolutions in groups of any size over blocked activations whose channels lie anywhere.

Data is [N, B, H, W, c] ("NCHW{c}c"), weights are [OB, K, KH, KW, c] as conv_layouts.pack_weights makes them: each group
of output channels begins with a block of its own, and lanes beyond a group's channels are zero. places, [groups, K, 2],
holds the block and the lane of each of the K input channels of each group: channels that were shuffled, or lie in
blocks with room, are read where they are. They must lie in the data; constant places are checked.
"""
from __future__ import annotations

import numpy as np

from ... import te
from ...expr import IntImm
from ...op import REQUIRED, get, register
from ..expr import Constant, TensorStructInfo
from .common import dim_text, fail, need_dtype, need_rank, need_same_dtype, same_dim, shape_text, te_shape
from .conv_layouts import conv_axes, static_kernel, unpack_weights, window_position
from .layout import block_size, check_layout, need_layout, pack_channels, unpack_channels
from .precision import narrow, sum_dtype
from .window import check_window_attrs, output_sizes, pad_stage, split_padding


def _infer(call):
    lanes = check_layout(call, "data_layout")
    if lanes is None:
        fail(call, f"data_layout {call.attrs['data_layout']!r} must be blocked, such as NCHW16c; nn.conv2d is for "
                   "plain images")
    x, w, places = need_layout(call, 0, lanes), need_rank(call, 1, 5), need_rank(call, 2, 3)
    dtype = need_same_dtype(call, (x, w))
    need_dtype(call, x, "number")
    check_window_attrs(call, 2)
    if places.dtype != "int32" or not same_dim(places.shape[1], w.shape[1]) or not same_dim(places.shape[2], 2):
        fail(call, f"places {shape_text(places)} of {places.dtype} must be int32 [groups, {dim_text(w.shape[1])}, 2]: "
                   f"block and lane of each input channel of weight {shape_text(w)}")
    groups = _static(call, places, 0)
    if not same_dim(w.shape[4], lanes) or _static(call, w, 0) % groups:
        fail(call, f"weight {shape_text(w)} must hold whole blocks of {lanes} output channels (dim 4) for each of "
                   f"{groups} groups (dim 0)")
    _check_places(call, x, lanes)
    outputs = output_sizes(call, x.shape[2:4], static_kernel(call, w, 2))
    return TensorStructInfo((x.shape[0], w.shape[0], *outputs, x.shape[4]), dtype)


def _static(call, info, axis):
    if not isinstance(info.shape[axis], IntImm) or info.shape[axis].value < 1:
        fail(call, f"dim {axis} of {shape_text(info)} must be a number of at least 1")
    return info.shape[axis].value


def _check_places(call, x, lanes):
    """Constant places must lie in the data."""
    places = call.args[2]
    if not isinstance(places, Constant) or not isinstance(x.shape[1], IntImm):
        return
    limits = np.array([x.shape[1].value, lanes])
    wrong = np.argwhere(((places.data < 0) | (places.data >= limits)).any(axis=2))
    if len(wrong):
        group, k = map(int, wrong[0])
        block, lane = map(int, places.data[group, k])
        fail(call, f"places[{group}, {k}] is block {block}, lane {lane}, but input {shape_text(x)} has blocks 0 to "
                   f"{limits[0] - 1} of lanes 0 to {lanes - 1}")


def _lower(args, attrs, out):
    data, w, places = args
    data = pad_stage(data, *split_padding(attrs["padding"]))
    k, kh, kw = axes = conv_axes(w.shape[1], w.shape[2:4])
    acc, groups = sum_dtype(data.dtype), int(places.shape[0])
    own = int(w.shape[0]) // groups

    def element(n, oo, y, x, oi):
        block, lane = (places[oo // own, k.var, part] for part in (0, 1))
        source = data[(n, block, *window_position((y, x), (kh, kw), attrs), lane)]
        return te.sum(source.astype(acc) * w[oo, k.var, kh.var, kw.var, oi].astype(acc), axes)

    result = te.compute(te_shape(out), element, name="conv2d_gathered", attrs={"groups": groups})
    return narrow(result, out.dtype)


def _evaluate(args, attrs):
    """The plain convolution of the gathered channels, in which lanes of no channel count as channels."""
    x, w, places = args
    groups, channels, lanes = places.shape[0], w.shape[0] * w.shape[4], block_size(attrs["data_layout"])
    plain = unpack_channels(x)[:, places[..., 0].ravel() * lanes + places[..., 1].ravel()]
    window = {name: attrs[name] for name in ("strides", "padding", "dilation")}
    conv = get("nn.conv2d")
    result = conv.evaluate([plain, unpack_weights(w, channels)], {**conv.attrs, **window, "groups": groups})
    return pack_channels(result, lanes)


register("nn.conv2d_gathered", _infer, _lower, _evaluate, "anchor", (3, 3), strides=(1, 1), padding=(0, 0, 0, 0),
         dilation=(1, 1), data_layout=REQUIRED)
