"""Outputs get memory of their own: none may be an input, a constant, or another output under a second name."""
from __future__ import annotations

from ..relax.block_builder import call_op
from ..relax.expr import RelaxCall, dataflow_function, DataflowVar, VarBinding
from .identities import VIEWS


def materialize_outputs(mod):
    """Ensures each output of "main" is a view of, or is, the result of an operator, and no two share one: those that do
    not are copied."""
    func = mod["main"]
    definition = {id(b.var): b.value for b in func.bindings}
    taken, bindings, outputs = set(), list(func.bindings), []
    for n, out in enumerate(func.outputs):
        root = out
        while isinstance(definition.get(id(root)), RelaxCall) and definition[id(root)].op in VIEWS:
            root = definition[id(root)].args[0]
        if id(root) in taken or id(root) not in definition:
            call = call_op("copy", out)
            out = DataflowVar(f"{getattr(out, 'name', 'output')}_copy{n}", call.struct_info, getattr(out, "origin", None))
            bindings.append(VarBinding(out, call))
        else:
            taken.add(id(root))
        outputs.append(out)
    return mod.with_function("main", dataflow_function(func.params, bindings, outputs, func.attrs))
