"""Default schedules: for each PrimFunc the first rule that fits, by the cheapest Plan, as a trace of primitives.

A rule is a function (schedule, Target) -> Match, or None where it does not fit. It looks at blocks, not at operators: a
reduction over packed operands gets a register tile, other reductions are computed where their result is needed, the
rest is inlined, fused and spread over threads. Before loops are touched it hands back what the decision depends on and
how a Plan is applied. A new rule is a file here and a place in RULES.
"""
from __future__ import annotations

from functools import partial

from ...target import Target
from ..errors import ScheduleError
from ..plan import ATTRIBUTE, ONE_THREAD, PlanError, choose
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
from .quantized_product import quantized_product
from .recurrence import recurrence
from .register_tile import register_tile
from .row_reduction import row_reduction
from .windows import windows
from .winograd import winograd

RULES = {rule.__name__: rule for rule in (
    attention, attention_blocks, quantized_product, recurrence, winograd, pointwise_depthwise, blocked_convolution,
    columns, phases, windows, local_response, register_tile, contraction, row_reduction, gather, elementwise)}


def follow(rule, sch, target, given=None):
    """Schedule by a rule: choose, then apply. given: a Plan, or a part of one. Returns the Plan that is applied; None
    where the rule does not fit. Raises ScheduleError where a primitive refuses, PlanError as choose does."""
    match = rule(sch, target)
    plan = match and choose(match.kernel, target, given)
    if plan is None or match.apply(plan, target.alone() if plan.threads == ONE_THREAD else target) is False:
        return None
    sch.plan = plan
    return plan


def apply(plan, sch, target):
    """Schedule by a Plan, of which what is open is chosen. Returns the whole Plan. Raises PlanError where there is no
    such rule, or it does not fit, or has no such candidate; ScheduleError where a primitive refuses."""
    if plan.rule not in RULES:
        raise PlanError(f"a plan's rule is one of {', '.join(RULES)}, not {plan.rule!r}")
    found = follow(RULES[plan.rule], sch, target, plan)
    if found is None:
        raise PlanError(f"the rule {plan.rule} does not fit this function")
    return found


def schedule_by_rule(func, target: Target):
    """A Schedule of `func` for `target`; its `.func` is the result, its `.plan` what was decided, and its `.trace` says
    how that was applied.

    The attribute "plan" of a function is followed, whether a graph pass decided a part of it or a user wrote it. A rule
    that asks for something illegal does not fit, and the next is tried: primitives refuse, they never guess.
    `.refused` says why, for what fits then may be slower; also which loops threads could not share.
    A function with attribute "tir.is_scheduled" was written as a loop program: it stays as it is.
    """
    sch, refused, given = Schedule(func, error_render_level="fast"), [], func.attrs.get(ATTRIBUTE)
    if func.attrs.get("tir.is_scheduled"):
        return sch
    tries = [(rule.__name__, partial(follow, rule)) for rule in RULES.values()]
    if given is not None:
        tries.insert(0, ("the given plan", partial(apply, given)))
    for name, attempt in tries:
        try:
            if attempt(sch, target):
                break
        except (ScheduleError, PlanError) as error:
            refused.append(f"{name}: {error.line}")
        if len(sch.trace):  # what a rule began is dropped
            sch = Schedule(func, error_render_level="fast")
    sch.refused = (*refused, *sch.refused)
    return sch
