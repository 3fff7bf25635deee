"""RewriteDataflowReshape: kernels that only copy, row-major order kept, are reshapes."""
from __future__ import annotations

from ..node import Mutator
from ..relax.expr import RelaxCall, DataflowVar, Function, ShapeExpr, TensorStructInfo
from ..relax.op import reshape
from ..relax.ops.common import product, same_dim
from ..tir.function import PrimFunc
from ..tir.reshapes import is_reshape


def rewrite_dataflow_reshape(mod):
    """A module in which a call of a kernel that copies its input element by element is a reshape, which needs no memory
    of its own; outputs of dataflow blocks, which others may write, stay copies."""
    rewrite = _Reshape(mod)
    return mod.with_functions({n: rewrite.visit(f) if isinstance(f, Function) else f
                               for n, f in mod.functions.items()})


class _Reshape(Mutator):
    def __init__(self, mod):
        self.mod, self.known = mod, {}

    def visit_Constant(self, constant):
        return constant

    def visit_VarBinding(self, b):
        call = b.value
        if not isinstance(b.var, DataflowVar) or not isinstance(call, RelaxCall) or call.op != "call_tir":
            return super().generic_visit(b)
        info, args = call.struct_info, call.args
        if len(args) != 1 or not isinstance(info, TensorStructInfo) or not self._copies(call, args[0].struct_info):
            return b
        return b.replace(value=reshape(args[0], ShapeExpr(info.shape)))

    def _copies(self, call, source):
        """Whether a call's kernel copies, and what it takes has as many elements as what it makes: not less of it."""
        name, target = call.attrs["gv"].name, call.struct_info
        func = self.mod.functions.get(name)
        if not isinstance(func, PrimFunc) or call.attrs.get("sym_args") or source.shape is None:
            return False
        if name not in self.known:
            self.known[name] = is_reshape(func)
        return self.known[name] and source.dtype == target.dtype and same_dim(
            product(source.shape), product(target.shape))
