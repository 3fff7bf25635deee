"""The schedule language: primitives that rewrite a PrimFunc and prove that its meaning stays."""
from .errors import ScheduleError
from .handles import BlockRV, ExprRV, LoopRV
from .schedule import Schedule
from .state import BlockInfo, ScheduleState, StmtSRef
from .tensor_intrin import TensorIntrin
from .trace import Instruction, Trace

__all__ = ["BlockInfo", "BlockRV", "ExprRV", "Instruction", "LoopRV", "Schedule", "ScheduleError", "ScheduleState",
           "StmtSRef", "TensorIntrin", "Trace"]
