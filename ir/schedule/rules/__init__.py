"""Default schedules: for each PrimFunc the first rule that fits, as a trace of primitives.

A rule is a function (schedule, Target) -> whether it fits. It looks at blocks, not at operators: a reduction over
packed operands gets a register tile, other reductions are computed where their result is needed, the rest is inlined,
fused and spread over threads. A new rule is a file here and a place in RULES.
"""
from __future__ import annotations

from ...target import Target
from ..errors import ScheduleError
from ..schedule import Schedule
from .attention import attention
from .attention_blocks import attention_blocks
from .blocked_convolution import blocked_convolution
from .columns import columns
from .contraction import contraction
from .elementwise import elementwise
from .gather import gather
from .local_response import local_response
from .phases import phases
from .pointwise_depthwise import pointwise_depthwise
from .recurrence import recurrence
from .register_tile import register_tile
from .row_reduction import row_reduction
from .windows import windows
from .winograd import winograd

RULES = (attention, attention_blocks, recurrence, winograd,
         pointwise_depthwise, blocked_convolution, columns, phases, windows, local_response, register_tile, contraction,
         row_reduction, gather, elementwise)


def schedule_by_rule(func, cpu: Target):
    """A Schedule of `func` for `cpu`; its `.func` is the result and its `.trace` says how.

    A rule that asks for something illegal does not fit, and the next is tried: primitives refuse, they never guess.
    `.refused` says why, for what fits then may be slower; also which loops threads could not share.
    A function with attribute "tir.is_scheduled" was written as a loop program: it stays as it is.
    """
    if func.attrs.get("tir.is_scheduled"):
        return Schedule(func)
    sch, refused = Schedule(func, error_render_level="fast"), []
    for rule in RULES:
        try:
            if rule(sch, cpu):
                break
        except ScheduleError as error:
            refused.append(f"{rule.__name__}: {error.line}")
        if len(sch.trace):  # what a rule began is dropped
            sch = Schedule(func, error_render_level="fast")
    sch.refused = (*refused, *sch.refused)
    return sch
