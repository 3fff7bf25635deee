"""How each operator runs on blocked images: rows of ConvertLayout.

A row is a function (graph, call) of a ConvertLayout and a call of the old function. It returns the Image of the result,
a plain value of it, DEFERRED for one that is made when something needs it, or None: the call then runs plain.
"""
from __future__ import annotations

from math import gcd

import numpy as np

from ..expr import is_const_int
from ..relax.block_builder import call_op
from ..relax.expr import Constant, TensorStructInfo, TupleGetItem
from ..relax.ops.common import same_dim
from ..relax.arithmetic import ARITHMETICS
from ..relax.arithmetic.dot_product import WORD, name_of
from ..relax.ops.conv_layouts import join_groups, pack_weights, pack_words
from ..relax.ops.layout import blocks_of
from ..relax.ops.phases import pack_phases
from ..relax.ops.window import reach
from ..tir.intrinsics import INTEGER_DOTS
from .blocked_images import Image, group_spots, in_order
from .pack import by_columns

DEFERRED = object()
FEW = 4  # channels of a first layer, at least
SMALL_BLOCK = 4  # input channels in a block of weights, at least
MOST_PADDING = 2  # lanes that groups of output channels may take, for each channel
SPARE = 3 / 2  # lanes that a concatenation may take, for each channel

# Lanes that hold no channel hold any finite value: what weights of zero are multiplied with must not be infinite. These
# operators map finite values to finite ones; others run blocked only where each lane is a channel.
FINITE = {"nn.relu", "nn.leaky_relu", "nn.elu", "nn.gelu", "nn.silu", "nn.hard_sigmoid", "nn.hard_swish", "nn.softplus",
          "nn.softsign", "nn.mish", "nn.selu", "sigmoid", "tanh", "erf", "abs", "negative", "sign", "clip", "floor",
          "ceil", "round", "add", "subtract", "multiply", "maximum", "minimum", "divide", "copy", "astype"}
# Operators that divide by their second argument: lanes of no channel are 1 there, which only constants can promise.
DIVIDES = {"divide", "floor_divide", "floor_mod", "mod"}


# ---------------------------------------------------------------- convolutions

def _conv2d(graph, call):
    x, weight = call.args
    channels, groups = graph.channels_of(x), call.attrs["groups"]
    if channels is None or not isinstance(weight, Constant) or call.attrs["kernel_layout"] != "OIHW":
        return None
    if x.struct_info.dtype.is_int and not _dot_of(call):
        return None
    if graph.image(x) is None and (groups > 1 and not _whole(graph, weight, groups) or _is_row(x)):
        return None
    if graph.image(x) is None and by_columns(call, graph.lanes):
        return None
    if groups == channels == weight.data.shape[0] and groups > 1:
        return _depthwise(graph, call)
    few = min(graph.lanes - 1, max(graph.lanes // 2, FEW))
    if graph.image(x) is None and groups == 1 and channels <= few:
        return _first_layer(graph, call)
    return _dense(graph, call)


def _whole(graph, weight, groups):
    """Whether groups are whole blocks, of input and of output channels."""
    return all(n % graph.lanes == 0 for n in (weight.data.shape[0] // groups, weight.data.shape[1]))


def _is_row(x):
    """A sequence that was given an axis of extent 1: what is around the convolution has one axis less."""
    height, width = x.struct_info.shape[2:]
    return is_const_int(height, 1) and not is_const_int(width, 1)


def _convolution(graph, call, source, packed, spots, **attrs):
    """The Image of a convolution whose channels lie at `spots`."""
    return Image(call_op(call.op, source, packed, **{**call.attrs, **attrs}), spots)


def _first_layer(graph, call):
    x, weight = call.args
    lanes, outputs = graph.lanes, weight.data.shape[0]
    if dot := _dot_of(call):
        return _first_words(graph, call, dot)
    packed = graph.packed(weight, "first", lambda w: pack_weights(w, lanes))
    return _convolution(graph, call, graph.plain_of(x), packed, in_order(outputs), out_layout=graph.layout,
                        kernel_layout=f"OIHW{lanes}o", out_channels=outputs)


def _dot_of(call):
    """The arithmetic of dot products for a convolution of integers; None for others, and where sums may overflow."""
    x, weight = call.args
    name = name_of(x.struct_info.dtype, weight.struct_info.dtype, INTEGER_DOTS)
    depth = weight.data[0].size
    return name if name and call.attrs["out_dtype"] == "int32" and depth <= ARITHMETICS[name].most else None


def _terms(weight):
    """How many weights are a word."""
    return WORD // weight.data.itemsize


def _first_words(graph, call, dot):
    """Words are of columns of the kernel: four, of 16 bits two, that follow one another in a row of the input, which
    has more of them at the end of rows where the last word does; any, as weights are 0 there."""
    x, weight = call.args
    lanes, outputs, attrs = graph.lanes, weight.data.shape[0], call.attrs
    if attrs["dilation"][1] != 1:
        return None
    packed = graph.packed(weight, "first words", lambda w: pack_words(w, lanes))
    source, padding = _wider(graph, call, graph.plain_of(x))
    return _convolution(graph, call, source, packed, in_order(outputs), out_layout=graph.layout, padding=padding,
                        kernel_layout=f"OIHW{lanes}o{_terms(weight)}w", out_channels=outputs, arithmetic=dot)


def _wider(graph, call, x):
    """(the input, the padding) of a convolution whose last words of columns are filled up: any numbers will do there,
    those that pad the input too."""
    *others, right = call.attrs["padding"]
    more, pad = -call.args[1].data.shape[3] % _terms(call.args[1]), graph.producer(x, "nn.pad")
    if not more or pad is None or right:
        return x, (*others, right + more)
    width = list(pad.attrs["pad_width"])
    width[7] += more
    return graph.emit(call_op("nn.pad", pad.args[0], **{**pad.attrs, "pad_width": tuple(width)}), x.name), (*others, 0)


def _depthwise(graph, call):
    x, weight = call.args
    image, lanes = graph.image(x), graph.lanes
    dot = _dot_of(call)
    if dot and call.attrs["dilation"][1] == 1 and weight.data.shape[3] > 1:
        packed = graph.packed(weight, ("depthwise words", image.spots), lambda w: pack_words(image.spread(w, 0), lanes))
        source, padding = _wider(graph, call, image.value)
        return _convolution(graph, call, source, packed, image.spots, data_layout=graph.layout, arithmetic=dot,
                            groups=image.held, kernel_layout=f"OIHW{lanes}o{_terms(weight)}w",
                            out_channels=image.held, padding=padding)
    packed = graph.packed(weight, ("depthwise", image.spots), lambda w: pack_weights(image.spread(w, 0), lanes))
    return _convolution(graph, call, image.value, packed, image.spots, data_layout=graph.layout, groups=image.held,
                        kernel_layout=f"OIHW{lanes}o", out_channels=image.held)


def _dense(graph, call):
    """One group, or groups of whole blocks in order; others are gathered."""
    x, weight = call.args
    joined = _joined(graph, weight, call.attrs["groups"])
    image, lanes, groups = graph.image_of(x), graph.lanes, call.attrs["groups"] // joined
    outputs, inputs = weight.data.shape[0], weight.data.shape[1] * joined
    if groups > 1 and not (image.in_order and inputs % lanes == outputs // groups % lanes == 0):
        return _gathered(graph, call, image, joined)
    inner, dot = _inner(image, inputs, lanes), _dot_of(call)

    def pack(w):
        w = join_groups(w, groups * joined, joined)
        w = image.spread(w) if groups == 1 and inner == lanes else w
        w = (pack_words if dot else pack_weights)(w, lanes, groups, inner)
        return w.swapaxes(-1, -2).copy() if graph.turned else w

    packed = graph.packed(weight, ("dense", groups, joined, inner, image.spots), pack)
    return _convolution(graph, call, image.value, packed, in_order(outputs), data_layout=graph.layout, groups=groups,
                        out_channels=outputs, kernel_layout=f"OIHW{lanes}o{inner}i" if graph.turned else
                        f"OIHW{inner}i{lanes}o{f'{_terms(weight)}i' * bool(dot)}",
                        arithmetic=dot or call.attrs["arithmetic"])


def _inner(image, inputs, lanes):
    """Input channels in a block of weights: all lanes where that takes zeros for those that hold no channel."""
    inner = gcd(inputs, lanes) if image.in_order else lanes
    return lanes if inner < SMALL_BLOCK else inner


def _joined(graph, weight, groups):
    """How many groups share a block: as many as fit. A vector then has a step for each input channel of all of them,
    which are no more than vectors of their own would have."""
    own = weight.data.shape[0] // groups
    return max(n for n in range(1, groups + 1) if n == 1 or groups % n == 0 and n * own <= graph.lanes)


def _gathered(graph, call, image, joined):
    """Groups of any size, of channels that lie anywhere, whose sums are of the operands' dtype."""
    if call.attrs["out_dtype"] not in (None, "", call.args[0].struct_info.dtype):
        return None
    weight, lanes, groups = call.args[1], graph.lanes, call.attrs["groups"] // joined
    spots = group_spots(weight.data.shape[0], groups, lanes)
    if len({s // lanes for s in spots}) * lanes > MOST_PADDING * len(spots):
        return None
    packed = graph.packed(weight, ("gathered", groups), lambda w: pack_weights(
        join_groups(w, groups * joined, joined), lanes, groups))
    window = {name: call.attrs[name] for name in ("strides", "padding", "dilation")}
    places = graph.places(image.spots, groups)
    return Image(call_op("nn.conv2d_gathered", image.value, packed, places, data_layout=graph.layout, **window), spots)


def _conv2d_transpose(graph, call):
    """One group. Of stride 1 it is a convolution with the mirrored kernel, else its phases are, of rows too: in plain
    layout it would multiply the zeros between."""
    x, weight = call.args
    attrs = call.attrs
    if graph.channels_of(x) is None or not isinstance(weight, Constant) or attrs["groups"] > 1:
        return None
    if max(attrs["strides"]) == 1:
        reaches = [reach(k, d) - 1 for k, d in zip(weight.data.shape[2:], attrs["dilation"])]
        padding = tuple(r - p + e for r, p, e in zip(reaches * 2, attrs["padding"], (0, 0, *attrs["output_padding"])))
        mirrored = graph.packed(weight, "mirrored", lambda w: w.swapaxes(0, 1)[:, :, ::-1, ::-1].copy())
        if min(padding) < 0:
            return None
        window = {"padding": padding, "dilation": attrs["dilation"]}
        return _conv2d(graph, call_op("nn.conv2d", x, mirrored, **window)) or call_op(
            "nn.conv2d", graph.plain_of(x), mirrored, **window)
    return _phases(graph, call)


def _phases(graph, call):
    """A dilated kernel is a larger one with zeros."""
    x, dilation = call.args[0], call.attrs["dilation"]
    weight = call.args[1] if max(dilation) == 1 else graph.packed(
        call.args[1], ("dilated", dilation), lambda w: _dilated(w, dilation))
    image, lanes, strides = graph.image_of(x), graph.lanes, call.attrs["strides"]
    inner = _inner(image, weight.data.shape[0], lanes)

    def pack(w):
        return pack_phases(image.spread(w, 0) if inner == lanes else w, strides, lanes, inner)

    packed = graph.packed(weight, ("phases", strides, inner, image.spots), pack)
    window = {name: call.attrs[name] for name in ("strides", "padding", "output_padding")}
    outputs = weight.data.shape[1]
    return Image(call_op("nn.conv2d_phases", image.value, packed, data_layout=graph.layout, out_channels=outputs,
                         **window), in_order(outputs))


def _dilated(weights, dilation):
    sizes = [reach(k, d) for k, d in zip(weights.shape[2:], dilation)]
    new = np.zeros((*weights.shape[:2], *sizes), weights.dtype)
    new[:, :, ::dilation[0], ::dilation[1]] = weights
    return new


# ---------------------------------------------------------------- maps

def map_of_images(graph, call):
    """An elementwise operator, with broadcasting."""
    channels = graph.channels_of(call)
    images = [a for a in call.args if graph.image(a) and graph.channels_of(a) == channels]
    if channels is None or not images:
        return None
    like = graph.image(max(images, key=graph.made))  # this map is the likeliest to be computed in its kernel
    if not like.full and not _stays_finite(call):
        return None
    if not all(_broadcasts(graph, a, channels) for a in call.args):
        return None
    fills = [1 if n == 1 and call.op in DIVIDES else 0 for n in range(len(call.args))]
    operands = [_operand(graph, a, like, fill) for a, fill in zip(call.args, fills)]
    return like.like(call_op(call.op, *operands, **call.attrs))


def _stays_finite(call):
    return call.op in FINITE and (call.op not in DIVIDES or isinstance(call.args[1], Constant))


def _broadcasts(graph, value, channels):
    """Whether an operand of a map over so many channels has a blocked form."""
    if isinstance(value, Constant):
        return value.data.ndim <= 4 and str(value.data.dtype) in graph.dtypes
    return graph.channels_of(value) in (1, channels)


def _lookup(graph, call):
    """A table is no image."""
    image = graph.image(call.args[0])
    return image and image.like(call_op("lookup", image.value, call.args[1]))


def _operand(graph, value, like, fill):
    """A blocked operand whose channels lie as those of the Image `like`."""
    if not isinstance(value, Constant):
        if graph.channels_of(value) == len(like.spots):
            image = graph.image_of(value)
            same = image.spots == like.spots and image.held == like.held
            if not same:
                image = graph.moved(image, like.spots, like.held // like.lanes, value.name)
            return image.value
        batch, _, *spatial = value.struct_info.shape
        return graph.emit(call_op("reshape", graph.plain_of(value), [batch, 1, *spatial, 1]), f"{value.name}_lane")
    if value.data.size == 1:
        return value

    def pack(data):
        data = data.reshape((1,) * (4 - data.ndim) + data.shape)
        return data[..., None] if data.shape[1] == 1 else like.pack(data, fill)

    return graph.packed(value, ("map", fill, like.spots), pack)


# ---------------------------------------------------------------- windows and reductions

def _windows(graph, call):
    """Pools and resizing: the same over blocks."""
    image = graph.image(call.args[0])
    return image and image.like(call_op(call.op, image.value, *call.args[1:], **{**call.attrs, "layout": graph.layout}))


def _lrn(graph, call):
    """The row of nn.lrn, only for channels in order: their neighbours are in the next lanes."""
    image = graph.image(call.args[0])
    if image is None or not (image.full and image.in_order) or call.attrs["size"] // 2 > graph.lanes:
        return None
    return image.like(call_op("nn.lrn", image.value, **{**call.attrs, "layout": graph.layout}))


def _pad(graph, call):
    image, width = graph.image(call.args[0]), call.attrs["pad_width"]
    if image is None or any(width[:4]) or not np.isfinite(call.attrs["pad_value"]):
        return None
    return image.like(call_op("nn.pad", image.value, **{**call.attrs, "pad_width": (*width, 0, 0)}))


def _reduce(graph, call):
    """Means and the like over H and W. Without kept dimensions the result is plain."""
    x, axis = call.args[0], call.attrs["axis"]
    image = graph.image(x)
    if image is None or axis is None:
        return None
    axes = tuple(sorted({a % 4 for a in ((axis,) if isinstance(axis, int) else axis)}))
    if not set(axes) <= {2, 3}:
        return None
    kept = image.like(call_op(call.op, image.value, axis=axes, keepdims=True))
    if call.attrs["keepdims"]:
        return kept
    name = f"{graph.current.name}_kept"
    batch, _, *spatial, _ = kept.value.struct_info.shape
    info = TensorStructInfo((batch, x.struct_info.shape[1], *spatial), call.struct_info.dtype)
    return call_op("squeeze", graph.unblocked(image.like(graph.emit(kept.value, name)), info, name), axis=axes)


# ---------------------------------------------------------------- concat and split

def _concat(graph, call):
    channels, axis = [graph.channels_of(a) for a in call.args], call.attrs["axis"] % call.struct_info.ndim
    if None in channels or 2 * sum(c for c, a in zip(channels, call.args) if graph.image(a)) < sum(channels):
        return None
    images = [graph.image_of(a) for a in call.args]
    if axis == 1:
        spots, held = (), 0
        for image in images:
            spots += tuple(held + s for s in image.spots)
            held += image.held
        if held > max(SPARE * len(spots), blocks_of(len(spots), graph.lanes) * graph.lanes):
            return None
    else:
        spots = images[0].spots
        if any(i.spots != spots or i.held != images[0].held for i in images):
            return None
    return Image(call_op("concat", *(i.value for i in images), axis=axis), spots)


def _split(graph, call):
    """Parts of whole blocks, or along another axis."""
    image, sections = graph.image(call.args[0]), call.attrs["sections"]
    if image is None or 0 in sections:
        return None
    axis, ends = call.attrs["axis"] % 4, np.cumsum(sections)
    spots = [image.spots] * len(sections)
    if axis == 1:
        spots = [image.spots[end - own:end] for end, own in zip(ends, sections)]
        first = [min(part) // graph.lanes for part in spots]
        bounds = [0, *first[1:], image.held // graph.lanes]
        if any(max(part) >= end * graph.lanes for part, end in zip(spots, bounds[1:])):
            return None
        spots = [tuple(s - begin * graph.lanes for s in part) for part, begin in zip(spots, bounds)]
        sections = tuple(b - a for a, b in zip(bounds, bounds[1:]))
    parts = graph.emit(call_op("split", image.value, sections=sections, axis=axis), graph.current.name)
    graph.parts[id(graph.current)] = [Image(TupleGetItem(parts, k), own) for k, own in enumerate(spots)]
    return DEFERRED


def item_of_split(graph, item):
    parts = graph.parts.get(id(item.tuple_value))
    return parts and parts[item.index]


# ---------------------------------------------------------------- views of channels

def _reshape(graph, call):
    """Channels as several axes, or these as one again: shuffles of channels are made of such."""
    image, index = _view_of(graph, call.args[0])
    shape, source = call.struct_info.shape, call.args[0].struct_info.shape
    if image is None or len(shape) < 4 or not all(same_dim(shape[k], source[k]) for k in (0, -2, -1)):
        return None
    own = tuple(getattr(d, "value", 0) for d in shape[1:-2])
    return _viewed(graph, image, index.reshape(own)) if np.prod(own) == index.size else None


def _permute(graph, call):
    image, index = _view_of(graph, call.args[0])
    if image is None or call.attrs["axes"] is None:
        return None
    first, *axes, height, width = (a % (index.ndim + 3) for a in call.attrs["axes"])
    if (first, height, width) != (0, index.ndim + 1, index.ndim + 2):
        return None
    return _viewed(graph, image, index.transpose([a - 1 for a in axes]))


def _view_of(graph, value):
    """(the Image that a value is a view of, the channel at each place of the view)."""
    image = graph.image(value)
    return (image, np.arange(len(image.spots))) if image else graph.views.get(id(value), (None, None))


def _viewed(graph, image, index):
    if index.ndim == 1:
        return Image(image.value, tuple(image.spots[c] for c in index))
    graph.views[id(graph.current)] = (image, index)
    return DEFERRED


ROWS = {
    "nn.conv2d": _conv2d, "nn.conv2d_transpose": _conv2d_transpose, "nn.lrn": _lrn, "nn.pad": _pad, "concat": _concat,
    "split": _split, "lookup": _lookup,
    **dict.fromkeys(("nn.max_pool2d", "nn.avg_pool2d", "nn.adaptive_avg_pool2d", "nn.adaptive_max_pool2d",
                     "image.resize2d"), _windows),
    **dict.fromkeys(("mean", "sum", "max", "min"), _reduce),
    **dict.fromkeys(("reshape", "expand_dims", "squeeze"), _reshape), "permute_dims": _permute,
}
