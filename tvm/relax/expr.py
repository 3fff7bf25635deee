"""tvm.relax.expr: the nodes of graphs under TVM's names."""
from ...ir.module import GlobalVar  # noqa: F401
from ...ir.relax.expr import *  # noqa: F401,F403
from ...ir.relax.expr import RelaxCall as Call  # noqa: F401
from ...ir.relax.expr import RelaxExpr as Expr  # noqa: F401
from ...ir.relax.expr import RelaxString as StringImm  # noqa: F401
from ...ir.relax.expr import RelaxTuple as Tuple  # noqa: F401
from ...ir.relax.expr import RelaxVar as Var  # noqa: F401
from ...ir.relax.expr import as_struct_info


def _update_struct_info(expr, struct_info):
    """Give an expression its struct info. A GlobalVar's is that of its function, in the module."""
    if isinstance(expr, GlobalVar):
        return
    object.__setattr__(expr, "struct_info", as_struct_info(struct_info))
