"""An `if` of a graph function as the call that ONNX's If is: call_if of two functions of the module, which become
branches of the C (control.py)."""
from __future__ import annotations

from ..module import GlobalVar
from ..names import Names, unique_name
from ..node import collect
from ..relax.control import call_if, fields_of
from ..relax.expr import (EFFECTS, BindingBlock, DataflowBlock, DataflowVar, If, MatchCast, PrimValue, RelaxTuple,
                          RelaxVar, SeqExpr, ShapeStructInfo, TensorStructInfo, TupleGetItem, TupleStructInfo,
                          VarBinding, function_of_blocks)
from ..relax.infos import same_info
from .dead_code import is_impure
from .flat_tuples import Fields

_VARS = (RelaxVar, DataflowVar)


def may_lift_branches(func):
    """Whether every `if` of a function may be a branch of C: its condition is a bool tensor of one element, or an
    expression of dimensions, both branches give tensors, or a tuple of these, of the same known shapes, nothing in the
    function has an unknown shape, and nothing in a branch defines dimensions."""
    bindings = collect(func.body, (VarBinding, MatchCast))
    branches = [b for b in bindings if isinstance(b.value, If)]
    return not branches or all(map(_agrees, branches)) and all(_is_known(b.var.struct_info) for b in bindings)


def _agrees(binding):
    branch = binding.value
    info, cond = branch.true_branch.struct_info, branch.cond
    return (same_info(info, branch.false_branch.struct_info) and same_info(info, binding.var.struct_info)
            and all(isinstance(i, TensorStructInfo) for i in fields_of(info))
            and (isinstance(cond, PrimValue) or isinstance(cond.struct_info, TensorStructInfo)
                 and cond.struct_info.dtype == "bool" and cond.struct_info.static_shape in ((), (1,)))
            and not collect((branch.true_branch, branch.false_branch), MatchCast))


def _is_known(info):
    if isinstance(info, TensorStructInfo):
        return isinstance(info.shape, tuple) and info.dtype != "void"
    if isinstance(info, ShapeStructInfo):
        return info.values is not None
    return not isinstance(info, TupleStructInfo) or all(map(_is_known, info.fields))


def lift_branches(mod):
    """Requires that "main" calls no graph function. Ensures that it, and what it runs, has no `if` where
    `may_lift_branches`: each is a call_if of two new functions, whose parameters are the variables around it that its
    branches use, tuples as their fields."""
    main = mod["main"]
    if not collect(main.body, If) or not may_lift_branches(main):
        return mod
    made, taken = {}, Names(mod.functions)
    main = _lifted(main.replace(body=_with_items(main.body)), made, taken)
    return mod.with_functions({**mod.functions, "main": main, **made})


def _lifted(func, made, taken):
    """A function without `if`; those of its branches are added to `made`, {name: Function}."""
    names, blocks = Names(v.name for v in collect(func, _VARS)), []
    for block in func.body.blocks:
        kind, bindings = DataflowVar if isinstance(block, DataflowBlock) else RelaxVar, []
        for b in block.bindings:
            bindings += _call(b, kind, names, made, taken) if isinstance(b.value, If) else [b]
        blocks.append(block.replace(bindings=tuple(bindings)))
    return func.replace(body=SeqExpr(tuple(blocks), func.body.body))


def _call(binding, kind, names, made, taken):
    """The bindings of a call_if: fields of tuples that branches use, and the call."""
    branches = (binding.value.true_branch, binding.value.false_branch)
    bindings, args = [], []

    def argument(name, value, info):
        """The parameter of a branch that `value` is given to; of a tuple a tuple of those of its fields."""
        if isinstance(info, TupleStructInfo):
            return RelaxTuple(tuple(argument(f"{name}_{k}", TupleGetItem(value, k), field)
                                    for k, field in enumerate(info.fields)))
        if isinstance(value, TupleGetItem):
            bindings.append(VarBinding(kind(unique_name(name, names), info), value))
            value = bindings[-1].var
        args.append(value)
        return RelaxVar(value.name, info, value.origin)

    inside = {v: argument(v.name, v, v.struct_info) for v in _free(branches)}
    params = [p for value in inside.values() for p in collect(value, RelaxVar)]
    functions = []
    for branch, what in zip(branches, ("then", "else")):
        name = unique_name(f"{binding.var.name}_{what}", taken)
        made[name] = None  # outer ones come before those inside
        body = _with_items(Fields(inside).visit(branch))
        made[name] = _lifted(function_of_blocks(params, body.blocks, body.body), made, taken)
        functions.append(GlobalVar(name))
    call = call_if(binding.value.cond, *functions, args, branches[0].struct_info)
    if is_impure(binding.value):
        call = call.replace(attrs={**call.attrs, EFFECTS: True})
    return [*bindings, binding.replace(value=call)]


def _free(branches):
    """The variables that branches use and do not define, each once, in order."""
    bound = {id(b.var) for b in collect(branches, (VarBinding, MatchCast))}
    return [v for v in collect(branches, _VARS) if id(v) not in bound]


def _with_items(seq):
    """A sequence that gives, in the place of a variable that is a tuple, the items of this."""
    result = seq.body
    if not isinstance(result.struct_info, TupleStructInfo) or isinstance(result, RelaxTuple):
        return seq
    names = Names(v.name for v in collect(seq, _VARS))
    items = tuple(VarBinding(RelaxVar(unique_name(f"{result.name}_{k}", names), info), TupleGetItem(result, k))
                  for k, info in enumerate(result.struct_info.fields))
    return SeqExpr((*seq.blocks, BindingBlock(items)), RelaxTuple(tuple(b.var for b in items)))


__all__ = ["lift_branches", "may_lift_branches"]
