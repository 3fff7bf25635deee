"""The schedule language: primitives that rewrite a PrimFunc and prove that its meaning stays."""
from .errors import ScheduleError
from .handles import BlockRV, ExprRV, LoopRV
from .schedule import Schedule
from .state import BlockInfo, BlockScope, Dependency, DepKind, ScheduleDebugMask, ScheduleState, StmtSRef
from .tensor_intrin import TensorIntrin
from . import intrin, testing  # noqa: F401
from .trace import Instruction, InstructionKind, Trace

__all__ = ["BlockInfo", "BlockRV", "BlockScope", "DepKind", "Dependency", "ExprRV", "Instruction", "InstructionKind",
           "LoopRV", "Schedule", "ScheduleDebugMask", "ScheduleError", "ScheduleState", "StmtSRef", "TensorIntrin",
           "Trace"]
