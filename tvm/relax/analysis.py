"""relax.analysis: questions about graph functions, under TVM's names."""
from __future__ import annotations

from ...ir.expr import Var as TirVar
from ...ir.module import GlobalVar, IRModule
from ...ir.node import children, collect
from ...ir.relax.expr import (DataflowVar, Function, MatchCast, RelaxExpr, RelaxVar, ShapeStructInfo,
                              TensorStructInfo, VarBinding)
from ...ir.relax.verifier import VerifyError, verify
from ...ir.transform.dead_code import is_impure, remove_all_unused

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


def get_var2val(func):
    """{variable: the value that it is bound to} of a function."""
    return {b.var: b.value for b in collect(func, (VarBinding, MatchCast))}


def name_to_binding(func):
    """{name: the bindings of variables called so}."""
    found = {}
    for b in collect(func, (VarBinding, MatchCast)):
        found.setdefault(b.var.name, []).append(b)
    return found


def udchain(block):
    """{variable of a dataflow block: the variables whose values use it}."""
    users = {}
    for b in block.bindings:
        users.setdefault(b.var, [])
        for v in collect(b.value, VARS):
            if b.var not in users.setdefault(v, []):
                users[v].append(b.var)
    return users


def all_global_vars(expr):
    """The functions that an expression or function names, each once."""
    found = []
    for gv in collect(expr, GlobalVar):
        if not any(gv.name == other.name for other in found):
            found.append(gv)
    return found


def post_order_visit(expr, fvisit):
    """Call fvisit(e) for each expression in `expr`, those inside before what they are in."""
    for child in children(expr):
        post_order_visit(child, fvisit)
    if isinstance(expr, (RelaxExpr, Function)):
        fvisit(expr)


def tir_vars_in_struct_info(sinfo):
    """The symbolic dimensions in struct info, each once."""
    return symbols(sinfo)


def definable_tir_vars_in_struct_info(sinfo):
    """Those that stand alone as a dimension, and so get their value where the struct info is matched."""
    found = []
    for info in collect(sinfo, (TensorStructInfo, ShapeStructInfo)):
        for d in getattr(info, "shape", None) or getattr(info, "values", None) or ():
            if isinstance(d, TirVar) and not any(d is v for v in found):
                found.append(d)
    return found


def defined_symbolic_vars(func):
    """The symbolic dimensions that parameters and match_casts of a function define."""
    infos = [*(p.struct_info for p in func.params), *(b.var.struct_info for b in collect(func, MatchCast))]
    return _once(v for info in infos for v in definable_tir_vars_in_struct_info(info))


def free_symbolic_vars(func):
    """The symbolic dimensions of a function that nothing in it defines."""
    defined = {id(v) for v in defined_symbolic_vars(func)}
    return [v for v in symbols(func) if id(v) not in defined]


def symbols(node):
    return _once(collect(node, TirVar))


def _once(values):
    return list({id(v): v for v in values}.values())


contains_impure_call = is_impure


__all__ = ["all_global_vars", "all_vars", "bound_vars", "contains_impure_call", "definable_tir_vars_in_struct_info",
           "defined_symbolic_vars", "free_symbolic_vars", "free_vars", "get_var2val", "name_to_binding",
           "post_order_visit", "remove_all_unused", "tir_vars_in_struct_info", "udchain", "well_formed"]
