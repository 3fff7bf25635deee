"""Functions of scripts that are one kernel each, in the dimensions of what calls them, as kernels of networks are."""
from __future__ import annotations

from ..expr import free_vars
from ..module import GlobalVar
from ..names import Names, unique_name
from ..node import Mutator, collect
from ..relax.expr import DataflowVar, Function, RelaxVar, ShapeStructInfo
from ..relax.infos import call_dims, dims_key
from .canonicalize_bindings import with_dims


def open_kernels(mod):
    """Requires: nothing. Ensures that a function with the attribute primitive has the symbolic dimensions of the function
    that calls it, and no parameter that only tells them: where it has its own, each call that gives others is of a
    function with those."""
    opened = _Open(mod)
    if not any(map(opened.is_kernel, mod.functions)):
        return mod
    functions = {n: opened.visit(f) if isinstance(f, Function) else f for n, f in mod.functions.items()}
    if not opened.made:
        return mod
    called = {gv.name for f in (*functions.values(), *opened.made.values()) for gv in collect(f, GlobalVar)}
    return mod.with_functions({n: f for n, f in {**functions, **opened.made}.items()
                               if n in called or not opened.is_kernel(n) or n in opened.made})


class _Open(Mutator):
    def __init__(self, mod):
        self.mod, self.names, self.made, self.known = mod, Names(mod.functions), {}, {}

    def is_kernel(self, name):
        func = self.mod.functions.get(name)
        return isinstance(func, Function) and bool(func.attrs.get("primitive"))

    def visit_Constant(self, constant):
        return constant

    def visit_RelaxCall(self, call):
        gv = call.attrs.get("gv") if call.op == "call" else None
        if not isinstance(gv, GlobalVar) or not self.is_kernel(gv.name):
            return call
        func = self.mod[gv.name]
        told = call_dims(func, [a.struct_info for a in call.args])
        told = {d: value for d, value in told.items() if value is not d}
        own = {id(d) for d in free_vars([p.struct_info for p in func.params])}
        if not told or not own:
            return call
        used = {id(v) for v in collect(func.body, (RelaxVar, DataflowVar))}
        kept = [n for n, p in enumerate(func.params) if not isinstance(p.struct_info, ShapeStructInfo) or id(p) in used]
        key = gv.name, dims_key(told)
        if key not in self.known:
            self.known[key] = name = unique_name(gv.name, self.names, "")
            self.made[name] = with_dims(func.replace(params=tuple(func.params[n] for n in kept)), told)
        attrs = {**call.attrs, "gv": GlobalVar(self.known[key])}
        return call.replace(args=tuple(call.args[n] for n in kept), attrs=attrs)


__all__ = ["open_kernels"]
