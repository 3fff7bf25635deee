"""tvm.dlight: schedules by rules, of functions that nothing has scheduled: ApplyDefaultSchedule(gpu.Matmul(), ...)."""
from __future__ import annotations

from ...ir.schedule.errors import ScheduleError
from ...ir.schedule.plan import PlanError
from ...ir.schedule.rules import follow, rules_of
from ...ir.schedule.schedule import Schedule
from ...ir.target import Target
from ...ir.tir.function import PrimFunc
from ...ir.transform.context import Pass, PassInfo
from . import gpu  # noqa: F401
from .base import ScheduleRule  # noqa: F401

_SCHEDULED = "tir.is_scheduled"


def ApplyDefaultSchedule(*rules):  # noqa: N802
    """The Pass that schedules each PrimFunc by the first of some rules that fits, for the target around; functions that
    none fits, and those with the attribute tir.is_scheduled, stay as they are. Raises ValueError without a target."""
    def run(mod, context):
        target = Target.current(allow_none=False)
        return mod.with_functions({n: _scheduled(f, target, rules) if isinstance(f, PrimFunc) else f
                                   for n, f in mod.functions.items()})
    return Pass(run, PassInfo("ApplyDefaultSchedule"))


def _scheduled(func, target, rules):
    if func.attrs.get(_SCHEDULED):
        return func
    for rule in rules:
        sch = _by(rule, func, target)
        if sch is not None:
            return sch.func.with_attr(_SCHEDULED, True)
    return func


def _by(rule, func, target):
    """The Schedule that a rule makes, None where it does not fit. A rule of a script's own has apply(func, target,
    tunable), which gives a Schedule, a list of them, or None."""
    if not isinstance(rule, gpu.Rule):
        made = rule.apply(func, target, False)
        return made[0] if isinstance(made, (list, tuple)) and made else made or None
    for name in rule.rules:
        found = rules_of(target).get(name)
        sch = Schedule(func, error_render_level="fast")
        try:
            if found is not None and follow(found, sch, target) is not None:
                return sch
        except (ScheduleError, PlanError):
            continue
    return None
