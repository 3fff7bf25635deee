"""The detector of iteration maps: whether values, such as those a block binds its iterators to, are a split and fuse
of loops. iter_affine_map gives its answers the form that TVM's users know.

Each loop is a mixed-radix number whose digits are *fragments*, mod(floor(source / lower), extent). A map is affine
here when every iterator is a sum of fragments with scales 1, e0, e0 * e1, ... (so it covers an interval), no fragment
is used twice, and, for a bijection, none is left over. Sums that are divided or cut by the predicate become sources
of their own. What the detector cannot see through it rejects: True is a proof, False is not.
"""
from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from math import lcm, prod

from ..expr import Not, Range, Var, as_expr, const, substitute
from . import floor_rules
from .canonical import INDEX_TYPES
from .const_int_bound import INF, linear_bound
from .int_set import scope_of
from .linear import DIV, MAX, MIN, MOD, ONE, VAR, ZERO, Linear, combine, constant, factors, render, scaled, shifted
from .pattern import conjuncts, gaps

MOST_SOURCES = 32
MOST_MET = 1 << 14  # values of a padded loop that are looked at


@dataclass(frozen=True)
class IterMap:
    """The answer of affine_domains: true when the map was understood, else `reason` says what stood in the way.

    `domains` has, per iter value, the Range it covers.
    """

    ok: bool
    reason: str = ""
    domains: tuple = ()

    def __bool__(self):
        return self.ok


class NotAffine(Exception):
    """The reason as the message."""


@dataclass(frozen=True)
class Fragment:
    """mod(floor(source / lower), extent) with source a Var; lower and extent are Linears."""

    source: Var
    lower: Linear
    extent: Linear


def is_affine_binding(iter_values, loop_ranges, predicate=None, analyzer=None, bijective=True):
    """Whether affine_domains understands the bindings."""
    return affine_domains(iter_values, loop_ranges, predicate, analyzer, bijective).ok


def affine_domains(iter_values, loop_ranges, predicate=None, analyzer=None, bijective=True):
    """Read `iter_values` (expressions over the loops) as a split and fuse of the loops {Var: Range}.

    When it succeeds, the points of the loops that satisfy `predicate` (None: all) map one to one onto the full box of
    the values' domains. With bijective=False loops may be left over: the map is still onto that box, and every point
    of it is met equally often. `analyzer` tells about other variables; its own facts stay as they are.
    """
    try:
        detector = Detector(iter_values, loop_ranges, predicate, analyzer, COMPLETE if bijective else ONTO)
        return IterMap(True, "", tuple(Range(render(v.base, v.dtype), render(v.extent, v.dtype))
                                       for v in detector.run()))
    except NotAffine as stop:
        return IterMap(False, str(stop))


ANY, ONTO, COMPLETE = range(3)  # what is asked of the digits of a source: nothing; none twice; each once


@dataclass(frozen=True)
class Value:
    """base + sum of scale * fragment, which covers base, base + unit, ..., `extent` values in all.

    `pieces` are the (Fragment, scale) pairs, the largest scale first.
    """

    base: Linear
    pieces: tuple
    unit: Linear
    extent: Linear
    dtype: str


class Detector:
    """One question: `run` gives a Value per expression or raises NotAffine.

    strided: a value may step by more than 1, or down, and symbolic bounds may leave nothing of a loop. pad: where a
    division does not divide an extent, the loop is lengthened until it does; `paddings` says which values of the loops
    are then not real. keep_unit: loops of one iteration stay. coarse: a condition on a sum of loops is one on the outer
    loops alone where it can be.
    """

    def __init__(self, values, loops, predicate, analyzer, check, strided=False, pad=False, keep_unit=False,
                 coarse=True):
        self.coarse = coarse
        self.check, self.strided, self.pad, self.keep_unit = check, strided, pad, keep_unit
        self.values = [as_expr(v) for v in values]
        self.conditions = conjuncts(predicate)
        self.loops, self.an = loops, scope_of(loops, analyzer and analyzer.copy())
        self.spent = set()  # loops that became part of another source
        self.extents = {}   # Var -> Linear: loops and made sources, each running from 0
        self.extent_of = {}  # the same, also of those that became part of another
        self.made = {}      # made source -> (base, pieces) of what it equals; pieces () for a loop minus its start
        self.digits = {}    # source -> the Fragment of another that it is
        self.paddings = []  # conditions under which a loop's value lies outside it
        self.padded = {}    # lengthened source -> (bounds of the first of its real values, how many are real or None)
        self.fixed = {}     # Var -> expression, for loops that do not start at 0
        self.loop_of = {}   # the sources of these loops -> the loops

    def start(self):
        """Make the loops count from 0."""
        for v, r in self.loops.items():
            self._add_loop(v, r, self.loops)
        if self.fixed:
            self._substitute(self.fixed)

    def run(self):
        """A Value for each expression; raises NotAffine."""
        self.start()
        for _ in range(MOST_SOURCES):
            if not self._cut() and not self._pad_divided() and not self._close_divided():
                break
        used, out = {}, []
        for value in self.values:
            if value.dtype not in INDEX_TYPES:
                raise NotAffine(f"an iterator of dtype {value.dtype}")
            base, pieces = self.pieces(self.an.canonical.linear(value))
            pieces, unit, extent = self._overlapping(pieces) or self._chain(pieces)
            for fragment, _ in pieces:
                used.setdefault(fragment.source, []).append(fragment)
            out.append(Value(base, pieces, unit, extent, value.dtype))
        if self.check != ANY:
            self._check_sources(used, self.check == COMPLETE)
        return out

    def _substitute(self, mapping):
        self.values = [substitute(v, mapping) for v in self.values]
        self.conditions = [substitute(c, mapping) for c in self.conditions]

    # ------------------------------------------------------------ sources

    def _add_loop(self, v, r, loops):
        linear = self.an.canonical.linear
        least, extent = linear(as_expr(r.min, v.dtype)), linear(as_expr(r.extent, v.dtype))
        if not (least.vars | extent.vars).isdisjoint(loops):
            raise NotAffine(f"the range of loop {v.name} depends on another loop")
        if not extent.terms and extent.const == 1 and not self.keep_unit:
            return  # the analyzer replaces a unit loop by its only value
        if not least.terms and least.const == 0 and not (self.keep_unit and extent.key == ONE.key):
            self.extents[v] = self.extent_of[v] = extent
        else:
            source = self._new_source(v.name, extent, v.dtype, (least, ()))
            self.fixed[v] = source + render(least, v.dtype)
            self.loop_of[source] = v

    def _new_source(self, name, extent, dtype, meaning):
        source = Var(name, dtype)
        if self.keep_unit and extent.key == ONE.key:
            self.an.var_bounds[source] = (0, 0)  # binding it would make it a constant
        else:
            self.an.bind(source, Range(const(0, dtype), render(extent, dtype)))
        self.extents[source] = self.extent_of[source] = extent
        if meaning is not None:
            self.made[source] = meaning
        return source

    def _live(self, form):
        """The sources `form` mentions."""
        return [v for v in self.extents if v in form.vars]

    def _replace(self, form, extent):
        """Make `form`, a sum of fragments in [0, extent), a source; its innermost variable goes away."""
        form = self._apart(form)
        base, pieces = self.pieces(form)
        if base.terms or base.const:
            raise NotAffine("a division or a condition on a shifted sum")
        pieces, unit, whole = self._overlapping(pieces) or self._chain(pieces)
        if unit.key != ONE.key:
            raise NotAffine("a division or a condition on a sum that leaves gaps")
        if extent is not None and not self.an.nonnegative(self.an.canonical.add(whole, extent, -1)):
            whole = self.an.canonical.choice(MIN, (whole, extent), pieces[0][0].source.dtype)
        else:
            whole = extent or whole
        if not whole.terms and whole.const <= 0:
            raise NotAffine("a condition that never holds")
        if self.check == ONTO and any(fragment.source in self.padded for fragment, _ in pieces):
            raise NotAffine("a division or a condition on a sum of which a loop is padded")
        parts = {}
        for fragment, _ in pieces:
            parts.setdefault(fragment.source, []).append(fragment)
        own = set(parts)
        self._check_sources(parts, True, only=own)
        inner = pieces[-1][0].source
        source = self._new_source(inner.name, whole, inner.dtype, (ZERO, pieces))
        rest = self.an.canonical.add(form, self.an.canonical.linear(inner), -1)
        mapping = {inner: source - render(rest, inner.dtype)}
        for v in own:
            self.extents.pop(v)
        self.spent.update(own)
        self._substitute(mapping)

    def _apart(self, form):
        """`form` in which each fragment is a source of its own, made where it is part of one."""
        parts, mapping = {}, {}
        for fragment, _ in self.pieces(form)[1]:
            parts.setdefault(fragment.source, []).append(fragment)
        for v, fragments in parts.items():
            if len(fragments) > 1 or fragments[0].extent.key != self.extents[v].key:
                mapping[v] = self._digits_of(v, fragments)
        if not mapping:
            return form
        self._substitute(mapping)
        self.values, self.conditions = ([self.an.simplify(e) for e in part] for part in (self.values, self.conditions))
        dtype = next(iter(mapping)).dtype
        return self.an.canonical.linear(substitute(render(form, dtype), mapping))

    def _digits_of(self, v, fragments):
        """`v` as a sum of new sources: the fragments and what lies between them."""
        if v in self.padded:
            raise NotAffine(f"a condition on a part of loop {v.name}, which is padded")
        extent, reached, total = self.extents.pop(v), ONE, const(0, v.dtype)
        self.spent.add(v)
        ends = [end for f in sorted(fragments, key=lambda f: f.lower.const if not f.lower.terms else INF)
                for end in (f.lower, self.an.canonical.multiply(f.lower, f.extent))]
        for end in (*ends, extent):
            if end.key == reached.key:
                continue
            if not self._divides(reached, end, v.dtype) or not self.an.nonnegative(combine(end, reached, -1)):
                raise NotAffine(f"two iterators share a part of loop {v.name}, or it is only used in part")
            digit = Fragment(v, reached, floor_rules.floordiv(self.an, end, reached, v.dtype))
            source = self._new_source(v.name, digit.extent, v.dtype, None)
            self.digits[source] = digit
            total, reached = total + source * render(reached, v.dtype), end
        return total

    def _close_divided(self):
        """Turn one sum under a division into a source; False when there is none."""
        for atom in self._divisions():
            num = atom.parts[0]
            if len(self._live(num)) > 1 and not any(a.kind in (DIV, MOD) for a in num.terms):
                if self.pad and num.const:
                    num = shifted(num, -num.const)
                self._replace(num, None)
                return True
        return False

    def _divisions(self):
        """The divisions and remainders of live sources in the values, outer ones before those they divide."""
        for value in self.values:
            stack = [self.an.canonical.linear(value)] if value.dtype in INDEX_TYPES else []
            while stack:
                for term in stack.pop().terms:
                    for atom in factors(term):
                        if atom.kind in (DIV, MOD) and self._live(atom):
                            yield atom
                            stack.append(atom.parts[0])

    # ------------------------------------------------------------ padding

    def _pad_divided(self):
        """Lengthen one source until its divisors divide it; False when none needs it."""
        if not self.pad:
            return False
        needs = {}
        for atom in self._divisions():
            found = self._divisor(atom)
            if found is not None:
                needs.setdefault(found[0], []).append(found[1:])
        for v, wanted in needs.items():
            extent, left = self.extents[v], self._padding(v, wanted)
            if left is None:
                continue
            divisor, high = reduce(lcm, (d for d, _ in wanted)), linear_bound(self.an, left)[1]
            turns = floor_rules.floordiv(self.an, shifted(extent, high + divisor - 1), constant(divisor), v.dtype)
            whole = scaled(turns, divisor)
            if left.key != ZERO.key or not self.an.nonnegative(self.an.canonical.add(extent, whole, -1)):
                self._lengthen(v, left, whole)
                return True
        return False

    def _padding(self, v, wanted):
        """What `v` is to be lengthened by below, so that (v + start) // d is whole turns away from v // d for each (d,
        start) of `wanted`; None where that is not one number."""
        divisor = constant(reduce(lcm, (d for d, _ in wanted)))
        for left in sorted((floor_rules.floormod(self.an, start, divisor, v.dtype) for _, start in wanted),
                           key=lambda form: (len(form.terms), form.const)):
            if all(self._divides(constant(d), self.an.canonical.add(start, left, -1), v.dtype) for d, start in wanted):
                return left
        return None

    def _divisor(self, atom):
        """(source, d, start) for floor((source + start) / d) and what divides it further; None for other divisions."""
        num, den = atom.parts
        live = [term for term in num.terms if self._live(term)]
        if den.terms or den.const <= 0 or len(live) != 1 or num.terms[live[0]] != 1 or num.vars & self.spent:
            return None
        inner, start = live[0], Linear({a: k for a, k in num.terms.items() if a is not live[0]}, num.const)
        if inner.kind == VAR:
            return inner.expr, den.const, start
        if inner.kind not in (DIV, MOD) or start.key != ZERO.key and inner.kind == MOD:
            return None
        below = self._divisor(inner)
        if below is None or inner.kind == MOD:
            return below
        return below[0], below[1] * den.const, combine(below[2], start, below[1])

    def _lengthen(self, v, left, whole):
        """The source `v` becomes [left, left + extent) of one that has `whole` turns."""
        first = (Fragment(v, ONE, self.extents[v]), ONE)
        extent, dtype = self.extents.pop(v), v.dtype
        source = self._new_source(v.name, whole, dtype, (left, (first,)))
        real = self.expression(Linear({}, 0), (first,), dtype)
        if left.key != ZERO.key:
            self.paddings.append(real < 0)
        if left.terms or whole.key != combine(extent, left).key:
            self.paddings.append(real >= render(extent, dtype))
        before, count = self.padded.get(v, ((0, 0), None if extent.terms else extent.const))
        self.padded[source] = tuple(a + b for a, b in zip(before, linear_bound(self.an, left))), count
        self.spent.add(v)
        self._substitute({v: source - render(left, dtype)})

    def expression(self, base, pieces, dtype):
        """base + the sum of pieces as an expression of the loops."""
        total = render(base, dtype)
        for fragment, scale in pieces:
            total = total + self._of_fragment(fragment) * render(scale, dtype)
        return self.an.simplify(total)

    def _of_fragment(self, fragment):
        v, dtype = fragment.source, fragment.source.dtype
        if v in self.digits:
            e = self._of_fragment(self.digits[v])
        elif v not in self.made:
            e = v
        else:
            base, pieces = self.made[v]
            e = self.expression(base, pieces, dtype) if pieces else self.loop_of[v] - render(base, dtype)
        return e // render(fragment.lower, dtype) % render(fragment.extent, dtype)

    # ------------------------------------------------------------ the predicate

    def _cut(self):
        """Use up one condition; False when none is left."""
        ready = []
        for condition in self.conditions:
            if self.an.can_prove(condition):
                continue
            gap, *more = gaps(self.an, condition) or (None, None)
            if more:
                raise NotAffine("a condition that is not a conjunction of <, <=, >, >=")
            loop_part = Linear({a: -k for a, k in gap.terms.items() if self._live(a)}, 0)
            if not loop_part.terms:  # holds or fails for all loops together
                if self.an.can_prove(Not(condition)):
                    raise NotAffine("a condition that never holds")
                continue
            limit = Linear({a: k for a, k in gap.terms.items() if not self._live(a)}, gap.const + 1)
            ready.append((len(self._live(loop_part)), condition, loop_part, limit))
        if not ready:
            self.conditions = []
            return False
        ready.sort(key=lambda entry: (entry[0], any(k < 0 for k in entry[2].terms.values())))  # upper bounds first
        self.conditions = [entry[1] for entry in ready[1:]]
        _, _, part, limit = ready[0]
        if len(part.terms) > 1 and all(k < 0 for k in part.terms.values()):
            self.conditions.append(ready[0][1])
            self._replace(scaled(part, -1), None)  # the condition is then one on a single source
        elif any(k < 0 for k in part.terms.values()):
            self._raise_start(part, limit)
        else:
            self._replace(*self._coarser(part, limit) if self.coarse else (part, limit))
        return True

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
            raise NotAffine("a lower bound on a sum of loops")
        v, start = atom.expr, combine(ONE, limit, -1)
        first = (Fragment(v, ONE, self.extents[v]), ONE)
        if self.strided and not self.an.nonnegative(start):
            start = self.an.canonical.choice(MAX, (start, ZERO), v.dtype)
        extent = self.an.canonical.add(self.extents.pop(v), start, -1)
        if not self.an.nonnegative(start) or (not self.strided or not extent.terms) and not self.an.nonnegative(
                shifted(extent, -1)):
            raise NotAffine(f"a lower bound on loop {v.name} that may lie outside its range")
        self.spent.add(v)
        source = self._new_source(v.name, extent, v.dtype, (scaled(start, -1), (first,)))
        self._substitute({v: source + render(start, v.dtype)})

    # ------------------------------------------------------------ fragments

    def pieces(self, form):
        """(base, [(fragment, scale)]) with form = base + sum of scale * fragment."""
        base, scales = self.scales(form)
        found = []
        for atom, scale in scales.items():
            fragment, offset = self.fragment(atom)
            base = self.an.canonical.add(base, self.an.canonical.multiply(scale, offset))
            found.append((fragment, scale))
        return base, self.whole(found)

    def scales(self, form):
        """(base, {atom: scale}) with form = base + sum of scale * atom, whose atoms are what sources move."""
        base, scales = {}, {}
        for term, k in form.terms.items():
            moving = [f for f in factors(term) if self._moves(f)]
            if not moving:
                base[term] = k
            elif len(moving) > 1:
                raise NotAffine("a product of loops")
            else:
                others = tuple(f for f in factors(term) if f is not moving[0])
                weight = Linear({self.an.canonical.product(others): k}, 0) if others else constant(k)
                scales[moving[0]] = combine(scales.get(moving[0], ZERO), weight)
        return Linear(base, form.const), scales

    def whole(self, pieces):
        """The pieces, neighbouring digits of one source joined: x // (m * n) * m * n + x // n % m * n is x // n * n."""
        multiply = self.an.canonical.multiply
        for low, scale in pieces:
            above, step = multiply(low.lower, low.extent), multiply(scale, low.extent)
            for high, other in pieces:
                if (high.source is low.source and high is not low
                        and (high.lower.key, other.key) == (above.key, step.key)):
                    joined = Fragment(low.source, low.lower, multiply(low.extent, high.extent))
                    return self.whole([(joined, scale) if f is low else (f, s) for f, s in pieces if f is not high])
        return pieces

    def _moves(self, atom):
        if not atom.vars.isdisjoint(self.spent):
            raise NotAffine("a loop that is also part of a divided or bounded sum")
        return any(v in atom.vars for v in self.extents)

    def fragment(self, atom):
        """(fragment, offset) with atom = fragment + offset."""
        if atom.kind == VAR:
            return Fragment(atom.expr, ONE, self.extents[atom.expr]), ZERO
        if atom.kind not in (DIV, MOD) or self._live(atom.parts[1]):
            raise NotAffine("an iterator that is not a sum of loops and their quotients and remainders")
        num, den = atom.parts
        base, pieces = self.pieces(num)
        if len(pieces) != 1 or pieces[0][1].key != ONE.key or not self._divides(den, base, atom.dtype):
            raise NotAffine("a division of a sum of loops that is not itself an interval")
        inner = pieces[0][0]
        if linear_bound(self.an, den)[0] < 0:  # 0 divides nothing, so that where this is computed it is more
            raise NotAffine("a division by what may not be positive")
        if not self._divides(den, inner.extent, atom.dtype):
            raise NotAffine(f"a division that does not divide the extent of {inner.source.name}")
        if atom.kind == MOD:
            return Fragment(inner.source, inner.lower, den), ZERO
        return (Fragment(inner.source, self.an.canonical.multiply(inner.lower, den),
                         floor_rules.floordiv(self.an, inner.extent, den, atom.dtype)),
                floor_rules.floordiv(self.an, base, den, atom.dtype))

    def _chain(self, pieces):
        """(pieces by falling scale, unit, extent) where the scales are unit times those of a mixed-radix number."""
        for unit in self._units(pieces):
            ordered, extent, expected, left = [], ONE, unit, list(pieces)
            while left:
                fits = [i for i, (_, scale) in enumerate(left) if scale.key == expected.key]
                if not fits:
                    break
                unit_turn = [i for i in fits if left[i][0].extent.key == ONE.key]
                ordered.append(left.pop(unit_turn[-1] if unit_turn else fits[0]))
                fragment = ordered[-1][0]
                extent = self.an.canonical.multiply(extent, fragment.extent)
                expected = self.an.canonical.multiply(expected, fragment.extent)
            if not left:
                return tuple(reversed(ordered)), unit, extent
        raise NotAffine("a sum of loops that does not cover an interval once")

    def _overlapping(self, pieces):
        """What _chain gives, of a sum whose steps are at most what the smaller ones reach, such as i * 7 + j with j in
        [0, 8): it covers an interval, some of it more than once. None for other sums, and where that is not asked."""
        if not self.strided or self.check != ONTO or any(s.terms or s.const <= 0 or f.extent.terms for f, s in pieces):
            return None
        reach, overlaps = 1, False
        ordered = sorted(pieces, key=lambda piece: piece[1].const)
        for fragment, scale in ordered:
            if scale.const > reach:
                return None
            overlaps = overlaps or scale.const < reach and fragment.extent.const > 1
            reach += scale.const * (fragment.extent.const - 1)
        return (tuple(reversed(ordered)), ONE, constant(reach)) if overlaps else None

    def _units(self, pieces):
        """The steps that a sum of pieces may be a multiple of."""
        if not self.strided or not pieces:
            return [ONE]
        scales = {scale.key: scale for _, scale in pieces}
        return [s for s in scales.values()
                if self.an.nonnegative(shifted(s, -1)) or len(pieces) == 1 and linear_bound(self.an, s)[1] < 0]

    def _check_sources(self, used, complete, only=None):
        """No digit of a source is used twice; with `complete`, each is used."""
        for v, extent in self.extents.items():
            if only is not None and v not in only:
                continue
            fragments = used.get(v, [])
            if not fragments and not complete:
                continue
            if not fragments:
                if extent.key == ONE.key:
                    continue  # its only value is met by whatever else is done
                raise NotAffine(f"loop {v.name} is not used")
            reached = self._stack_digits(v, fragments, complete)
            if reached.key != extent.key and (complete or not self._divides(reached, extent, v.dtype)):
                raise NotAffine(f"loop {v.name} is only used in part")
            if v in self.padded and self.check == ONTO:
                self._check_met(v, fragments)

    def _check_met(self, v, fragments):
        """The values of a padded source that are real have all combinations of these digits."""
        (low, high), count = self.padded[v]
        if count is None:
            raise NotAffine(f"padding of loop {v.name}, whose extent is not constant")
        digits = [(f.lower.const, f.extent.const) for f in fragments]
        for first in range(low, high + 1):
            real = range(first, first + min(count, max(MOST_MET // (high - low + 1), 1)))
            met = {tuple(n // lower % extent for lower, extent in digits) for n in real}
            if len(met) < prod(extent for _, extent in digits):
                raise NotAffine(f"only padding of loop {v.name} has some of the values")

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
                raise NotAffine(f"two iterators share a part of loop {v.name}, or it is only used in part")
            fragment = left.pop(at)
            reached = self.an.canonical.multiply(fragment.lower, fragment.extent)
        return reached

    def _divides(self, d, form, dtype):
        return floor_rules.floormod(self.an, form, d, dtype).key == ZERO.key
