"""Default schedules: for each PrimFunc the first rule that fits, by the cheapest Plan, as a trace of primitives.

A rule is a function (schedule, Target) -> Match, or None where it does not fit. It looks at blocks, not at operators: a
reduction over packed operands gets a register tile, other reductions are computed where their result is needed, the
rest is inlined, fused and spread over threads. Before loops are touched it hands back what the decision depends on and
how a Plan is applied. A new rule is a file here and a place in RULES; those for GPUs are in gpu/.
"""
from __future__ import annotations

from ...target import Target
from ...tir.halves import computed_in_halves
from ..errors import ScheduleError
from ..plan import ATTRIBUTE, ONE_THREAD, PlanError, choose
from ..schedule import Schedule
from .attention import attention
from .attention_blocks import attention_blocks
from .blocked_convolution import blocked_convolution
from .byte_tiles import byte_tiles
from .byte_windows import byte_windows
from .columns import columns
from .contraction import contraction
from .elementwise import elementwise
from .gather import gather
from .gpu import RULES as GPU_RULES
from .local_response import local_response
from .phases import phases
from .pointwise_depthwise import pointwise_depthwise
from .quantized_product import quantized_product
from .recurrence import recurrence
from .register_tile import register_tile
from .row_reduction import row_reduction
from .threads import parallel_loops
from .windows import windows
from .winograd import winograd

RULES = {rule.__name__: rule for rule in (
    attention, attention_blocks, quantized_product, recurrence, winograd, pointwise_depthwise, blocked_convolution,
    byte_tiles, byte_windows, columns, phases, windows, local_response, register_tile, contraction, row_reduction,
    gather, elementwise)}


GIVEN = "the given plan"  # what is refused, in messages


def follow(rule, sch, target, given=None):
    """Schedule by a rule: choose, then apply. given: a Plan, or a part of one. Returns the Plan that is applied; None
    where the rule does not fit. Raises ScheduleError where a primitive refuses, PlanError as choose does."""
    match = rule(sch, target)
    return match and _apply(match, _choose(match, target, given), sch, target)


def _choose(match, target, given):
    """The Plan for a target, or for one thread of it where that is given."""
    if given and given.threads == ONE_THREAD:
        target = target.alone()
    if target.parallel:
        return choose(match.kernel, target, given)
    plan = choose(match.kernel, target, given and given.replace(threads=""))
    return plan and plan.replace(threads=ONE_THREAD)


def _apply(match, plan, sch, target):
    if plan is None or match.apply(plan, target.alone() if plan.threads == ONE_THREAD else target) is False:
        return None
    if plan.threads != ONE_THREAD and not parallel_loops(sch.func.body):  # each has one iteration, or was refused
        plan = plan.replace(threads=ONE_THREAD)
    sch.plan = plan
    return plan


def apply(plan, sch, target):
    """Schedule by a Plan, of which what is open is chosen. Returns the whole Plan. Raises PlanError where there is no
    such rule, or it does not fit, or has no such candidate; ScheduleError where a primitive refuses."""
    target = _seen(sch.func, target)
    found = follow(_rule_of(plan, target), sch, target, plan)
    if found is None:
        raise PlanError(_DOES_NOT_FIT.format(plan.rule))
    return found


_DOES_NOT_FIT = "the rule {} does not fit this function"


def rules_of(target):
    """{name: rule} for a target, in the order in which they are tried."""
    return RULES if target.launch is None else GPU_RULES


def _rule_of(plan, target):
    rules = rules_of(target)
    if plan.rule not in rules:
        raise PlanError(f"a plan's rule is one of {', '.join(rules)}, not {plan.rule!r}")
    return rules[plan.rule]


class Decision:
    """What is decided for a function before its loops are touched: `plan`, by the first rule that fits.

    The attribute "plan" of a function is followed, whether a graph pass decided a part of it or a user wrote it. A rule
    that asks for something illegal does not fit, and the next is tried: primitives refuse, they never guess. A function
    with attribute "tir.is_scheduled" was written as a loop program: there is nothing to decide.
    """

    def __init__(self, func, target):
        self.func, self.target, self.refused = func, _seen(func, target), []
        given = func.attrs.get(ATTRIBUTE)
        self._tries = [(rule.__name__, rule, None) for rule in rules_of(target).values()]
        if given is not None:
            self._tries.insert(0, (GIVEN, None, given))
        if func.attrs.get("tir.is_scheduled"):
            self._tries.clear()
        self._begin()
        self._next()

    @property
    def waits(self):
        """How often threads wait for one another in a run, as the plan says; None where it leaves that open."""
        if self._match is None or self.plan.threads == ONE_THREAD:
            return 0
        return self._match.kernel.waits(self.plan, self.target) if self.plan.threads else None

    def schedule(self, target, check=None):
        """Apply what is decided, once: the Schedule for a target, the same or one thread of it, for which sizes are
        chosen anew. check: function of the Schedule that raises PlanError where the next rule is to be tried. `.plan`
        is what was applied, `.trace` how, and `.refused` says why other rules were not, for what fits then may be
        slower; also which loops threads could not share."""
        target = _seen(self.func, target)
        while self._match is not None:
            try:
                plan = self.plan if target == self.target else _choose(self._match, target, self._given)
                if _apply(self._match, plan, self._sch, target):
                    if check is not None:
                        check(self._sch)
                    break
            except (ScheduleError, PlanError) as error:
                self.refused.append(f"{self._name}: {error.line}")
            self._next()
        self._match = None
        self._sch.refused = (*self.refused, *self._sch.refused)
        return self._sch

    def _begin(self):
        self._sch = Schedule(self.func, error_render_level="fast")

    def _next(self):
        """Match the next rule that fits."""
        self._match = self.plan = None
        while self._tries and self.plan is None:
            self._name, rule, self._given = self._tries.pop(0)
            if len(self._sch.trace):  # what a rule began is dropped
                self._begin()
            try:
                self._match = (rule or _rule_of(self._given, self.target))(self._sch, self.target)
                self.plan = self._match and _choose(self._match, self.target, self._given)
                if self.plan is None and rule is None:
                    raise PlanError(_DOES_NOT_FIT.format(self._given.rule))
            except (ScheduleError, PlanError) as error:
                self.refused.append(f"{self._name}: {error.line}")
        if self.plan is None:
            self._match = None
            if len(self._sch.trace):
                self._begin()


def _seen(func, target):
    """The target as rules see it of a function: with vectors of what it is computed in."""
    return target.halves or target if computed_in_halves(func) else target


def schedule_by_rule(func, target: Target):
    """A Schedule of `func` for `target`: see Decision."""
    return Decision(func, target).schedule(target)
