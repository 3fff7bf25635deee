"""LoopPartition as scripts know it: loops of symbolic extents are split where `likely` conditions in them hold for all
turns of the loops inside, too. The rest is the pipeline's (../loop_partition.py)."""
from __future__ import annotations

from ...arith import Analyzer, IntervalSet, deduce_bound
from ...expr import And, Call, IntImm, Max, Min, Range, free_vars
from ...node import Mutator, Visitor, collect
from ...tir.renew import renew_defs
from ...tir.stmt import BufferLoad, seq
from ..loop_partition import loop_partition as partition
from ..walk import StmtMutator
from .contexts import defined_in

_KINDS = ("serial", "parallel", "unrolled")


def loop_partition(func, partition_const_loop=False, no_unroll_loop_with_extent_one=False,
                   unroll_loop_with_partition_hint_no_interval=False):
    """Ensures of a loop whose extent is no constant that `likely` conditions over its variable, of branches and Selects
    in it, which hold from one turn to another, are gone from a loop over these turns; the turns before and after are
    loops of their own. Then what the pipeline's pass ensures: of loops of constant extents with partition_const_loop,
    or an attribute pragma_loop_partition_hint, without one of one turn unless no_unroll_loop_with_extent_one."""
    func = func.replace(body=_Split().visit(func.body))
    func = partition(func, partition_const_loop, no_unroll_loop_with_extent_one,
                     unroll_loop_with_partition_hint_no_interval)
    return func.replace(body=_Unmarked().visit(func.body))


class _Unmarked(Mutator):
    """Conditions without T.ignore_loop_partition around."""

    def visit_Call(self, call):
        call = self.generic_visit(call)
        return call.args[0] if call.op == "tir.ignore_loop_partition" else call


class _Split(StmtMutator):
    def __init__(self):
        self.analyzer, self.around = Analyzer(), {}  # around: variable of a loop -> its IntervalSet

    def visit_For(self, loop):
        constant = isinstance(loop.min, IntImm) and isinstance(loop.extent, IntImm)
        parts = None if constant or loop.kind not in _KINDS else self._parts(loop)
        return seq(*map(self._inside, [loop] if parts is None else parts))

    def _inside(self, loop):
        """A loop whose own conditions are dealt with."""
        self.analyzer.bind(loop.loop_var, Range(loop.min, loop.extent), allow_override=True)
        self.around[loop.loop_var] = _interval(loop)
        new = loop.replace(body=self.visit(loop.body))
        del self.around[loop.loop_var]
        return new

    def _parts(self, loop):
        """The loops over the turns before those in which conditions hold, over these, and after them; None where no
        condition holds."""
        found = _Conditions()
        found.visit(loop.body)
        held, var = [], loop.loop_var
        first, end = loop.min, loop.min + loop.extent
        low, high = first, end
        inside = defined_in(loop.body)
        for condition, inner in found.conditions:
            used, turns = set(free_vars(condition)), {x.loop_var: _interval(x) for x in inner}
            if var not in used or collect(condition, BufferLoad) or not used.isdisjoint(inside - set(turns)):
                continue
            holds = deduce_bound(var, condition, {**self.around, var: _interval(loop)}, turns)
            if holds.is_nothing() or not inside.isdisjoint(free_vars((holds.min_value, holds.max_value))):
                continue
            held.append(condition)
            low = Max(low, holds.min_value) if holds.has_lower_bound() else low
            high = Min(high, holds.max_value + 1) if holds.has_upper_bound() else high
        if not held:
            return None
        low = first if low is first else self.analyzer.simplify(Min(low, end))
        high = self.analyzer.simplify(Max(high, low))
        if self.analyzer.can_prove(high <= low):
            return None
        parts = [(first, low, loop.body), (low, high, _Without(held).visit(loop.body)), (high, end, loop.body)]
        return [self._part(loop, *part) for part in parts if not self.analyzer.can_prove(part[1] <= part[0])]

    def _part(self, loop, first, end, body):
        part = loop.replace(min=first, extent=self.analyzer.simplify(end - first), body=body)
        return renew_defs(part)


def _interval(loop):
    return IntervalSet(loop.min, loop.min + loop.extent - 1)


class _Conditions(Visitor):
    """The `likely` conditions of branches and Selects, each with the loops around it that are inside."""

    def __init__(self):
        self.conditions, self.loops = [], ()

    def visit_For(self, loop):
        outer, self.loops = self.loops, (*self.loops, loop)
        self.visit(loop.body)
        self.loops = outer

    def visit_IfThenElse(self, branch):
        self._of(branch.condition)
        self.generic_visit(branch)

    def visit_Select(self, e):
        self._of(e.condition)
        self.generic_visit(e)

    def _of(self, e):
        self.conditions += [(c, self.loops) for c in _parts(e)]


def _parts(e):
    """The conditions of which a `likely` one is made; [] of another."""
    return _conjuncts(e.args[0]) if isinstance(e, Call) and e.op == "tir.likely" else []


def _conjuncts(e):
    return _conjuncts(e.a) + _conjuncts(e.b) if isinstance(e, And) else [e]


class _Without(Mutator):
    """What is left where conditions hold."""

    def __init__(self, held):
        self.held = set(map(id, held))

    def _left(self, e):
        """A `likely` condition without those that hold; None where nothing is left of it."""
        parts = [c for c in _parts(e) if id(c) not in self.held]
        if not _parts(e) or len(parts) == len(_parts(e)):
            return e
        left = None
        for c in parts:
            left = c if left is None else And(left, c)
        return None if left is None else e.replace(args=(left,))

    def visit_IfThenElse(self, branch):
        condition = self._left(branch.condition)
        branch = self.generic_visit(branch)
        return branch.then_case if condition is None else branch.replace(condition=condition)

    def visit_Select(self, e):
        condition = self._left(e.condition)
        e = self.generic_visit(e)
        return e.true_value if condition is None else e.replace(condition=condition)


__all__ = ["loop_partition"]
