"""Which depthwise convolutions are computed in the kernel of the 1x1 convolution that reads them."""
from __future__ import annotations

from math import prod

from ..expr import IntImm, is_const_int
from ..relax.ops.conv_layouts import form_of
from ..schedule.rules.depthwise_pointwise import pays

FLOAT = 4


def is_worth_one_kernel(cpu, depthwise, pointwise):
    """Whether two operators are a depthwise convolution and a 1x1 convolution in blocked layout, of one group and
    stride 1, without padding, and the model of the rule for such pairs says that one kernel is faster."""
    forms = [form_of(call.attrs) if call.op == "nn.conv2d" else None for call in (depthwise, pointwise)]
    if [f and f.name for f in forms] != ["depthwise", "dense"] or any(f.data != cpu.lanes for f in forms):
        return False
    attrs, weights = pointwise.attrs, pointwise.args[1].struct_info.shape
    if attrs["groups"] != 1 or tuple(attrs["strides"]) != (1, 1) or any(depthwise.attrs["padding"]) or any(
            attrs["padding"]) or not all(is_const_int(k, 1) for k in weights[2:4]):
        return False
    _, *image = shape = depthwise.struct_info.shape
    if not all(isinstance(d, IntImm) for d in shape):
        return False
    rows = image[1].value
    return pays(cpu, _bytes(image), rows, _bytes(weights))


def _bytes(shape):
    return FLOAT * prod(d.value for d in shape)
