"""LambdaLift: functions inside graph functions become functions of the module, those that use what is around them
closures."""
from __future__ import annotations

from ..expr import Var
from ..module import GlobalVar
from ..node import Mutator, collect
from ..relax.expr import (DataflowVar, FuncStructInfo, Function, MatchCast, ObjectStructInfo, RelaxCall, RelaxTuple,
                          RelaxVar, VarBinding)
from .canonicalize_bindings import with_dims
from .dead_code import is_impure

_VARS = (RelaxVar, DataflowVar)


def lambda_lift(mod):
    """A module without functions inside functions: each is a private function of the module, called after the one that
    it was in. Where it uses variables around it, these are further parameters, and what it was bound to is
    R.make_closure of it, called by R.invoke_pure_closure (R.invoke_closure where it has side effects)."""
    functions, taken = {}, set(map(str, mod.functions))
    for name, func in mod.functions.items():
        if isinstance(func, Function) and collect(func.body, Function):
            func = _Lift(str(name), functions, taken).function(func)
        functions[name] = func
    return mod.with_functions(functions)


class _Lift(Mutator):
    def __init__(self, top, functions, taken):
        self.top, self.functions, self.taken = top, functions, taken
        self.lifted = {}  # id of a variable -> the GlobalVar of its function, which captures nothing
        self.inside = {}  # id of a variable -> (GlobalVar, captured variables), within that function
        self.env = {}  # id of a variable -> the one that it is now
        self.closures = {}  # id of a variable that is a closure now -> whether it has side effects

    def function(self, func):
        body = self.visit(func.body)
        ret = ObjectStructInfo() if isinstance(func.ret_struct_info, FuncStructInfo) else func.ret_struct_info
        return func.replace(body=body, ret_struct_info=ret)

    def visit_Constant(self, constant):
        return constant

    def visit_SeqExpr(self, seq):
        blocks = []
        for block in seq.blocks:
            bindings = [b for b in map(self._binding, block.bindings) if b is not None]
            if bindings:
                blocks.append(block.replace(bindings=tuple(bindings)))
        return seq.replace(blocks=tuple(blocks), body=self.visit(seq.body))

    def _binding(self, binding):
        if isinstance(binding.value, Function):
            return self._lifted(binding)
        value, var = self.visit(binding.value), binding.var
        same = getattr(value, "struct_info", None)
        if isinstance(var.struct_info, FuncStructInfo) and not isinstance(same, FuncStructInfo):
            self.closures[id(var)] = not var.struct_info.purity
            self.env[id(var)] = var = type(var)(var.name, ObjectStructInfo(), var.origin)
        return binding.replace(var=var, value=value)

    def _lifted(self, binding):
        """The binding of the closure of a function; None where it captures nothing and goes by its name."""
        var, func = binding.var, binding.value
        gv = GlobalVar(self._name(f"{self.top}_{var.name}"))
        captured = [v for v in _free(func) if v is not var and id(v) not in self.lifted]
        own = [RelaxVar(v.name, ObjectStructInfo() if id(v) in self.closures else v.struct_info) for v in captured]
        if captured:
            self.inside[id(var)] = gv, tuple(own)
        else:
            self.lifted[id(var)] = gv
        outer, self.env = self.env, {**self.env, **{id(v): o for v, o in zip(captured, own)}}
        new = self.function(func)
        self.env = outer
        self.inside.pop(id(var), None)
        self.functions[gv.name] = _apart(new.replace(params=(*new.params, *own)).without_attr("global_symbol"))
        if not captured:
            return None
        self.closures[id(var)] = is_impure(func)
        closure = self.env[id(var)] = RelaxVar(var.name, ObjectStructInfo(), var.origin)
        return VarBinding(closure, RelaxCall("make_closure", (gv, RelaxTuple(tuple(map(self.visit, captured)))), {},
                                             ObjectStructInfo()))

    def _name(self, name):
        free = name if name not in self.taken else next(
            n for k in range(len(self.taken) + 1) if (n := f"{name}_{k}") not in self.taken)
        self.taken.add(free)
        return free

    def _variable(self, var):
        return self.lifted.get(id(var)) or self.env.get(id(var), var)

    visit_RelaxVar = visit_DataflowVar = _variable

    def visit_RelaxCall(self, call):
        args = tuple(map(self.visit, call.args))
        if isinstance(call.op, str):
            return call if all(a is b for a, b in zip(args, call.args)) else call.replace(args=args)
        key = id(call.op)
        if key in self.inside:
            gv, own = self.inside[key]
            return RelaxCall("call", (*args, *own), {"gv": gv}, call.struct_info)
        if key in self.lifted:
            gv = self.lifted[key]
            known = self.functions.get(gv.name)
            is_closure = known is not None and isinstance(call.struct_info, FuncStructInfo)
            return RelaxCall("call", args, {"gv": gv}, known.ret_struct_info if is_closure else call.struct_info)
        if key in self.closures:
            name = "invoke_closure" if self.closures[key] else "invoke_pure_closure"
            return RelaxCall(name, (self.visit(call.op), RelaxTuple(args)), {"sinfo_args": call.struct_info},
                             call.struct_info)
        return call.replace(op=self.visit(call.op), args=args)


def _apart(func):
    """A function whose symbolic dimensions are its own."""
    dims = collect([p.struct_info for p in func.params], Var)
    return with_dims(func, {d: Var(d.name, d.dtype) for d in dims}) if dims else func


def _free(func):
    """The variables that a function uses and does not define, each once, in order."""
    bound = {id(p) for f in [func, *collect(func.body, Function)] for p in f.params}
    bound |= {id(b.var) for b in _bindings(func.body)}
    return [v for v in collect(func.body, _VARS) if id(v) not in bound]


def _bindings(expr):
    return collect(expr, (VarBinding, MatchCast))


__all__ = ["lambda_lift"]
