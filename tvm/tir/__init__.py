"""tvm.tir: TensorIR, the schedules over it, and its passes."""
from importlib import import_module as _import_module

from ...ir import expr, schedule, tir as _tir  # noqa: F401
from ...ir.schedule import Schedule, ScheduleError, ScheduleState, StmtSRef, TensorIntrin, Trace  # noqa: F401
from ...ir.tir import *  # noqa: F401,F403
from ...ir.tir import intrin as op, ir_builder  # noqa: F401
from . import analysis, stmt_functor  # noqa: F401


def __getattr__(name):
    if name == "transform":  # loads every pass
        return _import_module(".transform", __name__)
    return getattr(_tir, name)
