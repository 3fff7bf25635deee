"""tvm.tir.expr: scalar expressions, and those that tensor expressions are made of."""
from ...ir import expr as _expr
from ...ir.expr import *  # noqa: F401,F403
from ...ir.te import CommReducer, ProducerLoad, Reduce  # noqa: F401
from ...ir.tir.shuffle import Shuffle  # noqa: F401


class EqualOp:
    """What `a == b` is in TVM until it is used as an expression. Here it is an EQ at once,
    so nothing is one of these."""


class NotEqualOp:
    """As EqualOp, of `a != b`."""


def __getattr__(name):
    return getattr(_expr, name)
