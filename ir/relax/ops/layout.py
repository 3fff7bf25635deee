"""Blocked activations: "NCHW16c" is [N, ceil(C / 16), H, W, 16], so that one vector holds 16 channels of a point.

Channels beyond C are zero when layout_transform makes them, and finite always. layout_transform goes between this
and "NCHW"; going back it needs `channels`, the true C, where that is no multiple. gather_channels moves channels.
space_to_depth makes channels of the points of small squares.
"""
from __future__ import annotations

import re

import numpy as np

from ... import te
from ...expr import const, is_const_int
from ...op import REQUIRED, register
from ...tir import intrin
from ..expr import TensorStructInfo
from .common import as_dim, dim_text, fail, need_dtype, need_rank, shape_text, te_shape
from .window import inside

_BLOCKED = re.compile(r"NCHW([1-9]\d*)c$")


def block_size(layout):
    """The c of a layout "NCHW{c}c"; None for any other."""
    match = _BLOCKED.match(layout)
    return int(match[1]) if match else None


def check_layout(call, name):
    """block_size of attribute `name`, which must be NCHW or blocked."""
    layout = call.attrs[name]
    size = block_size(layout)
    if size is None and layout != "NCHW":
        fail(call, f"{name} {layout!r} must be NCHW or NCHW{{n}}c, such as NCHW16c")
    return size


def need_layout(call, index, size):
    """The struct info of argument `index`, which must be blocked by `size` (None: plain)."""
    x = need_rank(call, index, 4 + (size is not None))
    if size is not None and not is_const_int(x.shape[4], size):
        fail(call, f"argument {index} of shape {shape_text(x)} is not blocked by {size}: its dim 4 must be {size}")
    return x


def blocks_of(channels, size):
    """How many blocks hold so many channels."""
    return -(-channels // size)


# ---------------------------------------------------------------- arrays

def pack_channels(x, size, fill=0, axis=1):
    """[N, C, ...] -> [N, ceil(C / size), ..., size], filled up with `fill`; `axis`: that of the channels. A view of x
    where size divides C."""
    before, channels, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1:]
    whole, rest = divmod(channels, size)

    def blocks(some):
        """Whole blocks of channels, as they lie in x."""
        return np.moveaxis(some.reshape(*before, -1, size, *after), axis + 1, -1)

    if not rest:
        return blocks(x)
    every = (slice(None),) * axis
    packed = np.full((*before, whole + 1, *after, size), fill, x.dtype)
    packed[(*every, slice(whole))] = blocks(x[(*every, slice(whole * size))])
    packed[(*every, whole, ..., slice(rest))] = np.moveaxis(x[(*every, slice(whole * size, None))], axis, -1)
    return packed


def unpack_channels(x, channels=None, axis=1):
    """The inverse of pack_channels: the first `channels` (None: all that the blocks hold)."""
    x = np.moveaxis(x, -1, axis + 1)
    x = x.reshape(*x.shape[:axis], -1, *x.shape[axis + 2:])
    return x[(slice(None),) * axis + (slice(channels),)]


def through_plain(evaluate, name):
    """A reference evaluation of a plain tensor (args[0]) as one that takes and gives blocked ones too, by attribute
    `name`."""
    def blocked(args, attrs):
        size = block_size(attrs[name])
        if size is None:
            return evaluate(args, attrs)
        return pack_channels(evaluate([unpack_channels(args[0]), *args[1:]], attrs), size)
    return blocked


# ---------------------------------------------------------------- layout_transform

def _infer(call):
    source, target = (check_layout(call, name) for name in ("src_layout", "dst_layout"))
    if (source is None) == (target is None):
        fail(call, f"src_layout {call.attrs['src_layout']!r} and dst_layout {call.attrs['dst_layout']!r} must be one "
                   "NCHW and one NCHW{n}c")
    x, channels = need_layout(call, 0, source), call.attrs["channels"]
    held = x.shape[1] if source is None else x.shape[1] * source
    if not is_const_int(held):
        fail(call, f"the channels of input {shape_text(x)} (dim 1) must be static; pin {dim_text(x.shape[1])}")
    held = held.value
    channels = held if channels is None else channels
    if source is None and channels != held or source is not None and blocks_of(channels, source) * source != held:
        fail(call, f"channels={channels} does not fit input {shape_text(x)} of layout {call.attrs['src_layout']}")
    spatial = x.shape[2:4]
    if source is None:
        shape = (x.shape[0], as_dim(blocks_of(channels, target)), *spatial, as_dim(target))
    else:
        shape = (x.shape[0], as_dim(channels), *spatial)
    return TensorStructInfo(shape, x.dtype)


def _lower(args, attrs, out):
    data, = args
    source, target = block_size(attrs["src_layout"]), block_size(attrs["dst_layout"])
    if target is None:
        return te.compute(te_shape(out), lambda n, c, y, x: data[n, c // source, y, x, c % source],
                          name="layout_transform")
    channels = int(data.shape[1])

    def element(n, co, y, x, ci):
        channel = co * target + ci
        value = data[n, channel, y, x]
        if channels % target == 0:
            return value
        return intrin.if_then_else(channel < channels, value, const(0, data.dtype))

    return te.compute(te_shape(out), element, name="layout_transform")


def _evaluate(args, attrs):
    target = block_size(attrs["dst_layout"])
    if target is None:
        return unpack_channels(args[0], attrs["channels"]).copy()
    return pack_channels(args[0], target)


# ---------------------------------------------------------------- gather_channels

def _infer_gather(call):
    size = check_layout(call, "layout")
    if size is None:
        fail(call, f"layout {call.attrs['layout']!r} must be blocked; take(x, indices, axis=1) is for plain images")
    x, indices = need_layout(call, 0, size), need_rank(call, 1, 2)
    need_dtype(call, indices, "int")
    if not is_const_int(indices.shape[1], size):
        fail(call, f"indices {shape_text(indices)} must have {size} channels in a block (dim 1)")
    return TensorStructInfo((x.shape[0], indices.shape[0], *x.shape[2:]), x.dtype)


def _lower_gather(args, attrs, out):
    """Every index is held inside, so that no read strays."""
    data, indices = args
    size, zero = block_size(attrs["layout"]), const(0, data.dtype)

    def element(n, co, y, x, ci):
        index = indices[co, ci]
        held = intrin.max(intrin.min(index, data.shape[1].astype(index.dtype) * size - 1), const(0, index.dtype))
        return intrin.if_then_else(index < 0, zero, data[n, held // size, y, x, held % size])

    return te.compute(te_shape(out), element, name="gather_channels")


def _evaluate_gather(args, attrs):
    plain, indices = unpack_channels(args[0]), args[1].astype(np.int64)
    found = plain[:, np.clip(indices.ravel(), 0, plain.shape[1] - 1)]
    found[:, indices.ravel() < 0] = 0
    return pack_channels(found, indices.shape[1])


# ---------------------------------------------------------------- space_to_depth

def _infer_space_to_depth(call):
    size, block = check_layout(call, "layout"), call.attrs["block"]
    if size is None:
        fail(call, f"layout {call.attrs['layout']!r} must be blocked, such as NCHW16c")
    if block < 1:
        fail(call, f"block={block} must be at least 1")
    x = need_rank(call, 0, 4)
    if not all(is_const_int(d) for d in x.shape[1:]):
        fail(call, f"input {shape_text(x)} must have static channels, height and width (dims 1 to 3)")
    channels, height, width = (d.value for d in x.shape[1:])
    sizes = (blocks_of(channels * block ** 2, size), blocks_of(height, block), blocks_of(width, block), size)
    return TensorStructInfo((x.shape[0], *map(as_dim, sizes)), x.dtype)


def _lower_space_to_depth(args, attrs, out):
    data, = args
    size, b = block_size(attrs["layout"]), attrs["block"]
    channels, height, width = map(int, data.shape[1:])

    def element(n, co, y, x, ci):
        k = co * size + ci
        channel, row, column = k // b ** 2, y * b + k % b ** 2 // b, x * b + k % b
        borders = channels * b ** 2 % size > 0, height % b > 0, width % b > 0
        condition = inside((channel, row, column), (channels, height, width), (False,) * 3, borders)
        value = data[n, channel, row, column]
        return intrin.if_then_else(condition, value, const(0, data.dtype)) if any(borders) else value

    return te.compute(te_shape(out), element, name="space_to_depth")


def _evaluate_space_to_depth(args, attrs):
    x, b = args[0], attrs["block"]
    x = np.pad(x, ((0, 0), (0, 0), *((0, -s % b) for s in x.shape[2:])))
    n, channels, height, width = x.shape
    x = x.reshape(n, channels, height // b, b, width // b, b).transpose(0, 1, 3, 5, 2, 4)
    return pack_channels(x.reshape(n, -1, height // b, width // b), block_size(attrs["layout"]))


# channel (c * b + i) * b + k of the blocked output has the points (y * b + i, x * b + k) of channel c of the input
register("space_to_depth", _infer_space_to_depth, _lower_space_to_depth, _evaluate_space_to_depth, "injective",
         block=REQUIRED, layout=REQUIRED)
# output block b, lane i is channel indices[b, i] of the input, counted through its blocks; 0 for a negative index
register("gather_channels", _infer_gather, _lower_gather, _evaluate_gather, "injective", (2, 2), layout=REQUIRED)
register("layout_transform", _infer, _lower, _evaluate, "injective", src_layout=REQUIRED, dst_layout=REQUIRED,
         channels=None)
