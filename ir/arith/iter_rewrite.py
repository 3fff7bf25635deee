"""Rewrites of iteration maps: plain and sorted forms, division by an inner space, inversion."""
from __future__ import annotations

import functools

from ..expr import LT, IntImm, PrimExpr, as_expr, const, free_vars, is_const_int, logical_and, substitute
from ..node import Mutator, children
from .analyzer import Analyzer
from .floor_rules import floordiv
from .int_set import eval_range, scope_of
from .iter_affine_map import IterMapLevel, IterMark, IterSplitExpr, IterSumExpr, Marks, detect_iter_map
from .iter_map import ANY, Detector, Fragment, NotAffine
from .linear import DIV, VAR, ZERO, Linear, combine, factors, render, shifted, single_atom
from .pattern import conjuncts


def normalize_iter_map_to_expr(e):
    """The plain expression of an IterSumExpr or IterSplitExpr, or of what holds some."""
    done = _Plain().visit(e)
    return Analyzer().rewrite_simplify(done) if isinstance(done, PrimExpr) else done


class _Plain(Mutator):
    def visit_IterSumExpr(self, e):
        return sum((self.visit(split) for split in e.args), start=const(0, e.dtype)) + e.base

    def visit_IterSplitExpr(self, e):
        value, reach = self.visit(e.source.source), e.lower_factor * e.extent
        if not Analyzer().can_prove_less_equal(e.source.extent, reach):
            value = value % reach
        return value // e.lower_factor * e.scale


def normalize_to_iter_sum(index, input_iters):
    """`index` over the loops {Var: Range} as an IterSumExpr of splits, the largest scale first, none fused.

    A part that is not a split of a loop is part of the base; a quotient of a loop is a split, also where the divisor
    does not divide the extent.
    """
    index = as_expr(index)
    detector = Detector([index], input_iters, None, None, ANY)
    detector.start()
    canonical, found = detector.an.canonical, []
    base, scales = _moved(detector, canonical.linear(detector.values[0]))
    for atom, scale in scales.items():
        try:
            fragment, offset = _quotient(detector, atom) or detector.fragment(atom)
        except NotAffine:
            fragment, offset = None, canonical.opaque_atom(atom.expr)
        base = canonical.add(base, canonical.multiply(scale, offset))
        if fragment is not None:
            found.append((fragment, scale))
    pieces, marks = sorted(detector.whole(found), key=lambda piece: _weight(piece[1]), reverse=True), Marks(detector)
    base = substitute(render(base, index.dtype), {s: v - render(detector.made[s][0], v.dtype)
                                                  for s, v in detector.loop_of.items()})
    return IterSumExpr([marks.split(*piece) for piece in pieces], Analyzer().simplify(base))


def _moved(detector, form):
    """Detector.scales, but that products of loops are part of the base."""
    products = {t: k for t, k in form.terms.items()
                if sum(not f.vars.isdisjoint(detector.extents) for f in factors(t)) > 1}
    rest = Linear({t: k for t, k in form.terms.items() if t not in products}, form.const)
    base, scales = detector.scales(rest)
    return combine(base, Linear(products, 0)), scales


def _quotient(detector, atom):
    """(fragment, 0) for source // c of a source alone, rounded up where c does not divide its extent; else None."""
    inner = single_atom(atom.parts[0]) if atom.kind == DIV else None
    if inner is None or inner.kind != VAR or atom.parts[1].terms or atom.parts[1].const <= 0:
        return None
    extent, c = detector.extents[inner.expr], atom.parts[1]
    return Fragment(inner.expr, c, floordiv(detector.an, shifted(extent, c.const - 1), c, atom.dtype)), ZERO


def _weight(scale):
    """What orders the terms of a sum: how many symbolic factors the scale has, then how large it is."""
    k, = scale.terms.values() if len(scale.terms) == 1 else (scale.const,)
    return max((len(factors(a)) for a in scale.terms), default=0), k


def iter_map_simplify(indices, input_iters, predicate=True, check_level=IterMapLevel.Surjective,
                      simplify_trivial_iterators=True):
    """The indices simplified as splits of the loops; where they are no such splits, by the loops' ranges alone."""
    found = detect_iter_map(indices, input_iters, predicate, check_level, simplify_trivial_iterators)
    an = _scope(input_iters, simplify_trivial_iterators)
    if found.errors:
        with an.constraint_scope(*conjuncts(predicate)):
            return [_short(an, as_expr(e)) for e in indices]
    return [an.simplify(normalize_iter_map_to_expr(e)) for e in found.indices]


def _short(an, e):
    """`e` simplified where that makes it shorter."""
    done = an.simplify(e)
    return done if _length(done) < _length(e) else e


def _length(e):
    return 1 + sum(_length(part) for part in children(e) if isinstance(part, PrimExpr))


def _scope(loops, simplify_trivial_iterators):
    """An analyzer that knows the loops; to simplify_trivial_iterators, what it simplifies has no loop of one
    iteration, and otherwise it keeps these."""
    return scope_of(loops if simplify_trivial_iterators else {
        v: r for v, r in loops.items() if not is_const_int(as_expr(r.extent), 1)})


# ---------------------------------------------------------------- inversion

def inverse_affine_iter_map(iter_map, outputs):
    """{loop Var: expression of `outputs`} for IterSumExprs of a bijective map whose values `outputs` are.

    Raises ValueError when the counts differ or a mark does not count a variable or a sum.
    """
    if len(iter_map) != len(outputs):
        raise ValueError(f"{len(iter_map)} indices cannot take the values of {len(outputs)} outputs")
    parts, found, an = {}, {}, Analyzer()
    for e, output in zip(iter_map, outputs):
        _spread(e, as_expr(output), parts)
    for mark in _outer_first(iter_map):
        value = const(0, mark.source.dtype)
        for lower, part in parts[mark]:
            value = value + part * lower
        if isinstance(mark.source, IterSumExpr):
            _spread(mark.source, value, parts)
            continue
        variables = free_vars(mark.source)
        if len(variables) != 1 or not an.can_prove_equal(mark.source - variables[0], substitute(
                mark.source, {variables[0]: const(0, variables[0].dtype)})):
            raise ValueError(f"the mark of {mark.source} does not count one variable")
        found[variables[0]] = an.simplify(value + (variables[0] - mark.source))
    return found


def _spread(e, value, parts):
    """Note what the value of a sum says of each of its splits."""
    e = e if isinstance(e, IterSumExpr) else IterSumExpr((e,), const(0, e.dtype))
    value = value - e.base
    for at, split in enumerate(e.args):
        part = value // split.scale
        if at:
            part = part % split.extent
        parts.setdefault(split.source, []).append((split.lower_factor, part))


def _outer_first(iter_map):
    """The marks under the sums, each after all sums that use it."""
    done = {}

    def visit(e):
        for split in e.args if isinstance(e, IterSumExpr) else (e,) if isinstance(e, IterSplitExpr) else ():
            if split.source not in done:
                visit(split.source.source)
                done[split.source] = None
    for e in iter_map:
        visit(e)
    return list(reversed(done))


# ---------------------------------------------------------------- division by an inner space

def subspace_divide(bindings, input_iters, sub_iters, predicate=True, check_level=IterMapLevel.Surjective,
                    simplify_trivial_iterators=True):
    """[[outer, inner], ...] as IterMarks with binding = outer * inner.extent + inner, where `inner` is over sub_iters
    alone and `outer` over the other loops; last the pair of marks whose extents are their predicates. What a binding
    is where all loops begin is part of `inner`. Empty where that is not possible.
    """
    wanted = set(sub_iters)
    inner = {v: r for v, r in input_iters.items() if v in wanted}
    outer = {v: r for v, r in input_iters.items() if v not in wanted}
    divide = _Division(_scope(input_iters, simplify_trivial_iterators), inner, outer, predicate)
    pairs = [divide(as_expr(b)) for b in bindings]
    sides = divide.conditions(predicate)
    if sides is None or None in pairs:
        return []
    columns = []
    for at, loops in enumerate((outer, inner)):
        found = detect_iter_map([p[at] for p in pairs], loops, sides[at], check_level, simplify_trivial_iterators)
        if found.errors:
            return []
        columns.append([IterMark(e, e.args[0].extent if e.args else const(1, e.dtype)) for e in found.indices])
    inner_marks = [divide.as_divided(mark, *pair) for mark, pair in zip(columns[1], pairs)]
    none = IterSumExpr((), const(0))
    return [list(pair) for pair in zip([*columns[0], IterMark(none, sides[0])], [*inner_marks, IterMark(none, sides[1])])]


class _Division:
    """Expressions over two groups of loops as outer * extent + inner."""

    def __init__(self, an, inner, outer, predicate):
        self.an, self.inner, self.outer = an, inner, outer
        self.within = [c for c in conjuncts(predicate) if self._only(c, inner)]
        self.first = {v: r.min for v, r in inner.items()}
        self.begin = self.first | {v: r.min for v, r in outer.items()}

    def base(self, e):
        """The value of `e` where all loops begin."""
        return self.an.simplify(substitute(e, self.begin))

    def __call__(self, e):
        """(outer, inner, extent of inner), or None."""
        base = self.base(e)
        start = self.an.simplify(substitute(e, self.first) - base)
        part = self.an.simplify(e - start - base)
        extent = self._extent(part) if self._only(part, self.inner) else None
        if extent is None:
            return None
        number = self.an.simplify(start // extent)
        if self.an.can_prove_equal(number * extent, start):
            return number, self.an.simplify(part + base), extent
        return None if set(free_vars(start)) & set(self.outer) else (const(0, e.dtype), part + start + base, extent)

    def as_divided(self, mark, number, _, extent):
        """The mark of an inner part that was divided with `extent`: it has that extent, also where it has fewer values,
        unless nothing is outer."""
        alone = is_const_int(number, 0) or self.an.can_prove_equal(mark.extent, extent)
        return mark if alone else IterMark(mark.source, extent)

    def _extent(self, part):
        """What `part`, which begins with 0 and is of inner loops alone, stays below where their conditions hold; None
        where that is not known."""
        predicate = functools.reduce(logical_and, self.within, const(True))
        for found in detect_iter_map([part], self.inner, predicate, IterMapLevel.NoCheck).indices:
            if self.an.can_prove_equal(found.base, 0) and all(self.an.can_prove(s.scale > 0) for s in found.args):
                reach = sum((s.extent - 1) * s.scale for s in found.args)  # of one split, or none
                return self.an.simplify(as_expr(reach, part.dtype) + 1)
        ends = eval_range(part, self.inner, self.an)
        return self.an.simplify(ends[1] + 1) if ends is not None and self.an.can_prove_equal(ends[0], 0) else None

    def _only(self, e, loops):
        others = self.outer if loops is self.inner else self.inner
        return set(others).isdisjoint(free_vars(e))

    def conditions(self, predicate):
        """(condition on the outer loops, on the inner loops) that together are the predicate, or None."""
        sides = [const(True), const(True)]
        for condition in conjuncts(predicate):
            if self.an.can_prove(condition):
                continue
            if not self._only(condition, self.outer) and not self._only(condition, self.inner):
                condition = self._coarser(condition)
                if condition is None:
                    return None
            at = 0 if self._only(condition, self.outer) else 1
            sides[at] = logical_and(sides[at], condition)
        return sides

    def _coarser(self, condition):
        """outer * extent + inner < limit as outer < limit / extent, where extent divides the limit."""
        if not isinstance(condition, LT):
            return None
        found, limit = self(condition.a), condition.b - self.base(condition.a)
        if found is None or not self.an.can_prove_equal(limit % found[2], 0):
            return None
        return found[0] < self.an.simplify(limit // found[2])
