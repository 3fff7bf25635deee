"""nn.conv2d in packed layouts: what weights and activations look like, and the stages they make.

| form      | data_layout | out_layout | kernel_layout | weights                                        |
|-----------|-------------|------------|---------------|------------------------------------------------|
| packed    | NCHW        | NCHW       | OIHW16o       | [OB, I, KH, KW, 16]                            |
| first     | NCHW        | NCHW16c    | OIHW16o       | [OB, I, KH, KW, 16]                            |
| dense     | NCHW16c     | NCHW16c    | OIHW16i16o    | [OB, IB, KH, KW, 16, 16]                       |
| dense     | NCHW16c     | NCHW16c    | OIHW16o16i    | [OB, IB, KH, KW, 16, 16], the other way round  |
| depthwise | NCHW16c     | NCHW16c    | OIHW16o       | [OB, 1, KH, KW, 16], groups = channels         |
| dense     | NCHW16c     | NCHW16c    | OIHW16i16o4i  | [OB, IB, KH, KW, 4, 16] of words               |
| dense     | NCHW4c      | NCHW4c     | OIHW4i4o4i2i  | [OB, IB / 2, KH, KW, 1, 8] of words in pairs   |
| first      | NCHW        | NCHW16c    | OIHW16o4w     | [OB, I, KH, ceil(KW / 4), 16] of words         |
| depthwise  | NCHW16c     | NCHW16c    | OIHW16o4w     | [OB, 1, KH, ceil(KW / 4), 16] of words         |

The last four are of bytes, by an attribute `arithmetic` of relax/arithmetic/dot_product.py: a word is four input
channels, or four columns of a row of the kernel, of which the input has as many as are read. Of 16 bits it is two, with
a 2 for the 4. In pairs, the words of two blocks of input channels lie side by side for each output channel, as
products of matrices read them (MatrixDots).

OB and IB are numbers of blocks; weights are zero beyond the true channels, and so are the outputs there. out_channels
is the true O. Groups begin with a block of their own: in blocked activations that asks for groups of whole blocks. The
dense form may have smaller blocks of input channels, OIHW8i16o say, which waste less where 8 divides the channels.
"""
from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np

from ... import te
from ...dtype import DataType
from ...expr import is_const_int
from ...tir import intrin
from ...tir.intrinsics import INTEGER_DOTS
from ..arithmetic import ARITHMETICS, Arithmetic
from ..arithmetic.dot_product import WORD, word
from ..expr import TensorStructInfo
from .common import (as_dim, dim_text, fail, need_dtype, need_rank, need_same_dtype, same_dim, shape_text, simplify,
                     te_shape)
from .contraction import FMA
from .layout import block_size, blocks_of, check_layout, need_layout, pack_channels, unpack_channels
from .precision import narrow, sum_dtype
from .window import KERNEL_AXES, check_window_attrs, output_sizes, pad_stage, split_padding

ATTRS = {"out_channels": None, "data_layout": "NCHW", "out_layout": "", "arithmetic": FMA}
_KERNEL = re.compile(r"OIHW(?:(\d+)i)?(\d+)o([24][iw])?(2i)?$")
_TURNED = re.compile(r"OIHW(\d+)o(\d+)i$")


@dataclass(frozen=True)
class Form:
    """One row of the table above. data, out: lanes of the activations' blocks, None for plain ones. inner, lanes: input
    channels (None: not blocked) and output channels in a block of weights. dot: the row of ARITHMETICS by which words
    are multiplied; None: numbers are. turned: whether input channels are innermost in weights. pairs: whether words are
    in pairs."""

    name: str
    data: int | None
    out: int | None
    inner: int | None
    lanes: int
    dot: Arithmetic | None = None
    turned: bool = False
    pairs: bool = False

    @property
    def steps(self):
        """Numbers or words of input channels in a block of weights."""
        return self.inner // self.dot.block if self.dot else self.inner

    def turn(self):
        """The form with the other order of channels in a block of weights."""
        return replace(self, turned=not self.turned)


def form_of(attrs):
    """The Form of a call's attributes; None for the plain one. Layouts that do not go together are of the nearest."""
    turned = _TURNED.match(attrs["kernel_layout"])
    if turned:
        lanes, inner = map(int, turned.groups())
        return form_of({**attrs, "kernel_layout": f"OIHW{inner}i{lanes}o"}).turn()
    data, kernel = attrs["data_layout"], _KERNEL.match(attrs["kernel_layout"])
    if data == "NCHW" and attrs["out_layout"] in ("", "NCHW") and not kernel:
        return None
    source, target = block_size(data), block_size(attrs["out_layout"] or data)
    inner, lanes = (kernel[1] and int(kernel[1]), int(kernel[2])) if kernel else (None, 0)
    name = ("first" if target else "packed") if source is None else "dense" if inner else "depthwise"
    dot = ARITHMETICS[attrs["arithmetic"]] if kernel and kernel[3] and attrs["arithmetic"] in INTEGER_DOTS else None
    return Form(name, source, target, inner, lanes, dot, pairs=bool(dot and inner and kernel[4]))


# ---------------------------------------------------------------- struct info

def check_groups(call):
    groups = call.attrs["groups"]
    if groups < 1:
        fail(call, f"groups={groups} must be at least 1")
    return groups


def result_dtype(call, x, w):
    """The dtype of the result, of operands that are numbers."""
    need_dtype(call, x, "number")
    need_dtype(call, w, "number")
    return DataType(call.attrs["out_dtype"] or need_same_dtype(call, (x, w)))


def static_kernel(call, w, rank, first=2):
    """The kernel's size, from the weight's struct info. first: its first axis."""
    kernel = w.shape[first:first + rank]
    if not all(is_const_int(k) for k in kernel):
        fail(call, f"weight {shape_text(w)} must have static kernel dimensions (dims {first} and up)")
    return tuple(k.value for k in kernel)


def infer(call, form):
    check_layout(call, "data_layout")
    if call.attrs["out_layout"]:
        check_layout(call, "out_layout")
    _check_form(call, form)
    x, w = need_layout(call, 0, form.data), need_rank(call, 1, 5 + (form.inner is not None))
    dtype = _check_words(call, x, w, form) if form.dot else result_dtype(call, x, w)
    check_window_attrs(call, 2)
    groups = check_groups(call)
    channels = _check_weight(call, w, form, groups)
    held = w.shape[0] if form.name == "depthwise" else w.shape[1] * groups * (1 + form.pairs)
    if form.inner and form.inner != form.data:
        held = simplify((held * form.inner + (form.data - 1)) // form.data)
    if not same_dim(x.shape[1], held):
        what = "channels" if form.data is None else f"blocks of {form.data} channels"
        fail(call, f"input {shape_text(x)} has {dim_text(x.shape[1])} {what} (dim 1), but weight {shape_text(w)} with "
                   f"groups={groups} takes {dim_text(held)}")
    kernel = static_kernel(call, w, 2)
    if form.dot and not form.inner:
        kernel = (kernel[0], kernel[1] * form.dot.block)
    outputs = output_sizes(call, x.shape[2:4], kernel)
    if form.out is None:
        return TensorStructInfo((x.shape[0], channels, *outputs), dtype)
    return TensorStructInfo((x.shape[0], w.shape[0], *outputs, as_dim(form.out)), dtype)


def _check_words(call, x, w, form):
    """The dtype of a convolution by words; InferError for other operands than it takes."""
    if x.dtype != form.dot.rows or w.dtype != "int32":
        fail(call, f"{shape_text(x)} must be {form.dot.rows} and {shape_text(w)} words of int32 by {form.dot.name}, "
                   f"not {x.dtype} and {w.dtype}")
    if not form.inner and call.attrs["dilation"][1] != 1:
        fail(call, f"dilation {call.attrs['dilation']} must be 1 along rows whose columns are words")
    return DataType("int32")


def _check_form(call, form):
    """The layouts must be a row of the table."""
    data, out = call.attrs["data_layout"], call.attrs["out_layout"] or call.attrs["data_layout"]
    wanted = [f"OIHW{form.out or form.lanes}o"]
    if form.dot:
        terms = form.dot.block
        wanted = [f"OIHW{form.inner}i{form.data}o{terms}i{'2i' * form.pairs}" if form.inner
                  else f"OIHW{form.out or form.lanes}o{terms}w"]
    elif form.data:
        inner = form.inner if form.inner and form.data % form.inner == 0 else form.data
        wanted.insert(0, f"OIHW{form.data}o{inner}i" if form.turned else f"OIHW{inner}i{form.data}o")
    if form.data != form.out and form.data is not None:
        fail(call, f"data_layout {data!r} and out_layout {out!r} must be equal, or data_layout NCHW")
    if call.attrs["kernel_layout"] not in wanted:
        fail(call, f"kernel_layout {call.attrs['kernel_layout']!r} must be {' or '.join(wanted)} with data_layout "
                   f"{data!r} and out_layout {out!r}")


def _check_weight(call, w, form, groups):
    """The true output channels; InferError where the weight does not hold them."""
    channels, lanes, layout = call.attrs["out_channels"], form.lanes, call.attrs["kernel_layout"]
    if channels is None or channels % groups:
        fail(call, f"kernel_layout {layout!r} needs attribute out_channels, a multiple of groups={groups}; got "
                   f"{channels}")
    if form.name == "depthwise":
        if groups != channels or not is_const_int(w.shape[1], 1):
            fail(call, f"kernel_layout {layout!r} with data_layout {call.attrs['data_layout']!r} is for depthwise "
                       f"convolutions: groups={groups} must be out_channels={channels}, and dim 1 of weight "
                       f"{shape_text(w)} must be 1")
        blocks = blocks_of(channels, lanes)
    else:
        if form.out and groups > 1 and channels // groups % lanes:
            fail(call, f"groups of {channels // groups} output channels are no whole blocks of {lanes}: a convolution "
                       "of such groups has plain layouts")
        blocks = groups * blocks_of(channels // groups, lanes)
    at = w.ndim - 1 - form.turned
    if not same_dim(w.shape[0], blocks) or not same_dim(w.shape[at], lanes * (1 + form.pairs)):
        fail(call, f"packed weight {shape_text(w)} does not hold out_channels={channels} in blocks of {lanes}"
                   f"{f' for each of {groups} groups' if form.name != 'depthwise' and groups > 1 else ''}: dim 0 must "
                   f"be {blocks} and dim {at} must be {lanes * (1 + form.pairs)}")
    if form.inner and not same_dim(w.shape[4 + form.turned], form.steps):
        fail(call, f"packed weight {shape_text(w)} must have {form.steps} {'words of ' * bool(form.dot)}input channels "
                   f"in a block (dim {4 + form.turned})")
    return channels


# ---------------------------------------------------------------- lowering

def conv_axes(in_channels, kernel):
    """The reduce axes (ic, kernel ...)."""
    return [te.reduce_axis((0, in_channels), "ic"),
            *(te.reduce_axis((0, k), name) for k, name in zip(kernel, KERNEL_AXES[len(kernel)]))]


def window_position(spatial, kernel, attrs):
    """The input position of kernel element `kernel` in the window of output position `spatial`."""
    return tuple(i * s + k.var * d for i, k, s, d in zip(spatial, kernel, attrs["strides"], attrs["dilation"]))


def input_channel(groups, out_channels, in_channels):
    """(output channel, channel within the group) -> input channel, with divisions only where they are needed.

    out_channels: of all groups; in_channels: of one. Blocks of channels likewise, each in one group.
    """
    if groups == 1:
        return lambda oc, ic: ic
    multiplier = out_channels // groups
    if is_const_int(in_channels, 1):  # depthwise: ic is 0
        return lambda oc, ic: oc // multiplier
    return lambda oc, ic: oc // multiplier * in_channels + ic


def lower(x, w, attrs, out, form):
    x = pad_stage(x, *split_padding(attrs["padding"]))
    return narrow(_STAGES[form.name](x, w, te_shape(out), attrs, form, sum_dtype(out.dtype)), out.dtype)


def _dot(form):
    return getattr(intrin, form.dot.name)


def _groups(attrs):
    return {"groups": attrs["groups"]} if attrs["groups"] > 1 else None


def _packed(data, w, shape, attrs, form, acc):
    """Blocks of output channels from a plain input, unpacked where the output is plain too."""
    ic, kh, kw = axes = conv_axes(w.shape[1], w.shape[2:4])
    groups, lanes = attrs["groups"], form.lanes
    in_channel = input_channel(groups, w.shape[0], w.shape[1])
    channels = attrs["out_channels"] // groups
    blocks = blocks_of(channels, lanes)

    def element(n, oo, y, x, oi):
        row, column = window_position((y, x), (kh, kw), attrs)
        weight = w[oo, ic.var, kh.var, kw.var, oi]
        if form.dot:
            first = x * attrs["strides"][1]
            source = word(lambda at: data[n, in_channel(oo, ic.var), row, first + at], kw.var,
                          form.dot.block)
            return te.sum(_dot(form)(source, weight, 0), axes)
        return te.sum(data[n, in_channel(oo, ic.var), row, column].astype(acc) * weight.astype(acc), axes)

    def unpacked(n, c, y, x):
        if groups == 1 or channels % lanes == 0:
            return packed[n, c // lanes, y, x, c % lanes]
        within = c % channels
        return packed[n, c // channels * blocks + within // lanes, y, x, within % lanes]

    spatial = shape[2:4]
    packed = te.compute((shape[0], w.shape[0], *spatial, lanes), element, name="conv2d_packed", attrs=_groups(attrs))
    return packed if form.out else te.compute(shape, unpacked, name="conv2d")


def _dense(data, w, shape, attrs, form, acc):
    inputs = w.shape[1] * 2 if form.pairs else w.shape[1]
    io, ii = te.reduce_axis((0, inputs), "io"), te.reduce_axis((0, form.steps), "ii")
    _, kh, kw = conv_axes(1, w.shape[2:4])
    block, parts = input_channel(attrs["groups"], w.shape[0], inputs), form.data // form.inner

    def element(n, oo, y, x, oi):
        part, lane = block(oo, io.var), ii.var
        if parts > 1:
            part, lane = part // parts, part % parts * form.steps + lane
        point, inner = window_position((y, x), (kh, kw), attrs), (oi, ii.var) if form.turned else (ii.var, oi)
        weight = w[(oo, io.var, kh.var, kw.var, *inner)] if not form.pairs else (
            w[oo, io.var // 2, kh.var, kw.var, ii.var, oi * 2 + io.var % 2])
        if form.dot:
            source = word(lambda at: data[(n, part, *point, at)], lane, form.dot.block)
            return te.sum(_dot(form)(source, weight, 0), [io, kh, kw, ii])
        return te.sum(data[(n, part, *point, lane)].astype(acc) * weight.astype(acc), [io, kh, kw, ii])

    return te.compute(shape, element, name="conv2d_blocked", attrs=_groups(attrs))


def _depthwise(data, w, shape, attrs, form, acc):
    _, kh, kw = conv_axes(1, w.shape[2:4])

    def element(n, cb, y, x, ci):
        row, column = window_position((y, x), (kh, kw), attrs)
        weight = w[cb, 0, kh.var, kw.var, ci]
        if form.dot:
            source = word(lambda at: data[n, cb, row, x * attrs["strides"][1] + at, ci], kw.var,
                          form.dot.block)
            return te.sum(_dot(form)(source, weight, 0), [kh, kw])
        return te.sum(data[n, cb, row, column, ci].astype(acc) * weight.astype(acc), [kh, kw])

    return te.compute(shape, element, name="depthwise_blocked")


_STAGES = {"packed": _packed, "first": _packed, "dense": _dense, "depthwise": _depthwise}


# ---------------------------------------------------------------- weights and reference

def pack_weights(w, lanes, groups=1, inner=None):
    """[O, I, KH, KW] -> [groups * ceil(O / groups / lanes), I, KH, KW, lanes], zero padded within each group; with
    `inner` input channels in a block too: [OB, IB, KH, KW, inner, lanes]."""
    w = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    w = pack_channels(w, lanes)
    w = w.reshape(-1, *w.shape[2:])
    return w if inner is None else pack_channels(w, inner).swapaxes(-1, -2)


def pack_words(w, lanes, groups=1, inner=None):
    """Weights of bytes [O, I, KH, KW] as words: of input channels in blocks of `inner`, [OB, IB, KH, KW, inner / 4,
    lanes], or of columns of the kernel, [OB, I, KH, ceil(KW / 4), lanes]; of 16 bits with 2 for 4."""
    terms = WORD // w.dtype.itemsize
    if inner is None:
        w = pack_weights(np.pad(w, ((0, 0),) * 3 + ((0, -w.shape[3] % terms),)), lanes, groups)
        w = w.reshape(*w.shape[:3], -1, terms, lanes)
    else:
        w = pack_weights(w, lanes, groups, inner)
        w = w.reshape(*w.shape[:4], -1, terms, lanes)
    return np.ascontiguousarray(w.swapaxes(-1, -2)).view("<i4")[..., 0].astype(np.int32)


def unpack_words(w, dtype):
    """The weights of pack_weights, of bytes of a dtype, of which words are made."""
    w = w.astype("<i4")[..., None].view(np.dtype(dtype)).swapaxes(-1, -2)
    return w.reshape(*w.shape[:-3], -1, w.shape[-1])


def pair_words(w):
    """Words [OB, IB, KH, KW, N, lanes] of an even number of blocks in pairs, [OB, IB / 2, KH, KW, N, 2 lanes]."""
    w = w.reshape(len(w), -1, 2, *w.shape[2:]).transpose(0, 1, 3, 4, 5, 6, 2)
    return np.ascontiguousarray(w.reshape(*w.shape[:5], -1))


def unpair_words(w):
    """The inverse of pair_words."""
    w = w.reshape(*w.shape[:5], -1, 2).transpose(0, 1, 6, 2, 3, 4, 5)
    return w.reshape(len(w), -1, *w.shape[3:])


def join_groups(w, groups, joined):
    """Weights [O, I, KH, KW] of so many groups as those of groups / joined, with zeros between what was apart."""
    if joined == 1:
        return w
    channels, inputs, *kernel = w.shape
    own = w.reshape(groups // joined, joined, channels // groups, inputs, *kernel)
    result = np.zeros((groups // joined, joined, channels // groups, joined, inputs, *kernel), w.dtype)
    each = np.arange(joined)
    result[:, each, :, each] = own.swapaxes(0, 1)
    return result.reshape(channels, joined * inputs, *kernel)


def unpack_weights(w, channels, groups=1, inner=None):
    """The inverse of pack_weights: `channels` is O; input channels are all that the blocks hold."""
    if inner is not None:
        w = unpack_channels(w.swapaxes(-1, -2))
    w = unpack_channels(w.reshape(groups, -1, *w.shape[1:]), channels // groups)
    return w.reshape(channels, *w.shape[2:])


def evaluate(plain, x, w, attrs, form):
    """The reference, by that of the plain form (`plain`), which sees padded channels as channels."""
    groups, channels = attrs["groups"], attrs["out_channels"]
    if form.pairs:
        w = unpair_words(w)
    if form.dot:
        w, attrs = unpack_words(w, INTEGER_DOTS[form.dot.name][1]), {**attrs, "out_dtype": "int32"}
    if form.turned:
        w = w.swapaxes(-1, -2)
    if form.data is not None:
        x = unpack_channels(x, form.inner and w.shape[1] * form.inner * groups)
    if form.name == "depthwise":
        groups = channels = x.shape[1]
        w = unpack_channels(w, axis=0)
    else:
        w = unpack_weights(w, channels, groups, form.inner)
    result = plain([x, w], {**attrs, "groups": groups, "kernel_layout": "OIHW", "data_layout": "NCHW",
                            "out_layout": ""})
    return result if form.out is None else pack_channels(result, form.out)

