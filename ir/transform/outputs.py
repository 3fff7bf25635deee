"""Outputs get memory of their own: none may be an input, a constant, part of a tensor, or another output under a second
name."""
from __future__ import annotations

from ..names import unique_name
from ..relax.block_builder import call_op
from ..relax.expr import DataflowVar, VarBinding, dataflow_function
from ..relax.memory import Memory


def materialize_outputs(mod):
    """Ensures each output of "main" fills, under its shape or another, the memory of an operator's result, and no two
    are of one: those that do not are copied."""
    func = mod["main"]
    memory = Memory(func)
    names = {p.name for p in func.params} | {b.var.name for b in func.bindings}
    taken, bindings, outputs = set(), list(func.bindings), []
    for out in func.outputs:
        owner = own_memory(memory, out)
        if owner is None or owner in taken:
            call = call_op("copy", out)
            name = unique_name(f"{getattr(out, 'name', '') or 'output'}_copy", names)
            out = DataflowVar(name, call.struct_info, getattr(out, "origin", None))
            bindings.append(VarBinding(out, call))
        taken.add(owner)
        outputs.append(out)
    return mod.with_function("main", dataflow_function(func.params, bindings, outputs, func.attrs))


def own_memory(memory, output):
    """The owner of the memory that an output may be; None for inputs, constants and parts of other tensors."""
    owner = memory.whole(output)
    return owner if owner is not None and memory.is_computed(owner) else None
