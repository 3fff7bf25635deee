"""Sets of elements of buffers: conditions over one variable for each dimension, and how loops and branches change what
is claimed of them.

Claims are made only where nothing else may see or change an element: refusing to know is always right. A buffer whose
memory another one shares, a pointer leads to, or that has strides has no claims (Memory); what is not a plain loop,
branch or store ends them (Accesses tells what a statement may do).
"""
from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce

from ..arith.canonical import INDEX_TYPES
from ..arith.int_set import scalar_lane
from ..arith.simplify import NEGATED
from ..expr import (EQ, GE, GT, LE, LT, And, Call, IntImm, Not, Or, PrimExpr, Range, Var, const, free_vars,
                    substitute)
from ..node import Visitor, collect, structural_equal
from ..tir.buffer import Buffer
from ..tir.intrinsics import ALL_INTRINSICS
from ..tir.stmt import BufferLoad

MOST_CLAIMS = 64  # of one place; the older ones go
# Calls that neither change memory nor depend on anything but their arguments
PURE = frozenset(["tir.likely", "tir.ignore_loop_partition", "tir.if_then_else", "tir.assume", "tir.undef",
                  "tir.reinterpret", *(f"tir.{name}" for name in ALL_INTRINSICS)])
SEQUENTIAL = ("serial", "unrolled")  # kinds of loops whose iterations run one after the other


def is_opaque(e):
    """Whether evaluating an expression may change memory, or end the function."""
    return any(call.op not in PURE for call in collect(e, Call))


def is_fixed(e):
    """Whether an expression has one value wherever its variables have: it reads nothing, calls nothing opaque and is
    not undefined."""
    return not collect(e, BufferLoad) and not any(c.op not in PURE or c.op == "tir.undef" for c in collect(e, Call))


# ---------------------------------------------------------------- conditions

def negated(conditions):
    """What holds where not all of some conditions do."""
    return reduce(Or, map(_not, conditions)) if conditions else const(False)


def _not(c):
    if isinstance(c, (And, Or)):
        return (Or if isinstance(c, And) else And)(_not(c.a), _not(c.b))
    if isinstance(c, Not):
        return c.a
    if type(c) in NEGATED and c.a.dtype in INDEX_TYPES:  # of floats, neither a < b nor a >= b may hold
        return NEGATED[type(c)](c.a, c.b)
    return const(not c.value) if isinstance(c, IntImm) else Not(c)


def parts(condition, holds=True):
    """The conditions all of which hold where one does (holds=False: does not)."""
    if isinstance(condition, Call) and condition.op == "tir.likely":
        return parts(condition.args[0], holds)
    if isinstance(condition, Not):
        return parts(condition.a, not holds)
    if isinstance(condition, And if holds else Or):
        return parts(condition.a, holds) + parts(condition.b, holds)
    return [condition if holds else _not(condition)]


def alternatives(condition):
    """The conditions one of which holds where one does."""
    if isinstance(condition, Or):
        return alternatives(condition.a) + alternatives(condition.b)
    return [condition]


def without(an, conditions, var, rng, exact):
    """Conditions that hold where, for some value of `var` in a Range, all of `conditions` do. exact: None where they
    would also hold elsewhere; rng None: any value, which is never exact."""
    conditions = [p for c in conditions for p in parts(c)]
    limits = [] if rng is None else [rng.min <= var, var < rng.min + rng.extent]
    value = _value(an, conditions + limits, var)
    if value is not None:
        return simplified(an, substitute(tuple(conditions + limits), {var: value}))
    if exact and (rng is None or any(mentions(c, {var}) for c in conditions)):
        return None
    free = [c for c in conditions if not mentions(c, {var})]
    return simplified(an, free if rng is None else [*free, rng.extent > const(0, rng.extent.dtype)])


def simplified(an, conditions):
    """Conditions without those that always hold; False alone where one never does."""
    found = [an.simplify(c) for c in conditions]
    if any(isinstance(c, IntImm) and not c.value for c in found):
        return (const(False),)
    return tuple(c for c in found if not isinstance(c, IntImm))


def mentions(e, variables):
    return any(v in variables for v in free_vars(e))


_GAPS = {LE: lambda a, b: b - a, LT: lambda a, b: b - a - 1, GE: lambda a, b: a - b, GT: lambda a, b: a - b - 1}


def _value(an, conditions, var):
    """The one value of a variable for which conditions may hold, as an expression without it; None if none is found:
    from c * var == r, and from 0 <= r - c * var < c."""
    rows = []
    for c in conditions:
        if type(c) not in (EQ, *_GAPS) or c.a.dtype != var.dtype or not mentions(c, {var}) or not is_fixed(c):
            continue
        gap = c.a - c.b if isinstance(c, EQ) else _GAPS[type(c)](c.a, c.b)
        step, rest = an.step(gap, var), an.simplify(substitute(gap, {var: const(0, var.dtype)}))
        if not step or mentions(rest, {var}):
            continue
        if isinstance(c, EQ):
            return an.simplify((rest if step < 0 else 0 - rest) // abs(step))
        rows.append((step, rest))
    for down, r in rows:
        for up, t in rows:
            width = an.simplify(r + t) if down < 0 and up == -down else None
            if isinstance(width, IntImm) and 0 <= width.value < up:
                return an.simplify(r // up)
    return None


# ---------------------------------------------------------------- memory

class Memory:
    """The buffers of a function of which elements can be told apart from all other memory: axes[buffer] are the
    variables of their dimensions."""

    def __init__(self, func):
        over, named = {}, set()
        for b in {id(b): b for b in (*func.buffer_map.values(), *collect(func.body, Buffer))}.values():
            over.setdefault(b.data, []).append(b)
        named.update(v for v in _Pointers.of(func.body) if v in over)
        self.axes = {}
        for pointer, buffers in over.items():
            b = buffers[0]
            if len(buffers) == 1 and pointer is not None and pointer not in named and _is_plain(b):
                self.axes[b] = tuple(Var(f"x{k}", extent.dtype) for k, extent in enumerate(b.shape))

    def element(self, buffer, indices):
        """The conditions that an element of a buffer is the one at scalar indices; None where that is not known."""
        axes = self.axes.get(buffer)
        if axes is None or len(axes) != len(indices) or not is_fixed(indices):
            return None
        if any(i.dtype != x.dtype for x, i in zip(axes, indices)):
            return None
        return tuple(EQ(x, i) for x, i in zip(axes, indices))

    def at(self, buffer, indices, e):
        """What is said of the elements of a buffer, for the one at some indices."""
        return substitute(e, dict(zip(self.axes[buffer], indices)))


def _is_plain(buffer):
    return not buffer.strides and buffer.dtype.lanes == 1 and buffer.shape and all(
        x.dtype in INDEX_TYPES for x in buffer.shape)


class _Pointers(Visitor):
    """The variables that expressions name, and the data of buffers whose elements' addresses are taken."""

    @classmethod
    def of(cls, body):
        found = cls()
        found.names = set()
        found.visit(body)
        return found.names

    def visit_Buffer(self, buffer):
        """The pointer of an access is no use of it as a value."""

    def visit_Var(self, v):
        self.names.add(v)

    def visit_LetStmt(self, let):
        self.names.add(let.var)
        self.generic_visit(let)

    def visit_MatchBufferRegion(self, match):
        self.names.update((match.buffer.data, match.source.buffer.data))

    def visit_Call(self, call):
        if call.op not in PURE:
            self.names.update(b.data for b in collect(call.args, Buffer))
        self.generic_visit(call)


# ---------------------------------------------------------------- what a statement may touch

@dataclass(frozen=True)
class Access:
    """An access in some statement: under `guards`, by the `loops` ((var, Range or None for any value), outer first)
    inside of it."""

    buffer: Buffer
    indices: tuple
    guards: tuple
    loops: tuple

    def elements(self, memory, an, var=None, rng=None):
        """The conditions that elements may be touched, `var` having any value of a Range; () for all of them."""
        indices, lanes = scalar_lane(self.indices)
        found = memory.element(self.buffer, indices)
        if found is None:
            return ()
        loops = [*([] if var is None else [(var, rng)]), *self.loops, *lanes.items()]
        fresh = {v: Var(v.name, v.dtype) for v, _ in loops}  # of which `an` knows nothing
        found = substitute(found + self.guards, fresh)
        for n, (v, r) in reversed(list(enumerate(loops))):
            r = r if r is None or v is var and n == 0 else Range(*substitute((r.min, r.extent), fresh))
            found = without(an, found, fresh[v], r, False)
        return found


class Accesses(Visitor):
    """The reads and writes of a statement, whether it is opaque: may do what nobody knows, and whether it may end the
    function by an assertion."""

    def __init__(self, stmt):
        self.reads, self.writes, self.opaque, self.fails = [], [], False, False
        self.guards, self.loops = (), ()
        self.visit(stmt)

    def _within(self, stmt, guards=(), loops=()):
        saved = self.guards, self.loops
        self.guards += tuple(p for g in guards for p in parts(g) if is_fixed(p))
        self.loops += loops
        self.visit(stmt)
        self.guards, self.loops = saved

    def _access(self, into, access):
        into.append(Access(access.buffer, access.indices, self.guards, self.loops))
        self.visit(access.indices)

    def visit_For(self, loop):
        self.visit((loop.min, loop.extent))
        known = is_fixed((loop.min, loop.extent))
        self._within(loop.body, (), ((loop.loop_var, Range(loop.min, loop.extent) if known else None),))

    def visit_IfThenElse(self, branch):
        self.visit(branch.condition)
        self._within(branch.then_case, (branch.condition,))
        if branch.else_case is not None:
            self._within(branch.else_case, (negated(parts(branch.condition)),))

    def visit_LetStmt(self, let):
        self.visit(let.value)
        self._within(let.body, (EQ(let.var, let.value),) if let.var.dtype in INDEX_TYPES else (),
                     ((let.var, None),))

    def visit_Let(self, let):
        self.visit(let.value)
        self._within(let.body, (), ((let.var, None),))

    def visit_Block(self, block):
        self._within((block.init, block.body, block.reads, block.writes), (),
                     tuple((iv.var, None) for iv in block.iter_vars))

    def visit_AssertStmt(self, stmt):
        self.fails = True
        self.generic_visit(stmt)

    def visit_BufferStore(self, store):
        self.visit(store.value)
        self._access(self.writes, store)

    def visit_BufferLoad(self, load):
        self._access(self.reads, load)

    def visit_Call(self, call):
        self.opaque = self.opaque or call.op not in PURE
        self.generic_visit(call)


# ---------------------------------------------------------------- claims

@dataclass(frozen=True)
class Claim:
    """Of all elements of `buffer` for which `where` holds: that they have `value`, or whatever a kind of analysis
    claims where value is None. root: the same for claims of which one is made from the other."""

    root: object
    buffer: Buffer
    where: tuple
    value: PrimExpr = None

    def also(self, conditions):
        """The claim where more conditions hold, too; None where nothing is left of it."""
        new = [c for c in conditions if not any(structural_equal(c, known) for known in self.where)]
        if any(isinstance(c, IntImm) and not c.value for c in new):
            return None
        return replace(self, where=self.where + tuple(c for c in new if not isinstance(c, IntImm))) if new else self

    def except_for(self, elements):
        """The claim without some elements; None where nothing is left of it."""
        if all(any(structural_equal(c, known) for known in self.where) for c in elements):
            return None
        return self.also((negated(elements),))

    def mentions(self, variables):
        return mentions((self.where, self.value), variables)


def except_for(claims, buffer, elements):
    """Claims without some elements of a buffer."""
    found = (c.except_for(elements) if c.buffer is buffer else c for c in claims)
    return tuple(c for c in found if c is not None)


def of_others(claims, buffers):
    """Claims of other buffers than some."""
    return tuple(c for c in claims if not any(c.buffer is b for b in buffers))


def joined(then_claims, else_claims, condition):
    """What holds after a branch, from what does after each case. The condition tells the cases apart where it is fixed;
    else what both claim is left."""
    same = [c for c in then_claims if any(c is d for d in else_claims)]
    sides = [[c for c in claims if not any(c is d for d in same)] for claims in (then_claims, else_claims)]
    if is_fixed(condition):
        known = (tuple(parts(condition)), (negated(parts(condition)),))
        same += [d for side, more in zip(sides, known) for d in (c.also(more) for c in side) if d is not None]
    else:
        for c in sides[0]:
            others = [d for d in sides[1] if d.root is c.root]
            if len(others) == 1 and sum(d.root is c.root for d in sides[0]) == 1:
                same.append(c.also(others[0].where))
    return tuple(c for c in same if c is not None)[-MOST_CLAIMS:]


class LoopClaims:
    """How claims pass a sequential loop. `spoilt`: the accesses of one iteration that end a claim. Time runs forward
    for what buffers hold, backward for what becomes of it: then `before` are the iterations that come later."""

    def __init__(self, memory, an, loop, spoilt, backward=False):
        self.memory, self.an, self.var, self.spoilt = memory, an, loop.loop_var, spoilt
        end, one = loop.min + loop.extent, const(1, loop.loop_var.dtype)
        first, rest = Range(loop.min, self.var - loop.min), Range(self.var + one, end - (self.var + one))
        self.whole = Range(loop.min, loop.extent)
        self.before, self.after = (rest, first) if backward else (first, rest)

    def _unspoilt(self, claims, rng):
        for access in self.spoilt:
            if any(c.buffer is access.buffer for c in claims):
                claims = except_for(claims, access.buffer, access.elements(self.memory, self.an, self.var, rng))
        return claims

    def inside(self, claims):
        """Of those that hold when the loop is entered, what does when an iteration is."""
        return self._unspoilt(claims, self.before)

    def outside(self, entered, left):
        """What holds when the loop is left, of the claims it is entered with and those an iteration is left with."""
        roots = {id(c.root) for c in entered}
        made = self._unspoilt(tuple(c for c in left if id(c.root) not in roots), self.after)
        found = (everywhere(self.an, c, self.var, self.whole) for c in made)
        return (*self._unspoilt(entered, self.whole), *(c for c in found if c is not None))[-MOST_CLAIMS:]


def everywhere(an, claim, var, rng):
    """A claim about a value of `var` for what all values in a Range claim, the variable being what the element says;
    None where that is not known."""
    value = None
    if claim.value is not None and mentions(claim.value, {var}):
        value = _value(an, [*claim.where, rng.min <= var, var < rng.min + rng.extent], var)
        if value is None:
            return None
    where = without(an, claim.where, var, rng, True)
    if where is None or any(isinstance(c, IntImm) for c in where):
        return None
    return replace(claim, where=where, value=claim.value if value is None else an.simplify(
        substitute(claim.value, {var: value})))


def leaving(claims, var, value=None):
    """Claims where a variable is no longer: `value`, if given and fixed, stands for it; else what mentions it goes."""
    if value is None or not is_fixed(value):
        return tuple(c for c in claims if not c.mentions({var}))
    return tuple(replace(c, where=substitute(c.where, {var: value}), value=None if c.value is None else (
        substitute(c.value, {var: value}))) if c.mentions({var}) else c for c in claims)
