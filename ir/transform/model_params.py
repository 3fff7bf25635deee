"""BundleModelParams: a function's weights, its parameters from attrs["num_input"] on."""
from __future__ import annotations

from ..expr import Var
from ..names import Names, unique_name
from ..node import Mutator, collect
from ..relax.expr import (BindingBlock, DataflowBlock, DataflowVar, Function, MatchCast, RelaxVar, TupleGetItem,
                          TupleStructInfo, VarBinding)
from ..relax.infos import new_dims
from .dead_code import is_impure

STOP = "builtin.stop_lift_params"  # what is computed of this call's result is not computed of weights alone
_VARS = (RelaxVar, DataflowVar)


def computable_at_compile_time(func):
    """The variables of a function that its weights alone decide: these, and what is computed of them without side
    effects."""
    known = {id(p): p for p in func.params[func.attrs.get("num_input", len(func.params)):]}
    sizes = {id(v) for p in known.values() for v in collect(p.struct_info, Var)}
    for b in func.bindings:
        free = [v for v in collect(b.value, Var) if id(v) not in sizes]
        stops = getattr(b.value, "op", None) == STOP
        if all(id(v) in known for v in collect(b.value, _VARS)) and not (free or stops or is_impure(b.value)):
            known[id(b.var)] = b.var
            if isinstance(b, MatchCast):  # which finds dimensions out
                sizes |= {id(v) for v in new_dims(b.var.struct_info)}
    return list(known.values())


def bundle_model_params(mod, param_tuple_name=None):
    """A module in which functions with attrs["num_input"] take their weights as one tuple, the last parameter, called
    param_tuple_name (model_params)."""
    return mod.with_functions({
        n: _bundled(f, param_tuple_name or "model_params") if isinstance(f, Function) and "num_input" in f.attrs else f
        for n, f in mod.functions.items()})


def weight_items(func, weights, whole, names):
    """The body of a function in which the variables `weights` are items of the variable `whole`."""
    return _Items({id(w): (n, w) for n, w in enumerate(weights)}, whole, names).visit(func.body)


def _bundled(func, name):
    count = func.attrs["num_input"]
    inputs, weights = func.params[:count], func.params[count:]
    names = Names(v.name for v in collect(func, _VARS) if not any(v is w for w in weights))
    whole = RelaxVar(unique_name(name, names), TupleStructInfo(tuple(w.struct_info for w in weights)))
    return func.replace(params=(*inputs, whole), body=weight_items(func, weights, whole, names))


class _Items(Mutator):
    """Binds each weight, an item of the tuple `whole`, before the first use in a sequence."""

    def __init__(self, weights, whole, names):
        self.weights, self.whole, self.names, self.env = weights, whole, names, {}

    def visit_Constant(self, constant):
        return constant

    def visit_SeqExpr(self, seq):
        outer, blocks = dict(self.env), []
        for block in seq.blocks:
            flow, bindings, before = isinstance(block, DataflowBlock), [], dict(self.env)
            for b in block.bindings:
                bindings += self._items(b.value, flow)
                bindings.append(self.visit(b))
            if flow:
                self.env = before  # DataflowVars end here
            blocks.append(block.replace(bindings=tuple(bindings)))
        last = tuple(self._items(seq.body, False))
        if last and blocks and isinstance(blocks[-1], BindingBlock):
            blocks[-1] = BindingBlock(blocks[-1].bindings + last)
        elif last:
            blocks.append(BindingBlock(last))
        new = seq.replace(blocks=tuple(blocks), body=self.visit(seq.body))
        self.env = outer
        return new

    def _items(self, value, flow):
        """Bindings of the weights that a value uses and that have no name yet."""
        made = []
        for v in collect(value, RelaxVar):
            if id(v) in self.weights and id(v) not in self.env:
                n, weight = self.weights[id(v)]
                name = unique_name(weight.name, self.names)
                var = (DataflowVar if flow else RelaxVar)(name, weight.struct_info, weight.origin)
                self.env[id(v)] = var
                made.append(VarBinding(var, TupleGetItem(self.whole, n)))
        return made

    def visit_RelaxVar(self, var):
        return self.env.get(id(var), var)


__all__ = ["STOP", "bundle_model_params", "computable_at_compile_time", "weight_items"]
