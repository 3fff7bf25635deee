"""EliminateCommonSubexpr of graphs: a value that is computed again is another name of the first."""
from __future__ import annotations

from ..node import Mutator, structure_key
from ..relax.expr import (ALLOCATORS, Constant, DataflowBlock, DataflowVar, Function, If, MatchCast, RelaxCall, RelaxVar,
                          VarBinding)
from .dead_code import is_impure
from .graph import Substitute


def eliminate_common_subexpr(func, call_only=False):
    """A function in which the second binding of a value is bound to the first one's variable, which later uses name.
    call_only: of calls alone. Memory that is allocated twice stays two memories, which may come to hold different
    elements. Values inside a branch or dataflow block are not looked for after it, except outputs."""
    return _Eliminate(call_only).visit(func)


class _Eliminate(Mutator):
    def __init__(self, call_only):
        self.call_only, self.env, self.known = call_only, {}, {}

    def visit_Constant(self, constant):
        return constant

    def visit_SeqExpr(self, seq):
        outer, blocks = self.known, []
        self.known = dict(outer)
        for block in seq.blocks:
            before = dict(self.known)
            self.known = {} if isinstance(block, DataflowBlock) else self.known
            bindings = tuple(map(self._binding, block.bindings))
            blocks.append(block if bindings == block.bindings else block.replace(bindings=bindings))
            if isinstance(block, DataflowBlock):  # DataflowVars end here, outputs stay
                self._end_names(bindings)
                self.known = before | self._outputs(bindings)
        body = Substitute(self.env).visit(seq.body)
        self.known = outer
        same = all(a is b for a, b in zip(blocks, seq.blocks)) and body is seq.body
        return seq if same else seq.replace(blocks=tuple(blocks), body=body)

    def _binding(self, b):
        value = b.value
        if isinstance(value, If):
            value = value.replace(cond=Substitute(self.env).visit(value.cond),
                                  true_branch=self.visit(value.true_branch),
                                  false_branch=self.visit(value.false_branch))
        elif isinstance(value, Function):
            value = self.visit(value)
        else:
            value = Substitute(self.env).visit(value)
        if (isinstance(b, MatchCast) or self._counts(value)) and not is_impure(value):
            key = structure_key((value, b.var.struct_info if isinstance(b, MatchCast) else None))
            first = self.known.setdefault(key, b.var)
            if first is not b.var:
                self.env[id(b.var)] = first
                return VarBinding(b.var, first)
        return b if value is b.value else b.replace(value=value)

    def _counts(self, value):
        if isinstance(value, (RelaxVar, DataflowVar, Constant, Function, If)):
            return False
        return value.op not in ALLOCATORS if isinstance(value, RelaxCall) else not self.call_only

    def _end_names(self, bindings):
        """After a block, an output that the block knows by a DataflowVar's name is itself."""
        for b in bindings:
            if type(b.var) is RelaxVar and isinstance(self.env.get(id(b.var)), DataflowVar):
                del self.env[id(b.var)]

    def _outputs(self, bindings):
        """{value: the first output that it is bound to}."""
        first = {id(var): key for key, var in self.known.items()}
        found = {}
        for b in bindings:
            if type(b.var) is RelaxVar:
                key = first.get(id(b.value if isinstance(b.value, DataflowVar) else b.var))
                if key is not None:
                    found.setdefault(key, b.var)
        return found
