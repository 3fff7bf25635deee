"""The schedule language: primitives that rewrite a PrimFunc and prove that its meaning stays."""
from .errors import ScheduleError
from .schedule import Schedule
from .trace import BlockRV, LoopRV, Step, Trace

__all__ = ["BlockRV", "LoopRV", "Schedule", "ScheduleError", "Step", "Trace"]
