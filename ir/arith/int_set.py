"""Integer sets: the interval an expression covers while some variables run over their ranges."""
from __future__ import annotations

from ..dtype import ScalableLanes
from ..expr import Call, IntImm, Range, Var, as_expr, const, match_dtype, substitute
from ..node import Mutator, Node, node
from ..upper import provides
from .analyzer import Analyzer
from .canonical import INDEX_TYPES
from .const_int_bound import INF, linear_bound
from .linear import MAX, MIN, DoesNotFit, render, shifted
from .relax import relax
from .simplify import same

POS_INF, NEG_INF = Var("pos_inf", "handle"), Var("neg_inf", "handle")


class IntSet(Node):
    """A set of integers; IntervalSet is the one kind."""

    __slots__ = ()

    @staticmethod
    def vector(e):
        """The least interval known to hold every lane of a vector (a scalar: its only value)."""
        return vector(e)

    @staticmethod
    def single_point(e):
        """The set of one value."""
        return single_point(e)


@node
class IntervalSet(IntSet):
    """[min_value, max_value], both inclusive and either POS_INF or NEG_INF; empty when min_value is POS_INF."""

    min_value: object
    max_value: object

    def __post_init__(self):
        object.__setattr__(self, "min_value", as_expr(self.min_value))
        object.__setattr__(self, "max_value", as_expr(self.max_value))

    @staticmethod
    def everything():
        return IntervalSet(NEG_INF, POS_INF)

    @staticmethod
    def nothing():
        return IntervalSet(POS_INF, NEG_INF)

    @staticmethod
    def from_range(r):
        """The values of a half-open Range."""
        return IntervalSet(r.min, Analyzer().simplify(r.min + r.extent - 1))

    def has_lower_bound(self):
        return self.min_value is not NEG_INF and not self.is_nothing()

    def has_upper_bound(self):
        return self.max_value is not POS_INF and not self.is_nothing()

    def is_nothing(self):
        return self.min_value is POS_INF or self.max_value is NEG_INF

    def is_everything(self):
        return self.min_value is NEG_INF and self.max_value is POS_INF

    def is_single_point(self):
        """Whether both ends are the same expression."""
        return self.has_lower_bound() and same(self.min_value, self.max_value)

    is_point = is_single_point

    def can_prove_single_point(self, analyzer=None):
        return self.has_lower_bound() and self.has_upper_bound() and (
            (analyzer or Analyzer()).can_prove_equal(self.min_value, self.max_value))

    def can_prove_positive(self, analyzer=None):
        return self._proves(self.has_lower_bound(), 1, self.min_value, analyzer)

    def can_prove_non_negative(self, analyzer=None):
        return self._proves(self.has_lower_bound(), 0, self.min_value, analyzer)

    def can_prove_negative(self, analyzer=None):
        return self._proves(self.has_upper_bound(), self.max_value, -1, analyzer)

    def can_prove_non_positive(self, analyzer=None):
        return self._proves(self.has_upper_bound(), self.max_value, 0, analyzer)

    @staticmethod
    def _proves(bounded, low, high, analyzer):
        return bounded and (analyzer or Analyzer()).can_prove_less_equal(low, high)

    def union_set(self, other, analyzer=None):
        """The least interval that holds both."""
        if self.is_nothing() or other.is_nothing():
            return other if self.is_nothing() else self
        return IntervalSet(_extreme(MIN, NEG_INF, self.min_value, other.min_value, analyzer),
                           _extreme(MAX, POS_INF, self.max_value, other.max_value, analyzer))

    def meets(self, other, analyzer=None):
        """Whether the other surely begins at most one after the end of this one."""
        an = analyzer or Analyzer()
        return not (self.has_upper_bound() and other.has_lower_bound()) or an.can_prove_less_equal(
            other.min_value, self.max_value + 1)

    def intersect(self, other, analyzer=None):
        """The values in both; nothing when they provably do not meet."""
        if self.is_nothing() or other.is_nothing():
            return IntervalSet.nothing()
        an = (analyzer or Analyzer())
        low = _extreme(MAX, NEG_INF, self.min_value, other.min_value, an)
        high = _extreme(MIN, POS_INF, self.max_value, other.max_value, an)
        if low is not NEG_INF and high is not POS_INF and an.can_prove_less(high, low):
            return IntervalSet.nothing()
        return IntervalSet(low, high)


def _extreme(kind, infinite, a, b, analyzer):
    """The least (MIN) or greatest of two ends. `infinite` stands for no end: it wins a union, loses an intersection."""
    if a is infinite or b is infinite:
        widest = (kind == MIN) == (infinite is NEG_INF)
        return infinite if widest else b if a is infinite else a
    an = (analyzer or Analyzer())
    a, b = match_dtype(a, b)
    return render(an.canonical.choice(kind, (an.canonical.linear(a), an.canonical.linear(b)), a.dtype), a.dtype)


def pos_inf():
    """The end of an interval without an upper bound."""
    return POS_INF


def neg_inf():
    """The end of an interval without a lower bound."""
    return NEG_INF


def interval(min_value, max_value):
    """The set of min_value .. max_value, both inclusive."""
    return IntervalSet(min_value, max_value)


def single_point(e):
    """The set of one value."""
    e = as_expr(e)
    return IntervalSet(e, e)


def vector(e):
    """The least interval known to hold every lane of a vector; of a scalar its only value."""
    lane, ranges = scalar_lane(as_expr(e))
    return int_set(Analyzer(), lane, {v: r if isinstance(r.extent, IntImm) else IntervalSet(r.min, POS_INF)
                                      for v, r in ranges.items()})


@provides("scalar_lane")
def scalar_lane(e):
    """(a lane of a vector as a scalar of lane numbers, {lane number: Range})."""
    lanes = {}
    return _Lanes(lanes).visit(e), lanes


def union_lower_bound(sets):
    """An interval all of whose values are in one of the IntervalSets; the first of them that is joined by others where
    they touch or overlap."""
    an, found = Analyzer(), IntervalSet.nothing()
    for s in sets:
        if found.is_nothing() or not s.is_nothing() and found.meets(s, an) and s.meets(found, an):
            found = found.union_set(s, an)
    return found


class _Lanes(Mutator):
    """A vector's lane as a scalar of a lane number, which `ranges` then holds with its Range."""

    def __init__(self, ranges):
        self.ranges = ranges

    def visit_Ramp(self, e):
        dtype, scalable = e.base.dtype, isinstance(e.lanes, ScalableLanes)
        count = Call(dtype, "tir.vscale", ()) * e.lanes.factor if scalable else const(e.lanes, dtype)
        lane = next((v for v, r in self.ranges.items() if same(r.extent, count)), None)
        if lane is None:
            lane = Var("lane", dtype)
            self.ranges[lane] = Range(const(0, dtype), count)
        return e.base + lane * e.stride

    def visit_Broadcast(self, e):
        return self.visit(e.value)

    def visit_Cast(self, e):
        return e.replace(dtype=e.dtype.element, value=self.visit(e.value))

    def visit_Call(self, e):
        return e.replace(dtype=e.dtype.element, args=self.visit(e.args))


@provides("int_set")
def int_set(an, e, dom_map=None):
    """The IntervalSet of `e` while the Vars of dom_map (Var -> Range or IntervalSet) run; None: all that are bound."""
    if dom_map is None:
        limits = {v: an.limits[v] for v, r in an.given.items() if isinstance(r, Range)}
    else:
        an, limits = an.copy(), {}
        for v, dom in dom_map.items():
            e = state_domain(an, v, dom, limits, e)
    if e.dtype not in INDEX_TYPES:
        return IntervalSet.everything()
    least, greatest = _ends(an, e, limits)
    return IntervalSet(NEG_INF if least is None else least, POS_INF if greatest is None else greatest)


def state_domain(an, v, dom, limits, e):
    """Let `an` and `limits` know that `v` lies in a Range or IntervalSet; returns `e` in terms of it.

    Where an end is not known and something was known of `v`, another variable stands for it.
    """
    if isinstance(dom, IntervalSet) and dom.has_lower_bound() and dom.has_upper_bound():
        dom = range_of(dom.min_value, dom.max_value, an)
    if isinstance(dom, Range):
        an.bind(v, dom, allow_override=True)
        limits[v] = an.limits[v]
        return e
    if dom.is_nothing():
        raise ValueError(f"the domain of {v.name} is empty, so no value of the expression exists")
    free = v.renewed() if v in an.given or v in an.var_bounds else v
    ends = [an.canonical.linear(end) if known else None for end, known in (
        (dom.min_value, dom.has_lower_bound()), (dom.max_value, dom.has_upper_bound()))]
    low = linear_bound(an, ends[0])[0] if ends[0] else -INF
    high = linear_bound(an, ends[1])[1] if ends[1] else INF
    an.var_bounds[free], limits[free] = (low, high), tuple(ends)
    return substitute(e, {v: free})


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
    ends = _ends(an, e, limits_of(an, ranges))
    return None if any(end is None for end in ends) else ends


def _ends(an, e, limits):
    """(least, greatest) of `e` over the limits; None for a side that is not known."""
    form = an.canonical.linear(e)
    if form.vars.isdisjoint(limits):
        out = an.simplify(e)
        return out, out
    return tuple(_rendered(relax(an, form, upper, limits), e.dtype) for upper in (False, True))


def _rendered(form, dtype):
    try:
        return None if form is None else render(form, dtype)
    except DoesNotFit:
        return None


def scope_of(ranges, analyzer=None):
    """An analyzer that knows what `analyzer` knows and the given ranges: `analyzer` itself when it knew them."""
    if analyzer is not None and all(analyzer.has_bound(v, r) for v, r in ranges.items()):
        return analyzer
    an = Analyzer() if analyzer is None else analyzer.copy()
    for var, extent in ranges.items():
        an.bind(var, extent, allow_override=True)
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
