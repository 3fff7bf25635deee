"""Outputs get memory of their own: none may be an input, a constant, or another output under a second name."""
from __future__ import annotations

from ..names import unique_name
from ..relax.block_builder import call_op
from ..relax.expr import DataflowVar, RelaxCall, TupleGetItem, VarBinding, dataflow_function
from .identities import VIEWS


def materialize_outputs(mod):
    """Ensures each output of "main" is, or is a view of, the result of an operator, and no two are of one: those that
    are not are copied."""
    func = mod["main"]
    definition = definitions(func)
    names = {p.name for p in func.params} | {b.var.name for b in func.bindings}
    taken, bindings, outputs = set(), list(func.bindings), []
    for out in func.outputs:
        owner = memory_of(out, definition)
        if owner is None or owner in taken:
            call = call_op("copy", out)
            name = unique_name(f"{getattr(out, 'name', '') or 'output'}_copy", names)
            out = DataflowVar(name, call.struct_info, getattr(out, "origin", None))
            bindings.append(VarBinding(out, call))
        taken.add(owner)
        outputs.append(out)
    return mod.with_function("main", dataflow_function(func.params, bindings, outputs, func.attrs))


def definitions(func):
    """{id(variable): the value bound to it}."""
    return {id(b.var): b.value for b in func.bindings}


def memory_of(value, definition):
    """What identifies the memory of a computed value: (id of the variable that an operator's result is bound to, its
    position in a tuple). Views share their source's; None for inputs and constants."""
    while True:
        item = definition.get(id(value), value)
        if isinstance(item, RelaxCall) and item.op in VIEWS:
            value = item.args[0]
        elif isinstance(item, TupleGetItem):
            return (id(item.tuple_value), item.index)
        elif isinstance(item, RelaxCall):
            return (id(value), 0)
        elif item is value:
            return None
        else:
            value = item
