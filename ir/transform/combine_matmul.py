"""CombineParallelMatmul: products of one tensor with several matrices are one product with all of them."""
from __future__ import annotations

from ..expr import IntImm
from ..names import Names, unique_name
from ..node import Mutator, collect
from ..relax import op
from ..relax.block_builder import call_op
from ..relax.expr import (Constant, DataflowVar, RelaxCall, RelaxTuple, RelaxVar, TensorStructInfo, TupleGetItem,
                          TupleStructInfo, VarBinding)
from ..relax.ops.common import same_dim
from .graph import leaves

_VARS = (RelaxVar, DataflowVar)
_PLAIN = (*_VARS, RelaxCall, RelaxTuple, TupleGetItem)  # values whose uses leaves() gives, as often as there are
_ACTIVATIONS = ("nn.relu", "nn.gelu", "nn.silu")


def combine_parallel_matmul(func, check=None):
    """A function in which the products x @ a, x @ b ... of a dataflow block are the parts of x @ concat(a, b ...): of
    matrices of the same rank and batches that are there before the first product, one of symbolic width at most, the
    last one in the product. Where each is only used in a sum with a vector, or then in the same activation, these are
    of all of them at once, too.

    check(x, matrices, biases, {}): whether to combine these.
    """
    return _Combine(func, check).visit(func)


class _Combine(Mutator):
    def __init__(self, func, check):
        self.check = check
        self.names = Names(v.name for v in collect(func, _VARS))

    def visit_Constant(self, constant):
        return constant

    def visit_DataflowBlock(self, block):
        before, values, gone = {}, {}, set()  # {number of a binding: bindings before it}, {number: its new value}
        for members in _groups(block):
            branches = _Branches(block, members)
            calls = [block.bindings[k].value for k in branches.products]
            if self.check is None or self.check(calls[0].args[0], [c.args[1] for c in calls], branches.biases, {}):
                before[min(branches.ends)], parts = self._combined(calls, branches)
                values.update(zip(branches.ends, parts))
                gone |= branches.inside
        bindings = []
        for k, b in enumerate(block.bindings):
            bindings += [*before.get(k, ()), b.replace(value=values[k]) if k in values else b] if k not in gone else []
        return block.replace(bindings=tuple(bindings)) if values else block

    def _combined(self, calls, branches):
        """(the bindings of one product for all calls, the value of each)."""
        made, weights = [], [c.args[1] for c in calls]
        axis = weights[0].struct_info.ndim - 1
        joined = self._bind(made, op.concat(weights, axis=axis))
        whole = self._bind(made, op.matmul(calls[0].args[0], joined, out_dtype=str(calls[0].struct_info.dtype)))
        if branches.biases:
            whole = self._bind(made, op.add(whole, self._bind(made, op.concat(branches.biases, axis=0))))
        if branches.activation is not None:
            whole = self._bind(made, call_op(branches.activation.op, whole, **branches.activation.attrs))
        ends, end = [], 0
        for w in weights[:-1]:
            end += w.struct_info.shape[-1].value
            ends.append(end)
        split = op.split(whole, ends, axis=whole.struct_info.ndim - 1)
        infos = TupleStructInfo(tuple(c.struct_info for c in calls))  # where a width is symbolic, they say more
        parts = self._bind(made, split if isinstance(weights[-1].struct_info.shape[-1], IntImm) else split.replace(
            struct_info=infos))
        return made, [TupleGetItem(parts, n) for n in range(len(calls))]

    def _bind(self, made, value):
        var = DataflowVar(unique_name("lv", self.names, ""), value.struct_info)
        made.append(VarBinding(var, value))
        return var


class _Branches:
    """products: numbers of the bindings of products, that of symbolic width last; biases: what is added to each, or [];
    activation: the call of the first one's, or None; ends: numbers of the bindings of what each then gives; inside: of
    those before these, which nothing else uses."""

    def __init__(self, block, products):
        self.bindings = block.bindings
        self.bound = {id(b.var): k for k, b in enumerate(block.bindings)}
        self.users = {}
        for k, b in enumerate(block.bindings):
            for v in leaves(b.value) if isinstance(b.value, _PLAIN) else collect(b.value, _VARS):
                self.users.setdefault(id(v), []).append(k)
        self.products = sorted(products, key=lambda k: not isinstance(self._width(k), IntImm))
        self.biases, self.activation, self.ends, self.inside = [], None, list(self.products), set()
        self._take(self._is_sum, lambda calls: setattr(self, "biases", [c.args[1] for c in calls]))
        self._take(self._is_activation, lambda calls: setattr(self, "activation", calls[0]))

    def _width(self, k):
        return self.bindings[k].value.args[1].struct_info.shape[-1]

    def _take(self, fits, keep):
        """Go on to the only uses of the ends, where each is a call that fits."""
        uses = [self.users.get(id(self.bindings[k].var), ()) for k in self.ends]
        if not all(len(u) == 1 and isinstance(self.bindings[k].var, DataflowVar) for k, u in zip(self.ends, uses)):
            return
        nexts = [u[0] for u in uses]
        calls = [self.bindings[k].value for k in nexts]
        if all(isinstance(c, RelaxCall) and isinstance(self.bindings[n], VarBinding) and c.args and c.args[
                0] is self.bindings[k].var for c, n, k in zip(calls, nexts, self.ends)) and fits(calls, min(nexts)):
            self.inside |= set(self.ends)
            self.ends = nexts
            keep(calls)

    def _is_sum(self, calls, first):
        """Whether to each product a vector of its columns is added, which is there before the first sum."""
        for call, k in zip(calls, self.ends):
            bias = call.args[1] if call.op == "add" else None
            info = getattr(bias, "struct_info", None)
            if not isinstance(bias, (*_VARS, Constant)) or not isinstance(info, TensorStructInfo) or not isinstance(
                    info.shape, tuple) or info.ndim != 1 or info.dtype != self.bindings[k].var.struct_info.dtype:
                return False
            if not same_dim(info.shape[0], self._width(self.products[self.ends.index(k)])) or self.bound.get(
                    id(bias), -1) >= first:
                return False
        return True

    @staticmethod
    def _is_activation(calls, first):
        return calls[0].op in _ACTIVATIONS and all(
            c.op == calls[0].op and c.attrs == calls[0].attrs and len(c.args) == 1 for c in calls)


def _groups(block):
    """[numbers of the bindings of products that are combined]."""
    found, bound, wide = {}, {id(b.var): k for k, b in enumerate(block.bindings)}, set()
    for k, b in enumerate(block.bindings):
        if not isinstance(b, VarBinding) or not _is_product(b.value):
            continue
        x, w = b.value.args
        key = id(x), w.struct_info.ndim, w.struct_info.dtype, b.var.struct_info.dtype
        group = found.setdefault(key, [])
        symbolic = not isinstance(w.struct_info.shape[-1], IntImm)
        if symbolic and key in wide:
            continue
        if not group or bound.get(id(w), -1) < group[0]:
            group.append(k)
            wide |= {key} if symbolic else set()
    return [group for group in found.values() if len(group) > 1 and _same_batches(
        [block.bindings[k].value.args[1].struct_info.shape for k in group])]


def _is_product(value):
    if not isinstance(value, RelaxCall) or value.op != "matmul" or value.attrs.get("b_layout", "KN") != "KN" or (
            value.attrs.get("plan") is not None):
        return False
    infos = [a.struct_info for a in value.args]
    whole = all(isinstance(i, TensorStructInfo) and isinstance(i.shape, tuple) for i in infos)
    return whole and infos[1].ndim > 1 and all(
        isinstance(a, (*_VARS, Constant)) for a in value.args)


def _same_batches(shapes):
    return all(same_dim(a, b) for shape in shapes for a, b in zip(shape[:-1], shapes[0][:-1]))


__all__ = ["combine_parallel_matmul"]
