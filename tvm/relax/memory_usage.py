"""estimate_memory_usage: what the tensors of graph functions take, before and after a memory plan."""
from __future__ import annotations

from ...ir.expr import IntImm
from ...ir.module import IRModule
from ...ir.node import collect
from ...ir.relax.expr import Function, RelaxCall, ShapeExpr

_TENSORS = {"builtin.alloc_tensor": 0, "memory.alloc_tensor": 2}  # name -> which argument is the shape
_GIGABYTE = 2**30


def estimate_memory_usage(mod):
    """What R.builtin.alloc_tensor, R.memory.alloc_tensor and R.memory.alloc_storage of each graph function of a module,
    or of a function, take, as text. Branches and calls count once; tensors of symbolic size are only counted.
    TypeError where a shape is no ShapeExpr."""
    mod = IRModule({"foo": mod}) if isinstance(mod, Function) else mod
    parts = [_estimate(name, func) for name, func in mod.functions.items() if isinstance(func, Function)]
    return "Memory usage estimation:\n" + "".join(parts) if parts else ""


def _estimate(name, func):
    calls = collect(func, RelaxCall)
    tensors = [(c.op, _bytes(c.args[_TENSORS[c.op]], c.struct_info.dtype)) for c in calls if c.op in _TENSORS]
    storages = [_bytes(c.args[0]) for c in calls if c.op == "memory.alloc_storage"]
    sized = [size for _, size in tensors if size is not None]
    planned = [*(size or 0 for size in storages),
               *(size for op, size in tensors if op == "builtin.alloc_tensor" and size is not None)]
    symbolic = len(tensors) - len(sized)
    text = (f"- Function {name}:\n * Without memory planning, there are {len(sized)} constant-size memory "
            f"allocation(s) with total size {sum(sized) / _GIGABYTE:.4} GB")
    text += f", and {symbolic} dynamic-size allocation(s)" if symbolic else ""
    text += (f".\n * With memory planning, there are {len(planned)} constant-size memory allocation(s) with total size "
             f"{sum(planned) / _GIGABYTE:.4} GB.\n")
    if sum(sized):
        text += f" * Memory planning reduces constant memory size to {sum(planned) / sum(sized):.1%}."
    return text + "\n"


def _bytes(shape, dtype=None):
    """Bytes of a shape, of elements of a dtype or of one byte each; None where it is symbolic."""
    if not isinstance(shape, ShapeExpr):
        raise TypeError(f"the shape of an allocation is expected to be ShapeExpr, it is {shape.struct_info}")
    count = 1 if dtype is None else dtype.bytes * dtype.lanes
    for d in shape.values:
        if not isinstance(d, IntImm):
            return None
        count *= d.value
    return count
