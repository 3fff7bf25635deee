"""tvm.tir.expr: scalar expressions, and those that tensor expressions are made of."""
from ...ir import expr as _expr
from ...ir.expr import *  # noqa: F401,F403
from ...ir.expr import IMMEDIATES, BinaryExpr as BinaryOpExpr, CompareExpr as CmpExpr, PrimExpr, And, Not, Or
from ...ir.te import CommReducer, ProducerLoad, Reduce  # noqa: F401
from ...ir.tir.stmt import BufferLoad  # noqa: F401
from ...ir.tir.shuffle import Shuffle  # noqa: F401
from ...ir.tir.size_var import SizeVar  # noqa: F401

ExprOp = PrimExprWithOp = PrimExpr  # what Python's operators are for


class _Kind(type):
    """Classes of classes of expressions, for isinstance alone."""

    def __instancecheck__(cls, value):
        return isinstance(value, cls.members)


class ConstExpr(metaclass=_Kind):
    """Immediates."""

    members = IMMEDIATES


class LogicalExpr(metaclass=_Kind):
    """And, Or and Not."""

    members = (And, Or, Not)


class CallEffectKind:
    """What a call does besides giving a value, by TVM's numbers."""

    ExprAnnotation, Pure, ReadState, UpdateState, SpecialCallArg, EmbedInfo, ControlJump = range(7)
    Opaque = UpdateState


def div_ambiguity_error():
    """The error of `/` between integers."""
    return RuntimeError("`/` on integers is ambiguous: use `//` (floor), tir.truncdiv or tir.div")


def __getattr__(name):
    return getattr(_expr, name)
