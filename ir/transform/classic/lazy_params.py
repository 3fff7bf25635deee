"""Functions that transform parameters, which load each where it is first used and hand on each result as soon as there
is one: LazyGetInput, LazySetOutput, and LazyTransformParams, which names functions of the runtime for both."""
from __future__ import annotations

from ...expr import Var, free_vars
from ...names import Names, unique_name
from ...node import Mutator, collect
from ...relax.expr import (BindingBlock, DataflowBlock, DataflowVar, FuncStructInfo, Function, MatchCast,
                           ObjectStructInfo, PrimStructInfo, PrimValue, RelaxCall, RelaxString, RelaxTuple, RelaxVar,
                           SeqExpr, ShapeStructInfo, TupleStructInfo, VarBinding, call_packed)
from ...relax.lattice import erased
from ...relax.op import call as operator
from ..dead_code import remove_all_unused

_VARS, _VOID = (RelaxVar, DataflowVar), TupleStructInfo(())
GET = FuncStructInfo((PrimStructInfo("int64"), ObjectStructInfo()), ObjectStructInfo())
SET = FuncStructInfo((PrimStructInfo("int64"), ObjectStructInfo()), _VOID, purity=False)
INPUTS = "num_input"  # the attribute of functions: how many of the first parameters are none to transform


def lazy_get_input(func):
    """A function with a global_symbol that takes, in the place of the parameters to transform, fget_param(index, name),
    which gives them."""
    if "global_symbol" not in func.attrs:
        return func
    count = _inputs(func, 0)
    get = RelaxVar("fget_param", GET)
    loads = {id(p): _Load(p.name, p.struct_info, RelaxCall(get, (PrimValue(k), RelaxString(p.name))))
             for k, p in enumerate(func.params[count:])}
    params = (*func.params[:count], get)
    new = _Loads(func, loads).visit(func.body)
    dims = {v: v for v in free_vars([p.struct_info for p in params]) if isinstance(v, Var)}
    return remove_all_unused(func.replace(
        params=params, body=new, ret_struct_info=erased(func.ret_struct_info, dims))).with_attr(INPUTS, count + 1)


def lazy_set_output(func):
    """A function with a global_symbol that gives nothing, and hands each of its results to a further parameter,
    fset_output(index, value), as soon as it is known."""
    if "global_symbol" not in func.attrs:
        return func
    put, places, rest = RelaxVar("fset_output", SET), {}, []
    for k, value in enumerate(func.outputs):
        if isinstance(value, _VARS):
            places.setdefault(id(value), []).append(k)
        else:
            rest.append((k, value))

    def handed(value):
        return [VarBinding(RelaxVar("_void", _VOID), RelaxCall(put, (PrimValue(k), value), None, _VOID))
                for k in places.get(id(value), ())]
    blocks = [BindingBlock(tuple(b for p in func.params for b in handed(p)))]
    for block in func.body.blocks:
        blocks.append(block.replace(bindings=tuple(x for b in block.bindings for x in (b, *handed(b.var)))))
        if isinstance(block, DataflowBlock) and len(blocks[-1].bindings) > len(block.bindings):
            blocks[-1] = block  # what has an effect is behind it
            blocks.append(BindingBlock(tuple(x for b in block.bindings for x in handed(b.var))))
    blocks.append(BindingBlock(tuple(VarBinding(RelaxVar("_void", _VOID), RelaxCall(
        put, (PrimValue(k), value), None, _VOID)) for k, value in rest)))
    count = _inputs(func, len(func.params))
    func = func.with_attr(INPUTS, count + 1) if INPUTS in func.attrs else func
    return func.replace(params=(*func.params[:count], put, *func.params[count:]), ret_struct_info=_VOID, is_pure=False,
                        body=SeqExpr(_merged(blocks), RelaxTuple(())))


def lazy_transform_params(mod, fget_item="get_item", fset_item="set_item", extra_get_item_params=None,
                          extra_set_item_params=None):
    """A module whose functions that end with "transform_params" load the parameters behind num_input, or the items of
    the only one, by the packed function fget_item(*extra, index), kill each after its last use, and give their results
    to fset_item(*extra, index, value), None: return them. Requires neither dataflow blocks nor branches that load."""
    extras = tuple(extra_get_item_params or ()), tuple(extra_set_item_params or ())
    return mod.with_functions({
        n: _transformed(f, fget_item, fset_item, *extras)
        if isinstance(f, Function) and str(n).endswith("transform_params") else f for n, f in mod.functions.items()})


def _transformed(func, get, put, get_extra, put_extra):
    count = _inputs(func, 0)
    lazy = func.params[count:]
    whole = len(lazy) == 1 and isinstance(lazy[0].struct_info, TupleStructInfo)

    def load(k, name, info):
        return _Load(name, info, call_packed(get, *get_extra, PrimValue(k), sinfo_args=ObjectStructInfo()))
    loads = {(id(lazy[0]), k): load(k, f"{lazy[0].name}_{k}", i) for k, i in enumerate(lazy[0].struct_info.fields)} if (
        whole) else {id(p): load(k, p.name, p.struct_info) for k, p in enumerate(lazy)}
    loader = _Loads(func, loads)
    body = loader.visit(func.body)
    if put is not None:
        body = _handing_on(body, loader.loaded, lambda k, value: call_packed(
            put, *put_extra, PrimValue(k), value, sinfo_args=ObjectStructInfo()))
    holders = [RelaxVar("symbolic_var_holder", i) for p in lazy for i in _flat(p.struct_info)
               if isinstance(i, (PrimStructInfo, ShapeStructInfo))]
    params = (*func.params[:count], *get_extra, *(put_extra if put is not None else ()), *holders)
    return func.replace(params=params, body=body, ret_struct_info=body.struct_info,
                        is_pure=False).without_attr("relax.force_pure")


def _flat(info):
    return [i for f in info.fields for i in _flat(f)] if isinstance(info, TupleStructInfo) else [info]


def _inputs(func, default):
    """How many of the first parameters are none to transform; ValueError where there are not as many."""
    count = int(func.attrs.get(INPUTS, default))
    if not 0 <= count <= len(func.params):
        raise ValueError(f"num_input is {count}, and the function has {len(func.params)} parameters")
    return count


# ---------------------------------------------------------------- loading

class _Load:
    """How a parameter is loaded: the call, and what it then is."""

    def __init__(self, name, info, call):
        self.name, self.info, self.call = name, info, call


class _Loads(Mutator):
    """A function whose parameters (`loads`: by their ids, or id and item of a tuple) are loaded where they are first
    used; in branches again, where they were not before. loaded: the variables that hold them, all through."""

    def __init__(self, func, loads):
        self.loads, self.known, self.loaded, self.bindings, self.kind = loads, {}, [], None, RelaxVar
        self.names = Names(v.name for v in collect(func, _VARS))

    def visit_Constant(self, constant):
        return constant

    def visit_SeqExpr(self, seq):
        known, outer, kind = self.known, self.bindings, self.kind
        self.known, blocks = dict(known), []
        for block in seq.blocks:
            before, flow = dict(self.known), isinstance(block, DataflowBlock)
            self.bindings, self.kind = [], DataflowVar if flow else RelaxVar
            for b in block.bindings:
                value = self.visit(b.value)
                self.bindings.append(b if value is b.value else b.replace(value=value))
            blocks.append(block.replace(bindings=tuple(self.bindings)))
            self.known = before if flow else self.known
        self.bindings, self.kind = [], RelaxVar
        body = self.visit(seq.body)
        if self.bindings:
            blocks.append(BindingBlock(tuple(self.bindings)))
        self.known, self.bindings, self.kind = known, outer, kind
        return seq.replace(blocks=_merged(blocks), body=body)

    def _variable(self, var):
        return self._loaded(id(var)) if id(var) in self.loads else var

    visit_RelaxVar = visit_DataflowVar = _variable

    def visit_TupleGetItem(self, item):
        key = id(item.tuple_value), item.index
        return self._loaded(key) if key in self.loads else self.generic_visit(item)

    def _loaded(self, key):
        if key not in self.known:
            load = self.loads[key]
            untyped = self.kind(unique_name(f"{load.name}_untyped", self.names), ObjectStructInfo())
            var = self.kind(unique_name(load.name, self.names), load.info)
            call = load.call.replace(struct_info=ObjectStructInfo())
            self.bindings += [VarBinding(untyped, call), MatchCast(var, untyped)]
            self.known[key] = var
            self.loaded.append(var)
        return self.known[key]


def _merged(blocks):
    """The blocks without empty ones, neighbours that are no dataflow blocks as one."""
    merged = []
    for block in blocks:
        if merged and isinstance(block, BindingBlock) and isinstance(merged[-1], BindingBlock):
            merged[-1] = BindingBlock((*merged[-1].bindings, *block.bindings))
        elif block.bindings:
            merged.append(block)
    return tuple(merged)


# ---------------------------------------------------------------- handing on

def _handing_on(seq, loaded, put):
    """The sequence, which gives results by put(index, value) where they are used for the last time, and kills what was
    loaded there; it gives an empty tuple."""
    bindings = [b for block in seq.blocks for b in block.bindings]
    result = next((b for b in bindings if b.var is seq.body and isinstance(b.value, RelaxTuple)), None)
    values = seq.body.fields if isinstance(seq.body, RelaxTuple) else result.value.fields if result else (seq.body,)
    places, seen, new, held = {}, set(), [], {id(v) for v in _aliases(bindings, loaded)}
    for k, value in enumerate(values):
        places.setdefault(id(value), []).append(k)

    def effect(value):
        return VarBinding(RelaxVar("_", value.struct_info), value)
    new += [effect(put(k, v)) for v in {id(v): v for v in values}.values() if not isinstance(v, _VARS)
            for k in places[id(v)]][::-1]
    for b in reversed(bindings):
        if b is result:
            continue
        ended = []
        for var in (*collect(b.value, _VARS), b.var):
            if id(var) not in seen:
                seen.add(id(var))
                ended.append(var)
        after = []
        for var in ended:
            after += [effect(put(k, var)) for k in places.get(id(var), ())]
            after += [effect(operator("vm.kill_object", var))] if id(var) in held else []
        new += [*reversed(after), b]
    new.reverse()
    if result is None:
        return SeqExpr((BindingBlock(tuple(new)),), RelaxTuple(()))
    var = RelaxVar(result.var.name, _VOID)
    return SeqExpr((BindingBlock((*new, VarBinding(var, RelaxTuple(())))),), var)


def _aliases(bindings, loaded):
    """What is killed of what was loaded: the last name of each, that a program gave it."""
    names = {id(v): v for v in loaded}
    for b in bindings:
        if isinstance(b, VarBinding) and id(b.value) in names:
            names[id(b.value)] = b.var
    return names.values()


__all__ = ["lazy_get_input", "lazy_set_output", "lazy_transform_params"]
