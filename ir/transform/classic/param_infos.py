"""UpdateParamStructInfo: other struct infos of parameters, and what follows from them."""
from __future__ import annotations

from ...relax.expr import Function, RelaxVar
from ..call_rules import inferred_again


def update_param_struct_info(mod, sinfo_func):
    """A module whose graph functions have parameters of the struct infos that sinfo_func(variable) gives, None: as it
    is. What is known of calls' results follows. InferError where an operator does not take the new ones."""
    return mod.with_functions({n: _updated(f, sinfo_func) if isinstance(f, Function) else f
                               for n, f in mod.functions.items()})


def _updated(func, sinfo_func):
    infos = [sinfo_func(p) for p in func.params]
    params = tuple(p if info is None else RelaxVar(p.name, info, p.origin) for p, info in zip(func.params, infos))
    if all(info is None for info in infos):
        return func
    new = inferred_again(func, {id(old): new for old, new in zip(func.params, params) if new is not old})
    return new.replace(params=params)


__all__ = ["update_param_struct_info"]
