"""Loops of constant extents split where conditions in them begin or cease to hold."""
from __future__ import annotations

import numpy as np

from ..expr import And, Call, IntImm, Not, Or, Select, Var, const, free_vars, is_const_int
from ..node import Visitor
from ..tir.hints import WHOLE
from ..tir.renew import renew_defs
from ..tir.stmt import For, seq
from ..tir.values import values_of
from .booleans import may_divide_by_zero
from .walk import StmtMutator

MOST_CUTS = 8          # of one loop
MOST_VALUES = 1 << 20  # of a condition, for all values of its variables
MIXED, NEVER, ALWAYS = 0, 1, 2  # whether a condition holds in an iteration, whatever other variables are


def partition_hinted(body, const_loops=False, unroll_rest=False, keep_single=False):
    """Splits loops with an attribute pragma_loop_partition_hint that is not 0 where the condition of a branch in them
    begins to hold, or to fail, for all values of the other variables in it; const_loops: others where `likely` ones do.

    for i in 12: if (2 <= i) A  ->  for i in 2: if (2 <= i + 0) A; for i in 10: if (2 <= i + 2) A

    One iteration is no loop, unless keep_single. unroll_rest: a part of a hinted loop in which a condition is still
    open is unrolled."""
    return _Split(const_loops, unroll_rest, keep_single).visit(body)


class _Split(StmtMutator):
    def __init__(self, const_loops, unroll_rest, keep_single):
        self.const_loops, self.unroll_rest, self.keep_single = const_loops, unroll_rest, keep_single
        self.values = {}  # loop variable -> all its values, where these are constant

    def visit_AttrStmt(self, stmt):
        if stmt.attr_key != WHOLE or not isinstance(stmt.body, For) or is_const_int(stmt.value, 0):
            return super()._body(stmt)
        return self._split(stmt.body, True)

    def visit_For(self, loop):
        return self._split(loop, False) if self.const_loops else self._loop(loop)

    def _loop(self, loop):
        """The loop with what is in it split."""
        if _is_constant(loop):
            self.values[loop.loop_var] = _values(loop)
        return loop.replace(body=self.visit(loop.body))

    def _split(self, loop, hinted):
        if not _is_constant(loop) or loop.kind == "thread_binding":
            return self._loop(loop)
        classes = self._classes(loop, hinted)
        cuts = sorted({n for found in classes for n in _changes(found)})
        starts = [0, *cuts] if len(cuts) <= MOST_CUTS else [0]
        parts = []
        for start, end in zip(starts, [*starts[1:], loop.extent.value]):
            is_open = any((found[start:end] == MIXED).any() for found in classes)
            if end - start == 1 and len(starts) > 1 and not self.keep_single:
                at = const(loop.min.value + start, loop.loop_var.dtype)
                parts.append(self.visit(renew_defs(loop.body, {loop.loop_var: at})))
                continue
            part = self._part(loop, start, end) if len(starts) > 1 else loop
            if hinted and self.unroll_rest and is_open and part.kind == "serial":
                part = part.replace(kind="unrolled")
            parts.append(self._loop(part))
        return seq(*parts)

    def _part(self, loop, start, end):
        """Some iterations of a loop, as a loop from 0."""
        first, dtype = loop.min.value + start, loop.loop_var.dtype
        var = Var(loop.loop_var.name, dtype)
        at = var + const(first, dtype) if first else var
        return loop.replace(loop_var=var, min=const(0, dtype), extent=const(end - start, dtype),
                            body=renew_defs(loop.body, {loop.loop_var: at}))

    # ------------------------------------------------------------ conditions

    def _classes(self, loop, hinted):
        """Of each condition in a loop that depends on its variable, an array: whether it holds in each iteration."""
        found = _Conditions(hinted, {**self.values, loop.loop_var: _values(loop)})
        found.visit(loop.body)
        classes = (_class(c, loop.loop_var, values) for c, values in found.conditions)
        return [c for c in classes if c is not None]


def _class(condition, var, values):
    """In which iterations over `var` a condition of variables {Var: their values} holds; None if nothing tells."""
    variables = list(dict.fromkeys(free_vars(condition)))
    if not any(v is var for v in variables) or any(v not in values for v in variables) or may_divide_by_zero(condition):
        return None
    axes = [var, *(v for v in variables if v is not var)]
    if np.prod([float(len(values[v])) for v in axes]) > MOST_VALUES:
        return None
    try:
        grids = np.meshgrid(*(values[v] for v in axes), indexing="ij", sparse=True)
        holds = values_of(condition, dict(zip(axes, grids)))
    except TypeError:
        return None
    holds = np.broadcast_to(holds, [len(values[v]) for v in axes]).reshape(len(values[var]), -1)
    found = np.where(holds.all(1), ALWAYS, np.where(holds.any(1), MIXED, NEVER))
    return found if len(_changes(found)) <= 2 else None  # one interval, not every other iteration


def _changes(found):
    return (np.flatnonzero(found[1:] != found[:-1]) + 1).tolist()


class _Conditions(Visitor):
    """The parts of the conditions of branches, with the values of variables there. hinted: of all, not likely ones
    alone."""

    def __init__(self, hinted, values):
        self.hinted, self.values, self.conditions = hinted, values, []

    def visit_For(self, loop):
        outer = self.values
        if _is_constant(loop):
            self.values = {**outer, loop.loop_var: _values(loop)}
        self.visit(loop.body)
        self.values = outer

    def visit_IfThenElse(self, branch):
        self._parts(branch.condition, self.hinted)
        self.generic_visit(branch)

    def visit_Select(self, e):
        self._parts(e.condition, False)
        self.generic_visit(e)

    def _parts(self, e, wanted):
        if isinstance(e, Call) and e.op == "tir.likely":
            self._parts(e.args[0], True)
        elif isinstance(e, Call) and e.op == "tir.ignore_loop_partition":
            pass
        elif isinstance(e, (And, Or)):
            self._parts(e.a, wanted)
            self._parts(e.b, wanted)
        elif isinstance(e, Not):
            self._parts(e.a, wanted)
        elif wanted:
            self.conditions.append((e, self.values))


def _is_constant(loop):
    return isinstance(loop.min, IntImm) and isinstance(loop.extent, IntImm) and 0 < loop.extent.value <= MOST_VALUES


def _values(loop):
    return np.arange(loop.min.value, loop.min.value + loop.extent.value)
