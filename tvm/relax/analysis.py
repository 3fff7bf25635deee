"""relax.analysis: questions about graph functions, under TVM's names."""
from __future__ import annotations

from ...ir.module import IRModule
from ...ir.node import children, collect
from ...ir.relax.expr import DataflowBlock, DataflowVar, Function, MatchCast, RelaxVar, VarBinding
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


def remove_all_unused(func):
    """A function, or a module's functions, without bindings that nothing uses; those outside of dataflow blocks stay."""
    if isinstance(func, IRModule):
        return func.with_functions({n: remove_all_unused(f) if isinstance(f, Function) else f
                                    for n, f in func.functions.items()})
    used, blocks = {id(v) for v in collect(func.body.body, VARS)}, []
    for block in reversed(func.body.blocks):
        kept = []
        for b in reversed(block.bindings):
            if id(b.var) in used or not isinstance(block, DataflowBlock) or isinstance(b, MatchCast):
                used.update(map(id, collect(b.value, VARS)))
                kept.append(b)
        if kept:
            blocks.append(block.replace(bindings=tuple(reversed(kept))))
    return func.replace(body=func.body.replace(blocks=tuple(reversed(blocks))))


def contains_impure_call(expr):
    """Whether a function calls a packed function that may have side effects."""
    return getattr(expr, "op", None) == "call_packed" or any(map(contains_impure_call, children(expr)))


__all__ = ["all_vars", "bound_vars", "contains_impure_call", "free_vars", "remove_all_unused", "well_formed"]
