"""Analyzer: what is known about variables, and the questions one may ask about integer expressions."""
from __future__ import annotations

from contextlib import contextmanager

from ..expr import EQ, GE, GT, LE, LT, NE, And, Call, IntImm, Not, Or, Range, as_expr, free_vars
from .canonical import INDEX_TYPES, Canonical
from .const_int_bound import INF, atom_bound, linear_bound, public_bound
from .linear import Linear, combine, scaled, shifted
from .modular import linear_modular
from .relax import prove_nonnegative
from .simplify import MIRRORED, NEGATED, Simplifier, decide, same, truth

DEEPEST_PROOF = 3


class Analyzer:
    """Proves and simplifies integer expressions under bindings and constraints.

    Binding a variable to a Range states that it takes a value in it. What mentions the variable is then only computed
    where the range is not empty, so proofs about it may use that a symbolic extent is at least 1.

    Answers are remembered until something new is learned; expressions are immutable, so the caches key on objects.
    """

    def __init__(self):
        self.canonical = Canonical(self)
        self._simplifier = Simplifier(self)
        self.var_bounds = {}  # Var -> (lo, hi), ends may be infinite
        self.symbolic = {}    # Var -> (least, greatest) as Linears, for ranges that are not constant, outer first
        self.ranges, self.limits = {}, {}  # Var -> its Range, and the same as (least, greatest)
        self.replaced = {}    # Var -> the Linear it equals
        self.facts = []       # Linears known to be >= 0
        self.nonzero = set()  # keys of Linears known to differ from 0
        self.holding = set()  # keys of conditions known to hold that are not linear
        self.refined = {}     # Atom -> (lo, hi) that the facts imply
        self.level = 0        # proofs now under way
        self.assuming = frozenset()  # the variables whose symbolic ranges now count as not empty
        self._reset()

    def _reset(self):
        """Forget what was derived: something new is known."""
        self.forms, self.simplified, self.divisions, self.bounds, self.modular_sets = {}, {}, {}, {}, {}
        self.proofs, self.occupied = {}, {}

    def copy(self):
        """An analyzer that knows the same and then goes its own way."""
        other = Analyzer()
        other.canonical.atoms = dict(self.canonical.atoms)
        for name in ("var_bounds", "ranges", "limits", "symbolic", "replaced", "nonzero", "holding", "refined",
                     "facts"):
            setattr(other, name, getattr(self, name).copy())
        return other

    # ------------------------------------------------------------ telling

    def bind(self, var, value):
        """State that `var` lies in a Range, or equals an expression; a later statement replaces an earlier one."""
        if var in self.canonical.atoms:
            self._reset()
        for table in (self.var_bounds, self.symbolic, self.replaced, self.limits):
            table.pop(var, None)
        if not isinstance(value, Range):
            self.replaced[var] = self.canonical.linear(as_expr(value, var.dtype))
            return
        least = self.canonical.linear(as_expr(value.min, var.dtype))
        extent = self.canonical.linear(as_expr(value.extent, var.dtype))
        greatest = self.canonical.add(least, shifted(extent, -1))
        self.limits[var] = (least, greatest)
        if not extent.terms and extent.const == 1:
            self.replaced[var] = least
        elif least.terms or greatest.terms:
            self.symbolic[var] = (least, greatest)
            self.var_bounds[var] = (linear_bound(self, least)[0], linear_bound(self, greatest)[1])
        else:
            self.var_bounds[var] = (least.const, greatest.const)
        self.ranges[var] = value

    def has_bound(self, var, extent):
        """Whether `var` was last bound to just this Range."""
        known = self.ranges.get(var) if var in self.limits else None
        return known is not None and (known is extent or same(known, extent))

    def mark_nonnegative(self, var):
        """State that `var`, such as a symbolic dimension, is at least 0."""
        if var in self.canonical.atoms:
            self._reset()
        lo, hi = self.var_bounds.get(var, (0, INF))
        self.var_bounds[var] = max(lo, 0), hi

    @contextmanager
    def constraint_scope(self, *conditions):
        """Within the scope, every condition holds."""
        names = ("facts", "nonzero", "holding", "refined", "forms", "simplified", "divisions", "bounds",
                 "modular_sets", "proofs", "occupied")
        saved = {name: getattr(self, name) for name in names}
        self.facts, self.refined = list(self.facts), dict(self.refined)
        self.nonzero, self.holding = set(self.nonzero), set(self.holding)
        self._reset()
        try:
            for condition in conditions:
                self._assume(condition, True)
            yield self
        finally:
            for name, value in saved.items():
                setattr(self, name, value)

    def _assume(self, condition, holds):
        if isinstance(condition, Not):
            self._assume(condition.a, not holds)
        elif isinstance(condition, And if holds else Or):
            self._assume(condition.a, holds)
            self._assume(condition.b, holds)
        elif isinstance(condition, Call) and condition.op == "tir.likely":
            self._assume(condition.args[0], holds)
        elif type(condition) in NEGATED and condition.a.dtype in INDEX_TYPES:
            self._assume_compare(type(condition) if holds else NEGATED[type(condition)], condition)
        elif holds and not isinstance(condition, IntImm):
            self.holding.add(self.canonical.key(condition))

    def _assume_compare(self, kind, condition):
        left, right = self.canonical.linear(condition.a), self.canonical.linear(condition.b)
        if kind in (GT, GE):
            left, right, kind = right, left, MIRRORED[kind]
        gap = self.canonical.add(right, left, -1)
        if kind is NE:
            self.nonzero.update((gap.key, scaled(gap, -1).key))
            return
        self._learn(shifted(gap, -1) if kind is LT else gap)
        if kind is EQ:
            self._learn(scaled(gap, -1))

    def _learn(self, fact):
        """Record fact >= 0 and tighten the constant bounds of its atoms; older facts may then say more."""
        self.facts.append(fact)
        for known in (fact, *self.facts[-9:-1], fact):
            self._tighten(known)
        self._reset()

    def _tighten(self, fact):
        for atom, k in fact.terms.items():
            rest = linear_bound(self, fact)[1] - k * (atom_bound(self, atom)[1 if k > 0 else 0])
            if not -INF < rest < INF:  # inf - inf is nan, which fails both
                rest = linear_bound(self, Linear({a: c for a, c in fact.terms.items() if a is not atom}, fact.const))[1]
                if rest == INF:
                    continue
            lo, hi = atom_bound(self, atom)
            new = (max(lo, -(rest // k)), hi) if k > 0 else (lo, min(hi, rest // -k))
            if new != (lo, hi):
                self.refined[atom] = new
                self.bounds = {}

    # ------------------------------------------------------------ asking

    def simplify(self, e):
        """An equal expression of the same dtype, in normal form; `e` itself when it is in normal form already."""
        return self._simplifier.visit(e)

    def simplify_fields(self, e):
        """`e`, not opened by arithmetic, with its fields simplified; a Call may become another expression."""
        return self._simplifier.call(e) if type(e) is Call else self._simplifier.generic_visit(e)

    def can_prove(self, condition):
        """Whether the condition always holds. False means it could not be proved, not that it fails."""
        if isinstance(condition, (bool, IntImm)):
            return bool(condition if isinstance(condition, bool) else condition.value)
        if isinstance(condition, And):
            return self.can_prove(condition.a) and self.can_prove(condition.b)
        if isinstance(condition, Or) and (self.can_prove(condition.a) or self.can_prove(condition.b)):
            return True
        if self.holding and self.canonical.key(condition) in self.holding:
            return True
        if type(condition) in NEGATED and condition.a.dtype in INDEX_TYPES:
            return decide(self, type(condition), self.canonical.linear(condition.a),
                          self.canonical.linear(condition.b)) is True
        done = self.simplify(condition)
        return isinstance(done, IntImm) and done.value != 0

    def can_prove_equal(self, a, b):
        """Whether a == b always; a and b are integer expressions or ints."""
        return a is b or self._decide(EQ, a, b)

    def can_prove_less(self, a, b):
        """Whether a < b always."""
        return self._decide(LT, a, b)

    def can_prove_less_equal(self, a, b):
        """Whether a <= b always."""
        return self._decide(LE, a, b)

    def _decide(self, kind, a, b):
        a, b = as_expr(a), as_expr(b)
        if a.dtype not in INDEX_TYPES or b.dtype not in INDEX_TYPES:
            return self.can_prove(truth(kind is not LT) if a is b else kind(a, b))
        return decide(self, kind, self.canonical.linear(a), self.canonical.linear(b)) is True

    def const_int_bound(self, e):
        """(min_value, max_value) that e never leaves; None on a side without a bound."""
        return public_bound(*linear_bound(self, self._form(e)))

    def modular_set(self, e):
        """(coeff, base) with e = coeff * k + base for some integer k; coeff 0 for the constant base."""
        return linear_modular(self, self._form(e))

    def _form(self, e):
        e = as_expr(e)
        return self.canonical.linear(e) if e.dtype in INDEX_TYPES else self.canonical.opaque_atom(self.simplify(e))

    # ------------------------------------------------------------ for the other modules of arith

    def atom_bound(self, atom):
        return atom_bound(self, atom)

    def linear_modular(self, form):
        return linear_modular(self, form)

    def nonnegative(self, form, sign=1):
        """Whether sign * form >= 0 is proved."""
        lo, hi = linear_bound(self, form)
        if (lo if sign > 0 else -hi) >= 0:
            return True
        if (hi if sign > 0 else -lo) < 0:
            return False
        if self.level:  # a proof needed by a proof: cheaper rules, and nothing weak is remembered
            return self.level < DEEPEST_PROOF and self._prove(form, sign, 1)
        key = (form.key, sign)
        found = self.proofs.get(key)
        if found is None:
            found = self.proofs[key] = self._prove(form, sign, 3)
        return found

    def _prove(self, form, sign, depth):
        self.level += 1
        try:
            with self.ranges_occupied(form):
                return prove_nonnegative(self, form if sign > 0 else scaled(form, -1), depth)
        finally:
            self.level -= 1

    @contextmanager
    def ranges_occupied(self, form):
        """Within the scope, the symbolic ranges of the variables of `form` count as not empty."""
        mentioned = self._behind(form.vars)
        if not mentioned or self.assuming == mentioned:
            yield
            return
        saved = self.bounds, self.refined, self.divisions, self.assuming
        if mentioned not in self.occupied:
            self.bounds, self.refined, self.divisions = {}, dict(self.refined), {}
            extents = [combine(high, low, -1) for v, (low, high) in self.symbolic.items() if v in mentioned]
            for extent in extents * 2:
                self._tighten(extent)
            self.occupied[mentioned] = self.bounds, self.refined, self.divisions
        self.bounds, self.refined, self.divisions = self.occupied[mentioned]
        self.assuming = mentioned
        try:
            yield
        finally:
            self.bounds, self.refined, self.divisions, self.assuming = saved

    def _behind(self, variables):
        """The variables with symbolic ranges among `variables` and in the ranges of those."""
        if not self.symbolic:
            return frozenset()
        found, stack = set(), [v for v in variables if v in self.symbolic]
        while stack:
            v = stack.pop()
            if v not in found:
                found.add(v)
                stack.extend(w for end in self.symbolic[v] for w in end.vars if w in self.symbolic)
        return frozenset(found)

    def is_nonzero(self, form):
        return bool(self.nonzero) and form.key in self.nonzero

    def vars_of(self, e):
        return frozenset(free_vars(e))
