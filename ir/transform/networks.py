"""Which graph functions can be networks of C, and which calls have a place in one: what runs binding by binding is the
rest."""
from __future__ import annotations

from ..node import collect
from ..relax.control import CONTROL, is_control
from ..relax.expr import (PACKED, DataflowVar, DataTypeImm, Function, PrimStructInfo, RelaxCall, RelaxString, RelaxVar,
                          TensorStructInfo, TupleStructInfo)
from ..relax.runtime_calls import RUNTIME
from ..tir.function import PrimFunc
from .in_operators import in_operators, is_known
from .inline_functions import KERNELS
from .lift_branches import may_lift_branches

# of RUNTIME, that networks may have
_OPERATORS = frozenset({"dynamic_strided_slice", "to_vdevice", "hint_on_device", "grad.no_grad"})
_ALONE = frozenset(RUNTIME) - _OPERATORS - set(CONTROL)
_SELECTIONS = ("unique", "nonzero")  # whose results have as many elements as a run finds


def needs_machine(mod, name):
    """Whether a graph function, or one that it calls, has what networks of tensors have not."""
    return _needs(mod, name, ())


def _needs(mod, name, around):
    func = mod[name]
    if name in around or not all(is_tensors(p.struct_info) for p in func.params):
        return True
    calls = collect(func.body, RelaxCall)
    passed = {id(a) for c in calls if c.op in PACKED for a in c.args}  # texts that packed functions get
    return (not (is_tensors(func.ret_struct_info, whole=False)) or bool(collect(func.body, Function))
            or not may_lift_branches(func)
            or any(is_alone(mod, c, (*around, name)) for c in calls) or _has_unknown(mod, name, calls)
            or any(id(f) not in passed or isinstance(f, DataTypeImm)
                   for f in collect(func.body, (RelaxString, DataTypeImm))))


def _has_unknown(mod, name, calls):
    """Whether a run tells the shape or dtype of what an operator gives, also as operators of the table."""
    if all(map(_tells, calls)):
        return False
    return not all(map(_tells, collect(in_operators(mod.with_functions({name: mod[name]}))[name].body, RelaxCall)))


def _tells(call):
    return not isinstance(call.op, str) or is_control(call) or call.op in ("call", *PACKED) or is_known(call.struct_info)


def is_tensors(info, whole=True):
    """Whether struct info is of tensors, of known shapes if `whole`, or of tuples of such."""
    if isinstance(info, TupleStructInfo):
        return bool(info.fields) and all(is_tensors(f, whole) for f in info.fields)
    return isinstance(info, TensorStructInfo) and (not whole or isinstance(info.shape, tuple))


def is_alone(mod, call, around=()):
    """Whether a call has no place in a network. around: the names of functions whose calls are being looked at."""
    if not isinstance(call.op, str) or call.op in _SELECTIONS or call.op in _ALONE and set(call.attrs) <= {"sinfo_args", "format", "operands"}:
        return True
    if call.op == "call_tir_inplace":
        return True
    if call.op in PACKED:
        of_networks = ("call_packed", "call_pure_packed", "call_dps_packed")
        held = isinstance(call.attrs["func"], (RelaxVar, DataflowVar))
        return held or call.op not in of_networks or not is_tensors(call.struct_info) or not all(
            isinstance(a, RelaxString) or isinstance(a.struct_info, (TensorStructInfo, PrimStructInfo))
            for a in call.args)
    if call.op == "call":
        func = mod.functions.get(call.attrs["gv"].name)
        return isinstance(func, PrimFunc) or isinstance(func, Function) and not any(
            func.attrs.get(k) for k in KERNELS) and _needs(
                mod, call.attrs["gv"].name, around)
    return False


__all__ = ["is_alone", "is_tensors", "needs_machine"]
