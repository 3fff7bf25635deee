"""Analyzer: what is known about variables, and the questions one may ask about integer expressions."""
from __future__ import annotations

from contextlib import contextmanager
from enum import IntEnum, IntFlag

from ..expr import (EQ, GE, GT, LE, LT, NE, And, Call, IntImm, Mod, Not, Or, Range, as_expr, free_vars,
                    substitute)
from ..node import Node, children
from ..upper import provides, upper
from .canonical import INDEX_TYPES, Canonical, reads_state
from .const_int_bound import (INF, ConstIntBound, atom_bound, linear_bound, open_interval, private_bound,
                              public_bound)
from .linear import MOD, Linear, combine, scaled, shifted
from .modular import ModularSet, linear_modular, meet, normal
from .relax import prove_nonnegative
from .simplify import MIRRORED, NEGATED, Simplifier, decide, same, truth

DEEPEST_PROOF = 3


class ProofStrength(IntEnum):
    """How hard can_prove tries. One prover serves all strengths; the names are there for callers that pass one."""

    DEFAULT = 0
    SYMBOLIC_BOUND = 1


class Extension(IntFlag):
    """Rules of rewrite_simplify beyond those that it always has: Analyzer.enabled_extensions is a set of them.

    ComparisonOfProductAndSum compares x * y with multiples of x + y by the bounds of x and y. The others name what
    the one prover behind all simplifiers does in any case.
    """

    NoExtensions = 0
    TransitivelyProveInequalities = 1
    ConvertBooleanToAndOfOrs = 2
    ApplyConstraintsToBooleanBranches = 4
    ComparisonOfProductAndSum = 8


class Analyzer:
    """Proves and simplifies integer expressions under bindings and constraints.

    Binding a variable to a Range states that it takes a value in it. What mentions the variable is then only computed
    where the range is not empty, so proofs about it may use that a symbolic extent is at least 1.

    Answers are remembered until something new is learned; expressions are immutable, so the caches key on objects.
    """

    def __init__(self):
        self.canonical = Canonical(self)
        self._simplifier = Simplifier(self)
        self.enabled_extensions = Extension.NoExtensions
        self.var_bounds = {}  # Var -> (lo, hi), ends may be infinite
        self.symbolic = {}    # Var -> (least, greatest) as Linears, for ranges that are not constant, outer first
        self.given = {}       # Var -> the Range or expression that it was bound to
        self.limits = {}      # Var -> the ends (least, greatest) of its Range as Linears
        self.replaced = {}    # Var -> the Linear it equals
        self.var_modular = {}  # Var -> its ModularSet, where one was stated
        self.open_ended = set()  # Vars of which a bound was stated that has no end on some side
        self.loaded = set()   # Vars that stand for what a buffer holds
        self.facts = []       # Linears known to be >= 0
        self.nonzero = {}     # key -> Linear known to differ from 0
        self.holding = set()  # keys of conditions known to hold that are not linear
        self.refined = {}     # Atom -> (lo, hi) that the facts imply
        self.congruent = {}   # Atom -> the ModularSet that the facts imply
        self.epoch = 0        # changes when a statement is replaced, so that no scope brings back what it implied
        self.level = 0        # proofs now under way
        self.assuming = frozenset()  # the variables whose symbolic ranges now count as not empty
        self.acting = {}      # node -> whether it acts
        self._reset()

    def _reset(self):
        """Forget what was derived: something new is known."""
        self.forms, self.opened, self.simplified, self.divisions = {}, {}, {}, {}
        self.bounds, self.modular_sets = {}, {}
        self.proofs, self.occupied = {}, {}

    def copy(self):
        """An analyzer that knows the same and then goes its own way."""
        other = Analyzer()
        other.canonical.atoms = dict(self.canonical.atoms)
        for name in ("var_bounds", "given", "limits", "symbolic", "replaced", "var_modular", "nonzero", "holding",
                     "open_ended", "loaded", "refined", "congruent", "facts"):
            setattr(other, name, getattr(self, name).copy())
        return other

    # ------------------------------------------------------------ telling

    def bind(self, var, value, allow_override=False):
        """State that `var` lies in a Range, or equals an expression.

        Raises ValueError when it was bound to something else, unless allow_override: then this replaces it.
        """
        if self.has_bound(var, value):
            return
        if not allow_override and var in self.given:
            raise ValueError(f"{var.name} is already bound to {_shown(self.given[var])}, not to {_shown(value)}; "
                             "pass allow_override=True to replace what is known")
        again = [w for w in self._after(var) if w is not var] if var in self.given else ()
        self._state(var, value)
        for w in again:  # their ranges mention it, so their bounds rest on what it was
            self._state(w, self.given[w])

    def _after(self, var):
        """The bound variables whose ranges or values mention `var`, directly or not, in the order of their binding."""
        found = {var: None}
        for w, value in self.given.items():
            if not found.keys().isdisjoint(free_vars(value)):
                found[w] = None
        return found

    def _state(self, var, value):
        self._forget(var)
        for table in (self.var_bounds, self.symbolic, self.replaced, self.limits):
            table.pop(var, None)
        self.given[var] = value
        if not isinstance(value, Range):
            self.replaced[var] = self.canonical.linear(as_expr(value, var.dtype))
            return
        least = self.canonical.linear(as_expr(value.min, var.dtype))
        extent = self.canonical.linear(as_expr(value.extent, var.dtype))
        greatest = self.canonical.add(least, shifted(extent, -1))
        self.limits[var] = (least, greatest)
        changing = (least.terms or extent.terms) and reads_state(value)  # by stores, while the variable stays as it is
        if not extent.terms and extent.const == 1 and not changing:
            self.replaced[var] = least
        elif least.terms or greatest.terms:
            if not changing:
                self.symbolic[var] = (least, greatest)
            self.var_bounds[var] = (linear_bound(self, least)[0], linear_bound(self, greatest)[1])
        else:
            self.var_bounds[var] = (least.const, greatest.const)

    def has_bound(self, var, value):
        """Whether `var` was last bound to just this Range or expression."""
        known = self.given.get(var)
        return known is not None and (known is value or isinstance(value, Node) and same(known, value))

    def update(self, var, info, override=False):
        """State a ConstIntBound or a ModularSet of `var`, on top of what it is bound to.

        Raises ValueError when a different one is known, unless override; TypeError for other information.
        """
        if isinstance(info, ConstIntBound):
            table, fact = self.var_bounds, private_bound(info)
        elif isinstance(info, ModularSet):
            table, fact = self.var_modular, normal(*info)
        else:
            raise TypeError(f"update takes a ConstIntBound or a ModularSet, not a {type(info).__name__}")
        if not override and table.get(var, fact) != fact:
            raise ValueError(f"{var.name} already has {table[var]}, not {fact}; pass override=True to replace it")
        self._forget(var)
        table[var] = fact
        if table is self.var_bounds and INF in (-fact[0], fact[1]):
            self.open_ended.add(var)

    def const_int_bound_is_bound(self, var):
        """Whether a bound of `var` was stated."""
        return var in self.var_bounds or var in self.replaced

    def mark_nonnegative(self, var):
        """State that `var`, such as a symbolic dimension, is at least 0."""
        lo, hi = self.var_bounds.get(var, (0, INF))
        self._forget(var)
        self.var_bounds[var] = max(lo, 0), hi

    def bind_let(self, var, value):
        """State that `var` stands for an expression: where that depends on what a buffer holds, it may be any number,
        and arithmetic on it wraps around."""
        if var not in self.loaded and self.canonical.is_loaded(value):
            self.loaded.add(var)
            self._forget(var)
            if var in self.canonical.atoms:
                self.canonical.atoms[var].loaded = True

    def _forget(self, var):
        """Drop the answers that what is known about `var` may have shaped."""
        if var in self.canonical.atoms:
            self.epoch += 1
            self._reset()

    @contextmanager
    def constraint_scope(self, *conditions):
        """Within the scope, every condition holds. What depends on memory is not used: a store may change it."""
        names = ("facts", "nonzero", "holding", "refined", "congruent", "forms", "opened", "simplified", "divisions",
                 "bounds", "modular_sets", "proofs", "occupied")
        saved, epoch = {name: getattr(self, name) for name in names}, self.epoch
        self.facts, self.refined, self.congruent = list(self.facts), dict(self.refined), dict(self.congruent)
        self.nonzero, self.holding = dict(self.nonzero), set(self.holding)
        self._reset()
        try:
            for condition in conditions:
                self._assume(condition, True)
            yield self
        finally:
            for name, value in saved.items():
                setattr(self, name, value)
            if epoch != self.epoch:
                self._reset()

    def _assume(self, condition, holds):
        if isinstance(condition, Not):
            self._assume(condition.a, not holds)
        elif isinstance(condition, And if holds else Or):
            self._assume(condition.a, holds)
            self._assume(condition.b, holds)
        elif isinstance(condition, Call) and condition.op == "tir.likely":
            self._assume(condition.args[0], holds)
        elif reads_state(condition):
            return  # a store may make it false while the scope lasts
        elif type(condition) in NEGATED and condition.a.dtype in INDEX_TYPES:
            self._assume_compare(type(condition) if holds else NEGATED[type(condition)], condition)
        elif not isinstance(condition, IntImm):
            self.holding.add(self.canonical.key(condition if holds else Not(condition)))

    def _assume_compare(self, kind, condition):
        left, right = self.canonical.linear(condition.a), self.canonical.linear(condition.b)
        if kind in (GT, GE):
            left, right, kind = right, left, MIRRORED[kind]
        gap = self.canonical.add(right, left, -1)
        if kind is NE:
            self.nonzero.update((form.key, form) for form in (gap, scaled(gap, -1)))
            return
        self._learn(shifted(gap, -1) if kind is LT else gap)
        if kind is EQ:
            self._learn(scaled(gap, -1))
            self._learn_congruence(gap)

    def _learn_congruence(self, gap):
        """From mod(v + a, c) - b == 0, rounded down or toward 0, the modular set of v."""
        (atom, k), *more = gap.terms.items() or ((None, 0),)
        if more or abs(k) != 1:
            return
        if atom.kind == MOD:
            number, by = atom.parts
        elif type(atom.expr) is Mod:
            number, by = (self.canonical.linear(part) for part in (atom.expr.a, atom.expr.b))
        else:
            return
        (inner, sign), *more = number.terms.items() or ((None, 0),)
        if abs(sign) == 1 and not more and by.const and not by.terms:
            found = normal(by.const, sign * (-k * gap.const - number.const))
            known = self.congruent.get(inner)
            self.congruent[inner] = found if known is None else meet(known, found)
            self._reset()

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

    def simplify(self, e, steps=2):
        """An equal expression of the same dtype, in normal form; `e` itself when it is in normal form already.

        steps=0 leaves `e` as it is; more than one would change nothing, since a normal form is its own.
        """
        return self._simplifier.visit(as_expr(e)) if steps else e

    def rewrite_simplify(self, e):
        """`e` by the rules of arith.rewrite, which keep its shape where they do not apply."""
        return upper("rewrite")(self, as_expr(e))

    def canonical_simplify(self, e):
        """`e` by the rules of rewrite_simplify, its integer arithmetic as sums of parts of numbers, each part once, those
        of greater factors first."""
        return upper("canonical")(self, as_expr(e))

    def acts(self, e):
        """Whether computing `e` acts on the world: it is computed once for each place where it is written, the same
        object too, so no two of these are equal."""
        found = self.acting.get(e)
        if found is None:
            found = self.acting[e] = type(e) is Call and upper("acts")(e) or any(map(self.acts, children(e)))
        return found

    def simplify_fields(self, e):
        """`e`, not opened by arithmetic, with its fields simplified; a Call may become another expression."""
        return self._simplifier.call(e) if type(e) is Call else self._simplifier.generic_visit(e)

    def step(self, e, var):
        """By how much `e` grows with each step of a variable, an int; None where that is no constant."""
        step = self.simplify(substitute(e, {var: var + 1}) - e)
        return step.value if isinstance(step, IntImm) else None

    def can_prove(self, condition, strength=ProofStrength.DEFAULT):
        """Whether the condition always holds. False means it could not be proved, not that it fails."""
        if isinstance(condition, (bool, IntImm)):
            return bool(condition if isinstance(condition, bool) else condition.value)
        if isinstance(condition, And):
            return self.can_prove(condition.a) and self.can_prove(condition.b)
        if isinstance(condition, Or) and (self.can_prove(condition.a) or self.can_prove(condition.b)):
            return True
        if self.stated(condition):
            return True
        if type(condition) in NEGATED and condition.a.dtype in INDEX_TYPES:
            return decide(self, type(condition), self.canonical.linear(condition.a),
                          self.canonical.linear(condition.b)) is True
        done = self.simplify(condition)
        return isinstance(done, IntImm) and done.value != 0

    def stated(self, condition):
        """True or False where just this condition is known to hold or not to, else None."""
        if not self.holding:
            return None
        if self.canonical.key(condition) in self.holding:
            return True
        return False if self.canonical.key(Not(condition)) in self.holding else None

    def can_prove_equal(self, a, b):
        """Whether a == b always; a and b are integer expressions or ints."""
        return a is b and not (isinstance(a, Node) and self.acts(a)) or self._decide(EQ, a, b)

    def can_prove_less(self, a, b):
        """Whether a < b always."""
        return self._decide(LT, a, b)

    def can_prove_less_equal(self, a, b):
        """Whether a <= b always."""
        return self._decide(LE, a, b)

    def can_prove_greater_equal(self, a, b):
        """Whether a >= b always."""
        return self._decide(LE, b, a)

    def _decide(self, kind, a, b):
        a, b = as_expr(a), as_expr(b)
        if a.dtype not in INDEX_TYPES or b.dtype not in INDEX_TYPES:
            return self.can_prove(truth(kind is not LT) if a is b else kind(a, b))
        return decide(self, kind, self.canonical.linear(a), self.canonical.linear(b)) is True

    def const_int_bound(self, e):
        """The ConstIntBound that e never leaves."""
        e, an = as_expr(e), self
        if e.dtype.lanes > 1:
            an, (e, ranges) = self.copy(), upper("scalar_lane")(e)
            for lane, extent in ranges.items():
                an.bind(lane, extent)
        form = an.form(e)
        open_ended = any(v.is_size or v in self.open_ended for v in form.vars)
        return public_bound(*linear_bound(an, form), e.dtype, open_ended)

    def interval(self, e):
        """(min_value, max_value) that e never leaves; None on a side without a bound."""
        return open_interval(*linear_bound(self, self.form(e)))

    def int_set(self, e, dom_map=None):
        """The IntervalSet that holds e while the Vars of dom_map {Var: Range or IntervalSet} run; None: all bound."""
        return upper("int_set")(self, as_expr(e), dom_map)

    def modular_set(self, e):
        """(coeff, base) with e = coeff * k + base for some integer k; coeff 0 for the constant base."""
        return linear_modular(self, self.form(e))

    def form(self, e):
        """The Linear of an expression of any type."""
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
        saved = self.bounds, self.refined, self.divisions, self.proofs, self.assuming
        if mentioned not in self.occupied:
            self.bounds, self.refined, self.divisions, self.proofs = {}, dict(self.refined), {}, {}
            extents = [combine(high, low, -1) for v, (low, high) in self.symbolic.items() if v in mentioned]
            for extent in extents * 2:
                self._tighten(extent)
            self.occupied[mentioned] = self.bounds, self.refined, self.divisions, self.proofs
        self.bounds, self.refined, self.divisions, self.proofs = self.occupied[mentioned]
        self.assuming = mentioned
        try:
            yield
        finally:
            self.bounds, self.refined, self.divisions, self.proofs, self.assuming = saved

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
        """Whether form != 0 is known, of itself or of what the facts say is equal to it."""
        if form.key in self.nonzero:
            return True
        return bool(self.facts) and any(
            self.nonnegative(gap) and self.nonnegative(gap, -1) for gap in
            (combine(form, other, -1) for other in self.nonzero.values() if not other.vars.isdisjoint(form.vars)))

    def vars_of(self, e):
        return frozenset(free_vars(e))


def _shown(value):
    return f"[{value.min}, {value.min} + {value.extent})" if isinstance(value, Range) else str(value)


@provides("simplify")
def _simplified(e):
    return Analyzer().simplify(e)
