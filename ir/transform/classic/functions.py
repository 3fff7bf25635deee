"""Passes that choose functions, mark them, or hand them to the caller's own function."""
from __future__ import annotations

from ...target import Target
from ...tir.function import PrimFunc


def apply(func, ftransform):
    """The function that ftransform(func) returns."""
    return ftransform(func)


def keep_if(func, fcond):
    """The function where fcond(func) holds; the others leave the module."""
    return func if fcond(func) else None


def bind_target(func, target):
    """Ensures attrs["target"]: `target`, unless the function has one already. What is compiled for the host alone, as
    tir.is_host_func says, has its host, by default this machine, which is its own."""
    row = Target.get(target)
    if func.attrs.get("tir.is_host_func"):
        host = row.host or Target.get("host")
        row = host.with_host(host)
    func = func if "target" in func.attrs else func.with_attr("target", row)
    return func.without_attr("tir.is_host_func")


def annotate_entry_func(mod):
    """Ensures attrs["tir.is_entry_func"] of the only function, or of the only one that has a global_symbol."""
    functions = dict(mod.functions)
    seen = list(functions) if len(functions) == 1 else [
        n for n, f in functions.items() if f.attrs.get("global_symbol") is not None]
    if len(seen) != 1 or not isinstance(functions[seen[0]], PrimFunc):
        return mod
    return mod.with_function(seen[0], functions[seen[0]].with_attr("tir.is_entry_func", True))
