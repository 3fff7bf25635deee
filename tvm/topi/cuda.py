"""topi.cuda: schedules of stages for GPUs, and computations that are elsewhere the same as here."""
from __future__ import annotations

from ...ir.te import thread_axis
from ...ir.te.tensor import ComputeOp, Tensor
from .nn import (  # noqa: F401
    batch_matmul, conv2d_hwcn, conv2d_nchw, conv2d_nhwc, dense, depthwise_conv2d_nchw)
from ..te.schedule import create_schedule

THREADS = 256        # of a block that computes elements
ROW_THREADS = 32     # that reduce a row together; of a single row, THREADS


def schedule_injective(outs):
    """A schedule of elementwise operations: a thread for each element."""
    s = create_schedule(outputs(outs))
    inline_injective(s)
    for op in s.outputs:
        _elements(s, op.output(0))
    return s


def schedule_reduce(outs):
    """A schedule of reductions, and of what is done with them elementwise: threads of a block reduce a row together.
    Each reduction, and each output, is a kernel."""
    s = create_schedule(outputs(outs))
    inline_injective(s)
    for stage in list(s.stages):
        if not isinstance(stage.op, ComputeOp) or stage.attach_type == "inline":
            continue
        if stage.op.reduce_axis:
            _row(s, stage.op.output(0))
        else:
            _elements(s, stage.op.output(0))
    return s


def schedule_conv2d_nchw(outs):
    """A schedule of products and of what is done with them elementwise, of one output: a thread for each of its
    elements, which adds up the terms itself."""
    s = create_schedule(outputs(outs))
    inline_injective(s)
    op, = s.outputs
    thread = _elements(s, op.output(0))
    for stage in s.stages:
        if isinstance(stage.op, ComputeOp) and stage.attach_type != "inline" and not stage.is_output:
            stage.set_scope("local")
            stage.compute_at(s[op], thread)
    return s


schedule_elemwise = schedule_broadcast = schedule_injective
schedule_softmax = schedule_pool = schedule_adaptive_pool = schedule_reduce
schedule_conv2d_hwcn = schedule_conv2d_nhwc = schedule_depthwise_conv2d_nchw = schedule_conv2d_nchw
schedule_dense = schedule_batch_matmul = schedule_conv2d_nchw


def outputs(outs):
    """The operations of a tensor, or of a list of them."""
    return [t.op if isinstance(t, Tensor) else t for t in (outs if isinstance(outs, (list, tuple)) else [outs])]


def inline_injective(s):
    """Compute elementwise stages where they are used, unless they are outputs."""
    for stage in s.stages:
        if isinstance(stage.op, ComputeOp) and not stage.op.reduce_axis and not stage.is_output:
            stage.compute_inline()


def _elements(s, tensor):
    """A thread for each element; the threads' axis, None where there is one element."""
    stage = s[tensor]
    axes = list(stage.op.axis)
    if not axes:
        return None
    block, thread = stage.split(stage.fuse(*axes), factor=THREADS)
    stage.bind(block, thread_axis("blockIdx.x"))
    stage.bind(thread, thread_axis("threadIdx.x"))
    return thread


def _row(s, tensor):
    stage = s[tensor]
    spatial = list(stage.op.axis)
    threads = ROW_THREADS if spatial else THREADS
    _, thread = stage.split(stage.fuse(*stage.op.reduce_axis), factor=threads)
    if stage.op.num_outputs == 1:
        partial = s.rfactor(tensor, thread)
        thread = stage.op.reduce_axis[0]
        s[partial].compute_at(stage, thread)
    if spatial:
        stage.bind(stage.fuse(*spatial), thread_axis("blockIdx.x"))
    stage.bind(thread, thread_axis("threadIdx.x"))
