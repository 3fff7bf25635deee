"""Gradient: the function that computes, beside a scalar result of a graph function, its derivatives."""
from __future__ import annotations

from ...module import GlobalVar
from ...node import Mutator, collect
from ...op import OPS, InferError
from ...relax.block_builder import BlockBuilder
from ...relax.expr import (Constant, DataflowBlock, DataflowVar, Function, MatchCast, PrimValue, RelaxCall, RelaxTuple,
                           RelaxVar, SeqExpr, ShapeExpr, TensorStructInfo, TupleGetItem, TupleStructInfo, without_grad)
from ...relax.op import call as operator
from ...upper import upper
from ..call_rules import CallRules
from ..dead_code import remove_all_unused
from ..fresh_vars import copy_with_new_vars, variables_of
from ..in_operators import is_classic
from .checkpoints import Again, take_marks
from .gradient_rows import GRADIENTS, WHOLE, is_float, operands
from .simplify_products import simplify_products

_VARS = (RelaxVar, DataflowVar)


class GradientError(ValueError):
    """A function that cannot be differentiated as it is asked for."""


def gradient(mod, func_name, require_grads=None, target_index=0):
    """A module with a function `func_name`_adjoint more. It takes what func_name takes, and gives a tuple: what
    func_name gives, and the tuple of the derivatives of one scalar of it with respect to each of require_grads.

    require_grads: variables of the function, one or a list; None: all parameters. target_index: which field of a result
    that is a tuple is differentiated. The function must be one dataflow block. Operators are differentiated by the
    rows of GRADIENTS, those of several operators without a row by theirs; values inside grad.start_checkpoint ...
    grad.end_checkpoint are computed again rather than kept.
    Integers have no derivatives: these are zeros. GradientError names what cannot be differentiated.
    """
    func = mod[func_name] if func_name in mod else None
    if not isinstance(func, Function):
        raise GradientError(f"Gradient: {func_name} is no graph function")
    _require_one_block(func_name, func)
    copy = copy_with_new_vars(func)
    sources = _sources(func_name, func, copy, require_grads)
    copy, now = written_out(copy)
    sources = [now.get(id(v), v) for v in sources]
    func, marks = take_marks(copy)
    target = _target(func_name, func.body.body, target_index)
    builder = BlockBuilder(mod)
    builder.begin_names(variables_of(func))
    with builder.block(True) as made:
        for b in func.bindings:
            builder.emit_normalized(b)
        backward = _Backward(builder, Again(builder, func, marks))
        backward.run(target, func.bindings)
        outs = [backward.out(marks.stands_for.get(id(v), v)) for v in sources]
    body = SeqExpr(tuple(made), RelaxTuple((func.body.body, RelaxTuple(outs))))
    name = _free_name(mod, f"{func_name}_adjoint")
    func = _WithoutGradients().visit(func.replace(body=body, ret_struct_info=body.struct_info,
                                                  attrs={**func.attrs, "global_symbol": name}))
    return builder.get().with_function(name, simplify_products(remove_all_unused(func)))


# ---------------------------------------------------------------- what is asked for

def _require_one_block(name, func):
    blocks = func.body.blocks
    if len(blocks) != 1 or not isinstance(blocks[0], DataflowBlock):
        raise GradientError(f"Gradient: {name} must be one dataflow block, it has "
                            f"{len(blocks)} blocks; relax.transform.ConvertToDataflow makes these")
    for b in blocks[0].bindings:
        if isinstance(b, MatchCast):
            raise GradientError(f"Gradient: {b.var.name} of {name} is a match_cast, which has no gradient")


def _sources(name, func, copy, asked):
    """The variables of the copy whose derivatives are asked for."""
    if asked is None:
        return copy.params
    asked = [asked] if isinstance(asked, _VARS) else list(asked)
    ours = {id(old): new for old, new in zip(variables_of(func), variables_of(copy))}
    for n, v in enumerate(asked):
        if id(v) not in ours:
            raise GradientError(f"Gradient: there is no variable {v.name} in {name}")
        if any(v is other for other in asked[:n]):
            raise GradientError(f"Gradient: variable {v.name} is asked for twice")
        if not all(map(is_float, _tensors(v.struct_info))):
            raise GradientError(f"Gradient: only tensors of floats, and tuples of them, have derivatives; {v.name} is "
                                f"{v.struct_info}")
    return [ours[id(v)] for v in asked]


def _tensors(info):
    return [t for f in info.fields for t in _tensors(f)] if isinstance(info, TupleStructInfo) else [info]


def _target(name, result, index):
    """The variable to differentiate."""
    fields = result.fields if isinstance(result, RelaxTuple) else (result,)
    if not 0 <= index < len(fields):
        raise GradientError(f"Gradient: target_index is {index}, {name} has {len(fields)} results")
    info = fields[index].struct_info
    if not isinstance(fields[index], _VARS) or not is_float(info) or info.ndim != 0:
        raise GradientError(f"Gradient: result {index} of {name} must be a variable that holds a float without "
                            f"dimensions, it is {info}; take a sum or a mean")
    return fields[index]


def _free_name(mod, name):
    taken, n = name, 0
    while name in mod:
        n += 1
        name = f"{taken}{n}"
    return name


def written_out(func):
    """(the function with calls of several operators that have no row as calls of these, {id of a variable: the one in
    its place})."""
    rules = CallRules(func, _in_operators)
    return rules.visit(func), rules.env


def _in_operators(context, call):
    if call.op in GRADIENTS or not is_classic(call):
        return None
    try:
        made = upper("in_operators")(call)
    except InferError:
        return None

    def bound(value):
        """A value whose calls are bound."""
        if isinstance(value, RelaxTuple):
            return value.replace(fields=tuple(map(bound, value.fields)))
        return context.emit(inner(value)) if isinstance(value, (RelaxCall, TupleGetItem)) else value

    def inner(value):
        if isinstance(value, TupleGetItem):
            return value.replace(tuple_value=bound(value.tuple_value))
        return value.replace(args=tuple(map(bound, value.args))) if isinstance(value, RelaxCall) else bound(value)
    return inner(made)


# ---------------------------------------------------------------- the backward pass

class _Backward:
    """Visits bindings from the last to the first. adjoint: {id of a variable: the variable that holds the derivative
    with respect to it, of what was visited so far}."""

    def __init__(self, builder, again):
        self.builder, self.again, self.adjoint = builder, again, {}
        self.kinds = {RelaxCall: self._call, RelaxTuple: self._add_to_value, TupleGetItem: self._item,
                      RelaxVar: self._add_to_value, DataflowVar: self._add_to_value, Constant: self._nothing,
                      ShapeExpr: self._nothing, PrimValue: self._nothing}

    def run(self, target, bindings):
        self._add(target, operator("ones", (), str(target.struct_info.dtype)))
        for b in reversed(bindings):
            if id(b.var) in self.adjoint:
                if type(b.value) not in self.kinds:
                    raise GradientError(f"Gradient: {b.var.name} is a {type(b.value).__name__}, which has no gradient")
                self.kinds[type(b.value)](b.var, b.value, self.adjoint[id(b.var)])

    def out(self, var):
        """A variable that leaves the block, for the derivative with respect to `var`."""
        if id(var) not in self.adjoint:
            self._bind(var, _zeros(var.struct_info))
        return self.builder.emit_output(self.adjoint[id(var)], f"{var.name}_adjoint_out")

    def _bind(self, var, value):
        self.adjoint[id(var)] = self.builder.emit(value, f"{var.name}_adjoint")

    # ------------------------------------------------------------ bindings

    def _call(self, var, call, given):
        row = GRADIENTS.get(call.op) if isinstance(call.op, str) else None
        if row is None:
            raise GradientError(f"Gradient: {var.name} is a call of {_callee(call)}, which has no gradient; "
                                "relax.op.register_gradient gives an operator one, R.call_tir_with_grad a PrimFunc")
        values = operands(call)
        var, again = self.again.binding(var, call)
        spec = OPS.get(call.op)
        full = again.replace(attrs={**spec.attrs, **call.attrs}) if spec else again
        found = WHOLE.get(row, row)(var, full, given, self.builder)
        if len(found) != len(values):
            raise GradientError(f"Gradient: the gradient of {call.op} gives {len(found)} tensors for {len(values)} "
                                "operands")
        for value, partial in zip(values, found):
            if getattr(partial, "op", None) != "grad.no_grad":
                self._add_to(value, partial)

    def _add_to_value(self, var, value, given):
        self._add_to(value, given)

    def _item(self, var, item, given):
        """One field of a tuple's derivative grows."""
        whole = item.tuple_value
        if not isinstance(whole, _VARS):
            raise GradientError(f"Gradient: {var.name} is an item of a tuple that is bound to no variable")
        fields = whole.struct_info.fields
        known = self.adjoint.get(id(whole))
        if known is None:
            grown = [given if n == item.index else _zeros(f) for n, f in enumerate(fields)]
        else:
            grown = [self._sum(known[n], given) if n == item.index else known[n] for n in range(len(fields))]
        self._bind(whole, RelaxTuple(grown))

    def _nothing(self, var, value, given):
        """Constants do not change."""

    # ------------------------------------------------------------ sums

    def _add_to(self, value, partial):
        """Add what one use gives to the derivative with respect to a value: a variable, or a tuple of values."""
        if isinstance(value, _VARS):
            if any(map(is_float, _tensors(value.struct_info))):
                self._add(value, partial)
        elif isinstance(value, RelaxTuple):
            partial = self._bound(partial)
            for n, field in enumerate(value.fields):
                self._add_to(field, partial[n])

    def _add(self, var, partial):
        known = self.adjoint.get(id(var))
        self._bind(var, partial if known is None else self._sum(known, partial))

    def _sum(self, a, b):
        if isinstance(a.struct_info, TensorStructInfo):
            return operator("add", a, b)
        a, b = self._bound(a), self._bound(b)
        return RelaxTuple([self._sum(a[n], b[n]) for n in range(len(a.struct_info.fields))])

    def _bound(self, value):
        """A value whose fields are used: calls and items are bound first."""
        return self.builder.emit(value) if isinstance(value, (RelaxCall, TupleGetItem)) else value


def _callee(call):
    gv = next(iter(collect(call, GlobalVar)), None)
    return str(call.op) if gv is None else f"{call.op} {gv.name}"


def _zeros(info):
    if isinstance(info, TupleStructInfo):
        return RelaxTuple(tuple(map(_zeros, info.fields)))
    return operator("zeros", info.shape, str(info.dtype))


class _WithoutGradients(Mutator):
    """Calls of PrimFuncs, without what tells their gradients."""

    def visit_Constant(self, constant):
        return constant

    def visit_RelaxCall(self, call):
        return without_grad(call) if call.op == "call_tir_with_grad" else call


__all__ = ["GradientError", "gradient"]
