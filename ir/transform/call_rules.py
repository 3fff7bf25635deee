"""Passes that are one rule for calls, in graph functions of any form."""
from __future__ import annotations

from ..names import Names, unique_name
from ..node import Mutator, collect
from ..relax.expr import DataflowBlock, DataflowVar, RelaxCall, RelaxVar, VarBinding
from .dead_code import remove_all_unused


def apply_rule(func, rule):
    """`func` with rule(context, call) in the place of each call for which it is not None, without what that leaves
    unused. context: a CallRules, by which the rule looks back and binds."""
    new = CallRules(func, rule).visit(func)
    return func if new is func else remove_all_unused(new)


class CallRules(Mutator):
    """func: the function before; definition: {id(variable): what it is bound to now}."""

    def __init__(self, func, rule):
        self.func, self.rule, self.definition = func, rule, {}
        self.names = Names(v.name for v in collect(func, (RelaxVar, DataflowVar)))

    def visit_Constant(self, constant):
        return constant

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
            value = self.visit(b.value)
            if isinstance(value, RelaxCall):
                value = self.rule(self, value) or value
            self.bindings.append(b if value is b.value else b.replace(value=value))
            self.definition[id(b.var)] = value
        bindings = tuple(self.bindings)
        self.kind, self.bindings = outer
        same = len(bindings) == len(block.bindings) and all(a is b for a, b in zip(bindings, block.bindings))
        return block if same else block.replace(bindings=bindings)

    visit_BindingBlock = visit_DataflowBlock = _block


__all__ = ["CallRules", "apply_rule"]
