"""Calls of packed functions, which whoever runs the network supplies by name, become calls of PrimFuncs that call them.
"""
from __future__ import annotations

from ..module import GlobalVar
from ..names import Names, unique_name
from ..relax.control import graph_functions
from ..relax.expr import (EFFECTS, PrimValue, RelaxCall, RelaxString, TensorStructInfo, TupleStructInfo, call_tir,
                          dataflow_function)
from ..te.create import create_prim_func
from ..te.operation import extern, placeholder
from ..tir.intrin import call_packed
from .dead_code import has_effects

PLAIN = (PrimValue, RelaxString)  # arguments that are written in the program
PACKED = ("call_packed", "call_pure_packed", "call_dps_packed")
RETURNED = "packed_results"  # attribute of a PrimFunc: how many of its last tensors what it calls returns, else 0


def lower_packed_calls(mod):
    """Requires nothing. Ensures no R.call_dps_packed, R.call_packed or R.call_pure_packed: each is the R.call_tir of a
    PrimFunc that calls the function with the tensors, the results last, numbers and texts. What R.call_packed returns is
    declared (sinfo_args): tensors of known shape.

    Raises ValueError for arguments and results that are others, naming the variable.
    """
    if not any(_is_packed(b.value) for f in graph_functions(mod).values() for b in f.bindings):
        return mod
    functions, taken = dict(mod.functions), Names(mod.functions)
    for name, func in graph_functions(mod).items():
        bindings = []
        for b in func.bindings:
            value = b.value
            if _is_packed(value):
                prim, tensors = _prim_func(b.var.name, value)
                gv = GlobalVar(unique_name(value.attrs["func"].rpartition(".")[2], taken))
                functions[gv.name] = prim
                info = value.struct_info
                lowered = call_tir(gv, tensors, list(info.fields) if isinstance(info, TupleStructInfo) else info)
                value = lowered.replace(attrs={**lowered.attrs, EFFECTS: True}) if has_effects(value) else lowered
            bindings.append(b.replace(value=value))
        functions[name] = dataflow_function(func.params, bindings, func.outputs, func.attrs)
    return mod.with_functions(functions)


def _is_packed(value):
    return isinstance(value, RelaxCall) and value.op in PACKED


def _prim_func(name, call):
    """(the PrimFunc that calls a packed function, the tensors that it takes before the results)."""
    func, info = call.attrs["func"], call.struct_info
    infos = info.fields if isinstance(info, TupleStructInfo) else (info,)
    for i in infos:
        if not isinstance(i, TensorStructInfo) or i.shape is None or i.dtype == "void":
            raise ValueError(f"{name}: {call.op} of {func!r} gives {i}: declare a tensor of known shape and dtype, as "
                             'in sinfo_args=R.Tensor((2, 3), "float32")')
    for a in call.args:
        if not isinstance(a, PLAIN) and not isinstance(a.struct_info, TensorStructInfo):
            raise ValueError(f"{name}: {call.op} of {func!r} passes {a.struct_info}: it takes tensors, numbers and texts")
    tensors = [a for a in call.args if not isinstance(a, PLAIN)]
    inputs = [placeholder(a.struct_info.shape, a.struct_info.dtype, getattr(a, "name", None) or f"arg{n}")
              for n, a in enumerate(tensors)]

    def body(ins, outs):
        ins = iter(ins)
        given = [a.value if isinstance(a, PLAIN) else next(ins) for a in call.args]
        return call_packed(func, *given, *outs)

    outs = extern([i.shape for i in infos], inputs, body, "out", [i.dtype for i in infos])
    made = create_prim_func([*inputs, *outs], attrs={"tir.noalias": True})
    returned = 0 if call.op == "call_dps_packed" else len(infos)
    positions = tuple(range(len(inputs), len(inputs) + len(infos)))
    return made.with_attr({"outputs": positions, RETURNED: returned}), tensors


__all__ = ["PACKED", "PLAIN", "RETURNED", "lower_packed_calls"]
