"""MergeCompositeFunctions: neighbours for one generator become one function for it."""
from __future__ import annotations

from ..names import Names, unique_name
from ..relax.expr import Function, RelaxCall
from .outline_groups import (Group, codegen_function, dependencies, generator_of, may_be_partitioned,
                             outline_groups, without_uncalled)
from .segments import closed
from .symbols import Calls


def merge_composite_functions(mod):
    """A module in which calls of composite functions (FuseOpsByPattern makes them) are in functions with the attributes
    Codegen and global_symbol, one for calls that hand results on to each other and have one generator. Calls are kept
    apart where one function of both would need its own result."""
    before = set(mod.functions)
    new = outline_groups(mod, lambda bindings: _groups(mod, bindings), False, may_be_partitioned(mod))
    names, made, to = Names(new.functions), {}, {}
    for name, func in new.functions.items():
        if name not in before and isinstance(func, Function) and func.attrs.get("Codegen"):
            to[name] = unique_name(f"{name}_{func.attrs['Codegen']}", names, "")
            made[to[name]] = closed(codegen_function(new, func, to[name]))
    kept = {n: Calls(to).visit(f) if isinstance(f, Function) else f for n, f in new.functions.items() if n not in to}
    return without_uncalled(new.with_functions({**kept, **made}), "Composite")


def _groups(mod, bindings):
    """The Groups of a dataflow block's calls of composite functions."""
    generator = {n: g for n, b in enumerate(bindings) if (g := _generator(mod, b.value))}
    if not generator:
        return []
    needs = dependencies(bindings)
    users = [[] for _ in bindings]
    for n, needed in enumerate(needs):
        for k in needed:
            users[k].append(n)
    group = {n: frozenset((n,)) for n in range(len(bindings))}
    for n, name in generator.items():
        for k in sorted(needs[n]):
            joined = group[n] | group[k]
            if generator.get(k) == name and not _needs_itself(joined, group, users):
                group.update(dict.fromkeys(joined, joined))
    return [Group(tuple(sorted(members)), {"Codegen": generator[min(members)], "Primitive": 1})
            for members in dict.fromkeys(group[n] for n in generator)]


def _generator(mod, value):
    """The generator of the composite function that a value calls, or ""."""
    func = mod.functions.get(value.attrs["gv"].name) if isinstance(value, RelaxCall) and value.op == "call" else None
    composite = func.attrs.get("Composite") if isinstance(func, Function) else None
    return generator_of(composite) if composite else ""


def _needs_itself(joined, group, users):
    """Whether something outside of `joined` uses a result of it and is needed by it."""
    seen, waiting = set(), [u for n in joined for u in users[n] if u not in joined]
    while waiting:
        whole = group[waiting.pop()]
        if whole in seen:
            continue
        seen.add(whole)
        for u in {u for n in whole for u in users[n]}:
            if u in joined:
                return True
            if u not in whole:
                waiting.append(u)
    return False


__all__ = ["merge_composite_functions"]
