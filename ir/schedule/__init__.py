"""The schedule language: primitives that rewrite a PrimFunc and prove that its meaning stays."""
from .errors import ScheduleError
from .schedule import Schedule
from .tensor_intrin import TensorIntrin
from .trace import BlockRV, ExprRV, LoopRV, Step, Trace

__all__ = ["BlockRV", "ExprRV", "LoopRV", "Schedule", "ScheduleError", "Step", "TensorIntrin", "Trace"]
