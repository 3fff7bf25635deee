"""Tuples that graph functions take, and tuples inside those that they give, as their fields."""
from __future__ import annotations

from ..names import unique_name
from ..node import Mutator
from ..relax.expr import DataflowVar, RelaxTuple, RelaxVar, function_of_blocks
from ..relax.struct_info import TupleStructInfo


def flatten_tuples(func):
    """The function with a parameter of each field of parameters that are tuples, also of those inside, in order.

    Ensures no parameter is a tuple, and no field of the result that is made in the function. What was a tuple is one of
    the new parameters where it was used.
    """
    return _flat_result(_flat_params(func))


def _flat_params(func):
    names = {p.name for p in func.params} | {b.var.name for b in func.bindings}
    params, tuples = [], {}

    def fields_of(name, info):
        if isinstance(info, TupleStructInfo):
            return RelaxTuple(tuple(fields_of(f"{name}_{i}", field) for i, field in enumerate(info.fields)))
        params.append(RelaxVar(unique_name(name, names), info))
        return params[-1]

    for p in func.params:
        if isinstance(p.struct_info, TupleStructInfo):
            tuples[p] = fields_of(p.name, p.struct_info)
        else:
            params.append(p)
    return func.replace(params=tuple(params), body=Fields(tuples).visit(func.body)) if tuples else func


class Fields(Mutator):
    """Variables replaced by `tuples`, {variable: what it is now}, and items of tuples by these."""

    def __init__(self, tuples):
        self.tuples = tuples

    def visit_RelaxVar(self, v):
        return self.tuples.get(v, v)

    visit_DataflowVar = visit_RelaxVar

    def visit_Constant(self, c):
        return c

    def visit_TupleGetItem(self, item):
        value = self.visit(item.tuple_value)
        return value.fields[item.index] if isinstance(value, RelaxTuple) else item.replace(tuple_value=value)


def _flat_result(func):
    fields = getattr(func.ret_struct_info, "fields", ())
    if not any(isinstance(f, TupleStructInfo) for f in fields):
        return func
    values = {b.var: b.value for b in func.bindings}

    def leaves(expr):
        while isinstance(values.get(expr), (DataflowVar, RelaxTuple, RelaxVar)):
            expr = values[expr]
        return [leaf for f in expr.fields for leaf in leaves(f)] if isinstance(expr, RelaxTuple) else [expr]

    flat = RelaxTuple(tuple(leaves(func.body.body)))
    blocks = [block.replace(bindings=tuple(b for b in block.bindings if b.var is not func.body.body))
              for block in func.body.blocks]
    return function_of_blocks(func.params, blocks, flat, func.attrs)


__all__ = ["Fields", "flatten_tuples"]
