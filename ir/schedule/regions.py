"""Boxes of buffers: what blocks touch while some loops run and the others stand still."""
from __future__ import annotations

from itertools import permutations

from ..arith import affine_domains
from ..arith.int_set import limits_of
from ..arith.linear import DoesNotFit, render, shifted
from ..arith.relax import relax
from ..arith.pattern import conjuncts
from ..expr import Add, IntImm, Range, Var, as_expr, const, is_const_int, logical_and, substitute
from ..node import collect
from ..tir.region import union
from ..tir.stmt import BlockRealize, BufferStore, For, SeqStmt
from .blocks import binding_of, is_true, only_clips, uses
from .context import is_unit, ranges_of
from .index import blocks_below


class Relaxed:
    """Intervals of expressions while `loops` (outermost first) run; `analyzer` knows the loops around them."""

    def __init__(self, analyzer, loops):
        self.an = analyzer.copy()
        ranges = ranges_of(loops)
        for var, extent in ranges.items():
            self.an.bind(var, extent, allow_override=True)
        self._limits = limits_of(self.an, ranges)

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
            if not size.terms and not low.terms and isinstance(shape_extent, IntImm):  # nothing is touched outside
                first, end = max(low.const, 0), min(low.const + size.const, shape_extent.value)
                if first < end:
                    return Range(const(first, dtype), const(end - first, dtype))
            if size.terms:
                bound = self.an.interval(extent).max_value
                if bound is not None and isinstance(shape_extent, IntImm) and bound >= shape_extent.value:
                    return whole(shape_extent)
                extent = extent if bound is None else const(bound, dtype)
            return Range(render(low, dtype), extent)
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


def touched_box(relaxed, realizes, buffer, kinds):
    """One Range per dimension that holds all that blocks touch of a buffer; None when they touch nothing.

    relaxed: one Relaxed per block, for the loops of it that run. kinds: "reads", "writes" or both.
    """
    box = None
    for around, realize in zip(relaxed, realizes):
        for kind in kinds:
            for region in regions_of(realize, buffer, kind):
                new = [around.cover(r, extent) for r, extent in zip(region, buffer.shape)]
                box = new if box is None else [union(x, y, extent, around.an)
                                               for x, y, extent in zip(box, new, buffer.shape)]
    return box


def written_box(analyzer, realize, buffer, loops):
    """The box that a block writes completely while `loops` run, as [(Range, domain or None)]; None when unknown.

    The block writes each point of the Range that also lies in the domain.
    """
    realize = _without_unit_loops(realize, loops)
    if blocks_below(realize.block.body):
        return _written_inside(analyzer, realize, buffer, loops)
    regions = regions_of(realize, buffer, "writes")
    if len(regions) != 1:
        return None
    if _is_opaque(realize.block.body) and is_true(realize.predicate):
        return _stated_box(analyzer, regions[0], loops)
    if not all(is_const_int(r.extent, 1) for r in regions[0]):
        return None
    clip = [None] * len(regions[0])
    realize = _without_idle_conditions(analyzer, realize, regions[0], loops)
    if not is_true(realize.predicate):
        domains = {iv.var: iv.dom for iv in realize.block.iter_vars}
        signature = next(r for r in realize.block.writes if r.buffer is buffer)
        clip = [_domain_of(r.min, domains) for r in signature.region]
        if not only_clips(analyzer, realize) or any(
                c is None and not is_const_int(r.min) for c, r in zip(clip, signature.region)):
            return _shared_box(analyzer, realize.predicate, regions[0], loops)
    box = affine_domains([r.min for r in regions[0]], ranges_of(loops), None, analyzer, bijective=False)
    return list(zip(box.domains, clip)) if box else None


def _shared_box(analyzer, predicate, region, loops):
    """The box that a block writes whose loops count, digit by digit, up to where a condition stops: as those of threads
    that share fewer iterations than there are threads."""
    box = affine_domains([r.min for r in region], ranges_of(loops), predicate, analyzer, bijective=False)
    return [(domain, None) for domain in box.domains] if box else None


def _is_opaque(stmt):
    """Whether calls alone write what a block writes, as in those that tensorize makes: its signature is their word."""
    return not collect(stmt, BufferStore)


def _stated_box(analyzer, region, loops):
    """The box of a region that a block writes completely while `loops` run."""
    inside = [Var(f"inside_{n}", r.min.dtype) for n, r in enumerate(region)]
    ranges = {**ranges_of(loops), **{v: whole(r.extent) for v, r in zip(inside, region)}}
    box = affine_domains([r.min + v for v, r in zip(inside, region)], ranges, None, analyzer, bijective=False)
    return [(domain, None) for domain in box.domains] if box else None


def _domain_of(index, domains):
    """The Range of an index that is an iterator, or one moved by a constant; None of others."""
    index, offset = without_offset(index)
    domain = domains.get(index)
    return domain and Range(domain.min + offset, domain.extent)


def without_offset(index):
    """(x, c) of an index x + c, c a constant; (the index, 0) of others."""
    if isinstance(index, Add) and isinstance(index.b, IntImm):
        return index.a, index.b.value
    return index, 0


def joined(analyzer, boxes, shape):
    """Written boxes (of written_box) of a buffer of a shape, those that lie side by side as one."""
    if len(boxes) == 1:
        return boxes

    def clipped(box, domain, extent):
        """As much of both as one of them says."""
        if domain is None or _inside(analyzer, box, domain):
            return box, whole(extent)
        return (domain, whole(extent)) if _inside(analyzer, domain, box) else (box, domain)

    boxes = [[clipped(*part, extent) for part, extent in zip(b, shape)] for b in boxes]
    pair = True
    while pair:
        pair = next(((a, b, both) for a, b in permutations(boxes, 2) if (both := _side_by_side(analyzer, a, b))), None)
        if pair:
            boxes = [x for x in boxes if x is not pair[0] and x is not pair[1]] + [pair[2]]
    return boxes


def _inside(analyzer, a, b):
    """Whether a Range is part of another."""
    return analyzer.can_prove(logical_and(b.min <= a.min, a.min + a.extent <= b.min + b.extent))


def _side_by_side(analyzer, a, b):
    """The box of two that are alike in all dimensions but one, in which the second follows the first; else None."""
    def follows(x, y):
        return analyzer.can_prove_equal(x.min + x.extent, y.min)

    def same(x, y):
        return analyzer.can_prove_equal(x.min, y.min) and analyzer.can_prove_equal(x.extent, y.extent)

    found = [n for n, (x, y) in enumerate(zip(a, b)) if not all(map(same, x, y))]
    if len(found) != 1:
        return None
    n, = found
    for part, other in ((0, 1), (1, 0)):  # what a nest runs over, clipped to a domain
        if same(a[n][other], b[n][other]) and follows(a[n][part], b[n][part]):
            both = list(a[n])
            both[part] = Range(a[n][part].min, a[n][part].extent + b[n][part].extent)
            return [*a[:n], tuple(both), *a[n + 1:]]
    return None


def _written_inside(analyzer, realize, buffer, loops):
    """written_box of a block that holds others: that of the only one among them which writes the buffer."""
    writers = [path for path in _paths(substitute(realize.block.body, binding_of(realize)), ())
               if any(r.buffer is buffer for r in path[-1].block.writes)]
    if len(writers) != 1:
        return None
    *inside, writer = writers[0]
    writer = writer.replace(predicate=logical_and(realize.predicate, writer.predicate))
    return written_box(analyzer, writer, buffer, [*loops, *inside])


def _paths(stmt, above):
    """(loops ..., block) for each outermost block under a statement of loops and sequences; none for others."""
    if isinstance(stmt, BlockRealize):
        yield (*above, stmt)
    elif isinstance(stmt, For):
        yield from _paths(stmt.body, (*above, stmt))
    elif isinstance(stmt, SeqStmt):
        for s in stmt.seq:
            yield from _paths(s, above)


def _without_unit_loops(realize, loops):
    """The block bound to the only values of loops that run once: its conditions need not name these."""
    only = {loop.loop_var: loop.min for loop in loops if is_unit(loop)}
    return realize.replace(iter_values=substitute(realize.iter_values, only),
                           predicate=substitute(realize.predicate, only)) if only else realize


def _without_idle_conditions(analyzer, realize, region, loops):
    """The block without the conditions on loops that do not choose where it writes (those of a reduction), when these
    hold in the first iteration of such loops: then they keep no point from being written."""
    idle = {loop.loop_var: loop.min for loop in loops if not uses(tuple(r.min for r in region), {loop.loop_var})}
    conditions = [c for c in conjuncts(realize.predicate) if uses(c, idle.keys())]
    if not conditions:
        return realize
    inside = analyzer.copy()
    for var, extent in ranges_of(loops).items():
        inside.bind(var, extent, allow_override=True)
    if not all(inside.can_prove(substitute(c, idle)) for c in conditions):
        return realize
    left = const(True)
    for condition in conjuncts(realize.predicate):
        left = left if any(condition is c for c in conditions) else logical_and(left, condition)
    return realize.replace(predicate=left)


def holds(analyzer, written, needed, shape):
    """Whether a written box (of written_box) provably holds the part of a needed box that lies in the buffer."""
    at_most = analyzer.can_prove_less_equal
    for (box, domain), need, extent in zip(written, needed, shape):
        end, size = need.min + need.extent, as_expr(extent)
        for part in (box,) if domain is None else (box, domain):
            part_end = part.min + part.extent
            if not (at_most(part.min, need.min) or at_most(part.min, 0)):
                return False
            if not (at_most(end, part_end) or at_most(size, part_end)):
                return False
    return True
