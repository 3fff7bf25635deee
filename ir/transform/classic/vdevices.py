"""RealizeVDevice and UpdateVDevice: the devices that struct info names."""
from __future__ import annotations

from ...node import Mutator, collect
from ...relax.expr import (DataflowVar, Function, If, MatchCast, RelaxCall, RelaxTuple, RelaxVar, TensorStructInfo,
                           TupleStructInfo, VarBinding)
from ...relax.op import call as operator
from ...vdevice import VDevice
from ..graph import ReplaceVars

_VARS = (RelaxVar, DataflowVar)
_MOVES = ("to_vdevice", "hint_on_device")
NUMBERS = {"c": 1, "llvm": 1, "cpu": 1, "cuda": 2, "opencl": 4, "vulkan": 7, "metal": 8, "rocm": 10}  # DLPack's


def realize_vdevice(mod):
    """A module whose tensors name their devices: those that struct info, results of functions and R.hint_on_device say,
    and of what is computed together with them. A hint is then nothing, or R.to_vdevice where its argument lies
    elsewhere. ValueError where a hint's device is none of the module's (I.module_global_infos)."""
    devices = mod.global_infos.get("vdevice", ())
    return mod.with_functions({n: _realized(f, devices) if isinstance(f, Function) else f
                               for n, f in mod.functions.items()})


def update_vdevice(mod, new_vdevice, index):
    """A module with new_vdevice in the place of its device `index`, in the list of these and in struct info."""
    devices = list(mod.global_infos.get("vdevice", ()))
    if not isinstance(new_vdevice, VDevice):
        raise TypeError(f"UpdateVDevice: the new device must be a VDevice, not {new_vdevice!r}")
    if not 0 <= index < len(devices):
        raise ValueError(f"UpdateVDevice: there is no device {index}; the module has {len(devices)}")
    update, devices[index] = _Update(devices[index], new_vdevice), new_vdevice
    functions = {n: update.function(f) if isinstance(f, Function) else f for n, f in mod.functions.items()}
    return mod.replace(functions=functions, global_infos={**mod.global_infos, "vdevice": tuple(devices)})


def _same(a, b):
    return a is b or a is not None and b is not None and (a.target, a.vdevice_id, a.memory_scope) == (
        b.target, b.vdevice_id, b.memory_scope)


def _placed(info, device):
    """What is known of a value that lies on a device."""
    if isinstance(info, TupleStructInfo):
        return info.replace(fields=tuple(_placed(f, device) for f in info.fields))
    return info.replace(vdevice=device) if isinstance(info, TensorStructInfo) else info


# ---------------------------------------------------------------- where values lie

def _hinted(call, devices):
    """The device of the module that a hint means."""
    hint = call.attrs["dst_vdevice"]
    if isinstance(hint, VDevice):
        return hint
    for d in devices:
        if NUMBERS.get(d.kind) == hint.device_type and d.vdevice_id == hint.index:
            return d
    raise ValueError(f"RealizeVDevice: R.hint_on_device names {hint}, which is none of the devices of the module: "
                     f"{', '.join(f'{d.target}:{d.vdevice_id}' for d in devices) or 'it has none'}")


def _realized(func, devices):
    bindings = collect(func, (VarBinding, MatchCast))
    known, hinted = {}, {}
    for v in (*func.params, *(b.var for b in bindings)):
        if getattr(v.struct_info, "vdevice", None) is not None:
            known[id(v)] = v.struct_info.vdevice
    for b in bindings:
        if isinstance(b.value, RelaxCall) and b.value.op == "hint_on_device":
            known[id(b.var)] = device = _hinted(b.value, devices)
            hinted.setdefault(id(b.value.args[0]), device)
    _of_result(func, bindings, known)
    together = _together(bindings)
    _spread(known, list(known), together)
    more = [v for v in hinted if v not in known]
    known.update((v, hinted[v]) for v in more)
    _spread(known, more, together)
    if not known:
        return func
    return _Realize(func, bindings, known, devices).visit(func)


def _of_result(func, bindings, known):
    """Adds what the function's declared result says of the variables that it is."""
    bound = {id(b.var): b.value for b in bindings}

    def ask(value, info):
        if isinstance(value, _VARS) and getattr(info, "vdevice", None) is not None:
            known.setdefault(id(value), info.vdevice)
        if isinstance(info, TupleStructInfo):
            while id(value) in bound:
                value = bound[id(value)]
            for field, own in zip(getattr(value, "fields", ()), info.fields):
                ask(field, own)
    ask(func.body.body, func.ret_struct_info)


def _together(bindings):
    """{id(variable): the ids of those that lie where it lies}: what is bound, and what it is computed of."""
    found = {}
    for b in bindings:
        value = b.value
        if isinstance(value, RelaxCall) and value.op in _MOVES or isinstance(value, Function):
            continue
        parts = (value.cond, value.true_branch.body, value.false_branch.body) if isinstance(value, If) else value
        for v in collect(parts, _VARS):
            found.setdefault(id(b.var), []).append(id(v))
            found.setdefault(id(v), []).append(id(b.var))
    return found


def _spread(known, start, together):
    """Adds to `known` what lies together with `start`."""
    while start:
        v = start.pop()
        for other in together.get(v, ()):
            if other not in known:
                known[other] = known[v]
                start.append(other)


class _Realize(ReplaceVars):
    def __init__(self, func, bindings, known, devices):
        super().__init__({id(v): v.replace(struct_info=_placed(v.struct_info, known[id(v)])) for v in (
            *func.params, *(b.var for b in bindings)) if id(v) in known})
        self.devices = devices

    def visit_Function(self, func):
        func = self.generic_visit(func)
        return func.replace(ret_struct_info=func.body.struct_info)

    def visit_VarBinding(self, b):
        var, value = self.visit(b.var), self.visit(b.value)
        if isinstance(value, RelaxCall):
            if value.op == "hint_on_device":
                device, arg = _hinted(value, self.devices), value.args[0]
                value = arg if _same(arg.struct_info.vdevice, device) else operator(
                    "to_vdevice", arg, dst_vdevice=device)
            elif var is not b.var and value.op not in _MOVES:
                value = value.replace(struct_info=_placed(value.struct_info, _device_of(var.struct_info)))
        return b if var is b.var and value is b.value else b.replace(var=var, value=value)


def _device_of(info):
    """The device of the first tensor."""
    return _device_of(info.fields[0]) if isinstance(info, TupleStructInfo) else getattr(info, "vdevice", None)


# ---------------------------------------------------------------- another device

class _Update(Mutator):
    def __init__(self, old, new):
        self.old, self.new, self.made = old, new, {}

    def function(self, func):
        made = self.visit(func)
        return made if made is func else made.replace(ret_struct_info=made.body.struct_info)

    def visit_VDevice(self, device):
        return self.new if _same(device, self.old) else device

    def visit_Constant(self, constant):
        return constant

    def _variable(self, v):
        if id(v) not in self.made:
            info = self.visit(v.struct_info)
            self.made[id(v)] = v if info is v.struct_info else v.replace(struct_info=info), v
        return self.made[id(v)][0]

    visit_RelaxVar = visit_DataflowVar = _variable


__all__ = ["realize_vdevice", "update_vdevice"]
