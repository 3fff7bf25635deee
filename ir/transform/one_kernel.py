"""Which 1x1 convolutions are computed in one kernel with what makes their data."""
from __future__ import annotations

from math import prod
from operator import le

from ..expr import IntImm, is_const_int
from ..relax.ops.conv_layouts import form_of
from ..relax.ops.layout import block_size
from ..schedule.rules import conv_tiles
from ..schedule.rules.depthwise_pointwise import FAR, NEAR, pays

FLOAT = 4
# Operators that take an instruction or two, which a convolution may repeat each time that it looks at its data.
CHEAP = {"add", "subtract", "multiply", "maximum", "minimum", "clip", "nn.relu", "nn.leaky_relu", "negative", "abs"}


def is_worth_one_kernel(cpu, depthwise, pointwise):
    """Whether two operators are a depthwise convolution and a 1x1 convolution that alone reads it, and the model of the
    rule for such pairs says that one kernel is faster."""
    form = form_of(depthwise.attrs) if depthwise.op == "nn.conv2d" else None
    if (form is None or (form.name, form.data) != ("depthwise", cpu.lanes) or any(depthwise.attrs["padding"])
            or not _is_pointwise(cpu, pointwise)):
        return False
    _, *image = depthwise.struct_info.shape
    return pays(cpu, _bytes(image), image[1].value, _bytes(pointwise.args[1].struct_info.shape))


def is_worth_prologue(cpu, head, before):
    """Whether an operator is a 1x1 convolution in whose kernel elementwise operators, the calls `before`, make its
    data, a tile of points at a time, faster than in one of their own, which stores them to be read again. A convolution
    that would take all its points at once asks for the weights of a tile while it uses those of another, but not if its
    data are so made. Or one by pairs or digits, or an average pool, which reads each of its data once."""
    if head.op == "nn.avg_pool2d":
        return _reads_once(cpu, head)
    if head.op in ("nn.conv2d_pairs", "nn.conv2d_digits"):  # which look at their data several times, to divide them
        return (set(head.attrs["strides"]) == {1} and all(isinstance(d, IntImm) for d in head.struct_info.shape)
                and all(call.op in CHEAP for call in before))
    if not _is_pointwise(cpu, head):
        return False
    data, weights = (a.struct_info.shape for a in head.args)
    _, blocks, height, width, _ = (d.value for d in head.struct_info.shape)
    shape = conv_tiles.Shape(blocks, height * width, 1, _bytes(weights) // FLOAT // (blocks * cpu.lanes),
                             _bytes(weights), _bytes(data[1:]))
    if conv_tiles.choose(cpu, shape, made=True).band == shape.height:
        return False
    saved = shape.input_bytes / (FAR if shape.input_bytes > cpu.l2_bytes else NEAR)
    return conv_tiles.choose(cpu, shape).band < shape.height or shape.weight_bytes / FAR < saved


def _reads_once(cpu, pool):
    """A pool in blocked layout whose windows have no element in common."""
    attrs = pool.attrs
    return (block_size(attrs["layout"]) == cpu.lanes and all(map(le, attrs["pool_size"], attrs["strides"]))
            and set(attrs["dilation"]) == {1} and not any(attrs["padding"]) and not attrs["ceil_mode"])


def _is_pointwise(cpu, call):
    """A 1x1 convolution in blocked layout, of one group and stride 1, without padding, over an image of known size."""
    form = form_of(call.attrs) if call.op == "nn.conv2d" else None
    if form is None or (form.name, form.data) != ("dense", cpu.lanes):
        return False
    attrs, weights = call.attrs, call.args[1].struct_info.shape
    return (attrs["groups"] == 1 and tuple(attrs["strides"]) == (1, 1) and not any(attrs["padding"])
            and all(is_const_int(k, 1) for k in weights[2:4])
            and all(isinstance(d, IntImm) for d in call.struct_info.shape))


def _bytes(shape):
    return FLOAT * prod(d.value for d in shape)
