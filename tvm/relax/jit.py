"""What nn.Module.jit returns: a module's methods, compiled, with parameters bound."""
from __future__ import annotations

from importlib import import_module

import numpy as np

from ...runtime.device import Device, device as as_device
from ...runtime.machine import ShapeTuple
from .transform import AttachExternModules, BindParams
from .vm import VirtualMachine, build


class JitModule:
    """jit["forward"](x): calls a method with torch tensors or arrays, and returns torch tensors or arrays. The states
    of the module's effects go from each call to the next."""

    def __init__(self, spec, vm, wrap, effects):
        """effects: whether methods take and return states, which _initialize_effect makes."""
        self.spec, self.vm, self.wrap = spec, vm, wrap
        self.effects = vm["_initialize_effect"]() if effects else None

    def __getitem__(self, name):
        """The method `name`. ValueError where the spec does not have it."""
        if name not in self.spec.method_names:
            raise ValueError(f"Method `{name}` is not found in the module spec. {self.spec}")
        method = self.spec.method_specs[self.spec.method_names.index(name)]

        def call(*args):
            if len(args) != len(method.arg_names):
                raise TypeError(f"Argument length mismatch. Expected {len(method.arg_names)} arguments, but got "
                                f"{len(args)} arguments. The spec is: {method}")
            if self.effects is None or method.effect_mode == "none":
                return _wrapped(self.wrap, self.vm[name](*map(_arrays, args)))
            states = tuple(map(_fork, self.effects))  # a call that raises leaves the old ones as they are
            states = states if method.effect_mode == "plain" else [states]
            result, self.effects = self.vm[name](*map(_arrays, args), *states)
            return _wrapped(self.wrap, result)
        call.__name__ = name
        return call


def _arrays(value):
    """A tensor as an array, a number as a shape of it; tuples and lists are those of methods."""
    if type(value) is int:
        return ShapeTuple([value])
    return [_arrays(v) for v in value] if isinstance(value, (list, tuple)) else np.asarray(value)


def _fork(state):
    return state.fork() if hasattr(state, "fork") else state


def _wrapped(wrap, value):
    return [_wrapped(wrap, v) for v in value] if isinstance(value, list) else wrap(value.numpy())


def _torch():
    try:
        return import_module("torch")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("jit gives torch tensors, and torch is not installed; out_format=\"numpy\" gives "
                                  "arrays", name="torch") from error


def runner(mod):
    """A function of lists of arrays that calls "main" of a graph module, built for this machine."""
    main = VirtualMachine(build(mod))["main"]
    return lambda arrays: main(*map(np.asarray, arrays))


def jit(spec, mod, params, extern_mods, device, out_format):
    """The JitModule of an exported module and its external modules. Raises ValueError, or what building raises."""
    if out_format not in ("torch", "numpy"):
        raise ValueError(f"Unknown out_format: {out_format}; it is torch or numpy")
    missing = [name for name, param in params if param.data is None]
    if missing:
        raise ValueError(f"Parameters are not set to any concrete values: {', '.join(missing)}")
    wrap = _torch().from_numpy if out_format == "torch" else np.asarray
    for name, method in zip(spec.method_names, spec.method_specs):
        if method.param_mode != "plain":
            raise ValueError(f'jit binds parameters, so that {name} needs param_mode "plain"')
        mod = BindParams(name, {n: p.data.numpy() for n, p in params})(mod)
    mod = AttachExternModules(extern_mods)(mod)
    device = device if isinstance(device, Device) else as_device(device)
    return JitModule(spec, VirtualMachine(build(mod), device), wrap, "_initialize_effect" in mod)


__all__ = ["JitModule", "jit", "runner"]
