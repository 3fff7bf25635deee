"""TensorIR: buffers, blocks, loops and the functions made of them. Names and semantics are TVM's classic ones."""
from importlib import import_module

from ..expr import (  # noqa: F401
    EQ, GE, GT, LE, LT, NE, Add, And, Broadcast, Call, Cast, Div, FloatImm, FloorDiv, FloorMod, IntImm, IterVar, Let,
    Max, Min, Mod, Mul, Not, Or, PrimExpr, Ramp, Range, Select, StringImm, Sub, Var, as_expr, cast, const,
    free_vars, logical_and, logical_or, substitute)
from . import analysis, ir_builder, stmt_functor  # noqa: F401
from .buffer import Buffer, decl_buffer  # noqa: F401
from .function import PrimFunc, prim_func  # noqa: F401
from .intrin import *  # noqa: F401,F403
from .stmt import (  # noqa: F401
    AssertStmt, AttrStmt, Block, BlockRealize, BufferLoad, BufferRegion, BufferStore, DeclBuffer, Evaluate, For,
    IfThenElse, LetStmt, MatchBufferRegion, SeqStmt, Stmt, While, for_, seq)

SizeVar = Var  # sizes are plain variables


def __getattr__(name):
    """tir.Schedule and its like, as scripts written for TVM call them; ir/schedule itself imports this package."""
    if name in ("Schedule", "ScheduleError", "TensorIntrin"):
        from .. import schedule
        return getattr(schedule, name)
    if name == "transform":  # its passes are made of this package
        return import_module(".transform", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
