"""Passes over "main", run over the bodies of branches and loops too."""
from __future__ import annotations

from ..relax.control import body_names


def with_bodies(mod, run):
    """Apply `run`, passes over "main", to a module, and to each body of a control call in the place of "main"."""
    mod = run(mod)
    for name in body_names(mod):
        done = run(mod.with_function("main", mod[name]))
        mod = done.with_functions({**done.functions, "main": mod["main"], name: done["main"]})
    return mod
