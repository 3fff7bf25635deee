"""Groups of bindings become functions of the module, and calls of these: what passes that partition graphs share."""
from __future__ import annotations

from dataclasses import dataclass, field

from ..expr import free_vars
from ..module import GlobalVar
from ..names import Names, unique_name
from ..node import Mutator, collect, structural_equal
from ..relax.expr import (BindingBlock, Constant, DataflowVar, Function, MatchCast, RelaxCall,
                          RelaxTuple, RelaxVar, SeqExpr, TupleGetItem, VarBinding, dataflow_function)
from ..relax.infos import call_dims, dims_key
from .canonicalize_bindings import with_dims
from .graph import Substitute, leaves

APART = ("Composite", "Codegen", "Primitive", "primitive")  # attributes of functions that are groups already
_MOST_NAME = 160  # letters of the name of a group


@dataclass(frozen=True)
class Group:
    """members: positions of bindings in their dataflow block, ascending; attrs: of the function that they become; name:
    its name, by default one of what it computes."""

    members: tuple
    attrs: dict = field(default_factory=dict)
    name: str = ""


def outline_groups(mod, find, bind_constants, names, closed=None):
    """A module in which the Groups that find(bindings) gives of each dataflow block of the functions `names` are
    functions, equal ones one. Constants are in these, or, without bind_constants, arguments. Groups have the dimensions
    of the function that calls them, or their own where closed(function, arguments of its call) gives a function and
    arguments for these. Raises ValueError where groups need results of each other."""
    outline = _Outline(mod, find, bind_constants, closed)
    changed = {n: outline.visit(mod[n]) for n in names}
    return mod.with_functions({**mod.functions, **changed, **outline.made})


def may_be_partitioned(mod):
    """The names of the graph functions that are no groups."""
    return [n for n, f in mod.functions.items()
            if isinstance(f, Function) and not any(f.attrs.get(key) for key in APART)]


class _Outline(Mutator):
    def __init__(self, mod, find, bind_constants, closed):
        self.functions, self.find, self.bind_constants, self.closed = mod.functions, find, bind_constants, closed
        self.made, self.names = {}, Names(mod.functions)

    def visit_Constant(self, constant):
        return constant

    def visit_DataflowBlock(self, block):
        groups = self.find(block.bindings)
        return block.replace(bindings=tuple(_Block(self, block.bindings, groups).bindings())) if groups else block

    def function(self, hint, func):
        """The GlobalVar of a function: one that is there already, or a new one. Groups of the dimensions of other
        functions are others."""
        for name, other in {**self.functions, **self.made}.items():
            if isinstance(other, Function) and other.attrs.get("Composite") == func.attrs.get("Composite") and (
                    self.closed or _dims(other) == _dims(func)) and structural_equal(other, func, bool(self.closed)):
                return GlobalVar(name)
        name = unique_name(hint[:_MOST_NAME].rstrip("_"), self.names, "")
        self.made[name] = func
        return GlobalVar(name)


class _Block:
    """One dataflow block. A unit is a group or a binding outside of groups, by its positions."""

    def __init__(self, owner, bindings, groups):
        self.owner, self.old = owner, bindings
        self.groups = {g.members: g for g in groups}
        self.unit = {n: (n,) for n in range(len(bindings))}
        self.unit.update((n, g.members) for g in groups for n in g.members)
        self.at = {id(b.var): n for n, b in enumerate(bindings)}
        self.needs = dependencies(bindings)

    def bindings(self):
        """The block's bindings with calls for groups."""
        outputs, made = self._outputs(), []
        for unit in self._in_order():
            made += self._call(unit, list(outputs[unit])) if unit in self.groups else [self.old[unit[0]]]
        return made

    def _outputs(self):
        """{group: the positions of its results, in order of their first use outside}."""
        found = {unit: {} for unit in self.groups}
        for n, b in enumerate(self.old):
            for v in collect(b.value, (RelaxVar, DataflowVar)):
                k = self.at.get(id(v))
                if k is not None and self.unit[k] in found and self.unit[k] != self.unit[n]:
                    found[self.unit[k]].setdefault(k)
            if type(b.var) is RelaxVar and self.unit[n] in found:
                found[self.unit[n]].setdefault(n)
        return found

    def _in_order(self):
        """All units, each after those whose results it needs, else as late as its last binding was."""
        done, waiting = {}, set()

        def place(unit):
            if unit in done:
                return
            if unit in waiting:
                first = self.old[unit[0]].var.name
                raise ValueError(f"A cyclic dependency detected between groups: that of {first!r} needs a result that "
                                 "needs one of its own; leave out what both share from the pattern")
            waiting.add(unit)
            for other in sorted({self.unit[k] for n in unit for k in self.needs[n]} - {unit}, key=max):
                place(other)
            done[unit] = None

        for unit in sorted(set(self.unit.values()), key=max):
            place(unit)
        return done

    def _call(self, unit, outputs):
        """The bindings that call the function of a group."""
        members = [self.old[n] for n in unit]
        results = [self.old[n].var for n in outputs or unit[-1:]]
        group, owner = self.groups[unit], self.owner
        func, args = _function(members, results, group.attrs, owner.bind_constants)
        func, args = owner.closed(func, args) if owner.closed else (func, args)
        gv = owner.function(group.name or "_".join(["fused", *filter(None, map(_word, members))]), func)
        infos = [v.struct_info for v in results]
        if len(results) == 1:
            return [VarBinding(results[0], RelaxCall("call", args, {"gv": gv}, infos[0]))]
        whole = RelaxTuple(results).struct_info
        var = DataflowVar(f"{results[0].name}_all", whole)
        taken = [VarBinding(self.old[n].var, TupleGetItem(var, outputs.index(n))) for n in unit if n in outputs]
        return [VarBinding(var, RelaxCall("call", args, {"gv": gv}, whole)), *taken]


def dependencies(bindings):
    """For each binding the positions of those that it needs: whose variables it uses, or that tell its dimensions."""
    at = {id(b.var): n for n, b in enumerate(bindings)}
    told = {}
    for n, b in enumerate(bindings):
        for dim in free_vars([b.var.struct_info]) if isinstance(b, MatchCast) else ():
            told.setdefault(id(dim), n)
    found = []
    for n, b in enumerate(bindings):
        needed = {at[id(v)] for v in collect(b.value, (RelaxVar, DataflowVar)) if id(v) in at}
        needed |= {told[id(d)] for d in free_vars([b.var.struct_info, b.value] if told else ())
                   if told.get(id(d), n) < n}
        found.append(needed)
    return found


def _dims(func):
    return {id(d) for d in free_vars([p.struct_info for p in func.params])}


def _word(binding):
    """What a binding adds to the name of its group."""
    value = binding.value
    if not isinstance(value, RelaxCall):
        return ""
    if "gv" in value.attrs:
        return value.attrs["gv"].name.removeprefix("fused_")
    return str(value.attrs.get("func") or f"relax_{value.op}").replace(".", "_")


def _function(members, results, attrs, bind_constants):
    """(the function of some bindings with these results, the arguments of its call). Symbolic dimensions are those of
    the function around."""
    inside, inputs = {id(b.var) for b in members}, {}
    for b in members:
        for v in leaves(b.value):
            if id(v) not in inside and not (isinstance(v, Constant) and bind_constants):
                inputs.setdefault(id(v), v)
    taken, env = {b.var.name for b in members}, {}
    for n, (key, v) in enumerate(inputs.items()):
        hint = f"param_{n}" if isinstance(v, Constant) else v.name
        env[key] = RelaxVar(unique_name(hint, taken), v.struct_info)
    params = list(env.values())
    rename, body = Substitute(env), []
    for b in members:
        new = DataflowVar(b.var.name, b.var.struct_info, b.var.origin)
        body.append(VarBinding(new, rename.visit(b.value)))
        env[id(b.var)] = new
    func = dataflow_function(params, body, [env[id(v)] for v in results], attrs)
    return func, tuple(inputs.values())


def renewed(func):
    """A function with parameters and variables of its own."""
    env = {id(v): type(v)(v.name, v.struct_info, v.origin)
           for v in [*func.params, *(b.var for b in func.bindings)]}
    return _Renewed(env).visit(func)


class _Renewed(Substitute):
    def visit_Constant(self, constant):
        return constant


# ------------------------------------------------------------ functions for a generator

def wrapped(mod, name, composite):
    """A function whose body calls the function `name` of a module, for the generator that `composite` names: the
    Function that codegen_function makes of it."""
    func = renewed(mod[name])
    result = RelaxVar("gv", func.ret_struct_info)
    call = RelaxCall("call", func.params, {"gv": GlobalVar(name)}, func.ret_struct_info)
    return func.replace(body=SeqExpr((BindingBlock((VarBinding(result, call),)),), result),
                        attrs={"Codegen": generator_of(composite)})


def generator_of(composite):
    """The generator of a composite function: what is before the first dot of its name."""
    return composite.partition(".")[0]


def codegen_function(mod, func, symbol):
    """A function with Codegen as generators get it: the composite functions of the module that it calls are functions
    of its own, and nothing is a dataflow block."""
    bindings, local = [], {}
    env = {}
    for b in func.bindings:
        value = Substitute(env).visit(b.value)
        gv = value.attrs.get("gv") if isinstance(value, RelaxCall) and value.op == "call" else None
        if gv is not None and mod[gv].attrs.get("Composite"):
            told = call_dims(mod[gv], [a.struct_info for a in value.args])  # inside, dimensions are those of around
            key = gv.name, dims_key(told)
            if key not in local:
                inner = renewed(with_dims(mod[gv].without_attr("Primitive"), told))
                local[key] = RelaxVar(f"local_{len(local)}", inner.struct_info)
                bindings.append(VarBinding(local[key], inner))
            value = RelaxCall(local[key], value.args, None, value.struct_info)
        env[id(b.var)] = var = RelaxVar(b.var.name, b.var.struct_info, b.var.origin)
        bindings.append(VarBinding(var, value))
    body = Substitute(env).visit(func.body.body)
    attrs = {**func.without_attr("Primitive").attrs, "global_symbol": symbol}
    return func.replace(body=SeqExpr((BindingBlock(tuple(bindings)),), body), attrs=attrs)


def without_uncalled(mod, kind):
    """The module less functions with the attribute `kind` that nothing calls."""
    called = {gv.name for n, f in mod.functions.items() for gv in collect(f, GlobalVar)}
    return mod.with_functions({n: f for n, f in mod.functions.items()
                               if n in called or not (isinstance(f, Function) and f.attrs.get(kind))})


__all__ = ["APART", "Group", "codegen_function", "dependencies", "generator_of", "may_be_partitioned",
           "outline_groups", "without_uncalled", "wrapped"]
