"""Systems of linear inequalities over the integers: Fourier-Motzkin elimination, one variable after the other."""
from __future__ import annotations

from math import gcd, lcm

from ..expr import EQ, GE, GT, LE, LT, NE, IntImm, PrimExpr, Range, Var, const, is_const_int, substitute
from ..node import collect
from .analyzer import Analyzer
from .constraints import (IntConstraints, IntConstraintsTransform, IntGroupBounds, contradiction, holds, problem_of)
from .pattern import detect_linear_equation
from .simplify import same


def solve_linear_inequalities(equations, variables=None, ranges=None, deskew_range=False):
    """Solve inequalities (a list, or IntConstraints) for integer variables, each in terms of those after it.

    Returns IntConstraints: the Range of each variable that has one, and the relations that ranges do not express.
    With deskew_range, an IntConstraintsTransform to variables that start at 0 instead. Where no solution exists, the
    only relation is False."""
    problem = problem_of(equations, variables, ranges)
    return _to_shifted(problem) if deskew_range else _to_ranges(problem)


def solve_inequalities_as_conditions(variables, ranges, relations):
    """The solved system as conditions: of each variable in terms of those after it, then what could not be solved."""
    problem = IntConstraints(variables, ranges, relations)
    return _conditions(problem, *_eliminated(problem))


def _conditions(problem, bounds, rest):
    return [*(c for v in problem.variables for c in bounds[v].conditions(v)), *rest]


# ---------------------------------------------------------------- elimination

def _normal(an, condition):
    """An inequality of integers as e <= 0, an equation as e == 0; others as they are."""
    kind = type(condition)
    if kind not in (EQ, NE, LT, LE, GT, GE):
        return condition
    a, b = (condition.b, condition.a) if kind in (GT, GE) else (condition.a, condition.b)
    zero = const(0, a.dtype)
    if kind in (LT, GT) and a.dtype.is_int:
        return LE(an.simplify(a - b + 1), zero)
    return {LT: LT, GT: LT, LE: LE, GE: LE}.get(kind, kind)(an.simplify(a - b), zero)


def _add(known, new, an):
    """Add a condition to the list unless those known imply it; drop those it implies."""
    if an.can_prove(new) or any(same(e, new) for e in known):
        return
    if isinstance(new, LE):
        for e in [e for e in known if isinstance(e, LE) and e.a.dtype == new.a.dtype]:
            if an.can_prove_less_equal(new.a, e.a):
                return
            if an.can_prove_less_equal(e.a, new.a):
                known[:] = [other for other in known if other is not e]
    known.append(new)


def _eliminated(problem):
    """({variable: IntGroupBounds}, conditions that are left)."""
    an, current, rest, bounds = Analyzer(), [], [], {}
    for v, r in problem.ranges.items():
        an.bind(v, r)
    for relation in problem.relations:
        _add(current, _normal(an, an.simplify(relation)), an)
    for v in problem.variables:
        if v in bounds:
            raise ValueError(f"{v.name} is listed twice")
        following, above, below = [], [], []  # above: (c, e) with c * v + e <= 0 and c > 0, below: with c < 0
        if v in problem.ranges:
            r = problem.ranges[v]
            below.append((-1, an.simplify(r.min)))
            above.append((1, an.simplify(1 - (r.min + r.extent))))
        for condition in current:
            _classify(condition, v, above, below, following, rest, an)
        for c, e in above:
            for k, f in below:
                g = gcd(c, k)
                _add(following, _normal(an, an.simplify(LE(f * (c // g) - e * (k // g), const(0, v.dtype)))), an)
        bounds[v] = _group(v, above, below, an)
        current = following
    left = [an.simplify(e) for e in current]
    if any(holds(e) is False for e in left):
        return bounds, [const(False)]
    return bounds, [*(e for e in left if holds(e) is None), *rest]


def _classify(condition, v, above, below, following, rest, an):
    """Sort a condition by the sign of the variable's coefficient."""
    parts = detect_linear_equation(condition.a, [v]) if isinstance(condition, (LE, EQ)) else []
    if not parts or not isinstance(parts[0], IntImm):
        rest.append(condition)
        return
    c, e = parts[0].value, parts[1]
    if c == 0:
        _add(following, condition, an)
        return
    negated = -c, an.simplify(0 - e)
    for k, f in ((c, e), negated) if isinstance(condition, EQ) else ((c, e),):
        (above if k > 0 else below).append((k, f))


def _group(v, above, below, an):
    """The IntGroupBounds of a variable, without bounds that others imply."""
    coef = lcm(1, *(c for c, _ in (*above, *below)))
    upper, lower = [], []
    for c, e in above:
        _keep_tightest(upper, an.simplify(e * (-coef // c)), an.can_prove_less_equal)
    for c, e in below:
        _keep_tightest(lower, an.simplify(e * (coef // -c)), an.can_prove_greater_equal)
    equal = [e for e in upper if any(same(e, f) for f in lower)]
    upper, lower = ([e for e in ends if not any(same(e, f) for f in equal)] for ends in (upper, lower))
    return IntGroupBounds(const(coef, v.dtype), lower, sorted(equal, key=_size), upper)


def _keep_tightest(known, new, as_good):
    if not any(as_good(e, new) for e in known):
        known[:] = [e for e in known if not as_good(new, e)] + [new]


def _size(e):
    """How many nodes an expression has: the simplest of equal ones goes first."""
    return len(collect(e, PrimExpr))


# ---------------------------------------------------------------- results

def _to_ranges(problem):
    bounds, rest = _eliminated(problem)
    known, found = dict(problem.ranges), {}
    for v in reversed(problem.variables):
        group = bounds[v]
        if is_const_int(group.coef, 1) and group.equal:
            best = Range(group.equal[0], const(1, v.dtype))
        else:
            best = (group.within(known[v]) if v in known else group).find_best_range(
                {w: r for w, r in known.items() if w is not v})
            if best is not None and Analyzer().can_prove_less_equal(best.extent, 0):
                return contradiction()
        if best is not None:
            found[v] = known[v] = best
    an = Analyzer()
    for v, r in known.items():
        an.bind(v, r)
    relations = [c for c in _conditions(problem, bounds, rest) if not an.can_prove(c)]
    return IntConstraints(problem.variables, found, relations)


def _to_shifted(problem):
    bounds, rest = _eliminated(problem)
    an, known = Analyzer(), dict(problem.ranges)
    for v, r in known.items():
        an.bind(v, r)
    to_new, to_old, new, new_ranges = {}, {}, [], {}
    for v in reversed(problem.variables):
        group = bounds[v].substitute(to_new)
        if is_const_int(group.coef, 1) and group.equal:
            to_new[v] = group.equal[0]
            continue
        best = (group.within(known[v]) if v in known else group).find_best_range(
            {w: r for w, r in known.items() if w is not v})
        if best is None:
            to_new[v] = to_old[v] = v
            new.append(v)
        elif is_const_int(best.extent, 1):
            to_new[v] = best.min
        elif an.can_prove_less_equal(best.extent, 0):
            return IntConstraintsTransform(problem, contradiction(), {}, {})
        else:
            shifted = Var(f"{v.name}.shifted", v.dtype)
            to_new[v] = shifted if is_const_int(best.min, 0) else shifted + best.min
            to_old[shifted] = an.simplify(v - substitute(best.min, to_old))
            new_ranges[shifted] = known[shifted] = Range(const(0, v.dtype), best.extent)
            an.bind(shifted, known[shifted])
            new.append(shifted)
    relations = [_at_most(an.simplify(substitute(c, to_new))) for c in _conditions(problem, bounds, rest)]
    dst = IntConstraints(reversed(new), new_ranges, [c for c in relations if holds(c) is not True])
    return IntConstraintsTransform(problem, dst, to_new, to_old)


def _at_most(condition):
    """e <= c - 1 for e < c, as relations are written."""
    end = condition.b if isinstance(condition, LT) else None
    if not isinstance(end, IntImm) or end.value == end.dtype.min_value():
        return condition
    return LE(condition.a, const(end.value - 1, end.dtype))
