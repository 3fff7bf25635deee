"""relax.analysis: questions about graph functions, under TVM's names."""
from __future__ import annotations

from ...ir.module import IRModule
from ...ir.node import children, collect
from ...ir.relax.expr import DataflowVar, Function, MatchCast, RelaxVar, VarBinding
from ...ir.relax.verifier import VerifyError, verify

VARS = (RelaxVar, DataflowVar)


def well_formed(obj, check_struct_info=True):
    """Whether the verifier passes a module, or a function alone. relax.verifier.verify says what is wrong.

    check_struct_info is accepted for TVM's sake: struct info is always checked.
    """
    mod = obj if isinstance(obj, IRModule) else IRModule({"main": obj})
    try:
        verify(mod)
    except VerifyError:
        return False
    return True


def all_vars(expr):
    """The graph variables in an expression or function, each once."""
    return collect(expr, VARS)


def bound_vars(expr):
    """The variables that parameters and bindings define."""
    functions, bindings = collect(expr, Function), collect(expr, (VarBinding, MatchCast))
    return [*(p for f in functions for p in f.params), *(b.var for b in bindings)]


def free_vars(expr):
    """The variables that nothing in `expr` defines."""
    bound = {id(v) for v in bound_vars(expr)}
    return [v for v in all_vars(expr) if id(v) not in bound]


def contains_impure_call(expr):
    """Whether a function calls a packed function that may have side effects."""
    return getattr(expr, "op", None) == "call_packed" or any(map(contains_impure_call, children(expr)))


__all__ = ["all_vars", "bound_vars", "contains_impure_call", "free_vars", "well_formed"]
