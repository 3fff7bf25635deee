"""The rewriter behind `Analyzer.simplify`: integers through the normal form, conditions by proof, the rest by descent.

Terms that are already simple come back as the same object. Float arithmetic is never changed; index expressions
inside it are.
"""
from __future__ import annotations

from math import gcd

from ..dtype import DataType
from ..expr import EQ, GE, GT, LE, LT, NE, And, Call, IntImm, Let, Not, Or, Var
from ..node import Mutator, Node
from .canonical import INDEX_TYPES
from .linear import DoesNotFit, Linear, immediate, render, scaled, shifted

BOOL = DataType("bool")
TRUE, FALSE = IntImm(BOOL, 1), IntImm(BOOL, 0)
NEGATED = {EQ: NE, NE: EQ, LT: GE, GE: LT, GT: LE, LE: GT}
MIRRORED = {EQ: EQ, NE: NE, LT: GT, GT: LT, LE: GE, GE: LE}
COMPARISONS = tuple(NEGATED)
ARITHMETIC = ("Add", "Sub", "Mul", "FloorDiv", "FloorMod", "Div", "Mod", "Min", "Max")


def truth(value):
    return TRUE if value else FALSE


class Simplifier(Mutator):
    def __init__(self, an):
        self.an = an

    def visit(self, value):
        if not isinstance(value, Node):
            return super().visit(value)
        kind = type(value)
        if kind is Var:
            return self.visit_Var(value)
        if kind is IntImm or value._is_binder_leaf:
            return value
        found = self.an.simplified.get(value)
        if found is None:
            rule = RULES.get(kind.__name__)
            if rule and kind is not Let and self.an.acts(value.args[0] if kind is Call and value.args else value):
                rule = None
            found = self.an.simplified[value] = rule(self, value) if rule else self.generic_visit(value)
        return found

    def visit_Var(self, v):
        form = self.an.replaced.get(v)
        return v if form is None else render(form, v.dtype)

    def arithmetic(self, e):
        dtype = e.dtype
        if dtype not in INDEX_TYPES:
            return self.generic_visit(e)
        try:
            out = render(self.an.canonical.linear(e), dtype)
        except DoesNotFit:
            return self.generic_visit(e)
        return e if same(e, out) else out

    def cast(self, e):
        if e.dtype in INDEX_TYPES:
            return self.arithmetic(e)
        inner = self.visit(e.value)
        if isinstance(inner, IntImm) and e.dtype.is_int and e.dtype.lanes == 1:
            if e.dtype.min_value() <= inner.value <= e.dtype.max_value():
                return IntImm(e.dtype, inner.value)
        return e.replace(value=inner)

    # ------------------------------------------------------------ conditions

    def compare(self, e):
        if e.a.dtype not in INDEX_TYPES:
            return self._compare_other(e)
        kind = type(e)
        left, right = self.an.canonical.linear(e.a), self.an.canonical.linear(e.b)
        known = decide(self.an, kind, left, right)
        if known is not None:
            return truth(known)
        try:
            out = self._tidy(kind, left, right, e.a.dtype)
        except DoesNotFit:
            return self.generic_visit(e)
        return e if same(e, out) else out

    def _compare_other(self, e):
        out = self.generic_visit(e)
        if out.a is out.b and type(out.a) is Var and out.a.dtype.is_int:  # floats may be NaN
            return truth(type(out) in (EQ, LE, GE))
        if isinstance(out.a, IntImm) and isinstance(out.b, IntImm):
            a, b = out.a.value, out.b.value
            return truth({EQ: a == b, NE: a != b, LT: a < b, LE: a <= b, GT: a > b, GE: a >= b}[type(out)])
        return out

    def _tidy(self, kind, left, right, dtype):
        """The comparison with terms common to both sides cancelled and common factors divided out. What was loaded
        stays on its side: on the other one it might wrap around."""
        gap = self.an.canonical.add(right, left, -1)
        g = gcd(*gap.terms.values())
        disjoint = len(gap.terms) == len(left.terms) + len(right.terms)
        if disjoint and g == 1 and not (left.const and right.const) or self.an.canonical.is_loaded(gap):
            return kind(render(left, dtype), render(right, dtype))
        if kind in (GT, GE):
            gap = scaled(gap, -1)
        low = Linear({a: -k // g for a, k in gap.terms.items() if k < 0}, 0)
        high = Linear({a: k // g for a, k in gap.terms.items() if k > 0}, 0)
        if kind in (EQ, NE):  # g divides the constant, or decide() had settled it
            return self._equated(kind, low, high, gap.const // g, dtype)
        return self._ordered(low, high, (gap.const - (1 if kind in (LT, GT) else 0)) // g, dtype)

    @staticmethod
    def _equated(kind, low, high, offset, dtype):
        """low == high + offset (or !=), the constant where it is positive or alone."""
        if not low.terms:
            low, high, offset = high, low, -offset
        if offset < 0 and high.terms:
            return kind(render(shifted(low, -offset), dtype), render(high, dtype))
        return kind(render(low, dtype), render(shifted(high, offset), dtype))

    @staticmethod
    def _ordered(low, high, offset, dtype):
        """low <= high + offset, written with the constant on the right when one side is empty."""
        if not low.terms:
            return GE(render(high, dtype), immediate(dtype, -offset))
        if not high.terms or offset >= 0:
            build, offset = (LE, offset) if offset == 0 and high.terms else (LT, offset + 1)
            return build(render(low, dtype), render(shifted(high, offset), dtype))
        return LT(render(shifted(low, -offset - 1), dtype), render(high, dtype))

    def both(self, e):
        kept = []
        for part in _flatten(And, e):
            part = self.visit(part)
            if isinstance(part, IntImm):
                if not part.value:
                    return FALSE if e.dtype is BOOL else self.generic_visit(e)
                continue
            kept.extend(p for p in _flatten(And, part) if not any(same(p, q) for q in kept))
        if e.dtype is BOOL and len(kept) > 1:
            kept = self._independent(kept)
            if kept is None:
                return FALSE
        return self._rebuilt(And, kept, TRUE, e)

    def _independent(self, parts):
        """`parts` without those the others imply; None when they contradict each other."""
        kept = list(parts)
        for part in parts:
            others = [p for p in kept if p is not part]
            if not others or not isinstance(part, COMPARISONS) or part.a.dtype not in INDEX_TYPES:
                continue
            mentioned = self.an.vars_of(part)
            related = [p for p in others if not mentioned.isdisjoint(self.an.vars_of(p))]
            if not related:
                continue
            with self.an.constraint_scope(*related):
                left, right = self.an.canonical.linear(part.a), self.an.canonical.linear(part.b)
                known = decide(self.an, type(part), left, right)
            if known is False:
                return None
            if known:
                kept = others
        return kept

    def either(self, e):
        kept = []
        for part in _flatten(Or, e):
            part = self.visit(part)
            if isinstance(part, IntImm):
                if part.value:
                    return TRUE if e.dtype is BOOL else self.generic_visit(e)
                continue
            kept.extend(p for p in _flatten(Or, part) if not any(same(p, q) for q in kept))
        return self._rebuilt(Or, kept, FALSE, e)

    def _rebuilt(self, build, parts, empty, e):
        if not parts:
            return empty if e.dtype is BOOL else self.generic_visit(e)
        out = parts[0]
        for part in parts[1:]:
            out = build(out, part)
        known = self.an.stated(out)
        if known is not None and e.dtype is BOOL:
            return truth(known)
        return e if same(e, out) else out

    def negation(self, e):
        inner = self.visit(e.a)
        if isinstance(inner, IntImm):
            return truth(not inner.value)
        if isinstance(inner, Not):
            return inner.a
        if isinstance(inner, COMPARISONS) and inner.a.dtype.is_int:
            return self.visit(NEGATED[type(inner)](inner.a, inner.b))
        return e.replace(a=inner)

    def select(self, e):
        if e.dtype in INDEX_TYPES:
            return self.arithmetic(e)
        out = self.generic_visit(e)
        if isinstance(out.condition, IntImm):
            return out.true_value if out.condition.value else out.false_value
        return out.true_value if same(out.true_value, out.false_value) else out

    def let(self, e):
        value = self.visit(e.value)
        self.an.bind_let(e.var, value)
        return e.replace(value=value, body=self.visit(e.body))

    def call(self, e):
        if e.op == "tir.likely":
            out = self.generic_visit(e)
            return out.args[0] if isinstance(out.args[0], IntImm) else out
        if e.op != "tir.if_then_else":
            return self.generic_visit(e)
        condition = self.visit(e.args[0])  # only the taken side is evaluated, so each may use the condition
        if isinstance(condition, IntImm):
            return self.visit(e.args[1 if condition.value else 2])
        with self.an.constraint_scope(condition):
            yes = self.visit(e.args[1])
        with self.an.constraint_scope(Not(condition)):
            no = self.visit(e.args[2])
        return yes if same(yes, no) else e.replace(args=self._kept(e.args, (condition, yes, no)))

    @staticmethod
    def _kept(old, new):
        return old if all(a is b for a, b in zip(old, new)) else new


RULES = {name: Simplifier.arithmetic for name in ARITHMETIC}
RULES.update({kind.__name__: Simplifier.compare for kind in COMPARISONS})
RULES.update(Cast=Simplifier.cast, And=Simplifier.both, Or=Simplifier.either, Not=Simplifier.negation,
              Select=Simplifier.select, Let=Simplifier.let, Call=Simplifier.call)


def decide(an, kind, left, right):
    """True or False when `left kind right` is proved or refuted for Linears, else None."""
    if kind in (GT, GE):
        left, right, kind = right, left, MIRRORED[kind]
    gap = an.canonical.add(right, left, -1)
    if kind is LT or kind is LE:
        gap = shifted(gap, -1) if kind is LT else gap
        if an.nonnegative(gap):
            return True
        return False if an.nonnegative(shifted(scaled(gap, -1), -1)) else None
    equal = None
    if not gap.terms:
        equal = gap.const == 0
    else:
        coeff, base = an.linear_modular(gap)
        up, down = an.nonnegative(gap), an.nonnegative(gap, -1)
        if up and down:
            equal = True
        elif (coeff > 1 and base) or an.is_nonzero(gap) or an.nonnegative(shifted(gap, -1)) or an.nonnegative(
                shifted(scaled(gap, -1), -1)):
            equal = False
    return None if equal is None else equal == (kind is EQ)


def _flatten(kind, e):
    return _flatten(kind, e.a) + _flatten(kind, e.b) if isinstance(e, kind) else [e]


def same(a, b):
    """Structural equality of expressions that define nothing: quick, and False where it does not look."""
    if a is b:
        return True
    kind = type(a)
    if kind is not type(b) or a._is_binder_leaf:
        return False
    for f in kind._fields:
        x, y = getattr(a, f), getattr(b, f)
        if x is not y and not (same(x, y) if isinstance(x, Node) else
                               _same_tuples(x, y) if isinstance(x, tuple) else _same_values(x, y)):
            return False
    return True


def _same_values(x, y):
    return x == y and (not isinstance(x, float) or x.hex() == y.hex())


def _same_tuples(x, y):
    return isinstance(y, tuple) and len(x) == len(y) and all(
        same(p, q) if isinstance(p, Node) else p == q for p, q in zip(x, y))
