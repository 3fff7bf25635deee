"""Boxes of buffers: what blocks touch while some loops run and the others stand still."""
from __future__ import annotations

from ..arith.int_set import limits_of
from ..arith.linear import DoesNotFit, render, shifted
from ..arith.relax import relax
from ..expr import And, PrimExpr, Range, as_expr, const, substitute
from ..node import structural_equal
from ..tir.region import union
from .context import binding_of, is_true
from .digits import Digits


class Relaxed:
    """Intervals of expressions while `loops` run; the analyzer knows the loops around them.

    Requires the loops outermost first. The analyzer is copied, once.
    """

    def __init__(self, analyzer, loops):
        self.an = analyzer.copy()
        self.ranges = {loop.loop_var: Range(loop.min, loop.extent) for loop in loops}
        for var, extent in self.ranges.items():
            self.an.bind(var, extent)
        self._limits = limits_of(self.an, self.ranges)

    def cover(self, region, shape_extent):
        """A Range that holds `region` in every iteration; the whole [0, shape_extent) when none is known.

        Its extent is an immediate where a bound is known, so that loops over it have constant counts.
        """
        linear, dtype = self.an.canonical.linear, region.min.dtype
        low = relax(self.an, linear(region.min), False, self._limits)
        end = self.an.canonical.add(linear(region.min), linear(as_expr(region.extent, dtype)))
        high = relax(self.an, shifted(end, -1), True, self._limits)
        if low is None or high is None:
            return whole(shape_extent)
        size = shifted(self.an.canonical.add(high, low, -1), 1)
        try:
            extent = render(size, dtype)
            bound = self.an.const_int_bound(extent).max_value
            if bound is not None and hasattr(shape_extent, "value") and bound >= shape_extent.value and size.terms:
                return whole(shape_extent)
            return Range(render(low, dtype), extent if bound is None else const(bound, dtype))
        except DoesNotFit:
            return whole(shape_extent)


def whole(extent):
    """[0, extent)."""
    extent = as_expr(extent)
    return Range(const(0, extent.dtype), extent)


def regions_of(realize, buffer, kind):
    """The regions of a block's signature ("reads" or "writes") that lie in `buffer`, its bindings substituted."""
    binding = binding_of(realize)
    return [[Range(substitute(r.min, binding), substitute(r.extent, binding)) for r in region.region]
            for region in getattr(realize.block, kind) if region.buffer is buffer]


def touched_box(relaxed, realize, buffer, kinds=("reads",)):
    """One Range per dimension that holds all that a block touches while the loops run; None when it touches nothing."""
    box = None
    for kind in kinds:
        for region in regions_of(realize, buffer, kind):
            new = [relaxed.cover(r, extent) for r, extent in zip(region, buffer.shape)]
            box = new if box is None else union_box(box, new, buffer, relaxed.an)
    return box


def union_box(a, b, buffer, analyzer):
    """A box that holds both."""
    if a is None or b is None:
        return a or b
    return [union(x, y, extent, analyzer) for x, y, extent in zip(a, b, buffer.shape)]


def written_box(analyzer, realize, buffer, loops):
    """The box that a block writes completely while `loops` run, as [(Range, domain or None)]; None when unknown.

    The block writes each point of the Range that also lies in the domain.
    """
    regions = regions_of(realize, buffer, "writes")
    if len(regions) != 1:
        return None
    signature = next(r for r in realize.block.writes if r.buffer is buffer)
    domains = {iv.var: iv.dom for iv in realize.block.iter_vars}
    clip = [domains.get(r.min) if isinstance(r.min, PrimExpr) else None for r in signature.region]
    if not is_true(realize.predicate) and (None in clip or not only_clips(analyzer, realize)):
        return None
    digits = Digits(analyzer, {loop.loop_var: Range(loop.min, loop.extent) for loop in loops})
    box = digits.dense_box([r.min for r in regions[0]])
    if box is None:
        return None
    extents = [as_expr(r.extent) for r in regions[0]]
    if any(getattr(e, "value", None) != 1 for e in extents):
        return None
    return list(zip(box, clip if not is_true(realize.predicate) else [None] * len(clip)))


def only_clips(analyzer, realize):
    """Whether each condition of the predicate only says that an iteration variable stays in its domain."""
    bounds = []
    for iv, value in zip(realize.block.iter_vars, realize.iter_values):
        bounds.append(analyzer.simplify(value < iv.dom.min + iv.dom.extent))
        bounds.append(analyzer.simplify(value >= iv.dom.min))
    return all(any(structural_equal(analyzer.simplify(c), b) for b in bounds) for c in conjuncts(realize.predicate))


def conjuncts(condition):
    """The conditions that `condition` is the And of; none for true."""
    if isinstance(condition, And):
        return conjuncts(condition.a) + conjuncts(condition.b)
    return [] if is_true(condition) else [condition]


def holds(analyzer, written, needed, shape):
    """Whether a written box (of written_box) provably holds the part of a needed box that lies in the buffer."""
    at_most = analyzer.can_prove_less_equal
    for (box, domain), need, extent in zip(written, needed, shape):
        end, size = need.min + need.extent, as_expr(extent)
        for part in (box,) if domain is None else (box, domain):
            if not (at_most(part.min, need.min) or at_most(part.min, 0)):
                return False
            part_end = part.min + part.extent
            if not (at_most(end, part_end) or at_most(size, part_end)):
                return False
    return True
