"""Passes that are one rule for calls, in graph functions of any form."""
from __future__ import annotations

from ..names import Names, unique_name
from ..node import collect
from ..op import OPS
from ..relax.control import is_control
from ..relax.expr import DataflowBlock, DataflowVar, MatchCast, RelaxCall, RelaxExpr, RelaxVar, VarBinding
from ..relax.partial import is_partial
from ..upper import upper
from .dead_code import remove_all_unused
from .graph import ReplaceVars


def apply_rule(func, rule, kinds=RelaxCall):
    """`func` with rule(context, call) in the place of each call, or of each value of `kinds`, for which it is not None,
    without what that leaves unused. context: a CallRules, by which the rule looks back and binds."""
    new = CallRules(func, rule, kinds).visit(func)
    return func if new is func else remove_all_unused(new)


def inferred_again(func, known=None):
    """A function in which what is known of values follows anew from parameters and constants. known: {id of a variable:
    what is in its place}. InferError where an operator does not take what it is given."""
    rules = CallRules(
        func, lambda context, value: inferred(value) if isinstance(value, RelaxCall) else value, RelaxExpr)
    rules.env = dict(known or {})
    body = rules.visit(func.body)
    return func.replace(body=body, ret_struct_info=body.struct_info)


def inferred(call):
    """A call of an operator with the struct info that its arguments tell now; others as they are."""
    in_full = call.op in OPS and set(call.attrs) == set(OPS[call.op].attrs)
    if in_full and not is_partial(call.args):
        return call.replace(struct_info=OPS[call.op].infer(call))
    return upper("classic_call")(call) if call.op in upper("classic_names")() and not is_control(call) else call


class CallRules(ReplaceVars):
    """func: the function before; definition: {id(variable): what it is bound to now}."""

    def __init__(self, func, rule, kinds=RelaxCall):
        super().__init__()
        self.func, self.rule, self.kinds, self.definition = func, rule, kinds, {}
        self.names = Names(v.name for v in collect(func, (RelaxVar, DataflowVar)))

    def visit_Function(self, func):
        body = self.visit(func.body)
        return func if body is func.body else func.replace(body=body)

    def producer(self, value, op):
        """The call of operator `op` that a variable is bound to, else None."""
        found = self.definition.get(id(value))
        return found if isinstance(found, RelaxCall) and found.op == op else None

    def emit(self, value, hint="lv"):
        """A new variable for a value, before the binding at hand."""
        var = self.kind(unique_name(hint, self.names), value.struct_info)
        self.bindings.append(VarBinding(var, value))
        self.definition[id(var)] = value
        return var

    def _block(self, block):
        outer = getattr(self, "kind", None), getattr(self, "bindings", None)
        self.kind, self.bindings = DataflowVar if isinstance(block, DataflowBlock) else RelaxVar, []
        for b in block.bindings:
            value, var = self.visit(b.value), b.var
            if isinstance(value, self.kinds):
                made = self.rule(self, value)
                var = var if made is None else self._renewed(b, made)
                value = made or value
            self.bindings.append(b if value is b.value and var is b.var else b.replace(var=var, value=value))
            self.definition[id(var)] = value
        bindings = tuple(self.bindings)
        self.kind, self.bindings = outer
        same = len(bindings) == len(block.bindings) and all(a is b for a, b in zip(bindings, block.bindings))
        return block if same else block.replace(bindings=bindings)

    visit_BindingBlock = visit_DataflowBlock = _block

    def _renewed(self, binding, value):
        """The variable of a value that a rule made: a new one where another thing is known of it than before."""
        var, info = binding.var, value.struct_info
        if isinstance(binding, MatchCast) or info is None or info == var.struct_info:
            return var
        self.env[id(var)] = new = var.replace(struct_info=info)
        return new


__all__ = ["CallRules", "apply_rule", "inferred", "inferred_again"]
