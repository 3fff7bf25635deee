"""CombineParallelMatmul: products of one tensor with several matrices are one product with all of them."""
from __future__ import annotations

from ..expr import IntImm
from ..names import Names, unique_name
from ..node import Mutator, collect
from ..relax import op
from ..relax.expr import Constant, DataflowVar, RelaxCall, RelaxVar, TensorStructInfo, TupleGetItem, VarBinding
from ..relax.ops.common import same_dim

_VARS = (RelaxVar, DataflowVar)


def combine_parallel_matmul(func, check=None):
    """A function in which the products x @ a, x @ b ... of a dataflow block are the parts of x @ concat(a, b ...): of
    matrices of known width, of the same rank and batches, that are there before the first product.

    check(x, matrices, [], {}): whether to combine these.
    """
    return _Combine(func, check).visit(func)


class _Combine(Mutator):
    def __init__(self, func, check):
        self.check = check
        self.names = Names(v.name for v in collect(func, _VARS))

    def visit_Constant(self, constant):
        return constant

    def visit_DataflowBlock(self, block):
        before, values = {}, {}  # {number of a binding: bindings before it}, {number: its new value}
        for members in _groups(block):
            calls = [block.bindings[k].value for k in members]
            if self.check is None or self.check(calls[0].args[0], [c.args[1] for c in calls], [], {}):
                before[members[0]], parts = self._combined(calls)
                values.update(zip(members, parts))
        bindings = []
        for k, b in enumerate(block.bindings):
            bindings += [*before.get(k, ()), b.replace(value=values[k]) if k in values else b]
        return block.replace(bindings=tuple(bindings)) if values else block

    def _combined(self, calls):
        """(the bindings of one product for all calls, the value of each)."""
        made, weights = [], [c.args[1] for c in calls]
        axis = weights[0].struct_info.ndim - 1
        joined = self._bind(made, op.concat(weights, axis=axis))
        product = self._bind(made, op.matmul(calls[0].args[0], joined, out_dtype=str(calls[0].struct_info.dtype)))
        ends, end = [], 0
        for w in weights[:-1]:
            end += w.struct_info.shape[-1].value
            ends.append(end)
        parts = self._bind(made, op.split(product, ends, axis=product.struct_info.ndim - 1))
        return made, [TupleGetItem(parts, n) for n in range(len(calls))]

    def _bind(self, made, value):
        var = DataflowVar(unique_name("lv", self.names, ""), value.struct_info)
        made.append(VarBinding(var, value))
        return var


def _groups(block):
    """[numbers of the bindings of products that are combined]."""
    found, bound = {}, {id(b.var): k for k, b in enumerate(block.bindings)}
    for k, b in enumerate(block.bindings):
        if not isinstance(b, VarBinding) or not _is_product(b.value):
            continue
        x, w = b.value.args
        key = id(x), w.struct_info.ndim, w.struct_info.dtype, b.var.struct_info.dtype
        group = found.setdefault(key, [])
        if not group or bound.get(id(w), -1) < group[0]:
            group.append(k)
    return [group for group in found.values() if len(group) > 1 and _same_batches(
        [block.bindings[k].value.args[1].struct_info.shape for k in group])]


def _is_product(value):
    if not isinstance(value, RelaxCall) or value.op != "matmul" or value.attrs.get("b_layout", "KN") != "KN" or (
            value.attrs.get("plan") is not None):
        return False
    infos = [a.struct_info for a in value.args]
    whole = all(isinstance(i, TensorStructInfo) and isinstance(i.shape, tuple) for i in infos)
    return whole and infos[1].ndim > 1 and isinstance(infos[1].shape[-1], IntImm) and all(
        isinstance(a, (*_VARS, Constant)) for a in value.args)


def _same_batches(shapes):
    return all(same_dim(a, b) for shape in shapes for a, b in zip(shape[:-1], shapes[0][:-1]))


__all__ = ["combine_parallel_matmul"]
