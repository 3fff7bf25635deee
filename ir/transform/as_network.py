"""One graph function of a module in the form that networks of C have."""
from __future__ import annotations

from ..module import GlobalVar
from ..node import collect
from ..relax.expr import Function
from .flat_tuples import flatten_tuples
from .inline_functions import KERNELS, inline_calls
from .lift_branches import lift_branches


def as_network(mod, name):
    """The module whose "main" is graph function `name`: it takes and gives tensors where it took tuples, and gave tuples
    in tuples, calls no graph function but kernels, and its `if` are calls (control.py). Other graph functions stay where
    it, or what it calls, names them."""
    main = flatten_tuples(inline_calls(mod, name, kept=KERNELS))
    mod = mod.with_functions({"main": main, **{n: f for n, f in mod.functions.items() if n not in ("main", name)}})
    used, waiting = {"main"}, [main]
    while waiting:
        new = {gv.name for gv in collect(waiting.pop(), GlobalVar) if gv.name in mod} - used
        used |= new
        waiting += [mod[n] for n in new]
    return lift_branches(mod.with_functions({n: f for n, f in mod.functions.items()
                                             if n in used or not isinstance(f, Function)}))


__all__ = ["as_network"]
