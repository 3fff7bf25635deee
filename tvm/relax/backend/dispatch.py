"""DispatchSortScan and DispatchSampling: operators whose kernels depend on the device, made before all others are.

Both are LegalizeOps for some operators, by the same topi; for a GPU, dlight.gpu.Fallback then gives kernels threads.
"""
from __future__ import annotations

from ....ir.module import GlobalVar
from ....ir.node import collect
from ....ir.relax.expr import Function, RelaxCall
from ....ir.tir.function import PrimFunc
from ....ir.transform.classic.legalize_ops import legalized
from ....ir.transform.classic.legalize_others import LEGALIZE
from ....ir.transform.context import module_pass
from .utils import target_of

_SORT_SCAN = ("sort", "argsort", "topk", "cumsum", "cumprod")
_SAMPLING = ("multinomial_from_uniform",)


def DispatchSortScan():  # noqa: N802
    """The pass that makes R.sort, argsort, topk, cumsum and cumprod calls of PrimFuncs, which on a GPU have threads. A
    tensor's vdevice says the target, or else `with target:`."""
    return _pass("DispatchSortScan", _SORT_SCAN)


def DispatchSampling():  # noqa: N802
    """The pass that makes R.multinomial_from_uniform calls of PrimFuncs, which on a GPU have threads."""
    return _pass("DispatchSampling", _SAMPLING)


def _pass(name, operators):
    table = {op: LEGALIZE[op] for op in operators}

    def run(mod, context):
        new = legalized(mod, table)
        made = {n: f for n, f in new.functions.items() if n not in mod.functions and isinstance(f, PrimFunc)}
        return _scheduled(new, made) if made else new
    return module_pass(run, opt_level=0, name=name)


def _scheduled(mod, made):
    """The module with threads in those PrimFuncs of `made` that run on a GPU. ValueError where one runs on two."""
    targets = {}
    for func in mod.functions.values():
        for call in collect(func.body, RelaxCall) if isinstance(func, Function) else ():
            gv = call.attrs.get("gv")
            if isinstance(gv, GlobalVar) and gv.name in made:
                target = target_of(call.struct_info)
                if targets.setdefault(gv.name, target) != target:
                    raise ValueError(f"{gv.name} runs on {targets[gv.name]} and on {target}: name vdevices of one")
    from ... import dlight  # which GPUs alone ask for
    for name, target in targets.items():
        if target is not None and target.launch is not None:
            with target:
                one = dlight.ApplyDefaultSchedule(dlight.gpu.Fallback())(mod.with_functions({name: mod[name]}))
            mod = mod.with_functions({**mod.functions, name: one[name]})
    return mod


__all__ = ["DispatchSampling", "DispatchSortScan"]
