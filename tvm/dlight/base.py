"""ScheduleRule: what rules of a script's own derive from."""
from __future__ import annotations


class ScheduleRule:
    """A rule for ApplyDefaultSchedule: apply(func, target, tunable) gives a tir.Schedule, or None where it does not
    fit."""

    def apply(self, func, target, tunable):
        raise NotImplementedError(f"{type(self).__name__}.apply")

    @staticmethod
    def from_callable(name):
        """Decorator: a rule of a function (func, target, tunable)."""
        def make(function):
            return type(name, (ScheduleRule,), {"apply": lambda self, *args: function(*args)})()
        return make
