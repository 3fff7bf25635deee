"""Rules of ir/schedule/rules by their names."""
from __future__ import annotations

from ...ir.schedule.errors import ScheduleError
from ...ir.schedule.plan import PlanError
from ...ir.schedule.rules import follow, rules_of
from ...ir.schedule.schedule import Schedule
from ...ir.tir.function import PrimFunc
from .base import ScheduleRule


class Named(ScheduleRule):
    """The first of some rules of ir/schedule/rules that fits. names: theirs; None: all."""

    names = None

    def fits(self, sch):
        """Whether a function is what the rule is for."""
        return True

    def apply(self, func, target, tunable):
        if not isinstance(func, PrimFunc) or not self.is_target_available(target) or not self.fits(Schedule(func)):
            return None
        rules = rules_of(target)
        made = (_by(rules[name], func, target) for name in (rules if self.names is None else self.names) if name in rules)
        return next((sch for sch in made if sch is not None), None)


def _by(rule, func, target):
    sch = Schedule(func, error_render_level="fast")
    try:
        return sch if follow(rule, sch, target) is not None else None
    except (ScheduleError, PlanError):
        return None


__all__ = ["Named"]
