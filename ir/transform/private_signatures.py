"""RemoveUnusedParameters, RemoveUnusedOutputs, ExpandTupleArguments: what private functions take and give.

Private are functions other than main without a "global_symbol" that the module calls and names nowhere else.
"""
from __future__ import annotations

from ..expr import Var, free_vars
from ..module import GlobalVar
from ..names import Names, unique_name
from ..node import collect
from ..relax.expr import (BindingBlock, DataflowVar, Function, PrimStructInfo, PrimValue, RelaxCall, RelaxExpr, RelaxTuple,
                          RelaxVar, SeqExpr, ShapeStructInfo, TensorStructInfo, TupleGetItem, TupleStructInfo,
                          VarBinding)
from ..relax.infos import call_dims
from ..relax.lattice import erased, finer, finer_result
from .call_rules import CallRules, inferred
from .canonicalize_bindings import canonicalize_bindings
from .dead_code import remove_all_unused

_VARS = (RelaxVar, DataflowVar)


def _private(mod):
    """{name: function} of the private functions of a module."""
    called, elsewhere = set(), set()
    for func in mod.functions.values():
        for call in collect(func, RelaxCall):
            attrs = {k: v for k, v in call.attrs.items() if call.op != "call" or k != "gv"}
            elsewhere |= {gv.name for gv in collect((call.args, attrs), GlobalVar)}
            called |= {call.attrs["gv"].name} if call.op == "call" else set()
    return {n: f for n, f in mod.functions.items() if isinstance(f, Function) and f.body is not None and n in called
            and n not in elsewhere and n != "main" and "global_symbol" not in f.attrs}


def _with_calls(mod, functions, change):
    """The module with these functions instead, and change(context, call) in the place of each call of one of them."""
    def rule(context, call):
        named = call.op == "call" and call.attrs["gv"].name in functions
        return change(context, call, call.attrs["gv"].name) if named else None
    mod = mod.with_functions({**mod.functions, **functions})
    return mod.with_functions({n: CallRules(f, rule).visit(f) if isinstance(f, Function) else f
                               for n, f in mod.functions.items()})


# ---------------------------------------------------------------- parameters

def remove_unused_parameters(mod):
    """A module whose private functions take what they use. A symbolic dimension that a parameter was there for is given
    as a number."""
    plans = {n: _plan(f) for n, f in _private(mod).items()}
    plans = {n: plan for n, plan in plans.items() if plan is not None}

    def change(context, call, name):
        kept, dims = plans[name]
        told = call_dims(mod[name], [a.struct_info for a in call.args])
        return call.replace(args=(*(call.args[k] for k in kept), *(PrimValue(told[d]) for d in dims)))

    functions = {n: _with_params(mod[n], *plan) for n, plan in plans.items()}
    return _with_calls(mod, functions, change) if functions else mod


def _plan(func):
    """(the parameters that are kept, by number; the dimensions that are then given as numbers); None: all are kept."""
    used = {id(v) for v in collect(func.body, _VARS)}
    kept = [k for k, p in enumerate(func.params) if id(p) in used]
    if len(kept) == len(func.params):
        return None
    defined = _defined(func.params[k] for k in kept)
    mine = _defined(func.params)
    needed = [v for v in collect((func.body, func.ret_struct_info, *(func.params[k].struct_info for k in kept)), Var)
              if id(v) in mine and id(v) not in defined]
    dims = list({id(v): v for v in needed}.values())
    dropped = [p for k, p in enumerate(func.params) if k not in kept]
    if len(dropped) == len(dims) and all(isinstance(p.struct_info, PrimStructInfo) for p in dropped):
        return None  # they are there for these dimensions
    return kept, dims


def _defined(params):
    """{id of a dimension that stands alone in the struct info of parameters: it}."""
    infos = collect([p.struct_info for p in params], (TensorStructInfo, ShapeStructInfo, PrimStructInfo))
    found = {}
    for info in infos:
        dims = (info.value,) if isinstance(info, PrimStructInfo) else getattr(info, "dims", None) or getattr(
            info, "values", None) or ()
        found.update({id(d): d for d in dims if isinstance(d, Var)})
    return found


def _with_params(func, kept, dims):
    names = Names(v.name for v in collect(func, _VARS))
    numbers = tuple(RelaxVar(unique_name(f"param_{d.name}", names), PrimStructInfo(value=d)) for d in dims)
    return func.replace(params=(*(func.params[k] for k in kept), *numbers))


# ---------------------------------------------------------------- outputs

def remove_unused_outputs(mod):
    """A module whose private functions that give tuples give the fields that callers take; one alone is no tuple."""
    private = {n: f for n, f in _private(mod).items() if isinstance(f.ret_struct_info, TupleStructInfo)}
    used = {n: _used_fields(mod, n) for n in private}
    kept = {n: ks for n, ks in used.items() if ks and len(ks) < len(private[n].ret_struct_info.fields)
            and _returned(private[n]) is not None}
    if not kept:
        return mod
    functions = {n: _giving(private[n], ks) for n, ks in kept.items()}
    made = {n: f if n not in functions else functions[n] for n, f in mod.functions.items()}

    def taking(func):
        new = canonicalize_bindings(_Fields(func, functions, kept).visit(func), whole_tuples=False)
        return new.replace(ret_struct_info=finer_result(new, new.body.struct_info))
    return mod.with_functions({n: taking(f) if isinstance(f, Function) and _calls_one(f, kept) else f
                               for n, f in made.items()})


def _calls_one(func, names):
    return any(c.op == "call" and c.attrs["gv"].name in names for c in collect(func, RelaxCall))


def _used_fields(mod, name):
    """The fields of a function's result that its callers take, in order; None where one takes the tuple itself."""
    used = set()
    for func in mod.functions.values():
        if not isinstance(func, Function):
            continue
        results = {id(b.var) for b in collect(func, VarBinding) if isinstance(b.value, RelaxCall)
                   and b.value.op == "call" and b.value.attrs["gv"].name == name}
        items = [i for i in collect(func, TupleGetItem) if id(i.tuple_value) in results]
        if _uses(func, results) > len(items):
            return None
        used |= {i.index for i in items}
    return sorted(used)


def _uses(func, ids):
    """How many expressions use variables directly."""
    count = 0
    for seq in collect(func, SeqExpr):
        values = [b.value for block in seq.blocks for b in block.bindings] + [seq.body]
        count += sum(_direct(v, ids) for v in values)
    return count


def _direct(value, ids):
    if isinstance(value, _VARS):
        return int(id(value) in ids)
    if isinstance(value, TupleGetItem):
        return _direct(value.tuple_value, ids)
    parts = getattr(value, "args", None) or getattr(value, "fields", None) or ()
    return sum(_direct(v, ids) for v in parts)


def _returned(func):
    """The fields that a function returns, None where they are not known."""
    result = func.body.body
    bound = {id(b.var): b.value for b in func.bindings}
    while id(result) in bound:
        result = bound[id(result)]
    fields = result.fields if isinstance(result, RelaxTuple) else None
    hidden = fields is None or any(isinstance(f, DataflowVar) for f in fields)
    return None if hidden else fields


def _giving(func, kept):
    fields = _returned(func)
    result = fields[kept[0]] if len(kept) == 1 else RelaxTuple(tuple(fields[k] for k in kept))
    return remove_all_unused(func.replace(body=func.body.replace(body=result), ret_struct_info=result.struct_info))


class _Fields(CallRules):
    """A function whose calls of functions that give less are so, the numbers of the fields taken too. What is known of
    the fields by then, and what follows from it, is in its variables' struct info."""

    def __init__(self, func, functions, kept):
        super().__init__(func, _told, RelaxExpr)
        self.functions, self.fields = functions, kept

    def visit_RelaxCall(self, call):
        kept, new = self._kept(call), self.generic_visit(call)
        if kept is None:
            return new
        fields = call.struct_info.fields
        info = fields[kept[0]] if len(kept) == 1 else TupleStructInfo(tuple(fields[k] for k in kept))
        return new.replace(struct_info=finer(info, _result(self.functions[call.attrs["gv"].name], new)))

    def visit_TupleGetItem(self, item):
        value = self.visit(item.tuple_value)
        kept = self._kept(self.definition.get(id(value)))
        if kept is None:
            return item if value is item.tuple_value else TupleGetItem(value, item.index)
        return value if len(kept) == 1 else TupleGetItem(value, kept.index(item.index))

    def _kept(self, value):
        """The fields that are left of a call's result, None where all are."""
        named = isinstance(value, RelaxCall) and value.op == "call"
        return self.fields.get(value.attrs["gv"].name) if named else None


def _told(context, value):
    """A value with what its arguments tell, where that is more than what was known."""
    if not isinstance(value, RelaxCall) or value.op == "call":
        return value
    return value.replace(struct_info=finer(value.struct_info, inferred(value).struct_info))


def _result(func, call):
    """What a call is told to give by the function that it is of now, in the caller's dimensions."""
    dims = call_dims(func, [a.struct_info for a in call.args])
    own = {v: v for v in free_vars(list(dims.values()))}
    return erased(func.ret_struct_info, {**own, **dims})


# ---------------------------------------------------------------- tuples

def expand_tuple_arguments(mod):
    """A module whose private functions take the fields of tuples, one parameter each, instead of tuples."""
    functions = {n: _expanded(f) for n, f in _private(mod).items()
                 if any(isinstance(p.struct_info, TupleStructInfo) for p in f.params)}

    def change(context, call, name):
        return call.replace(args=tuple(v for a in call.args for v in _fields(context, a)))
    return _with_calls(mod, functions, change) if functions else mod


def _fields(context, value):
    """The values in a tuple and in the tuples in it; items of a variable are bound."""
    if not isinstance(value.struct_info, TupleStructInfo):
        return [value]
    known = context.definition.get(id(value))
    value = known if isinstance(known, RelaxTuple) else value
    count, name = len(value.struct_info.fields), getattr(value, "name", "lv")
    fields = value.fields if isinstance(value, RelaxTuple) else [
        context.emit(TupleGetItem(value, n), name) for n in range(count)]
    return [v for f in fields for v in _fields(context, f)]


def _expanded(func):
    names = Names(v.name for v in collect(func, _VARS))
    params, bindings = [], []

    def parameters(name, info):
        if not isinstance(info, TupleStructInfo):
            params.append(RelaxVar(unique_name(name, names), info))
            return params[-1]
        return RelaxTuple(tuple(parameters(f"{name}_{n}", i) for n, i in enumerate(info.fields)))
    for p in func.params:
        if isinstance(p.struct_info, TupleStructInfo):
            bindings.append(VarBinding(p, parameters(p.name, p.struct_info)))
        else:
            params.append(p)
    body = func.body.replace(blocks=(BindingBlock(tuple(bindings)), *func.body.blocks))
    return remove_all_unused(canonicalize_bindings(func.replace(params=tuple(params), body=body)))


__all__ = ["expand_tuple_arguments", "remove_unused_outputs", "remove_unused_parameters"]
