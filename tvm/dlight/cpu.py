"""tvm.dlight.cpu: rules for CPUs by TVM's names, which are those of ir/schedule/rules."""
from __future__ import annotations

from .analysis import is_gemv, normalize_prim_func
from .base import ScheduleRule
from .rules import Named


class CPUScheduleRule(ScheduleRule):
    """A rule for targets whose programs run where they are called."""

    def is_target_available(self, target):
        return target.launch is None


class GEMV(CPUScheduleRule, Named):
    """Products of a matrix and a vector, by the rule that fits."""

    def fits(self, sch):
        return any(is_gemv(sch, block) for block in normalize_prim_func(sch) or ())


__all__ = ["CPUScheduleRule", "GEMV"]
