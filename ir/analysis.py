"""Questions about whole modules."""
from __future__ import annotations

from .module import GlobalVar
from .node import collect


def collect_call_map(mod):
    """{GlobalVar of a function: [GlobalVars of the module's functions that it calls, each once, in order]}."""
    return {GlobalVar(name): [GlobalVar(n) for n in dict.fromkeys(gv.name for gv in collect(func, GlobalVar))
                              if n in mod] for name, func in mod.functions.items()}


__all__ = ["collect_call_map"]
