"""Iteration maps: whether the values a block binds its iterators to are a split and fuse of its loops.

Each loop is a mixed-radix number whose digits are *fragments*, mod(floor(source / lower), extent). A map is affine
here when every iterator is a sum of fragments with scales 1, e0, e0 * e1, ... (so it covers an interval), no fragment
is used twice, and, for a bijection, none is left over. Sums that are divided or cut by the predicate become sources
of their own. What the detector cannot see through it rejects: True is a proof, False is not.
"""
from __future__ import annotations

from dataclasses import dataclass

from ..expr import And, GE, GT, IntImm, LE, LT, Call, Range, Var, as_expr, const, substitute
from . import floor_rules
from .canonical import INDEX_TYPES
from .int_set import scope_of
from .linear import DIV, MIN, MOD, ONE, VAR, ZERO, Linear, combine, constant, factors, render, shifted

MOST_SOURCES = 32


@dataclass(frozen=True)
class IterMap:
    """The answer of detect_iter_map: true when the map was understood, else `reason` says what stood in the way.

    `domains` has, per iter value, the Range it covers.
    """

    ok: bool
    reason: str = ""
    domains: tuple = ()

    def __bool__(self):
        return self.ok


class _NotAffine(Exception):
    """The reason as the message."""


@dataclass(frozen=True)
class _Fragment:
    """mod(floor(source / lower), extent) with source a Var; lower and extent are Linears."""

    source: Var
    lower: Linear
    extent: Linear


def is_affine_binding(iter_values, loop_ranges, predicate=None, analyzer=None, bijective=True):
    """Whether detect_iter_map understands the bindings."""
    return detect_iter_map(iter_values, loop_ranges, predicate, analyzer, bijective).ok


def detect_iter_map(iter_values, loop_ranges, predicate=None, analyzer=None, bijective=True):
    """Read `iter_values` (expressions over the loops) as a split and fuse of the loops {Var: Range}.

    When it succeeds, the points of the loops that satisfy `predicate` (None: all) map one to one onto the full box of
    the values' domains. With bijective=False loops may be left over: the map is still onto that box, and every point
    of it is met equally often. `analyzer` tells about other variables; its own facts stay as they are.
    """
    try:
        return IterMap(True, "", _Detector(iter_values, loop_ranges, predicate, analyzer, bijective).run())
    except _NotAffine as stop:
        return IterMap(False, str(stop))


class _Detector:
    def __init__(self, values, loops, predicate, analyzer, bijective):
        self.bijective = bijective
        self.values = [as_expr(v) for v in values]
        self.conditions = _conjuncts(predicate)
        self.an = scope_of(loops, analyzer and analyzer.copy())
        self.spent = set()  # loops that became part of another source
        self.extents = {}  # Var -> Linear: loops and made sources, each running from 0
        self.fixed = {}    # Var -> expression, for loops that do not start at 0
        for v, r in loops.items():
            self._add_loop(v, r, loops)
        if self.fixed:
            self.values = [substitute(v, self.fixed) for v in self.values]
            self.conditions = [substitute(c, self.fixed) for c in self.conditions]

    def run(self):
        for _ in range(MOST_SOURCES):
            if not self._cut() and not self._close_divided():
                break
        used, domains = {}, []
        for value in self.values:
            if value.dtype not in INDEX_TYPES:
                raise _NotAffine(f"an iterator of dtype {value.dtype}")
            base, pieces = self._pieces(self.an.canonical.linear(value))
            extent = self._chain(pieces)
            for fragment, _ in pieces:
                used.setdefault(fragment.source, []).append(fragment)
            domains.append(Range(render(base, value.dtype), render(extent, value.dtype)))
        self._check_sources(used, self.bijective)
        return tuple(domains)

    # ------------------------------------------------------------ sources

    def _add_loop(self, v, r, loops):
        linear = self.an.canonical.linear
        least, extent = linear(as_expr(r.min, v.dtype)), linear(as_expr(r.extent, v.dtype))
        if not (least.vars | extent.vars).isdisjoint(loops):
            raise _NotAffine(f"the range of loop {v.name} depends on another loop")
        if not extent.terms and extent.const == 1:
            return  # the analyzer replaces a unit loop by its only value
        if not least.terms and least.const == 0:
            self.extents[v] = extent
        else:
            self.fixed[v] = self._new_source(v.name, extent, v.dtype) + render(least, v.dtype)

    def _new_source(self, name, extent, dtype):
        source = Var(name, dtype)
        self.an.bind(source, Range(const(0, dtype), render(extent, dtype)))
        self.extents[source] = extent
        return source

    def _live(self, form):
        """The sources `form` mentions."""
        return [v for v in self.extents if v in form.vars]

    def _replace(self, form, extent):
        """Make `form`, a sum of whole fragments in [0, extent), a source; its innermost variable goes away."""
        base, pieces = self._pieces(form)
        if base.terms or base.const:
            raise _NotAffine("a division or a condition on a shifted sum")
        whole = self._chain(pieces)
        if extent is not None and not self.an.nonnegative(combine(whole, extent, -1)):
            whole = self.an.canonical.choice(MIN, (whole, extent), pieces[0][0].source.dtype)
        else:
            whole = extent or whole
        if not whole.terms and whole.const <= 0:
            raise _NotAffine("a condition that never holds")
        own = {}
        for fragment, _ in pieces:
            own.setdefault(fragment.source, []).append(fragment)
        self._check_sources(own, True, only=own)
        inner = next(f.source for f, scale in pieces if scale.key == ONE.key)
        if len(own[inner]) > 1 or own[inner][0].lower.key != ONE.key or (
                own[inner][0].extent.key != self.extents[inner].key):
            raise _NotAffine(f"loop {inner.name} is split and fused again before a division or condition")
        source = self._new_source(inner.name, whole, inner.dtype)
        rest = self.an.canonical.add(form, self.an.canonical.linear(inner), -1)
        mapping = {inner: source - render(rest, inner.dtype)}
        for v in own:
            self.extents.pop(v)
        self.spent.update(own)
        self.values = [substitute(v, mapping) for v in self.values]
        self.conditions = [substitute(c, mapping) for c in self.conditions]

    def _close_divided(self):
        """Turn one sum under a division into a source; False when there is none."""
        for value in self.values:
            stack = [self.an.canonical.linear(value)] if value.dtype in INDEX_TYPES else []
            while stack:
                for term in stack.pop().terms:
                    for atom in factors(term):
                        if atom.kind in (DIV, MOD) and self._live(atom):
                            num = atom.parts[0]
                            if len(self._live(num)) > 1 and not any(a.kind in (DIV, MOD) for a in num.terms):
                                self._replace(num, None)
                                return True
                            stack.append(num)
        return False

    # ------------------------------------------------------------ the predicate

    def _cut(self):
        """Use up one condition; False when none is left."""
        ready = []
        for condition in self.conditions:
            if self.an.can_prove(condition):
                continue
            gap = self._as_gap(condition)
            loop_part = Linear({a: -k for a, k in gap.terms.items() if self._live(a)}, 0)
            if not loop_part.terms:
                continue  # holds or fails for all loops together
            limit = Linear({a: k for a, k in gap.terms.items() if not self._live(a)}, gap.const + 1)
            ready.append((len(self._live(loop_part)), condition, loop_part, limit))
        if not ready:
            self.conditions = []
            return False
        ready.sort(key=lambda entry: entry[0])
        self.conditions = [entry[1] for entry in ready[1:]]
        _, _, part, limit = ready[0]
        if any(k < 0 for k in part.terms.values()):
            self._raise_start(part, limit)
        else:
            self._replace(*self._coarser(part, limit))
        return True

    def _as_gap(self, condition):
        """gap >= 0 for a comparison."""
        kind = type(condition)
        if kind not in (LT, LE, GT, GE) or condition.a.dtype not in INDEX_TYPES:
            raise _NotAffine("a condition that is not a conjunction of <, <=, >, >=")
        low, high = self.an.canonical.linear(condition.a), self.an.canonical.linear(condition.b)
        if kind in (GT, GE):
            low, high = high, low
        gap = self.an.canonical.add(high, low, -1)
        return shifted(gap, -1) if kind in (LT, GT) else gap

    def _coarser(self, part, limit):
        """part < limit as floor(part / g) < limit / g for the largest g that divides the limit and drops terms."""
        for g in sorted({k for k in part.terms.values() if k > 1}, reverse=True):
            if limit.const % g == 0 and all(k % g == 0 for k in limit.terms.values()):
                dtype = self._live(part)[0].dtype
                outer = floor_rules.floordiv(self.an, part, constant(g), dtype)
                if len(outer.terms) <= len(part.terms) and all(a.kind not in (DIV, MOD) for a in outer.terms):
                    return outer, Linear({a: k // g for a, k in limit.terms.items()}, limit.const // g)
        return part, limit

    def _raise_start(self, part, limit):
        """The condition -v < limit on one variable: v starts at 1 - limit."""
        (atom, k), *more = part.terms.items()
        if more or k != -1 or atom.kind != VAR:
            raise _NotAffine("a lower bound on a sum of loops")
        v, start = atom.expr, combine(ONE, limit, -1)
        extent = self.an.canonical.add(self.extents.pop(v), start, -1)
        if not self.an.nonnegative(start) or not self.an.nonnegative(shifted(extent, -1)):
            raise _NotAffine(f"a lower bound on loop {v.name} that may lie outside its range")
        moved = {v: self._new_source(v.name, extent, v.dtype) + render(start, v.dtype)}
        self.values = [substitute(value, moved) for value in self.values]
        self.conditions = [substitute(c, moved) for c in self.conditions]

    # ------------------------------------------------------------ fragments

    def _pieces(self, form):
        """(base, [(fragment, scale)]) with form = base + sum of scale * fragment."""
        base, scales = {}, {}
        for term, k in form.terms.items():
            moving = [f for f in factors(term) if self._moves(f)]
            if not moving:
                base[term] = k
            elif len(moving) > 1:
                raise _NotAffine("a product of loops")
            else:
                others = tuple(f for f in factors(term) if f is not moving[0])
                weight = Linear({self.an.canonical.product(others): k}, 0) if others else constant(k)
                scales[moving[0]] = combine(scales.get(moving[0], ZERO), weight)
        return Linear(base, form.const), [(self._fragment(atom), scale) for atom, scale in scales.items()]

    def _moves(self, atom):
        if not atom.vars.isdisjoint(self.spent):
            raise _NotAffine("a loop that is also part of a divided or bounded sum")
        return any(v in atom.vars for v in self.extents)

    def _fragment(self, atom):
        if atom.kind == VAR:
            return _Fragment(atom.expr, ONE, self.extents[atom.expr])
        if atom.kind not in (DIV, MOD) or self._live(atom.parts[1]):
            raise _NotAffine("an iterator that is not a sum of loops and their quotients and remainders")
        num, den = atom.parts
        base, pieces = self._pieces(num)
        if base.terms or base.const or len(pieces) != 1 or pieces[0][1].key != ONE.key:
            raise _NotAffine("a division of a sum of loops that is not itself an interval")
        inner = pieces[0][0]
        if self.an.const_int_bound(render(den, atom.dtype)).min_value in (None, 0):
            raise _NotAffine("a division by what may not be positive")
        if floor_rules.floormod(self.an, inner.extent, den, atom.dtype).key != ZERO.key:
            raise _NotAffine(f"a division that does not divide the extent of {inner.source.name}")
        if atom.kind == MOD:
            return _Fragment(inner.source, inner.lower, den)
        return _Fragment(inner.source, self.an.canonical.multiply(inner.lower, den),
                         floor_rules.floordiv(self.an, inner.extent, den, atom.dtype))

    def _chain(self, pieces):
        """The extent of the sum of pieces when their scales are those of a mixed-radix number."""
        expected, left = ONE, list(pieces)
        while left:
            at = next((i for i, (_, scale) in enumerate(left) if scale.key == expected.key), None)
            if at is None:
                raise _NotAffine("a sum of loops that does not cover an interval once")
            fragment, _ = left.pop(at)
            expected = self.an.canonical.multiply(expected, fragment.extent)
        return expected

    def _check_sources(self, used, complete, only=None):
        """No digit of a source is used twice; with `complete`, each is used."""
        for v, extent in self.extents.items():
            if only is not None and v not in only:
                continue
            fragments = used.get(v, [])
            if not fragments and not complete:
                continue
            if not fragments:
                raise _NotAffine(f"loop {v.name} is not used")
            reached = self._stack_digits(v, fragments, complete)
            if reached.key != extent.key and (complete or not self._divides(reached, extent, v.dtype)):
                raise _NotAffine(f"loop {v.name} is only used in part")

    def _stack_digits(self, v, fragments, complete):
        """How far the fragments of one source, stacked from the lowest, reach."""
        reached, left = ONE, list(fragments)
        while left:
            at = next((i for i, f in enumerate(left) if f.lower.key == reached.key), None)
            if at is None and not complete:
                at = min(range(len(left)), key=lambda i: left[i].lower.const)
                if left[at].lower.terms or not self._divides(reached, left[at].lower, v.dtype):
                    at = None
            if at is None:
                raise _NotAffine(f"two iterators share a part of loop {v.name}, or it is only used in part")
            fragment = left.pop(at)
            reached = self.an.canonical.multiply(fragment.lower, fragment.extent)
        return reached

    def _divides(self, d, form, dtype):
        return floor_rules.floormod(self.an, form, d, dtype).key == ZERO.key


def _conjuncts(predicate):
    """The conditions that `predicate` joins by And; constants that hold are dropped."""
    if predicate is None or isinstance(predicate, bool) and predicate:
        return []
    if isinstance(predicate, IntImm) and predicate.value:
        return []
    if isinstance(predicate, And):
        return _conjuncts(predicate.a) + _conjuncts(predicate.b)
    if isinstance(predicate, Call) and predicate.op == "tir.likely":
        return _conjuncts(predicate.args[0])
    return [as_expr(predicate)]
