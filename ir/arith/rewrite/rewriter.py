"""The rewriter: operands first, then the rules of a node, until none has anything to say.

Integers of the index types are taken not to overflow, as everywhere in arith; arithmetic of other types is only
folded, since it wraps around or rounds. Expressions with calls that act on the world are left as they are.
"""
from __future__ import annotations

from functools import cache

from ...expr import (EQ, GE, GT, LE, LT, NE, Add, And, Broadcast, Call, Cast, CompareExpr, Div, FloatImm, FloorDiv,
                     FloorMod, IntImm, Mod, Not, Or, PrimExpr, Sub, Var, const, substitute)
from ...node import Mutator, Node, collect
from ...upper import provides, upper
from ..canonical import INDEX_TYPES
from ..linear import DoesNotFit, render
from ..simplify import decide, same, truth
from . import choices, conditions, divisions, folding, sums, vectors
from .effects import may_fail
from .pattern import compiled
from .products import decides_product

DEEPEST = 60  # rewrites of rewrites; no rule needs more, and none may loop for ever
DIVISIONS = (Div, Mod, FloorDiv, FloorMod)
TURNED = {GT: LT, GE: LE}


@cache
def _rules():
    """{class of nodes: [Rule]}, compiled when the first expression asks: that takes longer than most programs."""
    return compiled((*sums.ROWS, *divisions.ROWS, *choices.ROWS, *conditions.ROWS))


class Rewriter(Mutator):
    """Rewrites expressions by what one Analyzer knows."""

    def __init__(self, an):
        self.an, self.done, self.depth = an, {}, 0
        self.proofs = {"nonneg": lambda e: self.proves(LE, 0, e), "pos": lambda e: self.proves(LT, 0, e),
                       "le": lambda a, b: self.proves(LE, a, b), "lt": lambda a, b: self.proves(LT, a, b),
                       "equal": lambda a, b: self.proves(EQ, a, b), "constant": lambda e: isinstance(e, IntImm),
                       "outside": lambda e, value: not e.dtype.holds(value),
                       "ordered": lambda e: not e.dtype.is_float}  # of two, one is not less than the other: no NaN
        self.inexact = {}  # expression -> whether numbers in it may wrap around

    def proves(self, kind, a, b):
        """Whether `a kind b` always holds, of index expressions."""
        return self.an._decide(kind, a, b)

    def visit(self, value):
        if not isinstance(value, Node):
            return super().visit(value)
        if isinstance(value, (IntImm, FloatImm)) or value._is_binder_leaf and type(value) is not Var:
            return value
        found = self.done.get(value)
        if found is None:
            found = self.done[value] = self._rewritten(value)
            self.done[found] = found
        return found

    def _rewritten(self, e):
        if type(e) is Var:
            form = self.an.replaced.get(e)
            return e if form is None else render(form, e.dtype)
        if not isinstance(e, PrimExpr) or type(e) is Call and upper("acts")(e):
            return self.generic_visit(e)
        below = BELOW.get(e.op if type(e) is Call else type(e).__name__, Mutator.generic_visit)
        out = below(self, e)
        if self.depth >= DEEPEST or self.an.acts(out):
            return out
        try:
            new = self.step(out)
        except DoesNotFit:  # a number on the way is too great for the type
            return out
        if new is None or same(new, out):
            return out
        self.depth += 1
        try:
            return self.visit(new)
        finally:
            self.depth -= 1

    def step(self, e):
        """`e` after one rule, or None where none applies; its operands are rewritten already."""
        kind = type(e)
        if kind in TURNED:
            return TURNED[kind](e.b, e.a)
        if kind in DIVISIONS and _is_zero(e.b):
            return None
        found = folding.folded(e)
        if found is None and e.dtype.lanes != 1:
            return vectors.rewritten(self, e)
        if found is None and isinstance(e, CompareExpr):
            found = self.decided(e)
        if found is None and kind is Cast and e.dtype in INDEX_TYPES:
            low, high = self.an.interval(e)
            found = const(low, e.dtype) if low is not None and low == high else None
        if found is not None:
            return found
        operand = getattr(e, "a", e)
        if operand.dtype not in INDEX_TYPES and not operand.dtype.is_bool:
            return _cancelled(e)
        for rule in _rules().get(kind, ()):
            found = rule.apply(e, self)
            if found is not None and not (rule.is_exact and self.wraps(e)):
                return found
        return self.by_sets(e) if kind in (FloorMod, Mod) else None

    def wraps(self, e):
        """Whether an expression is of numbers that may wrap around: those that buffers hold, and narrow ones."""
        found = self.inexact.get(e)
        if found is None:
            narrow = any(n.a.dtype.is_int and n.a.dtype not in INDEX_TYPES for n in collect(e, CompareExpr))
            found = self.inexact[e] = narrow or self.an.canonical.is_loaded(e)
        return found

    def decided(self, e):
        """The truth of a comparison that can be proved, or None."""
        known = self.an.stated(e)
        if known is not None:
            return truth(known)
        if type(e) in (And, Or, Not) or e.a.dtype not in INDEX_TYPES:
            return None
        known = decide(self.an, type(e), self.an.canonical.linear(e.a), self.an.canonical.linear(e.b))
        if known is None:
            known = decides_product(self.an, e)
        return None if known is None else truth(known)

    def by_sets(self, e):
        """A remainder by a constant that the modular set of its operand settles, or None."""
        if not isinstance(e.b, IntImm) or e.b.value <= 0:
            return None
        coeff, base = self.an.modular_set(e.a)
        if coeff % e.b.value or type(e) is Mod and not self.proves(LE, 0, e.a):
            return None
        return const(base % e.b.value, e.dtype)

    # ------------------------------------------------------------ operands under a condition

    def under(self, condition, e):
        """`e` rewritten where a condition holds."""
        saved, self.done = self.done, {}
        try:
            with self.an.constraint_scope(condition):
                return self.visit(e)
        finally:
            self.done = saved

    def if_then_else(self, e):
        condition = self.visit(e.args[0])
        if isinstance(condition, IntImm):
            return self.visit(e.args[1 if condition.value else 2])
        yes, no = self.under(condition, e.args[1]), self.under(Not(condition), e.args[2])
        if same(yes, no) and not self.an.acts(condition):
            return yes
        if type(yes) is Call and yes.op == e.op and same(yes.args[2], no):
            condition, yes = self.visit(And(condition, yes.args[0])), yes.args[1]
        return e.replace(args=(condition, yes, no))

    def select(self, e):
        """Both values are computed: one that may fail there is rewritten without the condition."""
        if self.an.acts(e):
            return self.generic_visit(e)
        condition = self.visit(e.condition)
        if isinstance(condition, IntImm):
            return self.visit(e.true_value if condition.value else e.false_value)
        yes, no = (self.visit(value) if may_fail(value) else self.under(holds, value) for holds, value in
                   ((condition, e.true_value), (Not(condition), e.false_value)))
        return yes if same(yes, no) else e.replace(condition=condition, true_value=yes, false_value=no)

    def reduce(self, e):
        """The axes are in their ranges."""
        for axis in e.axis:
            if axis.dom is not None and not self.an.const_int_bound_is_bound(axis.var):
                self.an.bind(axis.var, axis.dom)
        return self.generic_visit(e)

    def let(self, e):
        value = self.visit(e.value)
        if isinstance(value, (IntImm, FloatImm, Var)):
            return self.visit(substitute(e.body, {e.var: value}))
        self.an.bind_let(e.var, value)
        return e.replace(value=value, body=self.visit(e.body))


@provides("rewrite")
def _rewritten_by(an, e):
    refuse_zero_divisors(e)
    return Rewriter(an).visit(e)


BELOW = {"tir.if_then_else": Rewriter.if_then_else, "Select": Rewriter.select, "Let": Rewriter.let,
         "Reduce": Rewriter.reduce}


def refuse_zero_divisors(e):
    """ValueError for an expression with a division by what is written as 0."""
    for division in collect(e, DIVISIONS):
        if _is_zero(division.b):
            raise ValueError(f"a division by zero: {division}")


def _is_zero(e):
    e = e.value if isinstance(e, Broadcast) else e
    return isinstance(e, IntImm) and e.value == 0


def _cancelled(e):
    """x - x, x == x and x != x of integers that wrap around, and what adds nothing; None for the rest."""
    if not e.dtype.is_int and not (isinstance(e, CompareExpr) and e.a.dtype.is_int):
        return None
    if type(e) in (Add, Sub) and _is_zero(e.b):
        return e.a
    if type(e) in SAME and same(e.a, e.b):
        return SAME[type(e)](e.a.dtype)
    return None


SAME = {Sub: lambda dtype: const(0, dtype), EQ: lambda dtype: truth(True), NE: lambda dtype: truth(False),
        LE: lambda dtype: truth(True), LT: lambda dtype: truth(False)}
