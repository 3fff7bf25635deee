"""Intrinsics by rules of a script: what register_intrin_lowering says of a kind of target."""
from __future__ import annotations

from ...expr import PrimExpr, const
from ...node import Mutator
from ...op import OP_ATTRS, Op, lowering_attr

_KINDS = {"c": ("llvm", "c")}  # the names that scripts have for a kind of target, where it has another one


def lower_by_rules(func, kind):
    """The function with calls of intrinsics replaced by what the rules for a kind of target, else the default ones, give
    for them. A rule that gives the call itself leaves it."""
    rules = {}
    for target in ("default", *_KINDS.get(kind, (kind,))):
        rules.update(OP_ATTRS.get(lowering_attr(target), {}))
    return func.replace(body=_ByRules(rules).visit(func.body)) if rules else func


class _ByRules(Mutator):
    def __init__(self, rules):
        self.rules = rules

    def visit_Call(self, call):
        call = self.generic_visit(call)
        rule = self.rules.get(Op.get(call.op)) if isinstance(call.op, str) else None
        return call if rule is None else _checked(call, rule(call))


def _checked(call, value):
    """What a rule gives for a call, numbers in its dtype."""
    if isinstance(value, (int, float)):
        return const(value, call.dtype)
    if not isinstance(value, PrimExpr) or value.dtype != call.dtype:
        raise TypeError(f"the rule for {call.op} gives {value!r} for a call of {call.dtype}: a rule gives an expression "
                        "of the call's dtype, or the call itself")
    return value
