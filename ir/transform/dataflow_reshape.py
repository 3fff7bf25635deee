"""RewriteDataflowReshape: kernels that only copy, row-major order kept, are reshapes."""
from __future__ import annotations

from ..node import Mutator
from ..relax.expr import RelaxCall, DataflowVar, Function, ShapeExpr, TensorStructInfo
from ..relax.op import reshape
from ..relax.ops.common import product, same_dim
from ..tir.function import PrimFunc
from ..tir.reshapes import reshaped_input


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
        source, info = self._copied(call), call.struct_info
        if source is None or not _as_many(source.struct_info, info):
            return b
        return b.replace(value=reshape(source, ShapeExpr(info.shape)))

    def _copied(self, call):
        """The argument that a call's kernel copies, None where it does something else."""
        name = call.attrs["gv"].name
        func = self.mod.functions.get(name)
        if not isinstance(func, PrimFunc) or len(func.buffers) != len(call.args) + 1:
            return None
        if name not in self.known:
            self.known[name] = reshaped_input(func)
        at = self.known[name]
        return None if at is None else call.args[at]


def _as_many(source, target):
    """Whether a tensor has as many elements as another, of its dtype: a kernel may copy less of it."""
    return all(isinstance(i, TensorStructInfo) and isinstance(i.shape, tuple) for i in (source, target)) and (
        source.dtype == target.dtype and same_dim(product(source.shape), product(target.shape)))
