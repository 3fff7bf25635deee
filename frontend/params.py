"""Weights that an import kept beside a program."""
from __future__ import annotations


def detach_params(mod):
    """(the module without the attribute "params" of its functions, {function: its weights}). Raises ValueError where
    they are no NDArrays."""
    found, functions = {}, {}
    for name, func in mod.functions.items():
        params = getattr(func, "attrs", {}).get("params")
        functions[name] = func
        if params is None:
            continue
        if not all(hasattr(p, "copyto") for p in params):
            raise ValueError('The value "params" attribute is expected to be a list of NDArray.')
        found[name] = list(params)
        functions[name] = func.without_attr("params")
    return mod.with_functions(functions), found


__all__ = ["detach_params"]
