"""Patterns that use one another: a PatternContext holds who uses whom, and finds variables of a dataflow block that do.

    with PatternContext() as context:
        product, activation = is_op("relax.matmul")(x, w), is_op("relax.nn.relu")(wildcard())
        product >> activation                   # which alone uses it
        matched = context.match_dfb(block)      # {pattern: variable}, or None
"""
from __future__ import annotations

from dataclasses import dataclass

from ...node import collect
from ...upper import provides
from ..expr import DataflowVar, RelaxVar
from .pattern import CONTEXTS, Match


@dataclass(frozen=True)
class _Use:
    """user's argument `index` (-1: any) is the pattern; only: nothing else uses it."""

    user: object
    index: int
    only: bool


@provides("pattern_sequence")
class PatternSeq:
    """Patterns each of which the next one uses."""

    def __init__(self, patterns, only_use=False):
        self.patterns = list(patterns)
        self.uses = []  # (from, to, index, only), which dup repeats
        for a, b in zip(self.patterns, self.patterns[1:]):
            self._edge(a, b, -1, only_use)

    def _edge(self, a, b, index, only):
        self.uses.append((a, b, index, only))
        if CONTEXTS:
            CONTEXTS[-1].add_edge(a, b, index, only)

    def _join(self, other, index, only):
        other = other if isinstance(other, PatternSeq) else PatternSeq([other])
        both = PatternSeq([])
        both.patterns, both.uses = self.patterns + other.patterns, self.uses + other.uses
        both._edge(self.patterns[-1], other.patterns[0], index, only)
        return both

    def used_by(self, other, index=-1):
        """The next one, or the first of other patterns, uses the last of these."""
        return self._join(other, index, False)

    def only_used_by(self, other, index=-1):
        return self._join(other, index, True)

    __xor__, __rshift__ = used_by, only_used_by

    def __getitem__(self, index):
        return self.patterns[index]

    def dup(self):
        """Patterns of their own, with the same uses."""
        copies = {id(p): p.dup() for p in self.patterns}
        new = PatternSeq([])
        new.patterns = [copies[id(p)] for p in self.patterns]
        for a, b, index, only in self.uses:
            new._edge(copies[id(a)], copies[id(b)], index, only)
        return new


class PatternContext:
    """Patterns made inside `with PatternContext()` and what is said of them. incremental: beside what the context
    around says."""

    def __init__(self, incremental=False):
        self.patterns, self.uses, self.constraints = [], {}, []
        if incremental:
            outer = PatternContext.current()
            self.patterns, self.constraints = list(outer.patterns), list(outer.constraints)
            self.uses = {p: list(uses) for p, uses in outer.uses.items()}

    def __enter__(self):
        CONTEXTS.append(self)
        return self

    def __exit__(self, *error):
        CONTEXTS.pop()

    @staticmethod
    def current():
        """The innermost context; ValueError outside of one."""
        if not CONTEXTS:
            raise ValueError("no PatternContext: with PatternContext() as context: ...")
        return CONTEXTS[-1]

    def add_edge(self, pattern, user, index=-1, only=False):
        """Say that `user` (a pattern or the first of a sequence) uses `pattern`."""
        user = user.patterns[0] if isinstance(user, PatternSeq) else user
        for p in (pattern, user):
            if p not in self.uses:
                self.uses[p] = []
                self.patterns.append(p)
        self.uses[pattern].append(_Use(user, index, only))

    def add_constraint(self, constraint):
        self.constraints.append(constraint)

    def match_dfb(self, dfb):
        """{pattern: variable} for a dataflow block, each pattern another variable; None when it does not fit."""
        return self.match_bindings(dfb.bindings)

    def match_bindings(self, bindings):
        graph = _Graph(bindings)
        matched = next(self._assign(self._order(), graph, {}), None)
        return None if not matched else matched

    def _order(self):
        """The patterns, each after one that it uses or that uses it where there is one: few candidates, early."""
        neighbours = {p: [] for p in self.patterns}
        for p, uses in self.uses.items():
            for use in uses:
                neighbours[p].append(use.user)
                neighbours[use.user].append(p)
        order, seen = [], set()
        for root in self.patterns:
            waiting = [root]
            while waiting:
                p = waiting.pop(0)
                if p not in seen:
                    seen.add(p)
                    order.append(p)
                    waiting += neighbours[p]
        return order

    def _assign(self, patterns, graph, matched):
        if not patterns:
            yield matched
            return
        pattern, taken = patterns[0], {id(v) for v in matched.values()}
        for var in graph.variables:
            if id(var) in taken or not graph.fits(pattern, var):
                continue
            more = {**matched, pattern: var}
            if self._uses_hold(pattern, graph, more) and all(c.holds(more) for c in self.constraints):
                yield from self._assign(patterns[1:], graph, more)

    def _uses_hold(self, pattern, graph, matched):
        """Whether what is said of `pattern` and of patterns matched before holds."""
        own = [(pattern, use) for use in self.uses[pattern]]
        others = [(p, use) for p in matched if p is not pattern for use in self.uses[p] if use.user is pattern]
        for p, use in own + others:
            if use.only and len(graph.users[matched[p]]) > 1:
                return False
            if use.user in matched and not graph.uses(matched[use.user], matched[p], use.index):
                return False
        return True


class _Graph:
    """The variables of bindings: who uses whom, in order."""

    def __init__(self, bindings):
        self.match = Match({b.var: b.value for b in bindings})
        self.used = {b.var: _variables(b.value) for b in bindings}  # {variable: those in its value}
        self.users = {}
        for var, inside in self.used.items():
            for v in inside:
                self.users.setdefault(v, [])
                if var not in self.users[v]:
                    self.users[v].append(var)
            self.users.setdefault(var, [])
        self.variables = list({id(v): v for b in bindings for v in (*self.used[b.var], b.var)}.values())
        self._fits = {}

    def fits(self, pattern, var):
        key = id(pattern), id(var)
        if key not in self._fits:
            self._fits[key] = next(self.match.solutions(pattern, var, {}), None) is not None
        return self._fits[key]

    def uses(self, user, var, index):
        inside = self.used.get(user, ())
        return any(v is var for v in inside) if index < 0 else index < len(inside) and inside[index] is var


def _variables(value):
    """The variables in a value, in order, as often as they occur."""
    found = []

    def walk(v):
        if isinstance(v, (RelaxVar, DataflowVar)):
            found.append(v)
        elif hasattr(v, "fields"):
            for f in v.fields:
                walk(f)
        elif hasattr(v, "args"):
            for a in v.args:
                walk(a)
        else:
            found.extend(collect(v, (RelaxVar, DataflowVar)))

    walk(value)
    return found
