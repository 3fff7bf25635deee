"""LoopPartition: separate the iterations where `likely` conditions always hold from those where they may fail."""
from __future__ import annotations

from ..arith import Analyzer
from ..arith.int_set import limits_of
from ..arith.linear import Linear, render, shifted
from ..arith.relax import relax
from ..expr import GE, GT, LE, LT, Call, IntImm, Not, Range, StringImm, const, free_vars, is_const_int, logical_and
from ..node import Mutator, Visitor, collect, structural_equal
from ..tir.hints import BORDER, FULL_LANES, WHOLE
from ..tir.renew import renew_defs
from ..tir.stmt import AssertStmt, AttrStmt, BufferLoad, DeclBuffer, Evaluate, For, IfThenElse, SeqStmt, seq
from .partition_hinted import partition_hinted
from .walk import rewrite_annotated


def loop_partition(func, partition_const_loop=False, no_unroll_loop_with_extent_one=False,
                   unroll_loop_with_partition_hint_no_interval=False):
    """Requires flat buffers, guards and no vectors. Ensures of `likely` conditions (a && b counts as two) that
    - one that can only fail in a loop's last iteration is gone from the loop: that iteration follows as a copy, or in a
      parallel loop, whose iterations stay together, or a nest of them, is the other branch of the body;
    - one that fails in other turns is gone from the body where it holds for all inner loops: `if (it holds throughout)
      body without it, else body`; where it is about a symbolic dimension, inner loops of the other body do so once
      more, and pass over turns in which nothing can happen;
    - turns at the end of a loop in which none can hold, and nothing else happens, are gone;
    - what is left stands outside the loops that it does not depend on, and `i < constant` shortens the loop over i.
    Loops with pragma_loop_partition_hint = 0 keep the guards inside of them that depend on them or on what is around:
    only the last holds there. Where an attribute of that name is not 0, or of loops of constant extents with
    partition_const_loop, partition_hinted says what else is done, and what the other settings ask for.
    """
    func = func.replace(body=partition_hinted(func.body, partition_const_loop,
                                              unroll_loop_with_partition_hint_no_interval,
                                              no_unroll_loop_with_extent_one))
    if any(c.op == "tir.likely" for c in collect(func.body, Call)):
        func = func.replace(body=_Partition(func.body).visit(func.body))
    hinted = any(WHOLE in loop.annotations for loop in _loops(func.body))
    return func.replace(body=rewrite_annotated(func.body, WHOLE, lambda loop, _: loop)) if hinted else func


def _stays_whole(loop):
    return loop.annotations.get(WHOLE) == 0


class _Partition(Mutator):
    def __init__(self, body):
        self.analyzer, self.loops = Analyzer(), set()
        for loop in _loops(body):
            self._bind(loop)
        self.versioned = 0      # how many versions this is the slow side of
        self.nest = ()          # the parallel loops directly around, which must stay nested

    def _bind(self, loop, extent=None):
        domain = Range(loop.min, loop.extent if extent is None else extent)
        self.loops.add(loop.loop_var)
        self.analyzer.bind(loop.loop_var, domain, allow_override=True)

    def visit_For(self, loop):
        nest, self.nest = self.nest, ()
        if _stays_whole(loop):
            return self._plain(loop)
        if loop.kind == "parallel" and isinstance(loop.body, For) and loop.body.kind == "parallel":
            self.nest = (*nest, loop)
            return self._plain(loop)
        guards = [c for c in _guards(loop.body) if any(_mentions(c, x.loop_var) for x in (*nest, loop))
                  and not self.analyzer.can_prove(c)]
        if not guards:
            return self._plain(loop)
        turns = self._turns(loop, guards)
        if turns is not None:
            self._bind(loop, turns)
            return self.visit(loop.replace(extent=turns))
        ways = [self._peel, self._version]
        if _guarded_part(loop.body, guards) is not loop.body:  # most of the body needs no copy
            ways.reverse()
        return (self._peel_around(loop, guards, nest) or ways[0](loop, guards) or ways[1](loop, guards)
                or self._plain(loop))

    def _plain(self, loop):
        new = _narrow(loop.replace(body=self.visit(loop.body)), self.analyzer)
        if isinstance(new, For) and new.extent is not loop.extent and _guards(new.body):
            self._bind(new)  # more is known about what is inside
            return self.visit(new)
        return new

    def visit_SeqStmt(self, s):
        return _merged([self.visit(x) for x in s.seq])

    def visit_IfThenElse(self, branch):
        if branch.else_case is not None and _is_likely(branch.condition):
            return self._both_versions(branch)
        parts = _likely_parts(branch)
        if parts and all(map(self.analyzer.can_prove, parts)):
            return self.visit(branch.then_case)
        return self.generic_visit(branch)

    # ------------------------------------------------------------ the last iteration

    def _peel(self, loop, guards):
        """for i in n: body  ->  for i in n - 1: body without its guards; body with i = n - 1. Of a parallel loop:

        for i in n: if (i < n - 1) body without its guards, else body with i = n - 1
        """
        if loop.kind not in ("serial", "unrolled", "parallel") or not isinstance(loop.extent, IntImm) or \
                loop.extent.value < 2:
            return None
        extent = const(loop.extent.value - 1, loop.extent.dtype)
        self._bind(loop, extent)
        proved = [c for c in guards if self.analyzer.can_prove(c)]
        if not proved:
            self._bind(loop)
            return None
        main = self.visit(loop.replace(extent=extent, body=_Without(proved).visit(loop.body)))
        last = renew_defs(loop.body, {loop.loop_var: loop.min + extent})
        for inner in _loops(last):
            self._bind(inner)
        last = self.visit(last)
        if _has_no_effect(last, self.analyzer):
            return main
        last = _border(last, _last(loop))
        if loop.kind != "parallel":
            return _merged([main, last])
        self._bind(loop)
        apart = isinstance(main, For) and main.extent is extent  # there may be something around the loop now
        return loop.replace(body=IfThenElse(LT(loop.loop_var, loop.min + extent), main.body, last)) if apart else None

    def _peel_around(self, loop, guards, nest):
        """Remove a guard that can only fail in the last iteration of o; a nest of parallel loops stays one:

        for o in m: for i in n: body  ->  for o in m: for i in n: if (o < m - 1) body without it, else body, o = m - 1
        """
        for outer in nest:
            own = [c for c in guards if _mentions(c, outer.loop_var) and not _mentions(c, loop.loop_var)]
            if not own or not isinstance(outer.extent, IntImm) or outer.extent.value < 2:
                continue
            last = const(outer.extent.value - 1, outer.extent.dtype)
            self._bind(outer, last)
            proved = [c for c in own if self.analyzer.can_prove(c)]
            bodies = proved and (_Without(proved).visit(loop.body),
                                 renew_defs(loop.body, {outer.loop_var: outer.min + last}))
            rest = tuple(x for x in nest if x is not outer)
            sides = [self._in_nest(loop.replace(body=body), rest) for body in bodies]
            self._bind(outer)
            if sides and all(isinstance(x, For) and x.extent is loop.extent for x in sides):
                condition, (main, border) = LT(outer.loop_var, outer.min + last), (side.body for side in sides)
                return loop.replace(body=IfThenElse(condition, main, _border(border, _last(outer))))
        return None

    def _in_nest(self, loop, nest):
        for inner in _loops(loop):
            self._bind(inner)
        self.nest = nest
        return self.visit(loop)

    # ------------------------------------------------------------ turns at the end that do nothing

    def _turns(self, loop, guards):
        """How many iterations a loop has before those in which nothing can happen; None where there are no such."""
        if loop.kind not in ("serial", "unrolled") or not isinstance(loop.extent, IntImm):
            return None
        limits = limits_of(self.analyzer, {x.loop_var: Range(x.min, x.extent) for x in _loops(loop.body)})
        ever = (self._extreme(c, limits, greatest=True) for c in guards)
        counts = [_limit(c, loop, self.analyzer) for c in ever if c is not None]
        turns = max((n for n in counts if n is not None), default=0)
        if not 0 < turns < loop.extent.value:
            return None
        turns = const(turns, loop.extent.dtype)
        self.analyzer.bind(loop.loop_var, Range(loop.min + turns, loop.extent - turns), allow_override=True)
        idle = _has_no_effect(loop.body, self.analyzer)
        self._bind(loop)
        return turns if idle else None

    # ------------------------------------------------------------ versions

    def _version(self, loop, guards):
        """for i: s; t  ->  for i: s; if (the guards in t hold for all inner loops): t without them; else: t"""
        if self.versioned and not self._again(guards):
            return None
        inner = _loops(loop.body)
        limits = limits_of(self.analyzer, {x.loop_var: Range(x.min, x.extent) for x in inner})
        condition, proved = const(True), []
        for c in guards:
            always = self._extreme(c, limits) if any(_mentions(c, x.loop_var) for x in inner) else None
            if always is not None:
                condition = logical_and(condition, always)
                proved.append(c)
        condition = self.analyzer.simplify(condition)
        if not proved or isinstance(condition, IntImm):
            return None
        stmt = _guarded_part(loop.body, proved)
        versions = IfThenElse(_likely(condition), _Without(proved).visit(stmt), renew_defs(stmt))
        for x in _loops(versions.else_case):
            self._bind(x)
        body = _Swap(stmt, versions).visit(loop.body)
        return self._plain(loop.replace(body=self._unless_idle(loop.body, body, proved, limits)))

    def _again(self, guards):
        """Whether the slow side of a version is worth another: where the loops' extents say nothing of how many of its
        turns are slow."""
        return self.versioned == 1 and all(any(v not in self.loops for v in free_vars(c)) for c in guards)

    def _unless_idle(self, body, versions, guards, limits):
        """The versions of a body, passed over where guards cannot hold in any inner loop and it then does nothing."""
        if not self.versioned:
            return versions
        for c in guards:
            ever = self._extreme(c, limits, greatest=True)
            if ever is not None and not isinstance(ever := self.analyzer.simplify(ever), IntImm):
                with self.analyzer.constraint_scope(Not(ever)):
                    idle = _has_no_effect(body, self.analyzer)
                if idle:
                    return IfThenElse(ever, versions)
        return versions

    def _both_versions(self, branch):
        fast, outside = self.visit(branch.then_case), self.versioned
        self.versioned += 1
        with self.analyzer.constraint_scope(Not(branch.condition.args[0])):
            slow = self.visit(branch.else_case)
        self.versioned = outside
        return branch.replace(then_case=fast, else_case=_border(slow, "iterations that reach outside"))

    def _extreme(self, condition, limits, greatest=False):
        """The condition with its worst case over the inner loops, or its best; None when that is not known."""
        if not isinstance(condition, (LT, LE, GT, GE)):
            return None
        a, b = (condition.a, condition.b) if isinstance(condition, (LT, LE)) else (condition.b, condition.a)
        canonical = self.analyzer.canonical
        strict = isinstance(condition, (LT, GT))
        gap = shifted(canonical.add(canonical.linear(b), canonical.linear(a), -1), -1 if strict else 0)
        least = relax(self.analyzer, gap, greatest, limits)
        if least is None:
            return None
        sides = [Linear({x: k * sign for x, k in least.terms.items() if k * sign > 0}, max(least.const * sign, 0))
                 for sign in (-1, 1)]
        return LE(*(render(side, a.dtype) for side in sides))


# ---------------------------------------------------------------- what is left

def _has_no_effect(stmt, analyzer):
    """Whether all that a statement may store goes into buffers of its own: accumulators that start, but never add."""
    own, stored = {id(d.buffer) for d in collect(stmt, DeclBuffer)}, _stored(stmt, analyzer)
    return stored is not None and own.issuperset(stored)


def _stored(stmt, analyzer):
    """The buffers (their ids) that a statement may store to; None where it may do something else."""
    stored = []

    class Scan(Visitor):
        def visit_IfThenElse(self, branch):
            if not any(analyzer.can_prove(Not(c)) for c in _likely_parts(branch)):
                self.visit((branch.then_case, branch.else_case))

        def visit_For(self, loop):
            if not is_const_int(loop.extent, 0):
                self.visit(loop.body)

        def visit_BufferStore(self, store):
            stored.append(id(store.buffer))

    Scan().visit(stmt)
    return None if collect(stmt, (Evaluate, AssertStmt)) else stored


def _border(stmt, words):
    """A copy of a statement for iterations that differ, with a hint for readers of the C of which these are."""
    marked = isinstance(stmt, AttrStmt) and stmt.attr_key == BORDER
    if marked or _likely_parts(stmt):  # it may be merged with what is before
        return stmt
    return AttrStmt(None, BORDER, StringImm(words), stmt)


def _last(loop):
    return f"the last iteration of {loop.loop_var.name}"


def _narrow(loop, analyzer):
    """for i in n: if likely(i < c && other && rest): body  ->  if likely(other): for i in c: if likely(rest): body

    `other` does not mention i; c is a constant. Parallel loops stay as they are: what is around them may be another.
    """
    parts = _likely_parts(loop.body)
    if not parts or loop.kind == "parallel" or collect(parts, BufferLoad):
        return loop
    outside, rest, extent = [], [], loop.extent
    for c in parts:
        limit = _limit(c, loop, analyzer)
        if not _mentions(c, loop.loop_var):
            outside.append(c)
        elif limit is not None and isinstance(extent, IntImm):
            extent = const(max(0, min(limit, extent.value)), extent.dtype)
        else:
            rest.append(c)
    annotations = loop.annotations
    if loop.kind == "vectorized" and extent is not loop.extent:
        annotations = {**annotations, FULL_LANES: loop.extent.value}
    return _guarded(outside, loop.replace(extent=extent, body=_guarded(rest, loop.body.then_case),
                                          annotations=annotations))


def _limit(condition, loop, analyzer):
    """c when the condition is exactly loop_var - min < c, with c a constant."""
    condition = analyzer.simplify(condition)
    if not isinstance(condition, LT):
        return None
    slack = analyzer.simplify(condition.b - condition.a + (loop.loop_var - loop.min))
    least, greatest = analyzer.interval(slack)
    return least if least == greatest and not _mentions(slack, loop.loop_var) else None


def _merged(stmts):
    """{ if likely(a && b): s; if likely(a): t }  ->  if likely(a): { if likely(b): s; t }"""
    parts = [_likely_parts(s) for s in stmts]
    common = [c for c in parts[0] if all(any(structural_equal(c, d) for d in p) for p in parts[1:])]
    if not common or collect(common, BufferLoad):
        return seq(*stmts)
    inner = [_guarded([c for c in p if not any(structural_equal(c, d) for d in common)], s.then_case)
             for p, s in zip(parts, stmts)]
    return _guarded(common, seq(*inner))


# ---------------------------------------------------------------- guards

def _conjuncts(condition):
    if type(condition).__name__ == "And":
        return _conjuncts(condition.a) + _conjuncts(condition.b)
    return [condition]


def _likely(condition):
    return Call("bool", "tir.likely", (condition,))


def _is_likely(condition):
    return isinstance(condition, Call) and condition.op == "tir.likely"


def _likely_parts(stmt):
    """The conditions of a statement that is `if likely(a && b ...)` without else; else none."""
    if isinstance(stmt, IfThenElse) and stmt.else_case is None and _is_likely(stmt.condition):
        return _conjuncts(stmt.condition.args[0])
    return []


def _guarded(parts, body):
    if not parts:
        return body
    condition = parts[0]
    for c in parts[1:]:
        condition = logical_and(condition, c)
    return IfThenElse(_likely(condition), body)


def _guarded_part(stmt, guards):
    """The smallest part of `stmt` that holds all guards and, unless it is all of `stmt`, leaves something out."""
    wanted, part = set(map(id, guards)), stmt
    while True:
        if isinstance(stmt, (DeclBuffer, For)) and not (isinstance(stmt, For) and any(
                _mentions(c, stmt.loop_var) for c in guards)):
            stmt = stmt.body
        elif isinstance(stmt, SeqStmt):
            holders = [s for s in stmt.seq if not wanted.isdisjoint(map(id, _guards(s)))]
            if len(holders) != 1:
                return part
            stmt = part = holders[0]
        else:
            return part


def _guards(stmt):
    """The parts of all likely conditions inside a statement but those that loops keep, and those of variables of `let`
    there, which have no value outside."""
    found, own = [], set()

    class Scan(Visitor):
        def visit_For(self, loop):
            if not _stays_whole(loop):
                self.visit(loop.body)

        def visit_LetStmt(self, let):
            own.add(let.var)
            self.visit(let.body)

        def visit_IfThenElse(self, branch):
            found.extend(c for c in _likely_parts(branch) if own.isdisjoint(free_vars(c)))
            self.visit((branch.then_case, branch.else_case))

        def visit_BufferStore(self, _):
            pass

    Scan().visit(stmt)
    return found


def _mentions(e, var):
    return any(v is var for v in free_vars(e))


def _loops(stmt):
    return collect(stmt, For)[::-1]  # outermost first


class _Without(Mutator):
    """Drops the given guards (by identity)."""

    def __init__(self, proved):
        self.proved = set(map(id, proved))

    def visit_IfThenElse(self, branch):
        parts = _likely_parts(branch)
        kept = [c for c in parts if id(c) not in self.proved]
        if len(kept) == len(parts):
            return self.generic_visit(branch)
        return _guarded(kept, self.visit(branch.then_case))

    def visit_BufferStore(self, store):
        return store


class _Swap(Mutator):
    """Puts `new` in the place of the statement `old`."""

    def __init__(self, old, new):
        self.old, self.new = old, new

    def visit(self, value):
        return self.new if value is self.old else super().visit(value)

    def visit_BufferStore(self, store):
        return store
