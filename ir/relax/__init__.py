"""Graph IR: functions over tensors whose shapes may be symbolic. Names and semantics are TVM Relax's."""
from ..module import GlobalVar  # noqa: F401
from .block_builder import BlockBuilder, call_op  # noqa: F401
from .expr import *  # noqa: F401,F403
from .expr import RelaxCall as Call  # noqa: F401
from .expr import RelaxExpr as Expr  # noqa: F401
from .expr import RelaxTuple as Tuple  # noqa: F401
from .expr import RelaxString as StringImm  # noqa: F401
from .expr import RelaxVar as Var  # noqa: F401
from . import lattice  # noqa: F401  (provides is_base_of)
from .inplace import call_tir_inplace  # noqa: F401
from . import op, ops  # noqa: F401  (ops registers the operator table)
