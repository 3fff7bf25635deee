"""CallTIRRewrite: destination-passing calls become allocations and calls in place."""
from __future__ import annotations

from ..module import GlobalVar
from ..names import Names, unique_name
from ..node import Mutator, collect
from ..relax.control import fields_of
from ..relax.expr import (BindingBlock, DataflowVar, MatchCast, RelaxCall, RelaxTuple, RelaxVar, ShapeExpr,
                          TupleStructInfo, VarBinding)
from ..relax.inplace import outputs_of
from ..relax.op import call as operator

_REWRITTEN = ("call_tir", "call_tir_inplace", "call_dps_packed")


def call_tir_rewrite(func):
    """A graph function whose R.call_tir and R.call_dps_packed are R.builtin.alloc_tensor of each result, then a call of
    the function with arguments, results and dimensions; of R.call_tir_inplace only results that are no arguments. It
    has no dataflow blocks any more: what calls write is an effect."""
    return _Rewrite(func).visit(func)


class _Rewrite(Mutator):
    def __init__(self, func):
        self.names = Names(v.name for v in collect(func, (RelaxVar, DataflowVar)))
        self.env = {}

    def visit_Constant(self, constant):
        return constant

    def _variable(self, var):
        if isinstance(var, RelaxVar):
            return var
        return self.env.setdefault(id(var), RelaxVar(var.name, var.struct_info, var.origin))

    visit_RelaxVar = visit_DataflowVar = _variable

    def visit_SeqExpr(self, seq):
        blocks = tuple(self._block(block) for block in seq.blocks)
        return seq.replace(blocks=blocks, body=self.visit(seq.body))

    def _block(self, block):
        bindings = []
        for b in block.bindings:
            value, var = self.visit(b.value), self.visit(b.var)
            if isinstance(value, RelaxCall) and value.op in _REWRITTEN and not isinstance(b, MatchCast):
                value = self._allocated(value, bindings)
            bindings.append(b.replace(var=var, value=value))
        return BindingBlock(tuple(bindings))

    def _allocated(self, call, bindings):
        """What a call's result is; the bindings that make it are added to `bindings`."""
        def new(info):
            made = operator("builtin.alloc_tensor", ShapeExpr(info.shape), str(info.dtype), 0)
            return self._bound("alloc", made, bindings)
        if call.op == "call_tir_inplace":
            outputs, given = outputs_of(call, call.args, new)
        else:
            outputs = [new(i) for i in fields_of(call.struct_info)]
            given = (*call.args, *outputs)
        sizes = call.attrs.get("sym_args", ())
        args = (*given, *((ShapeExpr(sizes),) if sizes else ()))
        void = TupleStructInfo(())
        made = (RelaxCall("call", args, {"gv": GlobalVar(call.attrs["gv"].name)}, void)
                if call.op != "call_dps_packed" else
                RelaxCall("call_packed", args, {"func": call.attrs["func"]}, void))
        self._bound("_", made, bindings)
        several = isinstance(call.struct_info, TupleStructInfo)
        return RelaxTuple(tuple(outputs)) if several else outputs[0]

    def _bound(self, hint, value, bindings):
        var = RelaxVar(unique_name(hint, self.names, ""), value.struct_info)
        bindings.append(VarBinding(var, value))
        return var


__all__ = ["call_tir_rewrite"]
