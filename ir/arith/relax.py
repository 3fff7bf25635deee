"""Relaxation: the least and greatest value of a normal form while some variables run over their ranges.

The answer is symbolic in the other variables. Each step replaces one atom that mentions a relaxed variable by its
own bound, in the direction its coefficient asks for; a step that cannot tell the coefficient's sign gives up.
"""
from __future__ import annotations

from . import floor_rules
from .const_int_bound import INF, atom_bound, linear_bound
from .linear import (DIV, MAX, MIN, MOD, PRODUCT, SELECT, VAR, ZERO, Linear, combine, constant, factors, scaled,
                     shifted)

MOST_STEPS = 48


def relax(an, form, upper, ranges):
    """A Linear free of the variables of `ranges` that bounds `form` from above (`upper`) or below; None without one.

    ranges: {Var: (least, greatest)} as Linears, outer variables first; a range may mention variables before it. An end
    that is not known is None.
    """
    with an.ranges_occupied(form):
        return _Relaxer(an, ranges).bound(form, upper)


class _Relaxer:
    def __init__(self, an, ranges):
        self.an, self.ranges = an, ranges
        self.order = {v: i for i, v in enumerate(ranges)}
        self.relaxed = frozenset(ranges)

    def bound(self, form, upper):
        found = self._symbolic(form, upper)
        if found is None:
            limit = linear_bound(self.an, form)[1 if upper else 0]
            found = constant(limit) if type(limit) is int else None
        return found

    def _symbolic(self, form, upper):
        form = self._at_constant_ends(form, upper)
        for _ in range(MOST_STEPS):
            atom = self._next(form)
            if atom is None:
                return form
            weight, rest = self._split(form, atom)
            if weight is None:
                return None
            lo, hi = linear_bound(self.an, weight)
            if lo >= 0:
                towards = upper
            elif hi <= 0:
                towards = not upper
            else:
                return None
            limit = self._of_atom(atom, towards)
            if limit is None:
                return None
            form = self.an.canonical.add(rest, self.an.canonical.multiply(weight, limit))
        return None

    def _at_constant_ends(self, form, upper):
        """`form` with its plain relaxed variables of constant ranges at the end of their range: the common case."""
        terms, const = {}, form.const
        for atom, k in form.terms.items():
            ends = self.ranges.get(atom.expr) if atom.kind == VAR else None
            if ends is not None and None not in ends and not (ends[0].terms or ends[1].terms):
                const += k * ends[1 if (k > 0) == upper else 0].const
            elif atom.kind == PRODUCT:
                return form  # its weight may hold more of the variable
            else:
                terms[atom] = k
        return form if len(terms) == len(form.terms) else Linear(terms, const)

    def _next(self, form):
        """The atom to replace next: compound ones first, then the innermost variable."""
        best, rank = None, -1
        for term in form.terms:
            if term.vars.isdisjoint(self.relaxed):
                continue
            for atom in factors(term):
                if atom.vars.isdisjoint(self.relaxed):
                    continue
                if atom.kind != VAR:
                    return atom
                if self.order[atom.expr] > rank:
                    best, rank = atom, self.order[atom.expr]
        return best

    def _split(self, form, atom):
        """(weight, rest) with form = weight * atom + rest; weight None when the atom is also multiplied by itself."""
        weight, rest = ZERO, {}
        for term, k in form.terms.items():
            if term is atom:
                weight = shifted(weight, k)
            elif term.kind == PRODUCT and atom in term.parts:
                others = list(term.parts)
                others.remove(atom)
                if atom in others:
                    return None, None
                weight = combine(weight, Linear({self.an.canonical.product(tuple(others)): k}, 0))
            else:
                rest[term] = k
        return weight, Linear(rest, form.const)

    def _of_atom(self, atom, upper):
        rule = RULES.get(atom.kind)
        found = rule(self, atom, upper) if rule else None
        if found is None:
            limit = atom_bound(self.an, atom)[1 if upper else 0]
            found = constant(limit) if -INF < limit < INF else None
        return found

    def _of_var(self, atom, upper):
        return self.ranges[atom.expr][1 if upper else 0]

    def _of_div(self, atom, upper):
        num, den = atom.parts
        if not self._fixed_positive(den):
            return None
        limit = self._symbolic(num, upper)
        return None if limit is None else floor_rules.floordiv(self.an, limit, den, atom.dtype)

    def _of_mod(self, atom, upper):
        num, den = atom.parts
        if not self._fixed_positive(den):
            return None
        ends = self._symbolic(num, False), self._symbolic(num, True)
        if ends[0] is not None and ends[1] is not None:
            low, high = (floor_rules.floordiv(self.an, end, den, atom.dtype) for end in ends)
            if low.key == high.key:  # one block: the remainder grows with the numerator
                return floor_rules.floormod(self.an, ends[1 if upper else 0], den, atom.dtype)
        if upper and den.terms:
            return shifted(den, -1)
        return None if upper else ZERO

    def _fixed_positive(self, den):
        return linear_bound(self.an, den)[0] > 0 and den.vars.isdisjoint(self.relaxed)

    def _of_choice(self, atom, upper):
        ends = [self.bound(p, upper) for p in atom.parts]
        known = [e for e in ends if e is not None]
        if not known:
            return None
        if len(known) < len(ends):  # min <= any operand, max >= any operand: one side still holds
            if (atom.kind == MIN) != upper:
                return None
        return self.an.canonical.choice(atom.kind, known, atom.dtype)

    def _of_select(self, atom, upper):
        ends = [self.bound(p, upper) for p in atom.parts[1:]]
        if None in ends:
            return None
        return self.an.canonical.choice(MAX if upper else MIN, ends, atom.dtype)


RULES = {VAR: _Relaxer._of_var, DIV: _Relaxer._of_div, MOD: _Relaxer._of_mod, MIN: _Relaxer._of_choice,
          MAX: _Relaxer._of_choice, SELECT: _Relaxer._of_select}


def prove_nonnegative(an, form, depth):
    """Whether form >= 0 follows from what the analyzer knows. False means not proved."""
    lo, hi = linear_bound(an, form)
    if lo >= 0:
        return True
    if hi < 0 or not form.terms:
        return False
    coeff, base = an.linear_modular(form)
    if coeff > 1 and lo > -INF and lo + (base - lo) % coeff >= 0:
        return True
    return depth > 0 and any(proof(an, form, depth) for proof in PROOFS)


def by_cases(an, form, depth):
    """form = k * min(a, b, ...) + rest: for k > 0 every operand must do, for k < 0 one; max the other way round."""
    choices = [(not (atom.kind == SELECT or (atom.kind == MIN) == (k > 0)), at, atom, k)
               for at, (atom, k) in enumerate(form.terms.items()) if atom.kind in (MIN, MAX, SELECT)]
    if not choices:
        return False
    one, _, atom, k = min(choices, key=lambda choice: choice[:2])  # where every operand must do, nothing is lost
    rest = Linear({a: c for a, c in form.terms.items() if a is not atom}, form.const)
    operands = atom.parts[1:] if atom.kind == SELECT else atom.parts
    results = (prove_nonnegative(an, an.canonical.add(rest, scaled(p, k)), depth - 1) for p in operands)
    return any(results) if one else all(results)


def by_facts(an, form, depth):
    """form = fact + more, where fact >= 0 is known and more >= 0 is easier."""
    mentioned = form.vars
    for fact in an.facts if an.level <= 1 else ():
        if not mentioned.isdisjoint(fact.vars):
            factor = _ratio(form, fact)
            more = an.canonical.add(scaled(form, factor), fact, -1)
            if prove_nonnegative(an, shifted(more, factor - 1), min(depth - 1, 1)):
                return True
    return False


def _ratio(form, fact):
    """The factor that gives form the fact's coefficient of a shared atom; for integers factor * form > -factor does."""
    for atom, k in form.terms.items():
        other = fact.terms.get(atom)
        if other is not None and other % k == 0 and other // k > 1:
            return other // k
    return 1


def by_ranges(an, form, depth):
    """The least value while variables with symbolic ranges run over them."""
    if not an.symbolic or form.vars.isdisjoint(an.symbolic):
        return False
    least = relax(an, form, False, an.symbolic)
    return least is not None and least.key != form.key and prove_nonnegative(an, least, depth - 1)


def by_factor(an, form, depth):
    """form = x * y for a factor x of all its terms: both must be >= 0, or both <= 0."""
    if form.const or len(form.terms) < 2:
        return False
    first, *others = form.terms
    for x in factors(first):
        if all(x in factors(term) for term in others):
            low, high = atom_bound(an, x)
            if low >= 0 or high <= 0:
                rest = ZERO
                for term, k in form.terms.items():
                    rest = combine(rest, _without(an, term, x, k if low >= 0 else -k))
                return prove_nonnegative(an, rest, depth - 1)
    return False


def _without(an, term, factor, k):
    """k * term / factor"""
    left = list(factors(term))
    left.remove(factor)
    return Linear({an.canonical.product(tuple(left)): k}, 0) if left else constant(k)


def by_divisions(an, form, depth):
    """x - d < x // d * d <= x and x % d < d, for a positive d that is no constant."""
    for atom, k in form.terms.items():
        if atom.kind == MOD and k < 0:
            den, least = atom.parts[1], scaled(shifted(atom.parts[1], -1), k)
        elif atom.kind == PRODUCT:
            found = _multiple(an, atom, k)
            if found is None:
                continue
            num, den, times = found
            least = scaled(num if times < 0 else shifted(combine(num, den, -1), 1), times)
        else:
            continue
        if den.terms and linear_bound(an, den)[0] > 0:
            rest = Linear({a: c for a, c in form.terms.items() if a is not atom}, form.const)
            if prove_nonnegative(an, an.canonical.add(rest, least), depth - 1):
                return True
    return False


def _multiple(an, atom, k):
    """(num, den, c) with k * atom = c * (num // den) * den, or None."""
    for whole in atom.parts:
        if whole.kind == DIV and len(whole.parts[1].terms) == 1 and not whole.parts[1].const:
            num, den = whole.parts
            (by, n), = den.terms.items()
            if k % n == 0 and _without(an, atom, whole, 1).key == Linear({by: 1}, 0).key:
                return num, den, k // n
    return None


PROOFS = (by_cases, by_ranges, by_facts, by_factor, by_divisions)
