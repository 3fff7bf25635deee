"""OutlineSegments: runs of operators on tensors in functions that no network of C can be become functions that can."""
from __future__ import annotations

from ..expr import Var, free_vars
from ..names import Names, unique_name
from ..node import collect
from ..op import OPS
from ..relax.control import CONTROL
from ..relax.expr import (PACKED, Constant, DataflowVar, DataTypeImm, Function, If, MatchCast, RelaxCall, RelaxString,
                          RelaxTuple, RelaxVar, ShapeExpr, ShapeStructInfo, TensorStructInfo, TupleGetItem,
                          TupleStructInfo)
from ..tir.index_map import IndexMap
from .canonicalize_bindings import with_dims
from .dataflow_blocks import convert_to_dataflow
from .dead_code import is_impure
from .networks import is_alone, is_tensors, needs_machine
from .outline_groups import APART, Group, outline_groups

SEGMENT = "segment_of"  # attribute of such functions: the name of the function that they are of
LEAST = 2  # what a segment weighs at least
_VARS = (RelaxVar, DataflowVar)
_ITEMS = (RelaxVar, DataflowVar, TupleGetItem, RelaxTuple, Constant)


def outline_segments(mod, least=LEAST):
    """A module in which the operators on tensors of functions with other values (objects, closures, shapes, packed
    functions of Python) are private functions of tensors: of each longest run of bindings that networks of C may have,
    and that nothing else interrupts, one, equal ones one for all.

    Symbolic dimensions that no argument has as an axis come in a parameter that is a shape, the last. Constants lie in
    the function; items of tuples are taken where they were. A run weighs 2 for each product and each reduction, 1 for
    each operator that goes element by element, kernel and function, 0 for views; those below `least` stay. Requires
    that tensors are what their struct info says. Ensures the same results: only what has no side effects moves.
    """
    for name in [n for n, f in mod.functions.items() if _may_hold(mod, n, f)]:
        blocks = mod.with_function(name, convert_to_dataflow(mod, 1)[name])
        found = outline_groups(blocks, lambda bindings, name=name: _segments(mod, name, bindings, least), True, [name],
                               with_own_dims)
        mod = found if len(found.functions) > len(mod.functions) else mod
    return mod


def _may_hold(mod, name, func):
    return isinstance(func, Function) and not any(func.attrs.get(k) for k in APART) and needs_machine(mod, name)


# ---------------------------------------------------------------- what is in a segment

def _segments(mod, name, bindings, least):
    """The Groups of a dataflow block."""
    users = _users(bindings)
    groups, waiting = [], _runs(mod, bindings)
    while waiting:
        run = waiting.pop(0)
        cut = next((k for k, n in enumerate(run) if _leaves_as_tuple(bindings[n], users, run)), None)
        if cut is not None:  # its tuple stays outside, and so do its items
            waiting[:0] = [run[:cut], _apart(bindings, run, cut)]
        elif sum(_weight(bindings[n].value) for n in run) >= least:
            groups.append(Group(tuple(run), {SEGMENT: str(name)}, f"{name}_segment"))
    return groups


def _users(bindings):
    """{id of a variable: positions of the bindings that use it}."""
    found = {}
    for n, b in enumerate(bindings):
        for v in collect(b.value, _VARS):
            found.setdefault(id(v), []).append(n)
    return found


def _runs(mod, bindings):
    """Lists of positions: calls that follow one another, and the items of their results."""
    runs, run, inside = [], [], set()
    for n, b in enumerate(bindings):
        if isinstance(b.value, _ITEMS) and not isinstance(b, MatchCast):
            if not inside.isdisjoint(map(id, collect(b.value, _VARS))):
                if isinstance(b.value, TupleGetItem) and is_tensors(b.var.struct_info):
                    run.append(n)
                    inside.add(id(b.var))
                else:  # another name of a result, or a tuple of it: what is after may need it
                    runs, run, inside = [*runs, run], [], set()
        elif _fits(mod, b):
            run.append(n)
            inside.add(id(b.var))
        else:
            runs, run, inside = [*runs, run], [], set()
    return [r for r in (*runs, run) if r]


def _fits(mod, binding):
    """Whether a binding is a call without side effects, of tensors of known shape, that networks may have."""
    call = binding.value
    if isinstance(binding, MatchCast) or not isinstance(call, RelaxCall) or not isinstance(call.op, str):
        return False
    if call.op in CONTROL or is_impure(call) or is_alone(mod, call) or not is_tensors(binding.var.struct_info):
        return False
    if call.op in PACKED and not (call.op == "call_dps_packed" and call.attrs["func"] in _in_c(mod)):
        return False
    inner = (Function, If, RelaxString, DataTypeImm)
    return not collect(call, inner) and all(is_tensors(v.struct_info) for v in collect(call, _VARS))


def _in_c(mod):
    """The functions of C that a module carries."""
    return {symbol for e in mod.attrs.get("external_mods", ()) for symbol in (e["symbol"], *e["others"])}


def _leaves_as_tuple(binding, users, run):
    """Whether a result that is a tuple is used outside of the run, where only tensors come out."""
    return isinstance(binding.var.struct_info, TupleStructInfo) and (
        type(binding.var) is RelaxVar or not set(users.get(id(binding.var), ())) <= set(run))


def _apart(bindings, run, cut):
    """The positions of a run after `cut` less the items of what that binds."""
    left = {id(bindings[run[cut]].var)}
    kept = []
    for n in run[cut + 1:]:
        if isinstance(bindings[n].value, TupleGetItem) and not left.isdisjoint(map(id, collect(bindings[n].value, _VARS))):
            left.add(id(bindings[n].var))
        else:
            kept.append(n)
    return kept


_WEIGHTS = {"view": 0, "elementwise": 1, "broadcast": 1, "injective": 1}  # by the kinds of operators


def _weight(value):
    if not isinstance(value, RelaxCall) or not collect(value, _VARS):
        return 0
    if value.op in ("call", "call_tir"):  # which is compiled as it is
        return 1
    return _WEIGHTS.get(OPS[value.op].kind, 2) if value.op in OPS else 2


# ---------------------------------------------------------------- dimensions

def with_own_dims(func, args):
    """(the function with symbolic dimensions of its own, the arguments of its call): those that no parameter has as an
    axis are a shape, the last parameter."""
    bound = {id(v) for m in collect(func, IndexMap) for v in m.initial_indices}
    dims = [d for d in free_vars([func, *(v.struct_info for v in collect(func, _VARS))]) if id(d) not in bound]
    axes = {id(d) for p in func.params for i in collect(p.struct_info, TensorStructInfo) for d in i.shape
            if isinstance(d, Var)}
    others = tuple(d for d in dims if id(d) not in axes)
    if others:
        func = func.replace(params=(*func.params, RelaxVar("sizes", ShapeStructInfo(others))))
        args = (*args, ShapeExpr(others))
    taken = Names()  # callers tell dimensions by their names
    return with_dims(func, {d: d.renewed(unique_name(d.name, taken)) for d in dims}), args


def closed(func):
    """A function with symbolic dimensions of its own; `func` where its parameters do not tell them all."""
    new, more = with_own_dims(func, ())
    return func if more else new


__all__ = ["LEAST", "SEGMENT", "closed", "outline_segments", "with_own_dims"]
