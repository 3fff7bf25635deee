"""Which 1x1 convolutions are computed in one kernel with what makes their data."""
from __future__ import annotations

from dataclasses import replace
from math import prod
from operator import le

from .. import op as op_table
from ..expr import IntImm, is_const_int
from ..relax.ops.contraction import POINTWISE
from ..relax.ops.conv_layouts import form_of
from ..relax.ops.layout import block_size
from ..relax.ops.qnn import BYTES, SUMS, WORDS
from ..schedule.plan import choose
from ..schedule.rules import conv_tiles
from ..schedule.rules.pointwise_depthwise import is_profitable, pair_of

FLOAT = 4
# Operators that take an instruction or two, which a convolution may repeat each time that it looks at its data.
CHEAP = {"add", "subtract", "multiply", "maximum", "minimum", "clip", "nn.relu", "nn.leaky_relu", "negative", "abs"}


def is_worth_one_kernel(target, first, *others):
    """Whether operators are a 1x1 convolution, padding of its result, if any, and the depthwise convolution that alone
    reads it; and the model of the rule for such pairs says that one kernel is faster. Words in pairs are for tiles of
    products of matrices, which that rule does not make."""
    *padding, last = others
    return (_is_pointwise(target, first) and not form_of(first.attrs).pairs
            and _is_conv2d(target, last, "depthwise") and all(map(_is_border, padding))
            and _expansion_pays(target, first, [first, *padding][-1].struct_info.shape, last))


def _expansion_pays(target, pointwise, middle, depthwise):
    """Whether the model of the rule says so of a 1x1 convolution and a depthwise one that reads a tensor of a shape."""
    image, (data, weights) = pointwise.struct_info.shape, (a.struct_info.shape for a in pointwise.args)
    kernel, attrs = depthwise.args[1].struct_info.shape[2].value, depthwise.attrs
    stride, terms = attrs["strides"][0], _bytes(weights) // FLOAT // (image[1].value * target.lanes)
    more = attrs["dilation"][0] * (kernel - 1) + 1 - stride
    rows = depthwise.struct_info.shape[2].value
    return is_profitable(target, pair_of(image, middle, data, terms, rows, stride, more))


def _is_border(pad):
    """Zeros around an image."""
    width = pad.attrs["pad_width"]
    return (pad.attrs["pad_mode"], pad.attrs["pad_value"]) == ("constant", 0) and min(width) >= 0 and not any(
        (*width[:4], *width[8:]))


def is_worth_prologue(target, head, before):
    """Whether an operator is a 1x1 convolution in whose kernel elementwise operators, the calls `before`, make its
    data, a tile of points at a time, faster than in one of their own, which stores them to be read again. A convolution
    that would take all its points at once asks for the weights of a tile while it uses those of another, but not if its
    data are so made. Or one by inner products or split integers, or an average pool, which reads each of its data
    once; or a reduction of bytes in int32 or, without vectors, of what is dequantized."""
    if op_table.get(head.op).kind == "reduction" and (target.lanes == 1 or head.struct_info.dtype == SUMS):
        return _widens_bytes(before)
    if head.op == "nn.avg_pool2d":
        return _reads_once(target, head)
    if head.op == POINTWISE:  # by arithmetics that look at their data several times, to divide them
        return (set(head.attrs["strides"]) == {1} and all(isinstance(d, IntImm) for d in head.struct_info.shape)
                and all(call.op in CHEAP for call in before))
    if not _is_pointwise(target, head):
        return False
    data, weights = (a.struct_info.shape for a in head.args)
    _, blocks, height, width, _ = (d.value for d in head.struct_info.shape)
    shape = conv_tiles.Shape(blocks, height * width, 1, _bytes(weights) // FLOAT // (blocks * target.lanes),
                             _bytes(weights), _bytes(data[1:]))
    if choose(replace(shape, made=True), target).block == shape.height:
        return False
    saved = shape.input_bytes / target.cost("beyond_l2_read" if shape.input_bytes > target.l2_bytes else "l2_read")
    return choose(shape, target).block < shape.height or shape.weight_bytes / target.cost("beyond_l2_read") < saved


def _widens_bytes(before):
    """Whether cheap operators make floats of integers of 8 or 16 bits: of two to four times as much memory."""
    casts = [call for call in before if call.op == "astype"]
    return all(call.op in CHEAP for call in before if call.op != "astype") and len(casts) == 1 and (
        str(casts[0].args[0].struct_info.dtype) in (*BYTES, *WORDS))


def _reads_once(target, pool):
    """A pool in blocked layout whose windows have no element in common."""
    attrs = pool.attrs
    return (block_size(attrs["layout"]) == target.lanes and all(map(le, attrs["pool_size"], attrs["strides"]))
            and set(attrs["dilation"]) == {1} and not any(attrs["padding"]) and not attrs["ceil_mode"])


def _is_pointwise(target, call):
    """A 1x1 convolution of one group and stride 1, as in _is_conv2d."""
    return (_is_conv2d(target, call, "dense") and call.attrs["groups"] == 1 and tuple(call.attrs["strides"]) == (1, 1)
            and all(is_const_int(k, 1) for k in call.args[1].struct_info.shape[2:4]))


def _is_conv2d(target, call, form):
    """A convolution in blocked layout, of a form by its name, without padding, over an image of known size."""
    found = form_of(call.attrs) if call.op == "nn.conv2d" else None
    return (found is not None and (found.name, found.data) == (form, target.lanes)
            and not any(call.attrs["padding"]) and all(isinstance(d, IntImm) for d in call.struct_info.shape))


def _bytes(shape):
    return FLOAT * prod(d.value for d in shape)
