"""IPCAllReduceRewrite, LowerGPUIPCAllocStorage: sums over processes in memory that these share."""
from __future__ import annotations

from ...node import collect
from ...relax.expr import (Function, ObjectStructInfo, PrimValue, RelaxCall, RelaxString, RelaxVar, ShapeExpr, VarBinding,
                           call_packed)
from ...relax.lattice import finer_result
from ...relax.op import call as operator
from ..call_rules import CallRules

SCOPE = "ipc_memory"
ALL_REDUCE, CUSTOM, ALLOCATE = (f"runtime.disco.{n}" for n in (
    "allreduce", "cuda_ipc.custom_allreduce", "cuda_ipc.alloc_storage"))
STRATEGIES = (1, 2)  # one shot, two shots


def lower_ipc_alloc_storage(mod):
    """A module whose R.memory.alloc_storage and R.builtin.alloc_tensor of the scope "ipc_memory" call the function of the
    runtime that gives such memory."""
    def storage(shape, dtype):
        return call_packed(ALLOCATE, shape, dtype, sinfo_args=ObjectStructInfo())

    def rule(context, call):
        if call.op == "memory.alloc_storage" and _text(call.args[2]) == SCOPE:
            return storage(call.args[0], call.args[3])
        if call.op == "builtin.alloc_tensor" and _text(call.args[3]) == SCOPE:
            shape, dtype, place = call.args[:3]
            made = context.emit(storage(shape, dtype), "gv")
            return operator("memory.alloc_tensor", made, place, shape, dtype)
        return None
    return _ruled(mod, lambda func: rule)


def rewrite_all_reduce(mod, allreduce_strategy):
    """A module whose sums over processes ("runtime.disco.allreduce", of the kind 0) of tensors that the function allocates in
    "global" memory, or of reshapes of these, are by the runtime's custom all-reduce, in memory that processes share.
    allreduce_strategy: 1, one shot, or 2, two shots; ValueError for another one."""
    if allreduce_strategy not in STRATEGIES:
        raise ValueError(f"IPCAllReduceRewrite: allreduce_strategy is 1 (one shot) or 2 (two shots), not "
                         f"{allreduce_strategy!r}")

    def of(func):
        bound = {id(b.var): b.value for b in collect(func, VarBinding)}
        reduced = {id(c): memory for c in collect(func, RelaxCall) if _sums(c)
                   for memory in [_allocation(c.args[0], bound)] if memory is not None}
        memories = set(map(id, reduced.values()))

        def rule(context, call):
            if id(call) in memories:
                return operator("builtin.alloc_tensor", *call.args[:3], SCOPE)
            if id(call) in reduced:
                return call_packed(CUSTOM, call.args[0], PrimValue(allreduce_strategy), call.args[3],
                                   sinfo_args=call.struct_info)
            return None
        return rule
    return _ruled(mod, of)


def _ruled(mod, rule_of):
    """The module with rule_of(function) applied to its graph functions."""
    def ruled(func):
        new = CallRules(func, rule_of(func)).visit(func)
        return func if new is func else new.replace(ret_struct_info=finer_result(new, new.body.struct_info))
    return mod.with_functions({n: ruled(f) if isinstance(f, Function) else f for n, f in mod.functions.items()})


def _sums(call):
    """Whether a call adds up a tensor of all processes: (tensor, kind, whether in groups, result)."""
    return call.op == "call_packed" and call.attrs["func"] == ALL_REDUCE and len(call.args) == 4 and isinstance(
        call.args[1], ShapeExpr) and [int(v) for v in call.args[1].values] == [0]


def _allocation(value, bound):
    """The call that allocates a variable's memory, of the scope "global"; None where it is not known."""
    while isinstance(value, RelaxVar):
        value = bound.get(id(value))
        if isinstance(value, RelaxCall) and value.op == "reshape":
            value = value.args[0]
    known = isinstance(value, RelaxCall) and value.op == "builtin.alloc_tensor" and _text(value.args[3]) == "global"
    return value if known else None


def _text(value):
    return value.value if isinstance(value, RelaxString) else value


__all__ = ["lower_ipc_alloc_storage", "rewrite_all_reduce"]
