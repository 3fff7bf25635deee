"""Integer sets: the interval an expression covers while some variables run over their ranges."""
from __future__ import annotations

from ..dtype import DataType
from ..expr import Range, as_expr
from .analyzer import Analyzer
from .canonical import INDEX_TYPES
from .linear import MAX, MIN, DoesNotFit, render, shifted
from .relax import relax


def eval_range(e, ranges, analyzer=None):
    """(least, greatest) value of `e`, both inclusive, while the Vars of `ranges` (Var -> Range) run over them.

    Other variables stay symbolic. The bounds are exact for linear expressions and for splits such as
    i * 4 + j with j in [0, 4); otherwise they enclose. None when a side has no known bound, or
    `e` is not of an index type (int32, int64).
    """
    e = as_expr(e)
    if e.dtype not in INDEX_TYPES:
        return None
    an = scope_of(ranges, analyzer)
    form = an.canonical.linear(e)
    if form.vars.isdisjoint(ranges):
        out = an.simplify(e)
        return out, out
    limits = limits_of(an, ranges)
    ends = [relax(an, form, upper, limits) for upper in (False, True)]
    if ends[0] is None or ends[1] is None:
        return None
    try:
        return render(ends[0], e.dtype), render(ends[1], e.dtype)
    except DoesNotFit:
        return None


def scope_of(ranges, analyzer=None):
    """An analyzer that knows what `analyzer` knows and the given ranges: `analyzer` itself when it knew them."""
    if analyzer is not None and all(analyzer.has_bound(v, r) for v, r in ranges.items()):
        return analyzer
    an = Analyzer() if analyzer is None else analyzer.copy()
    for var, extent in ranges.items():
        an.bind(var, extent)
    return an


def limits_of(an, ranges):
    """{Var: (least, greatest)} as Linears; `an` knows the ranges, as scope_of's does."""
    return {v: an.limits[v] if v in an.limits else _limits(an, v, r) for v, r in ranges.items()}


def _limits(an, v, r):
    least = an.canonical.linear(as_expr(r.min, v.dtype))
    return least, an.canonical.add(least, shifted(an.canonical.linear(as_expr(r.extent, v.dtype)), -1))


def union_ranges(a, b, analyzer=None):
    """The least Range that holds both Ranges."""
    an = analyzer or Analyzer()
    dtype = a.min.dtype
    linear = an.canonical.linear
    least = an.canonical.choice(MIN, (linear(a.min), linear(b.min)), dtype)
    ends = [an.canonical.add(linear(r.min), linear(r.extent)) for r in (a, b)]
    end = an.canonical.choice(MAX, ends, dtype)
    return Range(render(least, dtype), render(an.canonical.add(end, least, -1), dtype))


def range_of(least, greatest, analyzer=None):
    """The Range of the inclusive interval [least, greatest]."""
    an = analyzer or Analyzer()
    form = an.canonical.add(an.canonical.linear(greatest), an.canonical.linear(least), -1)
    return Range(an.simplify(least), render(shifted(form, 1), least.dtype))


def covers(outer, inner, analyzer=None):
    """Whether Range `outer` provably holds Range `inner`."""
    an = analyzer or Analyzer()
    linear = an.canonical.linear
    if not an.can_prove_less_equal(outer.min, inner.min):
        return False
    gap = an.canonical.add(an.canonical.add(linear(outer.min), linear(outer.extent)),
                           an.canonical.add(linear(inner.min), linear(inner.extent)), -1)
    return an.nonnegative(gap)


def single_point(e, dtype=None):
    """The Range that holds `e` alone."""
    e = as_expr(e, dtype)
    return Range(e, as_expr(1, DataType(e.dtype)))
