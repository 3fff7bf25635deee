"""What rules for GPUs derive from."""
from __future__ import annotations

from ....ir.schedule.errors import ScheduleError
from ....ir.schedule.schedule import Schedule
from ....ir.tir.function import PrimFunc
from ..analysis import UnknownAccess
from ..base import ScheduleRule
from ..rules import Named


class GPUScheduleRule(ScheduleRule):
    """A rule for targets whose kernels are launched."""

    def is_target_available(self, target):
        return target.launch is not None


class Steps(GPUScheduleRule, Named):
    """Steps of its own, and where they do not fit, or one is refused, the rules of ir/schedule/rules that have `names`."""

    names = ()

    def steps(self, sch, target):
        """The Schedule of a function, or None where they do not fit."""
        raise NotImplementedError(f"{type(self).__name__}.steps")

    def apply(self, func, target, tunable):
        if not isinstance(func, PrimFunc) or not self.is_target_available(target):
            return None
        try:
            made = self.steps(Schedule(func, error_render_level="fast"), target)
        except (ScheduleError, UnknownAccess):
            made = None
        return super().apply(func, target, tunable) if made is None else made


__all__ = ["GPUScheduleRule"]
