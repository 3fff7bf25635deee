"""TensorIR: buffers, blocks, loops and the functions made of them. Names and semantics are TVM's classic ones."""
from ..expr import (  # noqa: F401
    EQ, GE, GT, LE, LT, NE, Add, And, Broadcast, Call, Cast, Div, FloatImm, FloorDiv, FloorMod, IntImm, IterVar, Let,
    Max, Min, Mod, Mul, Not, Or, PrimExpr, Ramp, Range, Select, StringImm, Sub, Var, as_expr, cast, const,
    free_vars, logical_and, logical_or, substitute)
from . import effects, ir_builder  # noqa: F401
from .buffer import Buffer, decl_buffer  # noqa: F401
from .function import PrimFunc, prim_func  # noqa: F401
from .index_map import IndexMap  # noqa: F401
from .intrin import *  # noqa: F401,F403
from .runtime_ops import *  # noqa: F401,F403
from .shuffle import Shuffle  # noqa: F401
from .size_var import SizeVar  # noqa: F401
from .stmt import (  # noqa: F401
    AllocateConst, AssertStmt, AttrStmt, Block, BlockRealize, BufferLoad, BufferRegion, BufferStore, DeclBuffer, Evaluate, For,
    ForKind, IfThenElse, LetStmt, MatchBufferRegion, SeqStmt, Stmt, While, for_, seq)
from .unlowered import BufferRealize, Prefetch, ProducerRealize, ProducerStore  # noqa: F401
