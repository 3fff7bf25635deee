"""Patterns: expressions that are linear in chosen variables, conditions that clip them."""
from __future__ import annotations

from ..expr import (EQ, GE, GT, LE, LT, Add, And, Call, Cast, IntImm, Max, Min, Mul, Not, Or, Sub, Var, as_expr, const,
                    free_vars, substitute)
from .analyzer import Analyzer
from .canonical import INDEX_TYPES
from .linear import MAX, MIN, VAR, ZERO, Linear, combine, constant, factors, render, scaled, shifted
from .simplify import MIRRORED, NEGATED


def detect_linear_equation(expr, variables):
    """[c0, c1, ..., base] with expr = sum(ci * variables[i]) + base, no variable in any of them; [] if not linear.

    Of unsigned integers of up to 32 bits the parts are int64, so that 1 - x has the coefficient -1, and the equation
    holds for the remainders by which such integers count.
    """
    expr, an, twins = as_expr(expr), Analyzer(), {}
    dtype, back = expr.dtype, {}
    if dtype.code == "uint" and dtype.bits <= 32:
        expr = _signed(expr, set(variables), twins)
        back = {twin: Cast("int64", e) for e, twin in twins.items()}
    if expr is None or expr.dtype not in INDEX_TYPES:
        return []
    parts = linear_parts(an, an.canonical.linear(expr), [twins.get(v, v) for v in variables])
    return [] if parts is None else [substitute(render(part, expr.dtype), back) for part in parts]


def _signed(e, variables, twins):
    """The int64 expression that sums and products of unsigned integers are but for their range, with twins[part] for
    each other part, which is to be free of the variables unless it is one; None where it is not."""
    if isinstance(e, IntImm):
        return const(e.value, "int64")
    if isinstance(e, (Add, Sub, Mul)):
        a, b = (_signed(part, variables, twins) for part in (e.a, e.b))
        return None if a is None or b is None else type(e)(a, b)
    if not isinstance(e, Var) and not variables.isdisjoint(free_vars(e)):
        return None
    return twins.setdefault(e, Var(e.name if isinstance(e, Var) else "part", "int64"))


def linear_parts(an, form, variables):
    """[coefficient of each variable ..., rest] of a Linear, as Linears without them; None if it is not linear."""
    sums, base = {v: ZERO for v in variables}, {}
    for term, k in form.terms.items():
        inside = [f for f in factors(term) if not f.vars.isdisjoint(sums)]
        if not inside:
            base[term] = k
        elif len(inside) > 1 or inside[0].kind != VAR:
            return None
        else:
            others = tuple(f for f in factors(term) if f is not inside[0])
            weight = Linear({an.canonical.product(others): k}, 0) if others else constant(k)
            sums[inside[0].expr] = combine(sums[inside[0].expr], weight)
    return [*sums.values(), Linear(base, form.const)]


def detect_clip_bound(expr, variables):
    """[least0, greatest0, least1, ...] that a conjunction of conditions puts on the variables; None for no bound.

    Each condition must bound one variable, with coefficient 1 or -1; otherwise the answer is [].
    """
    an = Analyzer()
    ends = {v: [None, None] for v in variables}
    for condition in _plain_conjuncts(as_expr(expr)):
        for gap in gaps(an, condition) or (ZERO,):
            parts = linear_parts(an, gap, variables)
            moving = [(v, w) for v, w in zip(variables, parts or ()) if w.terms or w.const]
            if len(moving) != 1 or moving[0][1].terms or abs(moving[0][1].const) != 1:
                return []
            (v, weight), base = moving[0], parts[-1]
            upper = weight.const < 0
            end, known = base if upper else scaled(base, -1), ends[v][upper]
            ends[v][upper] = end if known is None else an.canonical.choice(MIN if upper else MAX, (known, end), v.dtype)
    return [end and render(end, v.dtype) for v in variables for end in ends[v]]


def gaps(an, condition):
    """The Linears that are all >= 0 just where a comparison holds; () for other conditions."""
    kind = type(condition)
    if kind not in (EQ, LE, LT, GE, GT) or condition.a.dtype not in INDEX_TYPES:
        return ()
    low, high = an.canonical.linear(condition.a), an.canonical.linear(condition.b)
    if kind in (GT, GE):
        low, high = high, low
    gap = an.canonical.add(high, low, -1)
    if kind is EQ:
        return gap, scaled(gap, -1)
    return (shifted(gap, -1) if kind in (LT, GT) else gap,)


def _plain_conjuncts(condition):
    """Conditions that together are `condition`: no negated comparison among them, and where the least of two numbers is
    above a third, one for each."""
    out = []
    for part in conjuncts(condition):
        kind = type(part)
        if kind is Not and type(part.a) in NEGATED:
            out += _plain_conjuncts(NEGATED[type(part.a)](part.a.a, part.a.b))
        elif kind is Not and isinstance(part.a, Or):
            out += _plain_conjuncts(Not(part.a.a)) + _plain_conjuncts(Not(part.a.b))
        elif kind in _CHOSEN and isinstance(part.a, _CHOSEN[kind]):
            out += [q for side in (part.a.a, part.a.b) for q in _plain_conjuncts(kind(side, part.b))]
        elif kind in _CHOSEN and isinstance(part.b, _CHOSEN[MIRRORED[kind]]):
            out += [q for side in (part.b.a, part.b.b) for q in _plain_conjuncts(kind(part.a, side))]
        else:
            out.append(part)
    return out


_CHOSEN = {GT: Min, GE: Min, LT: Max, LE: Max}


def conjuncts(predicate):
    """The conditions that `predicate` joins by And; None and constants that hold are dropped."""
    if predicate is None or isinstance(predicate, (bool, IntImm)) and predicate:
        return []
    if isinstance(predicate, And):
        return conjuncts(predicate.a) + conjuncts(predicate.b)
    if isinstance(predicate, Call) and predicate.op == "tir.likely":
        return conjuncts(predicate.args[0])
    return [as_expr(predicate)]
