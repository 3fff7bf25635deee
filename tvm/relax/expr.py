"""tvm.relax.expr: the nodes of graphs under TVM's names."""
from ...ir.expr import Op
from ...ir.module import BaseFunc, GlobalVar
from ...ir.relax import expr as _expr
from ...ir.relax.expr import *  # noqa: F401,F403
from ...ir.relax.expr import RelaxCall as Call  # noqa: F401
from ...ir.relax.expr import RelaxString as StringImm  # noqa: F401
from ...ir.relax.expr import RelaxTuple as Tuple  # noqa: F401
from ...ir.relax.expr import as_struct_info


class _Kinds(type):
    """Of names that are base classes in TVM: their values are those of several classes here."""

    def __instancecheck__(cls, value):
        return isinstance(value, cls.kinds)

    def __subclasscheck__(cls, other):
        return issubclass(other, cls.kinds)

    def __call__(cls, *args, **kwargs):
        return cls.kinds[0](*args, **kwargs)


class Expr(metaclass=_Kinds):
    """What stands in a graph: a value, a function, the name of one, or an operator."""
    kinds = (_expr.RelaxExpr, BaseFunc, GlobalVar, Op)


class Var(metaclass=_Kinds):
    """A variable; a DataflowVar is one, too."""
    kinds = (_expr.RelaxVar, _expr.DataflowVar)


class BindingBlock(metaclass=_Kinds):
    """A block of bindings; a DataflowBlock is one, too."""
    kinds = (_expr.BindingBlock, _expr.DataflowBlock)


def _update_struct_info(expr, struct_info):
    """Give an expression its struct info. A GlobalVar's is that of its function, in the module."""
    if isinstance(expr, GlobalVar):
        return
    object.__setattr__(expr, "struct_info", as_struct_info(struct_info))
