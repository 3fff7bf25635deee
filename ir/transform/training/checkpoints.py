"""Checkpoints: which values of the forward pass the backward pass reads, and how it computes the others again (Chen,
Xu, Zhang, Guestrin: Training Deep Nets with Sublinear Memory Cost, 2016)."""
from __future__ import annotations

from dataclasses import dataclass

from ...node import Mutator, collect
from ...relax.expr import DataflowVar, RelaxVar, VarBinding
from ..graph import ReplaceVars

_VARS = (RelaxVar, DataflowVar)
BEGIN, END = "grad.start_checkpoint", "grad.end_checkpoint"


@dataclass(frozen=True)
class Marks:
    """kept: ids of the variables whose values stay. stands_for: {id of a variable that marked another: that one}."""

    kept: frozenset
    stands_for: dict


def take_marks(func):
    """(a function of one block without calls of start_checkpoint and end_checkpoint, its Marks).

    Parameters are kept, and what start_checkpoint marks. Of others a value is kept where all that it is computed from
    is kept, or is what end_checkpoint gave: without marks that is everything.
    """
    block, replace = func.body.blocks[0], ReplaceVars()
    kept, ended, stands_for, bindings = {id(p) for p in func.params}, set(), {}, []
    for b in block.bindings:
        value, mark = replace.visit(b.value), getattr(b.value, "op", None)
        if mark not in (BEGIN, END):
            if all(id(v) in kept or id(v) in ended for v in collect(b.value, _VARS)):
                kept.add(id(b.var))
            bindings.append(b.replace(value=value))
            continue
        inner = value.args[0]
        stands_for[id(b.var)] = inner
        (kept if mark == BEGIN else ended).add(id(inner if mark == BEGIN else b.var))
        if isinstance(b.var, RelaxVar) and isinstance(inner, DataflowVar):  # it leaves the block
            out = RelaxVar(inner.name, inner.struct_info, inner.origin)
            bindings.append(VarBinding(out, inner))
            inner = out
        replace.env[id(b.var)] = inner
    body = func.body.replace(blocks=(block.replace(bindings=tuple(bindings)),), body=replace.visit(func.body.body))
    return func.replace(body=body), Marks(frozenset(kept), stands_for)


class Again(Mutator):
    """Values of the forward pass as the backward pass reads them: those that are not kept are computed again, by
    bindings that `builder` adds where they are first needed."""

    def __init__(self, builder, func, marks):
        self.builder = builder
        self.values = {id(b.var): b.value for b in func.bindings}
        self.known = {id(v): v for v in (*func.params, *(b.var for b in func.bindings)) if id(v) in marks.kept}

    def binding(self, var, call):
        """(the variable, the call that it is bound to) of a forward binding."""
        call = self.visit(call)
        return self._made(var, call), call

    def visit_Constant(self, constant):
        return constant

    def _variable(self, var):
        return self.known.get(id(var)) or self._made(var, self.visit(self.values[id(var)]))

    visit_RelaxVar = visit_DataflowVar = _variable

    def _made(self, var, value):
        if id(var) not in self.known:
            self.known[id(var)] = self.builder.emit(value, f"{var.name}_cp")
        return self.known[id(var)]


__all__ = ["Again", "Marks", "take_marks"]
