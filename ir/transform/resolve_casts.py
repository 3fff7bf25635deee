"""Decide at compile time, or refuse, what only a run could decide: MatchCast, `if`."""
from __future__ import annotations

from ..expr import IntImm, Var, const, free_vars
from ..node import Mutator
from ..relax.expr import If, MatchCast, TensorStructInfo, TupleStructInfo, VarBinding, dataflow_function
from ..relax.ops.common import as_dim, dim_text, same_dim, simplify
from ..relax.verifier import contradiction
from ..tir.specialize import specialize


def resolve_match_cast(mod):
    """Requires nothing. Ensures "main" has no MatchCast or `if`.

    A MatchCast is checked here: dimensions it defines become what they are equal to. Raises ValueError for what only
    a run could check, and for control flow, naming the variable and the way out.
    """
    func = mod["main"]
    if not any(isinstance(b, MatchCast) or isinstance(b.value, If) for b in func.bindings):
        return mod
    return mod.with_function("main", _Resolve(mod, func).run())


class _Resolve(Mutator):
    """env: {id(graph variable): its replacement}; dims: {symbolic dimension of a cast: what it is}."""

    def __init__(self, mod, func):
        self.func, self.env, self.dims = func, {}, {}
        self.known = {id(v) for v in free_vars([p.struct_info for p in func.params])}
        self.known |= {id(v) for v in mod.attrs.get("dims", ())}

    def run(self):
        bindings = []
        for b in self.func.bindings:
            _refuse(b)
            value = self.visit(b.value)
            if isinstance(b, MatchCast):
                self._cast(b.var, value.struct_info)
                self.env[id(b.var)] = value
                continue
            var = b.var.replace(struct_info=self.visit(b.var.struct_info))
            self.env[id(b.var)] = var
            bindings.append(VarBinding(var, value))
        outputs = [self.visit(o) for o in self.func.outputs]
        return dataflow_function(self.func.params, bindings, outputs, self.func.attrs)

    def _cast(self, var, info):
        target = self.visit(var.struct_info)
        problem = contradiction(info, target)
        if problem:
            raise ValueError(f"{var.name}: R.match_cast of {info} to {target} can never hold: {problem}")
        for mine, theirs in _pairs(info, target):
            if isinstance(theirs, Var) and id(theirs) not in self.known and theirs not in self.dims:
                self.dims[theirs] = mine
            elif not same_dim(mine, simplify(self.visit(theirs))):
                raise ValueError(
                    f"{var.name}: R.match_cast says that {dim_text(mine)} is {dim_text(theirs)}, which only a run "
                    "could check, and compiled networks do not: give the input that dimension in the signature, or "
                    "leave the cast out")

    # ------------------------------------------------------------ rewriting

    def visit_RelaxVar(self, v):
        return self.env.get(id(v), v)

    visit_DataflowVar = visit_RelaxVar

    def visit_Constant(self, c):
        return c

    def visit_Var(self, v):
        return self.dims.get(v, v)

    def visit_TensorStructInfo(self, info):
        if info.shape is None or not self.dims:
            return info
        return info.replace(shape=tuple(simplify(self.visit(d)) for d in info.shape))


def _refuse(b):
    value, name = b.value, b.var.name
    if isinstance(value, If):
        raise ValueError(f"{name}: the branches of an `if` that is C give tensors of the same known shapes: give "
                         "both the same, or compute both and choose with R.where")


def _pairs(info, target):
    """The dimensions of the value and of the cast, side by side. ValueError when the value's are not known."""
    if isinstance(target, TupleStructInfo):
        return [pair for a, b in zip(info.fields, target.fields) for pair in _pairs(a, b)]
    key = "shape" if isinstance(target, TensorStructInfo) else "values"
    mine, theirs = getattr(info, key, None), getattr(target, key, None)
    if theirs is None:
        return []
    if mine is None:
        raise ValueError(f"R.match_cast of {info} to {target}: the value's shape is not known when compiling; only a "
                         "run could check it, and compiled networks do not")
    return list(zip(mine, theirs))


def bind_dims(func, call):
    """(PrimFunc, call_tir) whose symbolic dimensions are all passed: those that only the shapes of `func` name become
    numbers where this call knows them, and parameters elsewhere."""
    outs = call.struct_info.fields if isinstance(call.struct_info, TupleStructInfo) else (call.struct_info,)
    values, buffers, params, passed, explicit = {}, {}, [], [], {id(p) for p in func.params}
    handles = [p for p in func.params if p in func.buffer_map]
    for handle, info in zip(handles, [*(a.struct_info for a in call.args), *outs]):
        buffer = func.buffer_map[handle]
        for dim, own in zip(info.shape, buffer.shape):
            if not isinstance(own, Var) or id(own) in explicit or own in values:
                continue
            if isinstance(dim, IntImm):
                values[own] = const(dim.value, own.dtype)
                continue
            params.append(Var(own.name, "int64"))
            passed.append(as_dim(dim))
            values[own] = params[-1].astype(own.dtype)
        shape = tuple(values.get(d, d) if isinstance(d, Var) else d for d in buffer.shape)
        buffers[handle] = buffer.replace(shape=shape)
    if not values:
        return func, call
    func = specialize(func, buffers)
    func = func.replace(params=(*func.params, *params))
    return func, call.replace(attrs={**call.attrs, "sym_args": (*call.attrs["sym_args"], *passed)})


__all__ = ["bind_dims", "resolve_match_cast"]
