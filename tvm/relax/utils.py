"""relax.utils: values as expressions, and functions with variables of their own."""
from __future__ import annotations

from importlib import import_module

from ...ir.expr import PrimExpr, StringImm, Var as TirVar, as_expr
from ...ir.module import IRModule
from ...ir.node import Mutator, collect
from ...ir.relax.block_builder import BlockBuilder
from ...ir.relax.expr import (DataflowVar, Function, MatchCast, PrimValue, RelaxExpr, RelaxTuple, RelaxVar, ShapeExpr,
                              VarBinding)
from ...ir.transform.canonicalize_bindings import with_dims

_VARS = (RelaxVar, DataflowVar)


def convert_to_expr(value):
    """A value as a graph expression: numbers and dimensions as PrimValues, lists of dimensions as shapes, lists of
    expressions as tuples. TypeError for others."""
    if isinstance(value, RelaxExpr):
        return value
    if isinstance(value, (list, tuple)):
        values = list(value)
        if values and all(isinstance(v, (int, PrimExpr)) and not isinstance(v, StringImm) for v in values):
            return ShapeExpr(tuple(values))
        return RelaxTuple(tuple(map(convert_to_expr, values)))
    if isinstance(value, str):
        return PrimValue(StringImm(value))
    try:
        return PrimValue(value if type(value) is int else as_expr(value))
    except TypeError:
        raise TypeError(f"Cannot convert {value} with type {type(value)} to a graph expression") from None


def copy_with_new_vars(func):
    """A function (or a module's functions) that computes the same, its variables and symbolic dimensions new ones."""
    if isinstance(func, IRModule):
        return func.with_functions({n: copy_with_new_vars(f) if isinstance(f, Function) else f
                                    for n, f in func.functions.items()})
    dims = collect([p.struct_info for p in func.params], TirVar)
    dims += [v for b in collect(func, MatchCast) for v in collect(b.var.struct_info, TirVar)]
    func = with_dims(func, {d: TirVar(d.name, d.dtype) for d in dims})
    return _Fresh(func).visit(func)


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


def gen_call_tir_inputs(func, *args, **kwargs):
    """(the PrimFunc that func(*args) describes, the tensors that R.call_tir passes, what it gives, the dimensions
    passed after), as BlockBuilder.call_te has them."""
    builder = BlockBuilder()
    call = builder.call_te(func, *args, **kwargs)
    return builder.get()[call.attrs["gv"]], call.args, call.struct_info, call.attrs["sym_args"]


def __getattr__(name):
    if name == "args_converter":  # which uses convert_to_expr
        return import_module(f"{__name__.rpartition('.')[0]}.args_converter")
    raise AttributeError(f"relax.utils has no {name}")


__all__ = ["convert_to_expr", "copy_with_new_vars", "gen_call_tir_inputs"]
