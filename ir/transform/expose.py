"""Intermediate tensors as outputs, so that they can be compared with a reference."""
from __future__ import annotations

from ..node import structural_equal
from ..relax.expr import RelaxCall, TensorStructInfo, TupleGetItem, dataflow_function
from .identities import VIEWS


def expose_intermediates(lowered, imported):
    """Let both modules also return every tensor of `imported` that survived the passes on the way to `lowered`.

    Requires `lowered` after lower_ops, `imported` the module that it was made from. Ensures that the outputs of both
    correspond one by one: the surviving tensors in the order of computation, then the declared outputs. A tensor that
    is an output under another name is not listed twice. Returns (lowered, imported).
    """
    main, source = lowered["main"], imported["main"]
    known = {binding.var.name: binding.var for binding in source.bindings}
    outputs = _memory_of_outputs(main)
    surviving = [(binding.var, known[binding.var.name]) for binding in main.bindings
                 if binding.var.name in known and _is_computed(binding.value) and _memory(binding) not in outputs
                 and _same_tensor(binding.var, known[binding.var.name])]
    names = tuple(var.name for var, _ in surviving)
    return (lowered.with_function("main", _returning(main, [var for var, _ in surviving], names)),
            imported.with_function("main", _returning(source, [var for _, var in surviving], names)))


def _returning(func, first, names):
    """`func` with the values `first` before its own outputs."""
    own = func.attrs.get("output_names") or [getattr(out, "name", f"output{i}") for i, out in enumerate(func.outputs)]
    attrs = {**func.attrs, "output_names": (*names, *own)}
    return dataflow_function(func.params, func.bindings, [*first, *func.outputs], attrs)


def _is_computed(value):
    """Whether a binding has memory of its own: views share their source's, which is compared instead."""
    return isinstance(value, TupleGetItem) or isinstance(value, RelaxCall) and value.op == "call_tir"


def _memory(binding):
    """What identifies the memory of a computed binding: its variable, or a tuple's and a position."""
    value = binding.value
    return (id(value.tuple_value), value.index) if isinstance(value, TupleGetItem) else id(binding.var)


def _memory_of_outputs(func):
    """The memory of each output, behind the views of it."""
    binding_of = {id(binding.var): binding for binding in func.bindings}
    found = set()
    for out in func.outputs:
        binding = binding_of.get(id(out))
        while binding is not None and isinstance(binding.value, RelaxCall) and binding.value.op in VIEWS:
            binding = binding_of.get(id(binding.value.args[0]))
        if binding is not None:
            found.add(_memory(binding))
        elif isinstance(out, TupleGetItem):
            found.add((id(out.tuple_value), out.index))
    return found


def _same_tensor(a, b):
    """Two variables of one name, which passes keep: the same value unless a pass made one in another node's place."""
    if not isinstance(a.struct_info, TensorStructInfo) or not structural_equal(a.struct_info, b.struct_info):
        return False
    if a.origin is None or b.origin is None:
        return a.origin is b.origin
    return (a.origin.name, a.origin.output) == (b.origin.name, b.origin.output)
