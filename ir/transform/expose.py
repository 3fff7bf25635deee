"""Intermediate tensors as outputs, so that they can be compared with a reference."""
from __future__ import annotations

from ..expr import IntImm
from ..names import unique_name
from ..node import structural_equal
from ..relax.block_builder import call_op
from ..relax.expr import DataflowVar, TensorStructInfo, VarBinding, dataflow_function
from ..relax.memory import Memory
from ..relax.verifier import same_info


def expose_intermediates(lowered, imported):
    """Let both modules also return every tensor of `imported` that survived the passes on the way to `lowered`.

    Requires `lowered` after lower_ops, `imported` the module that it was made from. Ensures that the outputs of both
    correspond one by one: the surviving tensors in the order of computation, then the declared outputs. A tensor that
    is an output under another name, or a part of a tensor, is not listed twice. One that survived in whole blocks of
    channels is returned in that layout by both. Returns (lowered, imported).
    """
    main, source = lowered["main"], imported["main"]
    known = {binding.var.name: binding.var for binding in source.bindings}
    memory, surviving, transforms = Memory(main), [], []
    listed = {memory.whole(out) for out in main.outputs} | {None}
    for var in (binding.var for binding in main.bindings):
        origin = known.get(var.name)
        if origin is None or not all(isinstance(v.struct_info, TensorStructInfo) for v in (var, origin)):
            continue
        owner, call = memory.whole(var), _blocked(origin, var)
        if owner in listed or not memory.is_computed(owner):
            continue
        if _same_origin(var, origin) and (call or structural_equal(var.struct_info, origin.struct_info)):
            if call:
                name = unique_name(f"{origin.name}_blocked", set(known))
                transforms.append(VarBinding(DataflowVar(name, call.struct_info, origin.origin), call))
            surviving.append((var, transforms[-1].var if call else origin))
            listed.add(owner)
    names = tuple(var.name for var, _ in surviving)
    source = source.replace(body=dataflow_function(source.params, [*source.bindings, *transforms], source.outputs).body)
    return (lowered.with_function("main", _returning(main, [var for var, _ in surviving], names)),
            imported.with_function("main", _returning(source, [var for _, var in surviving], names)))


def _blocked(var, like):
    """The call that lays out the image `var` as `like`, in whole blocks of channels; None when that is not how."""
    plain, info = var.struct_info.shape, like.struct_info
    if not plain or len(plain) != 4 or info.ndim != 5:
        return None
    channels, lanes = plain[1], info.shape[-1]
    if not isinstance(channels, IntImm) or not isinstance(lanes, IntImm) or channels.value % lanes.value:
        return None
    call = call_op("layout_transform", var, src_layout="NCHW", dst_layout=f"NCHW{lanes.value}c")
    return call if same_info(call.struct_info, info) else None


def _returning(func, first, names):
    """`func` with the values `first` before its own outputs."""
    own = func.attrs.get("output_names") or [getattr(out, "name", f"output{i}") for i, out in enumerate(func.outputs)]
    attrs = {**func.attrs, "output_names": (*names, *own)}
    return dataflow_function(func.params, func.bindings, [*first, *func.outputs], attrs)


def _same_origin(a, b):
    """Two variables of one name, which passes keep: the same value unless a pass made one in another node's place."""
    if a.origin is None or b.origin is None:
        return a.origin is b.origin
    return (a.origin.name, a.origin.output) == (b.origin.name, b.origin.output)
