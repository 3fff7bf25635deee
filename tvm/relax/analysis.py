"""relax.analysis: questions about graph functions, under TVM's names."""
from __future__ import annotations

import sys

from ...ir.expr import IntImm, Var as TirVar
from ...ir.module import GlobalVar, IRModule
from ...ir.node import children, collect, structural_equal
from ...ir.relax.expr import (IMPURE, DataflowVar, FuncStructInfo, Function, MatchCast, PrimStructInfo, RelaxCall, RelaxExpr,
                              RelaxVar, ShapeStructInfo, TensorStructInfo, TupleStructInfo, VarBinding)
from ...ir.relax.expr import static_type
from ...ir.relax.lattice import BaseCheckResult, base_check, common, derive_call, erased
from ...ir.tir.reshapes import is_reshape
from ...ir.tir.suggest_layouts import suggest_layout_transforms
from ...ir.relax.verifier import VerifyError, verify
from ...ir.transform.dead_code import remove_all_unused
from ...ir.transform.model_params import computable_at_compile_time
from .memory_usage import estimate_memory_usage

VARS = (RelaxVar, DataflowVar)


def well_formed(obj, check_struct_info=True):
    """Whether the verifier passes a module, or a function alone, whose calls may be of functions of its module. What is
    wrong is printed on stderr.

    A public graph function's name is its global_symbol. What is declared may say less than what is inferred.
    check_struct_info is accepted for TVM's sake: struct info is always checked.
    """
    alone = not isinstance(obj, IRModule)
    mod = IRModule({"main": obj}) if alone else obj
    if any(isinstance(f, Function) and f.attrs.get("global_symbol", name) != name
           for name, f in mod.functions.items() if obj is mod):
        return False
    try:
        verify(mod, wider=True, alone=alone)
    except VerifyError as error:
        print(f"This IR is not well formed: {error}", file=sys.stderr)
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
    """Call fvisit(e) for each expression in `expr`, those inside before what they are in. Variables are visited where
    they are used, not where they are defined."""
    below = (expr.value,) if isinstance(expr, (VarBinding, MatchCast)) else (
        (expr.body,) if isinstance(expr, Function) else children(expr))
    for child in below:
        post_order_visit(child, fvisit)
    if isinstance(expr, (RelaxExpr, Function)):
        fvisit(expr)


def tir_vars_in_struct_info(sinfo):
    """The symbolic dimensions in struct info, each once."""
    return symbols(sinfo)


def definable_tir_vars_in_struct_info(sinfo):
    """Those that stand alone as a dimension, and so get their value where the struct info is matched."""
    found = []
    for info in collect(sinfo, (TensorStructInfo, ShapeStructInfo, PrimStructInfo)):
        number = (info.value,) if isinstance(info, PrimStructInfo) else ()
        for d in getattr(info, "shape", None) or getattr(info, "values", None) or number:
            if isinstance(d, TirVar) and not any(d is v for v in found):
                found.append(d)
    return found


def collect_non_negative_expressions(sinfo):
    """The symbolic dimensions in struct info, each once, in order: sizes, which are at least 0. Numbers (R.Prim) need not
    be."""
    found = []
    for info in collect(sinfo, (TensorStructInfo, ShapeStructInfo)):
        dims = info.shape if isinstance(info, TensorStructInfo) else info.values
        for d in dims if isinstance(dims, tuple) else ():
            if not isinstance(d, IntImm) and not any(structural_equal(d, e) for e in found):
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


def collect_non_negative_expressions(sinfo):
    """The dimensions in struct info, each once, in the order in which they first appear: expressions that are never
    negative. Values of R.Prim may be."""
    found = []
    for info in _infos(sinfo):
        for d in getattr(info, "dims", None) or getattr(info, "values", None) or ():
            if not isinstance(d, IntImm) and not any(structural_equal(d, known) for known in found):
                found.append(d)
    return found


def _infos(info):
    """Struct info and what it is made of, in order."""
    if isinstance(info, FuncStructInfo):
        return [i for part in (*(info.params or ()), info.ret) for i in _infos(part)]
    return [i for f in info.fields for i in _infos(f)] if isinstance(info, TupleStructInfo) else [info]


def get_static_type(sinfo):
    """Struct info without dimensions."""
    return static_type(sinfo)


get_legacy_type = get_static_type


def erase_to_well_defined(sinfo, shape_var_map=None, var_map=None):
    """Struct info that speaks only of the dimensions and variables of these maps, which say what they are."""
    return erased(sinfo, shape_var_map, var_map)


def struct_info_base_check(base, derived):
    """Whether every value of `derived` is one of `base`, as a BaseCheckResult."""
    return base_check(base, derived)


def struct_info_lca(lhs, rhs):
    """The struct info that says most of what holds for values of both."""
    return common(lhs, rhs)


def derive_call_ret_struct_info(func_sinfo, call, ctx=None):
    """The struct info of a call of a function of this struct info. InferError where the arguments do not fit."""
    return derive_call(func_sinfo, call, ctx)


def has_reshape_pattern(func):
    """Whether a PrimFunc copies its input to its output element by element, in row-major order."""
    return is_reshape(func)


def detect_recursion(mod):
    """The groups of functions of a module that call each other, as lists of GlobalVars."""
    calls = {n: {g.name for g in all_global_vars(f)} for n, f in mod.functions.items() if isinstance(f, Function)}

    def reached(start):
        found, todo = set(), [start]
        while todo:
            for name in calls.get(todo.pop(), ()):
                if name in calls and name not in found:
                    found.add(name)
                    todo.append(name)
        return found

    reach = {name: reached(name) for name in calls}
    groups = []
    for name in calls:
        group = [other for other in calls if other in reach[name] and name in reach[other]]
        if group and group not in groups:
            groups.append(group)
    return [[GlobalVar(name) for name in group] for group in groups]


def symbols(node):
    return _once(collect(node, TirVar))


def _once(values):
    return list({id(v): v for v in values}.values())


def contains_impure_call(expr, own_name=None):
    """Whether a function, when it is called, or an expression calls what may have side effects. Functions inside are none
    until they are called. own_name: the callee (its GlobalVar, or the op of a call of it) of calls that do not count."""
    if isinstance(expr, Function):
        return contains_impure_call(expr.body, own_name)
    if isinstance(expr, RelaxCall):
        callee = expr.attrs.get("gv") if expr.op == "call" else expr.op
        purity = getattr(getattr(callee, "struct_info", None), "purity", True)
        if own_name not in (callee, expr.op) and (expr.op in IMPURE or not purity):
            return True
    return any(contains_impure_call(c, own_name) for c in children(expr) if not isinstance(c, Function))


__all__ = ["BaseCheckResult", "computable_at_compile_time", "derive_call_ret_struct_info", "detect_recursion",
           "estimate_memory_usage", "erase_to_well_defined", "get_legacy_type", "has_reshape_pattern",
           "get_static_type", "struct_info_base_check", "struct_info_lca", "suggest_layout_transforms",
           "all_global_vars", "all_vars", "bound_vars", "collect_non_negative_expressions", "contains_impure_call",
           "definable_tir_vars_in_struct_info", "defined_symbolic_vars", "free_symbolic_vars", "free_vars", "get_var2val", "name_to_binding",
           "post_order_visit", "remove_all_unused", "tir_vars_in_struct_info", "udchain", "well_formed"]
