"""ComputePrimValue: numbers of symbolic dimensions that a run computes, each by a function of its own."""
from __future__ import annotations

from ..expr import FloatImm, IntImm, StringImm, Var, free_vars, substitute
from ..module import GlobalVar
from ..names import Names, unique_name
from ..node import Mutator, collect
from ..relax.expr import (BindingBlock, DataflowBlock, DataflowVar, Function, PrimStructInfo, PrimValue, RelaxCall,
                          RelaxVar, SeqExpr, VarBinding)
from ..tir.function import PrimFunc
from ..tir.intrin import ret
from ..tir.stmt import Evaluate

_SIMPLE = (IntImm, FloatImm, StringImm, Var)


def compute_prim_value(mod):
    """A module in which each R.prim_value of an expression is the call of a private PrimFunc, compute_symbolic_expr,
    that takes the symbolic dimensions in it and returns its value. A module that is built does without: runs compute
    such numbers themselves, and C is made of no function that returns a value."""
    functions, names = {}, Names(mod.functions)
    for name, func in mod.functions.items():
        functions[name] = _Compute(func, names, functions).visit(func) if isinstance(func, Function) else func
    return mod.with_functions(functions)


class _Compute(Mutator):
    """Adds the functions that it calls to `functions`."""

    def __init__(self, func, taken, functions):
        self.taken, self.functions = taken, functions
        self.names = Names(v.name for v in collect(func, (RelaxVar, DataflowVar)))
        self.bindings, self.kind, self.vars = [], RelaxVar, {}

    def visit_Constant(self, constant):
        return constant

    def visit_SeqExpr(self, seq):
        outer = self.bindings, self.kind
        blocks = [self.visit(block) for block in seq.blocks]
        self.bindings, self.kind = [], RelaxVar
        body = self.visit(seq.body)
        if self.bindings:
            blocks.append(BindingBlock(tuple(self.bindings)))
        self.bindings, self.kind = outer
        return SeqExpr(tuple(blocks), body)

    def _block(self, block):
        outer = self.bindings, self.kind
        self.bindings, self.kind = [], DataflowVar if isinstance(block, DataflowBlock) else RelaxVar
        for b in block.bindings:
            if _is_computed(b.value):
                value = self._computed(b.value.value)
                self.vars[b.var] = var = b.var.replace(struct_info=value.struct_info)
                b = b.replace(var=var, value=value)
            self.bindings.append(self.visit(b))
        block = block.replace(bindings=tuple(self.bindings))
        self.bindings, self.kind = outer
        return block

    visit_BindingBlock = visit_DataflowBlock = _block

    def _variable(self, var):
        return self.vars.get(var, var)

    visit_RelaxVar = visit_DataflowVar = _variable

    def visit_PrimValue(self, value):
        """What computes it, bound before the binding that uses it."""
        if not _is_computed(value):
            return value
        call = self._computed(value.value)
        var = self.kind(unique_name("value", self.names, ""), call.struct_info)
        self.bindings.append(VarBinding(var, call))
        return var

    def _computed(self, value):
        given = list({id(v): v for v in free_vars(value)}.values())
        params = {v: Var(v.name, v.dtype) for v in given}
        body = Evaluate(ret(substitute(value, params)))
        name = unique_name("compute_symbolic_expr", self.taken, "")
        self.functions[name] = PrimFunc(tuple(params.values()), {}, body, {"tir.is_host_func": True})
        return RelaxCall("call", tuple(map(PrimValue, given)), {"gv": GlobalVar(name)}, PrimStructInfo(value.dtype))


def _is_computed(value):
    return isinstance(value, PrimValue) and not isinstance(value.value, _SIMPLE)


__all__ = ["compute_prim_value"]
