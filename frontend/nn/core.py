"""Module, ModuleList, ModuleDict: parameters and modules in a tree, by the names of their attributes."""
from __future__ import annotations

from ...ir.upper import upper
from . import spec as specs
from .effects import Effect
from .exporter import Exporter
from .subroutine import SubroutineMixin
from .tensor import (Object, Parameter, Tensor, get_default_dtype, set_default_dtype,  # noqa: F401
                     wrap_nested)


class Module(SubroutineMixin):
    """The base of networks and their layers: attributes that are Parameters and Modules are its parts.

    A subclass defines `forward`, and what other methods are to be exported; calling a module calls forward.
    """

    def __call__(self, *args, **kwargs):
        if not hasattr(self, "forward"):
            raise NotImplementedError(f"{type(self).__name__} has no method forward")
        return self.forward(*args, **kwargs)

    def parts(self):
        """(name, attribute) of what may be a part."""
        return self.__dict__.items()

    def find(self, kind, prefix=""):
        """(name, part) of the parts of a class, also inside modules: ("layers.0.weight", Parameter)."""
        for name, part in self.parts():
            if isinstance(part, kind):
                yield f"{prefix}{name}", part
            elif isinstance(part, Module):
                yield from part.find(kind, f"{prefix}{name}.")

    def named_parameters(self, prefix=""):
        """(name, Parameter) of all parameters, in the order of attributes."""
        return self.find(Parameter, prefix)

    def parameters(self):
        """All parameters."""
        return (param for _, param in self.named_parameters())

    def state_dict(self, *, prefix="", destination=None):
        """{name: Parameter}, added to `destination` where that is given."""
        destination = {} if destination is None else destination
        destination.update(self.named_parameters(prefix))
        return destination

    def load_state_dict(self, state_dict, strict=True):
        """Take the data of {name: Parameter}; (names that are missing there, names that are not known here).

        Raises KeyError where strict and names are missing or unknown, ValueError where a parameter has no data.
        """
        own = self.state_dict()
        missing, unexpected = [k for k in own if k not in state_dict], [k for k in state_dict if k not in own]
        if strict and (missing or unexpected):
            raise KeyError(f"Missing keys: {missing}, Unexpected keys: {unexpected}")
        for key, value in state_dict.items():
            if key in own and value.data is None:
                raise ValueError(f"Parameter {key} is not set to any concrete tensor")
        for key, value in state_dict.items():
            if key in own:
                own[key].data = value.data
        return missing, unexpected

    def to(self, dtype=None):
        """Change the dtype of all parameters."""
        for _, part in self.parts():
            if callable(getattr(part, "to", None)):
                part.to(dtype=dtype)
        if dtype is not None and isinstance(getattr(self, "dtype", None), str):
            self.dtype = dtype

    def export_tvm(self, spec, debug=False, allow_extern=False):
        """(IRModule, [(name, Parameter)]) of the methods in `spec`, each a graph function.

        spec: {method: {argument: spec.Tensor(("n", 784), "float32") or int}}, or a ModuleSpec; see spec.py. Functions
        take the arguments, then effects, then parameters in order. debug: functions take and return an IOEffect, so
        that nn.op.print_ works. allow_extern: a third result, the external modules that add_extern has added, for
        relax.transform.AttachExternModules; ValueError where there are some and nobody takes them.
        """
        exporter = Exporter(debug)
        mod, params = exporter.build(specs.ModuleSpec.from_raw(spec, self))
        if exporter.extern_mods and not allow_extern:
            raise ValueError("the module has external modules: export_tvm(..., allow_extern=True) gives them, for "
                             "relax.transform.AttachExternModules")
        return (mod, params, exporter.extern_mods) if allow_extern else (mod, params)

    def jit(self, spec, device="cpu", pipeline="default_build", out_format="torch", debug=False):
        """The methods in `spec`, compiled: jit(...)["forward"](x), with parameters bound.

        out_format: "torch" or "numpy", which of the two calls take and return. The states of effects (KVCache) go from
        each call to the next. pipeline has no effect. Raises ValueError where parameters have no data.
        """
        spec, exporter = specs.ModuleSpec.from_raw(spec, self), Exporter(debug)
        return upper("nn_jit")(spec, *exporter.build(spec), exporter.extern_mods, device, out_format)


class ModuleList(Module):
    """Modules in a list; called, one after the other."""

    def __init__(self, modules):
        self.modules = list(modules)

    def parts(self):
        return ((str(i), m) for i, m in enumerate(self.modules))

    def __iter__(self):
        return iter(self.modules)

    def __getitem__(self, idx):
        return self.modules[idx]

    def __setitem__(self, idx, module):
        self.modules[idx] = module

    def __len__(self):
        return len(self.modules)

    def append(self, module):
        self.modules.append(module)

    def forward(self, x):
        for module in self.modules:
            x = module(x)
        return x


class ModuleDict(Module):
    """Modules by names."""

    def __init__(self, modules=None):
        self.modules = dict(modules or {})

    def parts(self):
        return self.modules.items()

    def __iter__(self):
        return iter(self.modules.values())

    def __getitem__(self, key):
        return self.modules[key]

    def __setitem__(self, key, module):
        self.modules[key] = module

    def __len__(self):
        return len(self.modules)

    def __contains__(self, key):
        return key in self.modules

    def keys(self):
        return self.modules.keys()

    def values(self):
        return self.modules.values()

    def items(self):
        return self.modules.items()


__all__ = ["Effect", "Module", "ModuleDict", "ModuleList", "Object", "Parameter", "Tensor", "get_default_dtype",
           "set_default_dtype", "wrap_nested"]
