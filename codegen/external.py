"""External generators: they write the C of groups of operators, which a folder carries beside its own kernels.

A row of GENERATORS: name -> generator(func, symbol, options), which gives an External for the function of a group. Such
functions have the attribute Codegen, the generator's name (relax.transform.FuseOpsByPattern with annotate_codegen, and
MergeCompositeFunctions make them); run_codegen puts calls of what is generated in the place of their calls.
"""
from __future__ import annotations

from dataclasses import asdict, dataclass

from ..ir.module import GlobalVar
from ..ir.node import Mutator, collect
from ..ir.relax.expr import (Constant, Function, RelaxCall, TensorStructInfo, TupleStructInfo, call_dps_packed)
from .c_types import c_type
from .packed_names import Packed, packed_symbol

GENERATORS = {}
ATTR = "external_mods"  # of a module: what has been generated for it


@dataclass(frozen=True)
class External:
    """The C of a group. source: a definition of `void SYMBOL(const ingot_arg *args, int32_t n_args)`, which reads the
    arguments in order and writes the results behind them, and what else it needs; it is C99, and compiles without
    warnings. others: further symbols that it defines. headers: what it includes beside ingot_module.h, "cblas.h";
    libraries: what it is linked with, "openblas".
    """

    symbol: str
    source: str
    headers: tuple = ()
    libraries: tuple = ()
    others: tuple = ()

    @property
    def symbols(self):
        return (self.symbol, *self.others)

    def text(self, file, stamp):
        """The whole file."""
        lines = [f"/* {file}: {', '.join(self.symbols)}, written for this network by another.", " *",
                 f" * {stamp}", " */",
                 *(f"#include <{h}>" for h in self.headers), *([""] if self.headers else []),
                 '#include "ingot_module.h"', "", *(f"{Packed(s, s).declaration};" for s in self.symbols), "",
                 self.source.strip(), ""]
        return "\n".join(lines)


def register_generator(name, generator=None):
    """Add a row of GENERATORS; a decorator without `generator`."""
    if generator is None:
        return lambda function: register_generator(name, function)
    GENERATORS[name] = generator
    return generator


def externals_of(mod):
    """The Externals of a module."""
    return tuple(External(**{k: v if isinstance(v, str) else tuple(v) for k, v in e.items()})
                 for e in mod.attrs.get(ATTR, ()))


def attach(mod, modules):
    """A module that keeps modules of C, which have `symbols`, `source_code`, `headers` and `libraries`. Raises
    ValueError for others, for symbols that are no names in C, and for those that are there already."""
    kept = list(mod.attrs.get(ATTR, ()))
    taken = {s for e in externals_of(mod) for s in e.symbols}
    for module in modules:
        if not hasattr(module, "source_code"):
            raise ValueError(f"a {type(module).__name__} has no C that a folder could carry: an nn.SourceModule has")
        for name in module.symbols:
            if packed_symbol(name) != name or name in taken:
                raise ValueError(f"{name!r} " + ("is the function of two external modules" if name in taken else
                                                 f"is no name of a function in C; {packed_symbol(name)!r} would do"))
            taken.add(name)
        first, *others = module.symbols
        kept.append(asdict(External(first, module.source_code, module.headers, module.libraries, tuple(others))))
    return mod.with_attr(ATTR, tuple(kept)) if kept else mod


def require_generated(mod):
    """The module itself. Raises ValueError where a function waits for its generator."""
    for name, func in mod.functions.items():
        if isinstance(func, Function) and func.attrs.get("Codegen"):
            raise ValueError(f"the function {name} is for the external generator {func.attrs['Codegen']!r}, which "
                             "relax.transform.RunCodegen() calls: run it before the module is compiled")
    return mod


def run_codegen(mod, target_options=None, lookup=GENERATORS.get):
    """A module in which each call of a function with the attribute Codegen is the R.call_dps_packed of what the
    generator wrote, kept in the module's attribute external_mods. Such functions go.

    target_options: {generator: its options}; lookup(name): the generator, or None. Raises ValueError where there is
    none, for arguments that are no tensors, or what the generator raises.
    """
    groups = {n: f for n, f in mod.functions.items() if isinstance(f, Function) and f.attrs.get("Codegen")}
    rest = {n: f for n, f in mod.functions.items() if n not in groups}
    called = {gv.name for f in rest.values() for gv in collect(f, GlobalVar)}
    made = {n: _generated(n, f, target_options or {}, lookup) for n, f in groups.items() if n in called}
    functions = {n: _Calls(made).visit(f) if isinstance(f, Function) else f for n, f in rest.items()}
    if not made:
        return mod.with_functions(functions)
    kept = (*mod.attrs.get(ATTR, ()), *(asdict(e) for e in made.values()))
    return mod.with_functions(functions).with_attr(ATTR, kept)


def _generated(name, func, options, lookup):
    generator = lookup(func.attrs["Codegen"])
    if generator is None:
        raise ValueError(f"{name}: no external generator {func.attrs['Codegen']!r}; there is "
                         f"{', '.join(sorted(GENERATORS)) or 'none'}. register_generator(name, f) adds one, as does "
                         'tvm.register_func("relax.ext.NAME", f)')
    infos = [func.ret_struct_info]
    infos = [*(infos[0].fields if isinstance(infos[0], TupleStructInfo) else infos), *(
        p.struct_info for p in func.params)]
    if not all(isinstance(i, TensorStructInfo) for i in infos):
        raise ValueError(f"{name}: a function for a generator takes and gives tensors alone, not "
                         f"{', '.join(str(i) for i in infos if not isinstance(i, TensorStructInfo))}")
    symbol = packed_symbol(func.attrs.get("global_symbol", name))
    made = generator(func, symbol, dict(options.get(func.attrs["Codegen"], {})))
    if isinstance(made, str):
        made = External(symbol, made)
    if not isinstance(made, External):
        raise TypeError(f"the generator {func.attrs['Codegen']!r} gives C text or an External, not a "
                        f"{type(made).__name__}")
    return made


class _Calls(Mutator):
    def __init__(self, made):
        self.made = made

    def visit_Constant(self, constant):
        return constant

    def visit_RelaxCall(self, call):
        made = self.made.get(call.attrs["gv"].name) if call.op == "call" else None
        if made is None:
            return self.generic_visit(call)
        info = call.struct_info
        return call_dps_packed(made.symbol, call.args,
                               list(info.fields) if isinstance(info, TupleStructInfo) else info)


# ------------------------------------------------------------ aids of generators

def composites(func):
    """[(the composite function, its arguments, the variable it gives)] of a function for a generator, in order."""
    local = {b.var: b.value for b in func.bindings if isinstance(b.value, Function)}
    return [(local[b.value.op], b.value.args, b.var) for b in func.bindings
            if isinstance(b.value, RelaxCall) and b.value.op in local]


def has_constants(func):
    """Whether constants are inside, which a generator would have to write."""
    return bool(collect(func, Constant))


def pointers(func):
    """C lines that name the data of a function's parameters p0, p1 ... and results out0, out1 ... by typed pointers."""
    outs = func.ret_struct_info
    outs = outs.fields if isinstance(outs, TupleStructInfo) else (outs,)
    names = [*((f"p{n}", "const ", p.struct_info) for n, p in enumerate(func.params)),
             *((f"out{n}", "", info) for n, info in enumerate(outs))]
    return [f"{const}{c_type(info.dtype)} *{name} = ({const}{c_type(info.dtype)} *)args[{n}].value.tensor->data;"
            for n, (name, const, info) in enumerate(names)]


__all__ = ["External", "GENERATORS", "attach", "composites", "externals_of", "has_constants", "pointers",
           "register_generator", "require_generated", "run_codegen"]
