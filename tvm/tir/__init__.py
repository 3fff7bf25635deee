"""tvm.tir: TensorIR, the schedules over it, and its passes."""
from importlib import import_module as _import_module

from ...ir import schedule, tir as _tir  # noqa: F401
from ...ir.schedule import (  # noqa: F401
    BlockScope, Dependency, DepKind, Schedule, ScheduleError, ScheduleState, StmtSRef, TensorIntrin, Trace)
from ...ir.tir import *  # noqa: F401,F403
from ...ir.tir import intrin as op, ir_builder  # noqa: F401
from ...ir.te import CommReducer, ProducerLoad, Reduce, comm_reducer, sum  # noqa: A004,F401
from . import analysis, expr, generic, stmt_functor  # noqa: F401
from .block_scope import BlockDependenceInfo  # noqa: F401
from .expr import BinaryOpExpr, CallEffectKind, CmpExpr, ConstExpr, LogicalExpr, PrimExprWithOp  # noqa: F401
from .generic import add, multiply, subtract  # noqa: F401
from .stmt_functor import stmt_list  # noqa: F401
from .statements import Allocate, stmt_seq  # noqa: F401
from .data_layout import BijectiveLayout, Layout, bijective_layout, layout  # noqa: F401


def __getattr__(name):
    if name == "transform":  # loads every pass
        return _import_module(".transform", __name__)
    if name == "build":
        return _import_module("...driver", __name__).build
    return getattr(_tir, name)
