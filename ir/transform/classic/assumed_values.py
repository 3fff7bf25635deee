"""UseAssumeToReduceBranches: no choice between what an assumption about a buffer makes equal."""
from __future__ import annotations

import operator

from ...arith import Analyzer
from ...expr import EQ, Add, And, Call, FloatImm, IntImm, Mul, Not, Range, Sub, const, substitute
from ...node import Mutator, collect, structural_equal
from ...tir.stmt import BlockRealize, BufferLoad, BufferStore, Evaluate, For, SeqStmt
from ..assumptions import ASSUME
from ..booleans import may_divide_by_zero
from ..elements import alternatives, is_opaque, parts
from ..walk import StmtMutator

_FOLDS = {Add: operator.add, Sub: operator.sub, Mul: operator.mul}
_CHOICE, _NUMBERS = "tir.if_then_else", (IntImm, FloatImm)


def use_assume_to_reduce_branches(func):
    """Ensures no T.if_then_else(c, value, e) in a store where e is that value, by what the program assumes, wherever c
    holds, and may be computed there: it is e; and so with the cases exchanged.

    An assumption is a block of one T.assume(a[i, j] == value or ...), over all elements of a parameter that is never
    written. c is the condition of the assumption, or its opposite, by the simplifier."""
    written = {id(s.buffer.data) for s in collect(func.body, BufferStore)}
    mine = {id(b) for b in func.buffers if id(b.data) not in written}
    known = [a for a in map(_assumption, _parts(func.root.body)) if a is not None and id(a[0]) in mine]
    return func.replace(body=_Reduce(known).visit(func.body)) if known else func


def _parts(stmt):
    return [p for s in stmt.seq for p in _parts(s)] if isinstance(stmt, SeqStmt) else [stmt]


def _assumption(stmt):
    """(buffer, variables that are its indices, what decides, value): where that holds, an element has the value. None
    for another statement than a nest of all elements."""
    loops = []
    while isinstance(stmt, For):
        loops.append(stmt)
        stmt = stmt.body
    if not isinstance(stmt, BlockRealize) or not isinstance(stmt.block.body, Evaluate):
        return None
    call, block = stmt.block.body.value, stmt.block
    always = isinstance(stmt.predicate, _NUMBERS) and stmt.predicate.value
    if not isinstance(call, Call) or call.op != ASSUME or not always:
        return None
    whole = len(loops) == len(block.iter_vars) and {id(v) for v in stmt.iter_values} == {
        id(x.loop_var) for x in loops} and all(structural_equal((loop.min, loop.extent), (iv.dom.min, iv.dom.extent))
                                               for loop in loops for iv, v in zip(block.iter_vars, stmt.iter_values)
                                               if v is loop.loop_var)
    equal = [p for p in alternatives(call.args[0]) if isinstance(p, EQ) and isinstance(p.a, BufferLoad)
             and isinstance(p.b, _NUMBERS)]
    if not whole or len(equal) != 1 or isinstance(equal[0].b, FloatImm) and not equal[0].b.value:  # 0.0 equals -0.0
        return None
    load, variables = equal[0].a, [iv.var for iv in block.iter_vars]
    covers = len(load.indices) == len(variables) and all(
        i is iv.var and structural_equal(iv.dom, Range(const(0, iv.dom.min.dtype), d))
        for i, iv, d in zip(load.indices, block.iter_vars, load.buffer.shape))
    rest = [p for p in alternatives(call.args[0]) if p is not equal[0]]
    if not covers or any(collect(p, BufferLoad) for p in rest):
        return None
    decides = const(True, "bool")
    for p in rest:
        decides = And(decides, Not(p))
    return load.buffer, variables, decides, equal[0].b


class _Reduce(StmtMutator):
    def __init__(self, known):
        self.known, self.an = known, Analyzer()

    def visit_Block(self, block):
        with self.an.constraint_scope():
            for iv in block.iter_vars:
                self.an.bind(iv.var, iv.dom, allow_override=True)
            return super().visit_Block(block)

    def visit_BufferStore(self, store):
        value = _Choices(self._chosen).visit(store.value)
        return store if value is store.value else store.replace(value=value)

    def _chosen(self, call):
        """What takes the place of a choice: one of its cases, or the choice itself."""
        condition, first, second = call.args
        if is_opaque(condition):
            return call
        if self._is_by_assumption(second, first, condition):
            return second
        return first if self._is_by_assumption(first, second, Not(condition)) else call

    def _is_by_assumption(self, e, value, condition):
        """Whether e may be computed, and is a value, wherever a condition holds."""
        if not isinstance(value, _NUMBERS) or is_opaque(e) or may_divide_by_zero(e) or not all(
                map(self._is_within, collect(e, BufferLoad))):
            return False
        found = self.an.simplify(_Loads(lambda load: self._value(load, condition)).visit(e))
        return structural_equal(found, self.an.simplify(value))

    def _is_within(self, load):
        return all(self.an.can_prove(And(i >= const(0, i.dtype), i < d))
                   for i, d in zip(load.indices, load.buffer.shape))

    def _value(self, load, condition):
        """What an element is where a condition holds: a number that is assumed, or the load itself."""
        for buffer, variables, decides, value in self.known:
            if buffer is load.buffer:
                here = substitute(decides, dict(zip(variables, load.indices)))
                if structural_equal(self._plain(here), self._plain(condition)):
                    return value
        return load

    def _plain(self, condition):
        """A condition as one of parts that all hold, each simplified."""
        return [self.an.simplify(p) for p in parts(self.an.simplify(condition))]


class _Choices(Mutator):
    def __init__(self, chosen):
        self.chosen = chosen

    def visit_Call(self, call):
        new = self.generic_visit(call)
        return self.chosen(new) if new.op == _CHOICE else new


class _Loads(Mutator):
    """Loads replaced; sums, differences and products of numbers in their dtype."""

    def __init__(self, value):
        self.value = value

    def visit_BufferLoad(self, load):
        return self.value(load)

    def generic_visit(self, node):
        new = super().generic_visit(node)
        fold = _FOLDS.get(type(new))
        return fold(new.a, new.b) if fold and isinstance(new.a, _NUMBERS) and isinstance(new.b, _NUMBERS) else new


__all__ = ["use_assume_to_reduce_branches"]
