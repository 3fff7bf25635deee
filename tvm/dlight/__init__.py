"""tvm.dlight: schedules by rules, of functions that nothing has scheduled: ApplyDefaultSchedule(gpu.Matmul(), ...)."""
from . import analysis, base, cpu, gpu  # noqa: F401
from .analysis import BlockInfo, IterInfo, normalize_prim_func  # noqa: F401
from .base import ApplyDefaultSchedule, ScheduleRule, try_inline, try_inline_contiguous_spatial  # noqa: F401
