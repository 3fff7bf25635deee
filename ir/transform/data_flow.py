"""What buffers are known to hold, and which elements are overwritten before anything reads them, at each statement.

KnownValues goes through a function forward, DeadElements backward, with one table of statements each. Both make claims
of elements (elements.py) and give up where they do not see through: what parallel loops, threads, blocks and opaque
calls do is nobody's to know. Floats are known where they are constants, so that NaN and -0.0 stay what they are, and a
comparison says nothing of them; arithmetic on what was loaded may wrap around, so its result is known where it is
constant.
"""
from __future__ import annotations

from dataclasses import dataclass, replace

from ..arith import Analyzer
from ..arith.canonical import INDEX_TYPES
from ..arith.int_set import scalar_lane
from ..arith.simplify import BOOL
from ..expr import EQ, Call, FloatImm, IntImm, Not, PrimExpr, Range, Var, const, is_const_int
from ..node import Mutator, collect, structural_equal
from ..tir.stmt import BufferLoad
from .elements import (MOST_CLAIMS, SEQUENTIAL, Accesses, Claim, LoopClaims, Memory, alternatives, everywhere,
                       except_for, is_fixed, is_opaque, joined, leaving, negated, of_others, parts, without)
from .walk import all_statements

ASSUME = "tir.assume"
HARMLESS_ATTRS = ("pragma_",)  # what attributes begin with that leave the order of statements as it is


@dataclass(frozen=True)
class State:
    """What is known before a statement: claims of elements, and conditions of variables that hold."""

    claims: tuple = ()
    conditions: tuple = ()


NOTHING = State()


class _Flow:
    """Goes through the statements of a function; `before[id(statement)]` is what was known there (of DeadElements:
    after it). A statement object that stands in several places has what is known in none."""

    def __init__(self, func):
        self.func, self.memory, self.an = func, Memory(func), Analyzer()
        self.known = {}
        self.needless = {}  # id of a store -> whether nobody would miss it, wherever the object stands
        self.walk(func.body, self.nothing)

    def walk(self, stmt, state):
        self.known[id(stmt)] = self.nothing if id(stmt) in self.known else state
        return getattr(self, f"_{type(stmt).__name__}", self._unknown)(stmt, state)

    def _leave(self, stmt):
        """Nothing is known at the statements in one that is not gone through."""
        for s in all_statements(stmt):
            self.known[id(s)], self.needless[id(s)] = self.nothing, False

    def at(self, stmt):
        """What is known at a statement of the function."""
        return self.known.get(id(stmt), self.nothing)

    def _bound_let(self, let):
        """Tell the analyzer of a variable; False for one that is a loop's, too."""
        if let.var.dtype in INDEX_TYPES and is_fixed(let.value):
            self.an.bind(let.var, let.value, allow_override=True)
            return True
        self.an.bind_let(let.var, let.value)
        return let.var not in self.an.given

    def _AttrStmt(self, stmt, state):
        if stmt.attr_key.startswith(HARMLESS_ATTRS):
            return self.walk(stmt.body, state)
        return self._unknown(stmt, state)

    def _BlockRealize(self, realize, state):
        block = realize.block
        if block.iter_vars or block.init is not None or block.match_buffers or not is_const_int(realize.predicate, 1):
            return self._unknown(realize, state)
        return self._scope(block.body, block.alloc_buffers, state)

    def _DeclBuffer(self, decl, state):
        return self._scope(decl.body, (decl.buffer,), state)


class KnownValues(_Flow):
    """What buffers hold before each statement."""

    nothing = NOTHING

    def resolve(self, e, state, an):
        """An expression with the values that are known of what it loads, `an` knowing what holds around it."""
        return e if not state.claims or is_opaque(e) else _Resolve(self.memory, state.claims, an).visit(e)

    def decided(self, condition, state, an):
        """A condition as its constant value where what is known decides it; None elsewhere."""
        if is_opaque(condition):
            return None
        with an.constraint_scope(*state.conditions):
            found = an.simplify(self.resolve(condition, state, an))
        return found if isinstance(found, IntImm) else None

    # ------------------------------------------------------------ statements

    def _unknown(self, stmt, state):
        self._leave(stmt)
        accesses = Accesses(stmt)
        changed = [a.buffer for a in accesses.writes]
        return replace(state, claims=() if accesses.opaque else of_others(state.claims, changed))

    def _scope(self, body, buffers, state):
        out = self.walk(body, replace(state, claims=of_others(state.claims, buffers)))
        return replace(out, claims=of_others(out.claims, buffers))

    def _SeqStmt(self, s, state):
        for stmt in s.seq:
            state = self.walk(stmt, state)
        return state

    def _Evaluate(self, stmt, state):
        if isinstance(stmt.value, Call) and stmt.value.op == ASSUME:
            return self._learn(state, stmt.value.args[0])
        return replace(state, claims=()) if is_opaque(stmt.value) else state

    def _AssertStmt(self, stmt, state):
        if is_opaque((stmt.condition, stmt.message)):
            state = replace(state, claims=())
        return self._inner(stmt.body, self._learn(state, stmt.condition), (stmt.condition,))

    def _inner(self, body, state, conditions):
        with self.an.constraint_scope(*conditions, *state.conditions):
            return self.walk(body, state)

    def _IfThenElse(self, branch, state):
        if is_opaque(branch.condition):
            state = replace(state, claims=())
        decided = self.decided(branch.condition, state, self.an)
        if decided is not None:
            taken = branch.then_case if decided.value else branch.else_case
            return state if taken is None else self.walk(taken, state)
        cases = []
        for case, condition in ((branch.then_case, branch.condition), (branch.else_case, negated(parts(
                branch.condition)))):
            inside = self._learn(state, condition)
            cases.append(inside if case is None else self._inner(case, inside, (condition,)))
        return State(joined(cases[0].claims, cases[1].claims, branch.condition), state.conditions)

    def _LetStmt(self, let, state):
        if is_opaque(let.value):
            state = replace(state, claims=())
        if not self._bound_let(let):
            return self._unknown(let, state)
        return State(leaving(self.walk(let.body, state).claims, let.var, let.value), state.conditions)

    def _For(self, loop, state):
        if loop.kind not in SEQUENTIAL or not is_fixed((loop.min, loop.extent)):
            return self._unknown(loop, state)
        if is_const_int(self.an.simplify(loop.extent), 0):
            return state
        accesses = Accesses(loop.body)
        if accesses.opaque:
            state = replace(state, claims=())
        passing = LoopClaims(self.memory, self.an, loop, accesses.writes)
        with self.an.constraint_scope():
            self.an.bind(loop.loop_var, Range(loop.min, loop.extent), allow_override=True)
            left = self.walk(loop.body, replace(state, claims=passing.inside(state.claims)))
        claims = () if accesses.opaque else passing.outside(state.claims, left.claims)
        return State(leaving(claims, loop.loop_var), state.conditions)

    def _BufferStore(self, store, state):
        if is_opaque((store.value, store.indices)):
            state = replace(state, claims=())
        (indices, value), lanes = scalar_lane((store.indices, store.value))
        elements = self.memory.element(store.buffer, indices)
        written = elements or ()
        for lane, rng in lanes.items():
            written = without(self.an, written, lane, rng, False)
        claims = except_for(state.claims, store.buffer, written)
        value = self._value(value, state, store.buffer.dtype) if elements else None
        self._find_needless(store, state, value if not lanes else None)
        if value is None:
            return replace(state, claims=claims)
        made = Claim(object(), store.buffer, elements, value)
        for lane, rng in lanes.items():
            made = everywhere(self.an, made, lane, rng) if made else None
        return replace(state, claims=(*claims, made)[-MOST_CLAIMS:] if made else claims)

    def _find_needless(self, store, state, value):
        """Whether a store puts back what is there."""
        old = self.resolve(BufferLoad(store.buffer, store.indices), state, self.an) if value is not None else None
        self.needless[id(store)] = self.needless.get(id(store), True) and old is not None and not is_opaque(
            (store.value, store.indices)) and (structural_equal(old, value) or is_fixed(old) and (
                value.dtype in INDEX_TYPES and self.an.can_prove_equal(old, value)))

    def _value(self, value, state, dtype):
        """The value of an element after a store, in terms of variables; None where it is not known to be one."""
        if value.dtype != dtype or is_opaque(value):
            return None
        resolved = self.resolve(value, state, self.an)
        if isinstance(value, BufferLoad) or not collect(value, BufferLoad):
            known = resolved if resolved.dtype in INDEX_TYPES or dtype == BOOL else None
        else:
            known = self.an.simplify(resolved)  # arithmetic on what was loaded wraps around
            known = known if isinstance(known, IntImm) and _fits(known) else None
        if isinstance(resolved, (IntImm, FloatImm, Var)):
            known = resolved
        return known if known is not None and is_fixed(known) and _is_exact(known) else None

    def _learn(self, state, condition):
        """What is known where a condition holds, too."""
        claims, conditions = list(state.claims), list(state.conditions)
        for part in parts(condition):
            choices = alternatives(part)
            loading = [c for c in choices if not is_fixed(c)]
            if not loading:
                conditions.append(part)
            elif len(loading) == 1:
                others = [c for c in choices if c is not loading[0]]
                found = self._claim(loading[0], tuple(map(negated, ((c,) for c in others))))
                claims += [found] if found else []
        return State(tuple(claims)[-MOST_CLAIMS:], tuple(conditions))

    def _claim(self, condition, where):
        """The claim of an element that a condition is; None where it is none."""
        load, value = _equation(condition)
        elements = None if load is None else self.memory.element(load.buffer, load.indices)
        if not elements or not is_fixed(value) or value.dtype != load.dtype or load.dtype not in (*INDEX_TYPES, BOOL):
            return None
        return Claim(object(), load.buffer, elements + where, value)


def _equation(condition):
    """(load, value that it has) of a condition; (None, None) where that is not what it says."""
    if isinstance(condition, EQ):
        for a, b in ((condition.a, condition.b), (condition.b, condition.a)):
            if isinstance(a, BufferLoad):
                return a, b
    if isinstance(condition, BufferLoad) and condition.dtype == BOOL:
        return condition, const(True)
    if isinstance(condition, Not) and isinstance(condition.a, BufferLoad):
        return condition.a, const(False)
    return None, None


def _is_exact(value):
    """Whether computing a value again gives it again: floats may be computed in other ways."""
    return isinstance(value, (FloatImm, Var)) or all(
        e.dtype.is_int or e.dtype == BOOL for e in collect(value, PrimExpr))


def _fits(number):
    bits = number.dtype.bits - 1
    return number.dtype in INDEX_TYPES and -1 << bits <= number.value < 1 << bits


class _Resolve(Mutator):
    """Puts known values in the place of loads."""

    def __init__(self, memory, claims, an):
        self.memory, self.claims, self.an = memory, claims, an

    def visit_BufferLoad(self, load):
        load = load.replace(indices=self.visit(load.indices))
        if self.memory.element(load.buffer, load.indices) is None:  # of vectors, too
            return load
        for c in reversed(self.claims):
            if c.buffer is load.buffer and holds(self.memory, c.where, load, self.an):
                return self.memory.at(load.buffer, load.indices, c.value)
        return load


def holds(memory, where, access, an):
    """Whether the element of an access is provably one of those for which conditions hold."""
    return all(an.can_prove(memory.at(access.buffer, access.indices, c)) for c in where)


class DeadElements(_Flow):
    """Which elements are overwritten before anything reads them, after each statement."""

    nothing = ()

    def is_dead(self, store, an):
        """Whether nobody sees what a store of the function leaves, `an` knowing what holds around it."""
        return self.memory.element(store.buffer, store.indices) is not None and any(
            c.buffer is store.buffer and holds(self.memory, c.where, store, an) for c in self.at(store))

    def _read(self, e, claims):
        """What is dead before an expression is evaluated."""
        if is_opaque(e):
            return ()
        for access in Accesses(e).reads:
            if any(c.buffer is access.buffer for c in claims):
                claims = except_for(claims, access.buffer, access.elements(self.memory, self.an))
        return claims

    # ------------------------------------------------------------ statements

    def _unknown(self, stmt, claims):
        self._leave(stmt)
        accesses = Accesses(stmt)
        return () if accesses.opaque or accesses.fails else of_others(claims, [a.buffer for a in accesses.reads])

    def _scope(self, body, buffers, claims):
        ends = tuple(Claim(object(), b, ()) for b in buffers if b in self.memory.axes)
        return of_others(self.walk(body, of_others(claims, buffers) + ends), buffers)

    def _SeqStmt(self, s, claims):
        for stmt in reversed(s.seq):
            claims = self.walk(stmt, claims)
        return claims

    def _Evaluate(self, stmt, claims):
        return self._read(stmt.value, claims)

    def _AssertStmt(self, stmt, claims):
        self.walk(stmt.body, claims)
        return ()  # where it fails, the caller sees what there is

    def _IfThenElse(self, branch, claims):
        cases = []
        for case, condition in ((branch.then_case, branch.condition), (branch.else_case, Not(branch.condition))):
            with self.an.constraint_scope(condition):
                cases.append(claims if case is None else self.walk(case, claims))
        return self._read(branch.condition, joined(*cases, branch.condition))

    def _LetStmt(self, let, claims):
        if not self._bound_let(let):
            return self._unknown(let, claims)
        return self._read(let.value, leaving(self.walk(let.body, claims), let.var, let.value))

    def _For(self, loop, claims):
        if loop.kind not in SEQUENTIAL or not is_fixed((loop.min, loop.extent)):
            return self._unknown(loop, claims)
        accesses = Accesses(loop.body)
        ends = accesses.opaque or accesses.fails
        passing = LoopClaims(self.memory, self.an, loop, accesses.reads, backward=True)
        self.an.bind(loop.loop_var, Range(loop.min, loop.extent), allow_override=True)
        with self.an.constraint_scope():
            before = self.walk(loop.body, () if ends else passing.inside(claims))
        return () if ends else leaving(passing.outside(claims, before), loop.loop_var)

    def _BufferStore(self, store, claims):
        elements = self.memory.element(store.buffer, store.indices)
        self.needless[id(store)] = self.needless.get(id(store), True) and self.is_dead(store, self.an)
        if elements:
            claims = (*claims, Claim(object(), store.buffer, elements))[-MOST_CLAIMS:]
        return self._read((store.value, store.indices), claims)
