"""AllocateWorkspace: the memory that functions of external generators need, allocated by those who call them."""
from __future__ import annotations

from ...module import GlobalVar
from ...names import Names, unique_name
from ...node import Mutator, collect
from ...relax.expr import (DataflowBlock, DataflowVar, Function, RelaxVar, ShapeExpr, TensorStructInfo,
                           VarBinding)
from ...relax.op import call as operator

SIZE = "WorkspaceSize"  # the attribute of functions: bytes


def allocate_workspace(mod):
    """A module whose functions with the attribute WorkspaceSize, and those with Codegen or Composite inside them, take
    a tensor of bytes more, the largest that any asks for, under a new name.
    Functions that call them allocate one for all."""
    asking = {n: f for n, f in mod.functions.items() if SIZE in f.attrs}
    most = max((int(f.attrs[SIZE]) for f in asking.values()), default=0)
    if not most:
        return mod
    taken, info = Names(mod.functions), TensorStructInfo((most,), "uint8")
    renamed = {n: unique_name(str(n), taken, "") for n in asking}
    functions = {}
    for n, f in mod.functions.items():
        if n in asking:
            functions[renamed[n]] = _Takes(info).function(f).with_attr("global_symbol", renamed[n])
        else:
            outside = isinstance(f, Function) and not any(f.attrs.get(k) for k in ("Codegen", "Composite"))
            functions[n] = _Gives(f, info, renamed).visit(f) if outside else f
    return mod.with_functions(functions)


class _Takes(Mutator):
    """A function that asks for a workspace, with that parameter; those inside it are given it."""

    def __init__(self, info):
        self.info, self.workspace, self.inside = info, None, {}

    def visit_Constant(self, constant):
        return constant

    def function(self, func):
        if SIZE not in func.attrs:
            return self.visit(func)
        outer, own = self.workspace, RelaxVar("workspace", self.info)
        self.workspace = own
        body = self.visit(func.body)
        self.workspace = outer
        return func.replace(params=(*func.params, own), body=body).without_attr(SIZE)

    def visit_VarBinding(self, b):
        if not isinstance(b.value, Function):
            value = self.visit(b.value)
            return b if value is b.value else b.replace(value=value)
        value = self.function(b.value)
        if len(value.params) > len(b.value.params):
            self.inside[id(b.var)] = b.var.replace(struct_info=value.struct_info)
        return b.replace(var=self.inside.get(id(b.var), b.var), value=value)

    def visit_RelaxCall(self, call):
        new = self.inside.get(id(call.op))
        return call if new is None else call.replace(op=new, args=(*call.args, self.workspace))


class _Gives(Mutator):
    """A function that calls such functions: it allocates a workspace in each dataflow block that does,
    else in a block."""

    def __init__(self, func, info, renamed):
        self.names = Names(v.name for v in collect(func, (RelaxVar, DataflowVar)))
        self.info, self.renamed, self.workspace = info, renamed, None

    def visit_Constant(self, constant):
        return constant

    def _block(self, block):
        kind = DataflowVar if isinstance(block, DataflowBlock) else RelaxVar
        outer = self.workspace
        self.workspace = var = kind(unique_name("workspace_main", self.names), self.info)
        bindings = self.visit(block.bindings)
        self.workspace = outer
        if bindings is block.bindings:
            return block
        made = operator("builtin.alloc_tensor", ShapeExpr(self.info.shape), str(self.info.dtype), 0)
        return block.replace(bindings=(VarBinding(var, made), *bindings))

    visit_BindingBlock = visit_DataflowBlock = _block

    def visit_RelaxCall(self, call):
        new = self.renamed.get(call.attrs["gv"].name) if call.op == "call" else None
        args = self.visit(call.args)
        if new is None:
            return call if args is call.args else call.replace(args=args)
        return call.replace(args=(*args, self.workspace), attrs={**call.attrs, "gv": GlobalVar(new)})


__all__ = ["allocate_workspace"]
