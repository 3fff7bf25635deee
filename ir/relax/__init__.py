"""Graph IR: functions over tensors whose shapes may be symbolic. Names and semantics are TVM Relax's."""
from .block_builder import BlockBuilder, call_op  # noqa: F401
from .expr import *  # noqa: F401,F403
from .expr import RelaxCall as Call  # noqa: F401
from .expr import RelaxTuple as Tuple  # noqa: F401
from .expr import RelaxVar as Var  # noqa: F401
from . import ops  # noqa: F401  (registers the operator table)
