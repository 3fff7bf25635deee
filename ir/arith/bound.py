"""Bounds asked of conditions, regions and statements."""
from __future__ import annotations

from ..expr import EQ, free_vars
from ..upper import upper
from .analyzer import Analyzer
from .const_int_bound import linear_bound
from .floor_rules import floordiv, floormod
from .int_set import NEG_INF, POS_INF, IntervalSet, int_set, scope_of, state_domain
from .iter_affine_map import detect_iter_map
from .linear import DIV, VAR, ZERO, DoesNotFit, Linear, constant, factors, render, scaled, shifted
from .pattern import conjuncts, gaps
from .relax import relax


def deduce_bound(var, cond, hint_map, relax_map):
    """The IntervalSet of `var` in which `cond` holds whatever the variables of relax_map are in their sets.

    hint_map, like relax_map {Var: IntervalSet or Range}, tells about variables that stay symbolic. Nothing where the
    condition cannot be solved for `var`.
    """
    an, limits, found = Analyzer(), {}, IntervalSet.everything()
    for v, dom in hint_map.items():
        if v is not var and v not in relax_map:
            cond = state_domain(an, v, dom, {}, cond)
    for v, dom in relax_map.items():
        if v is not var:
            cond = state_domain(an, v, dom, limits, cond)
    for condition in conjuncts(cond):
        solve = _solve_equation if isinstance(condition, EQ) else _solve
        forms = gaps(an, condition)
        part = solve(an, forms[0], var, limits) if forms else None
        if part is None:
            return IntervalSet.nothing()
        try:
            ends = [None if end is None else render(end, var.dtype) for end in part]
        except DoesNotFit:
            return IntervalSet.nothing()
        found = found.intersect(IntervalSet(NEG_INF if ends[0] is None else ends[0],
                                            POS_INF if ends[1] is None else ends[1]), an)
    return found


def _isolate(an, form, var):
    """(weight, atom, rest) with form = weight * atom + rest and `var` in the atom alone, or None."""
    inside = [term for term in form.terms if var in term.vars]
    if len(inside) != 1:
        return None
    atoms = [f for f in factors(inside[0]) if var in f.vars]
    if len(atoms) != 1:
        return None
    others, k = tuple(f for f in factors(inside[0]) if f is not atoms[0]), form.terms[inside[0]]
    rest = Linear({a: c for a, c in form.terms.items() if a is not inside[0]}, form.const)
    return Linear({an.canonical.product(others): k}, 0) if others else constant(k), atoms[0], rest


def _solve(an, form, var, limits):
    """(least, greatest) of `var`, one of them None, for form >= 0 over all of the limits; None if not solved."""
    parts = _isolate(an, form, var)
    if parts is None:
        return None
    weight, atom, fixed = parts
    rest = relax(an, fixed, False, limits)
    if rest is not None and var in rest.vars:  # by a range that depends on it, as that of j from i to i + 8
        return _solve(an, an.canonical.add(an.canonical.add(form, fixed, -1), rest, 1), var, {})
    low, high = linear_bound(an, weight)
    if rest is None or not weight.vars.isdisjoint(limits) or low <= 0 <= high:
        return None
    upper = high < 0
    end = floordiv(an, rest, scaled(weight, -1) if upper else weight, atom.dtype)
    end = end if upper else scaled(end, -1)
    if atom.kind == VAR:
        return (None, end) if upper else (end, None)
    if atom.kind != DIV or atom.parts[1].terms or atom.parts[1].const <= 0:
        return None
    number, c = atom.parts[0], atom.parts[1].const  # number // c <= end, or >= end
    if upper:
        return _solve(an, an.canonical.add(shifted(scaled(end, c), c - 1), number, -1), var, limits)
    return _solve(an, an.canonical.add(number, scaled(end, c), -1), var, limits)


def _solve_equation(an, form, var, limits):
    """(value, value) of `var` for form == 0; None if not solved, or not for all of the limits."""
    parts = _isolate(an, form, var)
    if parts is None or parts[1].kind != VAR or not form.vars.isdisjoint(limits):
        return None
    weight, atom, rest = parts
    low, high = linear_bound(an, weight)
    if low <= 0 <= high or floormod(an, rest, weight, atom.dtype).key != ZERO.key:
        return None
    value = scaled(floordiv(an, rest, weight, atom.dtype), -1)
    return value, value


# ---------------------------------------------------------------- regions

def estimate_region_strict_bound(region, var_dom, predicate=True):
    """[IntervalSet] per Range of `region`: just what it covers while the Vars of var_dom {Var: Range} run where
    `predicate` holds. None where that is not known to be a box."""
    if any(not set(var_dom).isdisjoint(free_vars(r.extent)) for r in region):
        return None
    found = detect_iter_map([r.min for r in region], var_dom, predicate)
    an, out = scope_of(var_dom), []
    for e, r in zip(found.indices, region):
        first, last = e.base, e.base + r.extent - 1
        for split in e.args:
            down = an.can_prove_less(split.scale, 0)
            if not an.can_prove_less_equal(-split.scale if down else split.scale, r.extent):
                return None  # it steps over elements
            reach = (split.extent - 1) * split.scale
            first, last = (first + reach, last) if down else (first, last + reach)
        out.append(IntervalSet(an.simplify(first), an.simplify(last)))
    return None if found.errors else out


def estimate_region_lower_bound(region, var_dom, predicate=True):
    """[IntervalSet] whose points are all covered (see estimate_region_strict_bound), or None."""
    return estimate_region_strict_bound(region, var_dom, predicate)


def estimate_region_upper_bound(region, var_dom, predicate=True):
    """[IntervalSet] that holds all that `region` covers; where nothing better is known, everything."""
    exact = estimate_region_strict_bound(region, var_dom, predicate)
    if exact is not None:
        return exact
    an, out = scope_of(var_dom), []
    with an.constraint_scope(*conjuncts(predicate)):
        for r in region:
            exact = estimate_region_strict_bound([r], var_dom, predicate)
            ends = [int_set(an, e, var_dom) for e in (r.min, r.min + r.extent - 1)]
            out.append(exact[0] if exact else IntervalSet(ends[0].min_value, ends[1].max_value))
    return out


def domain_touched(stmt, buffer, is_load, is_store):
    """The Ranges of `buffer` that a statement's loads (is_load) and stores (is_store) touch; [] for none."""
    an, box = Analyzer(), None
    for wanted, regions in zip((is_load, is_store), upper("access_regions")(stmt, analyzer=an)):
        for found in regions:
            if wanted and found.buffer is buffer:
                box = list(found.region) if box is None else [
                    upper("union")(a, b, extent, an) for a, b, extent in zip(box, found.region, buffer.shape)]
    return box or []
