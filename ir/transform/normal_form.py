"""Normalize: graph functions built by hand in the form that every pass reads."""
from __future__ import annotations

from ..names import Names, unique_name
from ..node import Mutator, collect
from ..relax.block_builder import BlockBuilder
from ..relax.expr import (BindingBlock, DataflowBlock, DataflowVar, Function, If, MatchCast, RelaxCall, RelaxTuple,
                          RelaxVar, SeqExpr, TupleGetItem, TupleStructInfo, VarBinding)
from ..relax.lattice import finer_result


def normalize(mod):
    """A module whose graph functions are in normal form:

    - bodies of functions and branches are SeqExprs, which give a variable, a constant, a shape or a tuple of those;
    - what is computed inside an argument has a variable of its own; a SeqExpr bound to a variable is part of the outer;
    - blocks of one kind do not follow one another and are not empty; variables have struct info;
    - what gives nothing, an empty tuple, is written where it is used.
    """
    return mod.with_functions({n: _Normalize(mod, f).visit(f) if isinstance(f, Function) else f
                               for n, f in mod.functions.items()})


class _Normalize(Mutator):
    def __init__(self, mod, func):
        self.infer = BlockBuilder(mod).normalize
        self.names = Names(v.name for v in collect(func, (RelaxVar, DataflowVar)))
        self.env = {}  # id(variable) -> what it is now
        self.blocks = []  # of the sequence at hand: (kind, bindings)

    def visit_Constant(self, constant):
        return constant

    def visit_Function(self, func):
        if func.body is None:
            return func
        body = self._sequence(func.body)
        return func.replace(body=body, ret_struct_info=finer_result(func, body.struct_info))

    def _sequence(self, value):
        """A value as a SeqExpr of its own."""
        outer, self.blocks = self.blocks, []
        result = self._leaf(self._spliced(value), BindingBlock)
        blocks = tuple(kind(tuple(bindings)) for kind, bindings in self.blocks if bindings)
        self.blocks = outer
        same = isinstance(value, SeqExpr) and result is value.body and len(blocks) == len(value.blocks) and all(
            type(a) is type(b) and len(a.bindings) == len(b.bindings) and all(
                x is y for x, y in zip(a.bindings, b.bindings)) for a, b in zip(blocks, value.blocks))
        return value if same else SeqExpr(blocks, result)

    def _spliced(self, value):
        """What a SeqExpr gives, its bindings added to the sequence at hand; other values as they are."""
        while isinstance(value, SeqExpr):
            for block in value.blocks:
                for b in block.bindings:
                    self._binding(b, type(block))
            value = value.body
        return value

    def _binding(self, b, kind):
        value = self._value(self._spliced(b.value), kind)
        var, info = b.var, value.struct_info
        if var.struct_info is None and info is not None:
            var = type(var)(var.name, info, var.origin)
        if info is not None and isinstance(info, TupleStructInfo) and not info.fields:
            self.env[id(b.var)] = RelaxTuple(())
        elif var is not b.var:
            self.env[id(b.var)] = var
        same = value is b.value and var is b.var
        self._add(kind, b if same else MatchCast(var, value) if isinstance(b, MatchCast) else VarBinding(var, value))

    def _add(self, kind, binding):
        if not self.blocks or self.blocks[-1][0] is not kind:
            self.blocks.append((kind, []))
        self.blocks[-1][1].append(binding)

    def _value(self, value, kind):
        """A value that may be bound, in a block of this kind."""
        if isinstance(value, If):
            cond = self._leaf(value.cond, kind)
            return self._if(value, cond, self._sequence(value.true_branch), self._sequence(value.false_branch))
        if isinstance(value, RelaxCall):
            args = tuple(self._leaf(a, kind) for a in value.args)
            if any(a is not b for a, b in zip(args, value.args)):
                value = value.replace(args=args)
            return value if value.struct_info is not None else self.infer(value)
        if isinstance(value, RelaxTuple):
            fields = tuple(self._leaf(f, kind) for f in value.fields)
            return value if all(map(lambda a, b: a is b, fields, value.fields)) else value.replace(fields=fields)
        if isinstance(value, TupleGetItem):
            return value.replace(tuple_value=self._leaf(value.tuple_value, kind))
        if isinstance(value, (RelaxVar, DataflowVar)):
            return self.env.get(id(value), value)
        return self.visit(value)

    def _if(self, value, cond, *branches):
        same = cond is value.cond and branches[0] is value.true_branch and branches[1] is value.false_branch
        return value if same else If(cond, *branches)

    def _leaf(self, value, kind):
        """A value that may stand inside another: what is computed is bound before."""
        value = self._value(self._spliced(value), kind)
        if not isinstance(value, (RelaxCall, TupleGetItem, If)):
            return value
        hidden = kind is DataflowBlock
        var = (DataflowVar if hidden else RelaxVar)(unique_name("lv" if hidden else "gv", self.names, ""),
                                                   value.struct_info)
        self._add(kind, VarBinding(var, value))
        return var
