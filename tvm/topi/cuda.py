"""topi.cuda: schedules of stages for GPUs. Each reduction, and each output, is a kernel."""
from __future__ import annotations

from ...ir.te import thread_axis
from ...ir.te.tensor import ComputeOp, Tensor
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
    """A schedule of reductions, and of what is done with them elementwise: threads of a block reduce a row together."""
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


schedule_elemwise = schedule_broadcast = schedule_injective
schedule_softmax = schedule_pool = schedule_adaptive_pool = schedule_reduce


def outputs(outs):
    """The operations of a tensor, or of a list of them."""
    return [t.op if isinstance(t, Tensor) else t for t in (outs if isinstance(outs, (list, tuple)) else [outs])]


def inline_injective(s):
    """Compute elementwise stages where they are used, unless they are outputs."""
    for stage in s.stages:
        if isinstance(stage.op, ComputeOp) and not stage.op.reduce_axis and not stage.is_output:
            stage.compute_inline()


def _elements(s, tensor):
    stage = s[tensor]
    axes = list(stage.op.axis)
    if not axes:
        return
    block, thread = stage.split(stage.fuse(*axes), factor=THREADS)
    stage.bind(block, thread_axis("blockIdx.x"))
    stage.bind(thread, thread_axis("threadIdx.x"))


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
