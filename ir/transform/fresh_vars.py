"""Functions with variables of their own: what is added to one then changes no other."""
from __future__ import annotations

from ..expr import Var as Dim
from ..module import IRModule
from ..node import Mutator, collect
from ..relax.expr import Function, MatchCast, VarBinding
from .canonicalize_bindings import with_dims


def copy_with_new_vars(func):
    """A function (or a module's functions) that computes the same, its variables and symbolic dimensions new ones."""
    if isinstance(func, IRModule):
        return func.with_functions({n: copy_with_new_vars(f) if isinstance(f, Function) else f
                                    for n, f in func.functions.items()})
    dims = collect([p.struct_info for p in func.params], Dim)
    dims += [v for b in collect(func, MatchCast) for v in collect(b.var.struct_info, Dim)]
    func = with_dims(func, {d: Dim(d.name, d.dtype) for d in dims})
    return _Fresh(func).visit(func)


def variables_of(func):
    """The parameters of a function and the variables that its blocks bind, in order."""
    return [*func.params, *(b.var for b in func.bindings)]


class _Fresh(Mutator):
    """The variables that a function defines as new ones."""

    def __init__(self, func):
        functions = [func, *collect(func.body, Function)]
        defined = [p for f in functions for p in f.params]
        defined += [b.var for b in collect(func, (VarBinding, MatchCast))]
        self.new = {id(v): type(v)(v.name, v.struct_info, v.origin) for v in defined}

    def visit_Constant(self, constant):
        return constant

    def _variable(self, var):
        return self.new.get(id(var), var)

    visit_RelaxVar = visit_DataflowVar = _variable


__all__ = ["copy_with_new_vars", "variables_of"]
