"""What gradients of products leave behind: transposes of transposes, and of products."""
from __future__ import annotations

from ...names import Names, unique_name
from ...node import collect
from ...relax.expr import DataflowVar, RelaxCall, RelaxVar, VarBinding
from ...relax.op import call as operator
from ..dead_code import remove_all_unused
from ..graph import ReplaceVars


def simplify_products(func):
    """A function of one dataflow block, in which no transpose of the last two axes is of another such, or of a product:
    (x^T)^T is x, (a b)^T is b^T a^T. Without what that leaves unused."""
    block = func.body.blocks[0]
    rewrite = _Transposes(Names(v.name for v in collect(func, (RelaxVar, DataflowVar))))
    for b in block.bindings:
        rewrite.binding(b)
    body = func.body.replace(blocks=(block.replace(bindings=tuple(rewrite.bindings)),),
                             body=rewrite.replace.visit(func.body.body))
    return remove_all_unused(func.replace(body=body))


class _Transposes:
    def __init__(self, names):
        self.names, self.bindings, self.values, self.replace = names, [], {}, ReplaceVars()

    def binding(self, b):
        value = self.replace.visit(b.value)
        made = self._transposed(value.args[0]) if _is_transpose(value) else value
        if isinstance(made, (RelaxVar, DataflowVar)) and made is not value and isinstance(b.var, DataflowVar):
            self.replace.env[id(b.var)] = made
        else:
            self._add(b.replace(value=made or value))

    def _add(self, binding):
        self.bindings.append(binding)
        self.values[id(binding.var)] = binding.value
        return binding.var

    def _transposed(self, x):
        """The transpose of a variable by what it is bound to; None where that tells nothing."""
        source = self.values.get(id(x))
        if _is_transpose(source):
            return source.args[0]
        if getattr(source, "op", None) != "matmul" or min(a.struct_info.ndim for a in source.args) < 2:
            return None
        a, b = source.args
        return operator("matmul", self._turned(b), self._turned(a), out_dtype=source.attrs.get("out_dtype"))

    def _turned(self, x):
        source = self.values.get(id(x))
        if _is_transpose(source):
            return source.args[0]
        ndim = x.struct_info.ndim
        call = operator("permute_dims", x, axes=[*range(ndim - 2), ndim - 1, ndim - 2])
        return self._add(VarBinding(DataflowVar(unique_name("lv", self.names), call.struct_info), call))


def _is_transpose(value):
    """Whether a value is a permute_dims that swaps the last two axes alone."""
    if not isinstance(value, RelaxCall) or value.op != "permute_dims":
        return False
    ndim = value.args[0].struct_info.ndim
    axes = value.attrs.get("axes")
    axes = tuple(range(ndim))[::-1] if axes is None else tuple(a % ndim for a in axes)
    return ndim >= 2 and axes == (*range(ndim - 2), ndim - 1, ndim - 2)


__all__ = ["simplify_products"]
