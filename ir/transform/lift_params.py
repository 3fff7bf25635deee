"""LiftTransformParams: what weights alone decide is computed by a function of its own, once."""
from __future__ import annotations

from ..expr import Var, const
from ..names import Names, unique_name
from ..node import collect, structure_key
from ..relax.expr import (BindingBlock, DataflowBlock, DataflowVar, Function, If, PrimValue, RelaxTuple, RelaxVar,
                          SeqExpr, TensorStructInfo, TupleGetItem, TupleStructInfo, VarBinding, call_pure_packed)
from ..relax.infos import dims_told, same_info
from ..relax.lattice import is_base_of
from .canonicalize_bindings import canonicalize_bindings, with_dims
from .dead_code import remove_all_unused
from .graph import Substitute
from .model_params import STOP, computable_at_compile_time, weight_items

_VARS = (RelaxVar, DataflowVar)


def lift_transform_params(mod, shared_transform=False, consume_params=False):
    """A module in which each function with attrs["num_input"] takes what its weights, the parameters from there on, are
    needed for, and NAME_transform_params makes that, a tuple, of the tuple of weights.

    shared_transform: True, or names of functions: these have one such function, transform_params, of what all of them
    compute of their weights. Where the module has a function of that name, the new one makes first what it makes.
    consume_params: the function empties the tuple of weights, each item after its last use, so that memory is free again.
    ValueError where weights differ, where there is no such function, or where one of that name gives other weights.
    """
    if shared_transform not in (True, False):
        shared_transform = [getattr(n, "name", n) for n in shared_transform]
        unknown = [n for n in shared_transform if "num_input" not in getattr(mod.functions.get(n), "attrs", ())]
        if unknown:
            raise ValueError(f"LiftTransformParams: there is no function {', '.join(unknown)} with num_input")
    names = [n for n, f in mod.functions.items() if isinstance(f, Function) and "num_input" in f.attrs
             and not n.endswith("transform_params") and (shared_transform in (True, False) or n in shared_transform)]
    groups = [("transform_params", names)] if shared_transform else [(f"{n}_transform_params", [n]) for n in names]
    for made, group in groups:
        mod = _lifted(mod, made, group, consume_params) if group else mod
    return mod


def _lifted(mod, made, names, consumes):
    plans = [_Plan(mod[n]) for n in names]
    _check_alike(names, plans)
    shared = {}  # key of a value of weights: (its variable, the value), of the first function's weights
    for plan in plans:
        plan.name_by(plans[0].weights, shared)
    common = [key for key in shared if all(key in plan.keys.values() for plan in plans)]
    wanted = {id(v) for plan in plans for v in plan.wanted(common)}
    candidates = [*plans[0].weights, *(shared[key][0] for key in common)]
    outputs = [v for v in candidates if id(v) in wanted]
    if not common and outputs == list(plans[0].weights) and made in mod:
        return mod  # lifted before
    functions = {n: plan.main(common, outputs) for n, plan in zip(names, plans)}
    new = _transform(plans[0].weights, [shared[key] for key in common], outputs, made)
    new = _composed(mod[made], new, made) if made in mod else new
    functions[made] = _consuming(new) if consumes else new
    return mod.with_functions({**mod.functions, **functions})


def _check_alike(names, plans):
    first = plans[0].weights
    for name, plan in zip(names[1:], plans[1:]):
        if len(plan.weights) != len(first):
            raise ValueError(f"LiftTransformParams: {names[0]} has {len(first)} weights, {name} {len(plan.weights)}: "
                             "functions of a shared transform take the same")
        for a, b in zip(first, plan.weights):
            if not same_info(a.struct_info, b.struct_info):
                raise ValueError(f"LiftTransformParams: weight {a.name} of {names[0]} is {a.struct_info}, {b.name} of "
                                 f"{name} {b.struct_info}: functions of a shared transform take the same")


class _Plan:
    """A function: its weights, the bindings that they alone decide, and the keys by which those are the same in others.
    """

    def __init__(self, func):
        self.func, self.weights = func, func.params[func.attrs["num_input"]:]
        known = {id(v) for v in computable_at_compile_time(func)}
        self.bindings = []
        for b in func.bindings:
            if id(b.var) in known and isinstance(b, VarBinding) and all(
                    id(v) in known for v in collect(b.value, _VARS)) and not isinstance(b.value, If):
                self.bindings.append(b)
            else:
                known.discard(id(b.var))
        self.keys, self.env = {}, {}

    def name_by(self, weights, shared):
        """Put what is computed in `shared`, in terms of these weights."""
        self.env = {id(mine): theirs for mine, theirs in zip(self.weights, weights)}
        for b in self.bindings:
            value = Substitute(self.env).visit(b.value)
            key = structure_key(value)
            self.env[id(b.var)] = shared.setdefault(key, (b.var, value))[0]
            self.keys[id(b.var)] = key

    def _rest(self, common):
        """The blocks without what is computed elsewhere; values of constants alone stay, to be used or not."""
        lifted = {id(b.var) for b in self.bindings if self.keys[id(b.var)] in common and self._uses_weights(b)}
        blocks = [block.replace(bindings=tuple(b for b in block.bindings if id(b.var) not in lifted))
                  for block in self.func.body.blocks]
        return tuple(b for b in blocks if b.bindings), lifted

    def _uses_weights(self, b):
        bound, waiting, mine = {id(x.var): x.value for x in self.bindings}, [b.value], {id(w) for w in self.weights}
        while waiting:
            for v in collect(waiting.pop(), _VARS):
                if id(v) in mine:
                    return True
                if id(v) in bound:
                    waiting.append(bound[id(v)])
        return False

    def wanted(self, common):
        """The weights, and what is computed of them, that the rest of the function uses, as the first function's."""
        blocks, lifted = self._rest(common)
        rest = self.func.body.replace(blocks=blocks)
        used = [v for v in collect(rest, _VARS) if id(v) in lifted or any(v is w for w in self.weights)]
        dims = {id(d) for d in collect((rest, self.func.ret_struct_info), Var)}
        given = _told([*self.func.params[:self.func.attrs["num_input"]], *used])
        for w in self.weights:  # that alone say what a dimension is
            if any(id(d) in dims and id(d) not in given for d in collect(w.struct_info, Var)):
                used.append(w)
                given |= _told([w])
        return [self.env[id(v)] for v in used]

    def main(self, common, outputs):
        """The function that takes `outputs` of the first function instead of the weights."""
        blocks, lifted = self._rest(common)
        mine = {id(self.env[id(v)]): v for v in [*self.weights, *(b.var for b in self.bindings)][::-1]}
        params, env = [], {}
        names = Names(p.name for p in self.func.params[:self.func.attrs["num_input"]])
        names |= {b.var.name for block in blocks for b in block.bindings}
        for v in outputs:
            own = mine[id(v)]
            params.append(RelaxVar(unique_name(own.name, names), own.struct_info, own.origin))
            env.update({i: params[-1] for i, shared in self.env.items() if shared is v})
        body = _Main(env).visit(self.func.body.replace(blocks=blocks))
        return self.func.replace(params=(*self.func.params[:self.func.attrs["num_input"]], *params), body=body)


class _Main(Substitute):
    """Variables replaced, and those that stop_lift_params kept from being lifted by what they are."""

    def _block(self, block):
        kept = []
        for b in block.bindings:
            if getattr(b.value, "op", None) == STOP and type(b.var) is DataflowVar:
                self.env[id(b.var)] = self.visit(b.value.args[0])
            elif getattr(b.value, "op", None) == STOP:
                kept.append(VarBinding(b.var, self.visit(b.value.args[0])))
            else:
                kept.append(self.visit(b))
        return block.replace(bindings=tuple(kept))

    visit_BindingBlock = visit_DataflowBlock = _block


def _told(variables):
    """The ids of dimensions that stand alone in the shapes of variables."""
    infos = collect([v.struct_info for v in variables], TensorStructInfo)
    return {id(d) for i in infos for d in i.dims or () if isinstance(d, Var)}


def _transform(weights, computed, outputs, name):
    """The function of the tuple of weights that gives `outputs`; computed: [(variable, value)] of these weights."""
    own = {id(v): DataflowVar(v.name, v.struct_info, v.origin) for v, _ in computed}
    bindings = [VarBinding(own[id(v)], Substitute(own).visit(value)) for v, value in computed]
    result = RelaxTuple(tuple(own.get(id(v), v) for v in outputs))
    names = Names(v.name for v in own.values())
    names |= {"params"}
    whole = RelaxVar("params", TupleStructInfo(tuple(w.struct_info for w in weights)))
    out = RelaxVar(unique_name("gv", names), result.struct_info)
    body = SeqExpr((DataflowBlock((*bindings, VarBinding(out, result))),), out) if outputs else SeqExpr((), result)
    func = Function((whole,), body, out.struct_info, {"global_symbol": name, "num_input": 0})
    func = func.replace(body=weight_items(func, weights, whole, names))
    fresh = {d: Var(d.name, d.dtype) for d in collect(func, Var)}
    return remove_all_unused(canonicalize_bindings(with_dims(func, fresh) if fresh else func))


def _composed(first, second, name):
    """The function that gives what `second` makes of what `first` gives, with first's parameters."""
    taken, given = second.params[0], first.body.struct_info if isinstance(first, Function) else None
    dims = {mine: theirs for mine, theirs in dims_told(taken.struct_info, given) if isinstance(mine, Var)} if isinstance(
        given, TupleStructInfo) else {}
    second = with_dims(second, dims) if dims else second
    taken = second.params[0]
    if given is None or not is_base_of(taken.struct_info, given):
        raise ValueError(f"LiftTransformParams: the module has a function {name} already, which gives {given}, and the "
                         f"weights are {taken.struct_info}: remove it, or bind the weights that it made")
    between = BindingBlock((VarBinding(taken, first.body.body),))
    body = SeqExpr((*first.body.blocks, between, *second.body.blocks), second.body.body)
    return remove_all_unused(canonicalize_bindings(first.replace(body=body, ret_struct_info=second.ret_struct_info)))


def _consuming(func):
    """The function, which empties items of its only parameter, a tuple, after they are taken for the last time."""
    whole = func.params[0]
    last = {b.value.index: b for b in func.bindings if isinstance(b.value, TupleGetItem) and b.value.tuple_value is whole}
    emptied = {id(b): PrimValue(const(n, "int32")) for n, b in last.items()}
    if any(v is whole for b in func.bindings if id(b) not in emptied for v in collect(b.value, _VARS)):
        return func  # it is handed on as it is

    def bindings(block):
        for b in block.bindings:
            yield b
            if id(b) in emptied:
                call = call_pure_packed("vm.builtin.tuple_reset_item", whole, emptied[id(b)], sinfo_args=TupleStructInfo(()))
                yield VarBinding((DataflowVar if isinstance(block, DataflowBlock) else RelaxVar)("_", call.struct_info), call)
    return func.replace(body=func.body.replace(blocks=tuple(
        block.replace(bindings=tuple(bindings(block))) for block in func.body.blocks)))


__all__ = ["lift_transform_params"]
