"""Rewrites of iteration maps: plain and sorted forms, division by an inner space, inversion."""
from __future__ import annotations

from ..expr import LT, IntImm, PrimExpr, as_expr, const, free_vars, logical_and, substitute
from ..node import Mutator
from .analyzer import Analyzer
from .const_int_bound import INF, linear_bound
from .int_set import eval_range, scope_of
from .iter_affine_map import IterMapLevel, IterMark, IterSplitExpr, IterSumExpr, Marks, detect_iter_map
from .iter_map import ANY, Detector, NotAffine
from .linear import Linear, render
from .pattern import conjuncts


def normalize_iter_map_to_expr(e):
    """The plain expression of an IterSumExpr or IterSplitExpr, or of what holds some."""
    done = _Plain().visit(e)
    return Analyzer().rewrite_simplify(done) if isinstance(done, PrimExpr) else done


class _Plain(Mutator):
    def visit_IterSumExpr(self, e):
        total = e.base
        for split in e.args:
            total = total + self.visit(split)
        return total

    def visit_IterSplitExpr(self, e):
        value, reach = self.visit(e.source.source), e.lower_factor * e.extent
        if not Analyzer().can_prove_equal(e.source.extent, reach):
            value = value % reach
        return value // e.lower_factor * e.scale


def normalize_to_iter_sum(index, input_iters):
    """`index` over the loops {Var: Range} as an IterSumExpr of splits, the largest scale first, none fused.

    A part that is not a split of a loop stands as a mark of its own, counted from its least value; ValueError where
    it has no bounds.
    """
    index = as_expr(index)
    detector = Detector([index], input_iters, None, None, ANY)
    detector.start()
    an, marks, splits, base = detector.an, Marks(detector), [], {}
    form = an.canonical.linear(detector.values[0])
    offset, dtype = form.const, index.dtype
    for atom, k in form.terms.items():
        term = Linear({atom: k}, 0)
        if not any(v in atom.vars for v in detector.extents):
            base[atom] = k
            continue
        try:
            _, ((fragment, scale),) = detector.pieces(term)
            splits.append(marks.split(fragment, scale))
        except NotAffine:
            low, high = linear_bound(an, Linear({atom: 1}, 0))
            if not -INF < low <= high < INF:
                raise ValueError(f"{atom.expr} is neither a split of a loop nor bounded") from None
            value = substitute(atom.expr, {s: v - render(detector.made[s][0], v.dtype)
                                           for s, v in detector.loop_of.items()})
            mark = IterMark(an.simplify(value - low), const(high - low + 1, dtype))
            splits.append(IterSplitExpr(mark, scale=const(k, dtype)))
            offset += k * low
    splits.sort(key=lambda s: -s.scale.value if isinstance(s.scale, IntImm) else -INF)
    return IterSumExpr(splits, render(Linear(base, offset), dtype))


def iter_map_simplify(indices, input_iters, predicate=True, check_level=IterMapLevel.Surjective,
                      simplify_trivial_iterators=True):
    """The indices simplified as splits of the loops; where they are no such splits, by the loops' ranges alone."""
    found = detect_iter_map(indices, input_iters, predicate, check_level, simplify_trivial_iterators)
    an = scope_of(input_iters)
    if found.errors:
        with an.constraint_scope(*conjuncts(predicate)):
            return [an.simplify(as_expr(e)) for e in indices]
    return [an.simplify(normalize_iter_map_to_expr(e)) for e in found.indices]


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
    alone and `outer` over the other loops; last the pair of marks whose extents are their predicates.

    Empty where that is not possible.
    """
    wanted = set(sub_iters)
    inner = {v: r for v, r in input_iters.items() if v in wanted}
    outer = {v: r for v, r in input_iters.items() if v not in wanted}
    an = scope_of(input_iters)
    divide = _Division(an, inner, outer)
    pairs = [divide(as_expr(b)) for b in bindings]
    sides = divide.conditions(predicate)
    if sides is None or None in pairs:
        return []
    columns = []
    for at, loops in enumerate((outer, inner)):
        found = detect_iter_map([p[at] for p in pairs], loops, sides[at], check_level, simplify_trivial_iterators)
        if found.errors:
            return []
        none = IterSumExpr((), const(0))
        columns.append([IterMark(e, e.args[0].extent if e.args else const(1, e.dtype)) for e in found.indices]
                       + [IterMark(none, sides[at])])
    return [list(pair) for pair in zip(*columns)]


class _Division:
    """Expressions over two groups of loops as outer * extent + inner."""

    def __init__(self, an, inner, outer):
        self.an, self.inner, self.outer = an, inner, outer
        self.first = {v: r.min for v, r in inner.items()}

    def __call__(self, e):
        """(outer, inner, extent of inner), or None."""
        start = self.an.simplify(substitute(e, self.first))
        part = self.an.simplify(e - start)
        ends = eval_range(part, self.inner, self.an) if self._only(part, self.inner) else None
        if ends is None or not self.an.can_prove_equal(ends[0], 0):
            return None
        extent = self.an.simplify(ends[1] + 1)
        number = self.an.simplify(start // extent)
        if self.an.can_prove_equal(number * extent, start):
            return number, part, extent
        return None if set(free_vars(start)) & set(self.outer) else (const(0, e.dtype), part + start, extent)

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
        found = self(condition.a)
        if found is None or not self.an.can_prove_equal(condition.b % found[2], 0):
            return None
        return found[0] < self.an.simplify(condition.b // found[2])
