"""R.call_tir_inplace: a call of a PrimFunc that writes results over arguments."""
from __future__ import annotations

from .control import fields_of
from .expr import RelaxCall, TensorStructInfo, as_struct_info, call_tir
from .infos import same_info

IN_PLACE = "inplace_indices"  # the attribute: of each result the argument that it is written over, -1: none


def call_tir_inplace(gv, args, inplace_indices, out_sinfo, tir_vars=()):
    """A call of the PrimFunc `gv` whose result k is written over argument inplace_indices[k], -1: into a new tensor,
    which it takes behind the arguments. Raises ValueError for indices and arguments that do not fit."""
    indices = tuple(map(int, inplace_indices if isinstance(inplace_indices, (list, tuple)) else (inplace_indices,)))
    several = isinstance(out_sinfo, (list, tuple)) and len(out_sinfo) > 1
    info = as_struct_info(out_sinfo[0] if isinstance(out_sinfo, (list, tuple)) and not several else out_sinfo)
    call = call_tir(gv, args, info, tir_vars)
    call = RelaxCall("call_tir_inplace", call.args, {**call.attrs, IN_PLACE: indices}, info)
    problem = inplace_problem(call)
    if problem:
        raise ValueError(f"R.call_tir_inplace of {getattr(gv, 'name', gv)}: {problem}")
    return call


def inplace_problem(call):
    """Why a call is none, None if it is right."""
    indices, infos = call.attrs.get(IN_PLACE, ()), fields_of(call.struct_info)
    given = [k for k in indices if k >= 0]
    if len(indices) != len(infos):
        return f"{len(indices)} indices are given for {len(infos)} results"
    if not given or len(set(given)) < len(given) or min(indices) < -1 or max(given) >= len(call.args):
        return (f"the indices {list(indices)} must be those of arguments, each once, at least one of them; -1 is of "
                "results that are written over none")
    for k, info in zip(indices, infos):
        own = call.args[k].struct_info if k >= 0 else None
        if k >= 0 and not (isinstance(own, TensorStructInfo) and same_info(own, info)):
            return (f"argument {k} is {own}, and the result that is written over it {info}: "
                    "they must be the same tensors")
    return None


def outputs_of(call, args, make):
    """(results of a call for these arguments, what its PrimFunc takes): make(struct info) gives a new tensor."""
    results, new = [], []
    for k, info in zip(call.attrs[IN_PLACE], fields_of(call.struct_info)):
        if k < 0:
            new.append(make(info))
        results.append(args[k] if k >= 0 else new[-1])
    return results, (*args, *new)


__all__ = ["IN_PLACE", "call_tir_inplace", "inplace_problem", "outputs_of"]
