"""AttachGlobalSymbol, NormalizeGlobalVar: the names of a module's functions and those that others find agree."""
from __future__ import annotations

from ..module import SYMBOL, GlobalVar
from ..names import unique_name
from ..node import Mutator
from ..relax.expr import ExternFunc, Function
from ..upper import provides


def attach_global_symbol(mod):
    """A module whose functions have a "global_symbol": their name, that of PrimFuncs after the module's attribute
    "system_lib_prefix". Those that have one keep it, and ExternFuncs theirs; functions are called as their symbols
    say."""
    prefix = mod.attrs.get("system_lib_prefix") or ""
    names = {n: str(n) if isinstance(f, Function) else f"{prefix}{n}" for n, f in mod.functions.items()
             if SYMBOL not in f.attrs and not isinstance(f, ExternFunc)}
    return renamed(mod.with_functions({**mod.functions, **{n: mod[n].with_attr(SYMBOL, s) for n, s in names.items()}}),
                   names)


@provides("normalize_global_var")
def normalize_global_var(mod):
    """A module in which each function with a "global_symbol" is called so; private ones whose name is taken by that
    give way. ValueError where two functions have one symbol."""
    public = {n: f.attrs[SYMBOL] for n, f in mod.functions.items() if SYMBOL in getattr(f, "attrs", ())}
    twice = sorted({s for s in public.values() if list(public.values()).count(s) > 1})
    if twice:
        raise ValueError(f"NormalizeGlobalVar: functions {', '.join(n for n, s in public.items() if s == twice[0])} "
                         f"all have the global_symbol {twice[0]!r}; give each its own")
    taken = set(public.values())
    names = {n: public[n] if n in public else unique_name(n, taken, "") for n in mod.functions}
    return renamed(mod, names)


def renamed(mod, names):
    """The module with functions called otherwise, also by their callers: names is {name: new name}."""
    names = {old: new for old, new in names.items() if old != new}
    if not names:
        return mod
    rename = Calls(names)
    return mod.with_functions({names.get(n, n): rename.visit(f) for n, f in mod.functions.items()})


class Calls(Mutator):
    """Calls of functions as calls of others: {name: name}."""

    def __init__(self, names):
        self.names = names

    def visit_Constant(self, constant):
        return constant

    def visit_GlobalVar(self, gv):
        return GlobalVar(self.names[gv.name]) if gv.name in self.names else gv


__all__ = ["Calls", "attach_global_symbol", "normalize_global_var", "renamed"]
