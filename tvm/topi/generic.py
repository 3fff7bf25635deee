"""topi.generic: schedules that do what must be done: element by element what needs no memory of its own."""
from __future__ import annotations

from ..te.schedule import create_schedule
from .cuda import inline_injective, outputs


def schedule_injective(outs):
    """A schedule of elementwise operations: all but the outputs are computed where they are used."""
    s = create_schedule(outputs(outs))
    inline_injective(s)
    return s


schedule_elemwise = schedule_broadcast = schedule_reduce = schedule_softmax = schedule_extern = schedule_injective
schedule_conv2d_hwcn = schedule_conv2d_nchw = schedule_conv2d_nhwc = schedule_depthwise_conv2d_nchw = schedule_injective
schedule_dense = schedule_batch_matmul = schedule_pool = schedule_adaptive_pool = schedule_injective
