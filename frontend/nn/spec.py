"""What a module's methods are called with: Int, Tensor, Object, Tuple; MethodSpec, ModuleSpec, also from dicts.

    {"forward": {"x": spec.Tensor(("n", 784), "float32"), "total": int, "$": {"param_mode": "packed"}}}

param_mode, effect_mode: "plain" (an argument each), "packed" (one tuple) or "none".
"""
from __future__ import annotations

import inspect

_MODES = ("plain", "packed", "none")


class Int:
    """An integer: in the graph a shape of one dimension."""

    def __repr__(self):
        return "int"


class Tensor:
    """shape: numbers, names of symbolic dimensions (equal names are one), expressions."""

    def __init__(self, shape, dtype):
        self.shape, self.dtype = list(shape), dtype

    def __repr__(self):
        return f"Tensor([{', '.join(map(str, self.shape))}], '{self.dtype}')"


class Object:
    """A value that is no tensor; object_type: the subclass of nn.Object that methods get."""

    def __init__(self, object_type):
        self.object_type = object_type

    def __repr__(self):
        return "object"


class Tuple:
    """elements: a list or tuple of specs; methods get the same."""

    def __init__(self, name, elements):
        if not isinstance(elements, (tuple, list)):
            raise TypeError(f"Unsupported container type: {type(elements).__name__}; a list or tuple is needed")
        self.name, self.elements = name, elements

    def __repr__(self):
        return repr(self.elements)


def _argument(name, given):
    """The spec of argument `name`."""
    if given is Int or given is int or given == "int":
        return Int()
    if isinstance(given, (Int, Tensor, Object)):
        return given
    if isinstance(given, Tuple):
        name, given = given.name, given.elements
    if isinstance(given, (tuple, list)):
        return Tuple(name, type(given)(_argument(f"{name}_{i}", e) for i, e in enumerate(given)))
    raise TypeError(f"Invalid spec for argument {name}: {given!r}; it is spec.Tensor(shape, dtype), int, spec.Object, "
                    "or a list or tuple of these")


class MethodSpec:
    """arg_specs: the spec of each of arg_names, the arguments of `method`."""

    def __init__(self, method, arg_names, arg_specs, param_mode, effect_mode):
        for key, mode in (("param_mode", param_mode), ("effect_mode", effect_mode)):
            if mode not in _MODES:
                raise ValueError(f"Invalid {key}: {mode}; it is one of {', '.join(_MODES)}")
        self.method, self.arg_names, self.arg_specs = method, arg_names, arg_specs
        self.param_mode, self.effect_mode = param_mode, effect_mode

    def text(self, name):
        args = ", ".join(f"{n}: {s}" for n, s in zip(self.arg_names, self.arg_specs))
        return f"{name}({args})"

    def __repr__(self):
        return self.text("MethodSpec")

    @staticmethod
    def from_raw(spec, method):
        """Of a dict {argument: spec}, whose "$" has modes. Arguments with a default may be left out. TypeError."""
        if isinstance(spec, MethodSpec):
            return spec
        config = spec.get("$", {})
        parameters = {n: p for n, p in inspect.signature(method).parameters.items() if p.name != "self"}
        name = getattr(method, "__name__", "the method")
        for given in spec:
            if given not in parameters and given != "$":
                raise TypeError(f"{name} has no argument {given!r}; it has {', '.join(parameters) or 'none'}")
        missing = [n for n, p in parameters.items() if n not in spec and p.default is inspect.Parameter.empty
                   and p.kind is p.POSITIONAL_OR_KEYWORD]
        if missing:
            raise TypeError(f"the spec of {name} lacks argument {', '.join(missing)}")
        names = [n for n in parameters if n in spec]
        return MethodSpec(method, names, [_argument(n, spec[n]) for n in names],
                          config.get("param_mode", "plain"), config.get("effect_mode", "plain"))

    @staticmethod
    def from_torch(args, method):
        """Of example arguments: tensors (anything with shape and dtype) and integers."""
        names = list(inspect.signature(method).parameters)
        if len(names) != len(args):
            raise TypeError(f"Expected {len(names)} arguments ({', '.join(names)}), but got {len(args)}")
        specs = [Int() if isinstance(a, int) else Tensor(a.shape, str(a.dtype).rpartition(".")[2]) for a in args]
        return MethodSpec(method, names, specs, "plain", "plain")


class ModuleSpec:
    """method_specs: the MethodSpec of each of method_names, methods of `module`."""

    def __init__(self, module, method_names, method_specs):
        self.module, self.method_names, self.method_specs = module, method_names, method_specs

    @staticmethod
    def from_raw(spec, module):
        """Of a dict {method: MethodSpec or dict}. AttributeError where the module has no such method."""
        if isinstance(spec, ModuleSpec):
            return spec
        return ModuleSpec(module, list(spec), [MethodSpec.from_raw(s, getattr(module, n)) for n, s in spec.items()])

    def __repr__(self):
        return "ModuleSpec:\n" + "\n".join("  " + s.text(n) for n, s in zip(self.method_names, self.method_specs))


__all__ = ["Int", "MethodSpec", "ModuleSpec", "Object", "Tensor", "Tuple"]
