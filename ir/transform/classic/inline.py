"""InlinePrivateFunctions of TensorIR: calls of functions of the module become what these do."""
from __future__ import annotations

from ...expr import Call, Var
from ...module import SYMBOL, GlobalVar, IRModule
from ...node import collect
from ...tir.function import PrimFunc
from ...tir.renew import renew_defs
from ...tir.stmt import Block, LetStmt
from ..inline_functions import calls_itself
from ..walk import StmtMutator
from .ssa import convert_ssa


def inline_private_functions(mod):
    """Ensures that functions without a global_symbol are inlined where a statement calls them, with a let for each
    argument that is no variable, and left out of the module once nothing calls them. Those stay that call themselves,
    take buffers, have blocks, return something, or have another target than their caller."""
    private = {n for n, f in mod.functions.items() if isinstance(f, PrimFunc) and _may_be_inlined(mod, n, f)}
    made = {n: _Inline(mod, private, f).function(n) if isinstance(f, PrimFunc) else f
            for n, f in mod.functions.items()}
    before, after = map(_called, (mod.functions, made))
    return mod.with_functions({n: f for n, f in made.items() if n not in before & private - after})


def _may_be_inlined(mod, name, func):
    return SYMBOL not in func.attrs and not func.buffer_map and not collect(func.body, Block) and (
        func.ret_type == "void" and not calls_itself(mod, name))


def _called(functions):
    return {gv.name for f in functions.values() for gv in collect(f, GlobalVar)}


class _Inline(StmtMutator):
    def __init__(self, mod, names, func):
        self.mod, self.names, self.func = mod, names, func

    def function(self, name):
        body = self.visit(self.func.body)
        if body is self.func.body:
            return self.func
        return convert_ssa(IRModule({name: self.func.replace(body=body)}))[name]

    def visit_Evaluate(self, stmt):
        call = stmt.value
        if not (isinstance(call, Call) and isinstance(call.op, GlobalVar) and call.op.name in self.names):
            return stmt
        callee = self.mod[call.op.name]
        if callee.attrs.get("target", self.func.attrs.get("target")) != self.func.attrs.get("target"):
            return stmt
        if len(call.args) != len(callee.params):
            raise ValueError(f"{self.func.title} calls {call.op.name} with {len(call.args)} arguments, and it takes "
                             f"{len(callee.params)}")
        values = dict(zip(callee.params, call.args))
        same = {param: arg for param, arg in values.items() if isinstance(arg, Var)}
        body = renew_defs(self.visit(callee.body), same)
        for param in reversed([p for p in values if p not in same]):
            body = LetStmt(param, values[param], body)
        return body
