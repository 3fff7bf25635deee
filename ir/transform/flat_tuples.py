"""Tuples that graph functions take, and tuples inside those that they give, as their fields."""
from __future__ import annotations

from ..names import unique_name
from ..node import Mutator
from ..relax.expr import (BindingBlock, DataflowVar, RelaxTuple, RelaxVar, TupleGetItem, VarBinding,
                          function_of_blocks)
from ..relax.struct_info import TupleStructInfo


def flatten_tuples(func):
    """The function with a parameter of each field of parameters that are tuples, also of those inside, in order.

    Ensures no parameter is a tuple, no field of the result is one, and a result that is a tuple is written as such. What
    was a tuple is one of the new parameters where it was used.
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
    info = func.ret_struct_info
    if not isinstance(info, TupleStructInfo) or isinstance(func.body.body, RelaxTuple) and not any(
            isinstance(f, TupleStructInfo) for f in info.fields):
        return func
    values = {b.var: b.value for b in func.bindings}
    names, items = {p.name for p in func.params} | {b.var.name for b in func.bindings}, []

    def leaves(expr):
        while isinstance(values.get(expr), (DataflowVar, RelaxTuple, RelaxVar)):
            expr = values[expr]
        if isinstance(expr, RelaxTuple):
            return [leaf for f in expr.fields for leaf in leaves(f)]
        if not isinstance(expr.struct_info, TupleStructInfo):
            return [expr]
        return [leaf for n in range(len(expr.struct_info.fields)) for leaf in leaves(item(expr, n))]

    def item(value, n):
        """A variable that holds field n of what an operator gives as a tuple."""
        field = TupleGetItem(value, n)
        items.append(VarBinding(RelaxVar(unique_name(f"{getattr(value, 'name', 'output')}_{n}", names), field.struct_info),
                                field))
        return items[-1].var

    flat = RelaxTuple(tuple(leaves(func.body.body)))
    blocks = [block.replace(bindings=tuple(b for b in block.bindings if b.var is not func.body.body or _is_call(b.value)))
              for block in func.body.blocks]
    return function_of_blocks(func.params, [*blocks, *([BindingBlock(tuple(items))] if items else ())], flat, func.attrs,
                              func.is_pure)


def _is_call(value):
    """Whether a value is what the fields of a result are taken of."""
    return not isinstance(value, (DataflowVar, RelaxTuple, RelaxVar))


__all__ = ["Fields", "flatten_tuples"]
