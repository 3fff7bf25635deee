"""Which threads touch which elements: whether what one thread leaves in memory is used by another one.

Accesses are compared by the numbers that their indices are: those of all threads and loops between the two, as arrays.
What both have in common, of blocks, outer loops and dimensions, cancels out. So splits, fusions, paddings and guards
need no rules, and whatever is not known to be apart counts as handed over.
"""
from __future__ import annotations

from dataclasses import dataclass, field
from math import lcm, prod

import numpy as np

from ...arith.linear import DoesNotFit, Linear, combine, render
from ...arith.pattern import conjuncts
from ...expr import Call, Cast, FloorMod, IntImm, Range, Var, free_vars, substitute
from ...node import children, collect
from ...schedule.digits import Digits
from ...tir.bounds import FUNCTIONS
from ...tir.buffer import Buffer
from .threads import AXES, WARP

POINTS = 1 << 22  # of threads and iterations that are looked at, at most
MOST_POINTS = 1 << 17  # with loops that guards alone are about
SAMPLE = 37  # what a dimension may well be
MOST_VALUES = 64  # of a variable that both accesses have in common but that does not cancel out
NOT, IN_WARP, IN_BLOCK = 0, 1, 2  # how far what an access leaves is handed on


@dataclass(frozen=True)
class Access:
    """A load, a store, the start of an asynchronous copy, whose values nobody sees yet, or their arrival ("read",
    "write", "start", "arrive").

    indices: in terms of the block's thread variables and the variables of `ranges`; None where it is not known what is
    touched. ranges: {Var: Range} of the serial loops around and of lanes. guards: conditions around. axes: {thread
    axis: Range of the threads that do it}, of those whose loops are around.
    """

    buffer: Buffer
    kind: str
    indices: tuple | None
    ranges: dict = field(repr=False)
    guards: tuple = ()
    axes: dict = field(default_factory=dict)
    loops: tuple = ()
    node: object = field(default=None, repr=False)


class _Unknown(Exception):
    """A value that is no number here."""


def handed_on(first, then, threads, an, later=None, any_later=False):
    """How far elements that `first` touches are touched by `then` from another thread: NOT, IN_WARP or IN_BLOCK.

    threads: the block's Threads. an: an Analyzer that knows outer loops. later: the loop of which `then` is in the next
    iteration (or in any later one, with any_later); None when both are in the same iteration of the loops around both.
    """
    if threads.count == 1 or then.kind == "arrive" or first.kind in ("read", "start") and then.kind == "read":
        return NOT
    if first.indices is None or then.indices is None or first.buffer is not then.buffer:
        return IN_BLOCK
    if same_thread(first, then, threads, an):
        return NOT
    if threads.count is None:
        return IN_BLOCK
    try:
        a, b = _elements(first, then, threads, an, later, any_later)
    except _Unknown:
        return IN_BLOCK
    if a is None:
        return NOT
    least, most = np.minimum(a[0], b[0]), np.maximum(a[1], b[1])
    if np.array_equal(least, most):
        return NOT
    return IN_WARP if np.array_equal(least // WARP, most // WARP) else IN_BLOCK


def same_thread(first, then, threads, an):
    """Whether the indices that both accesses have in common tell which thread it is, whatever else they depend on."""
    if not all(axis in first.axes and axis in then.axes for axis in threads.variables):
        return False
    values = []
    for a, b in zip(first.indices, then.indices):
        if a is not None and b is not None:
            form = an.canonical.linear(a)
            if form.key == an.canonical.linear(b).key and not any(atom.loaded for atom in form.terms):
                values.append((a, form.key))
    key = tuple(k for _, k in values)
    if key not in threads.told_apart:
        used = set(free_vars([v for v, _ in values]))
        ranges = {v: r for v, r in an.given.items() if v in used and isinstance(r, Range)}
        found = Digits(an, ranges).recovered([(v, 1) for v, _ in values]) if used else set()
        threads.told_apart[key] = found.issuperset(threads.variables.values())
    return threads.told_apart[key]


def _elements(first, then, threads, an, later, any_later):
    """For the elements that both touch, (least thread, greatest thread) of each access; (None, None) without any."""
    shared = _common(first.loops, then.loops)
    if later is not None:
        shared = shared[:next(n for n, loop in enumerate(shared) if loop is later) + (not any_later)]
    fixed = {loop.loop_var for loop in shared}
    sides = [_Side(x, {v: r for v, r in x.ranges.items() if v not in fixed}, threads) for x in (first, then)]
    indices = [first.indices, then.indices]
    if later is not None and not any_later:
        following = {later.loop_var: later.loop_var + 1}
        indices[1] = tuple(i if i is None else substitute(i, following) for i in indices[1])
        end = later.min + later.extent  # of the loop, before which the next iteration is
        sides[1].guards = (*substitute(sides[1].guards, following), later.loop_var + 1 < end)
    pairs, enumerated = [], {}
    for pair in zip(*indices):
        if any(i is None for i in pair):
            continue
        try:
            pairs.append(_apart(pair, sides, an, enumerated))
        except _Unknown:
            continue  # this dimension tells nothing
    if not pairs:
        raise _Unknown
    found = [side.points([p[n] for p in pairs], enumerated) for n, side in enumerate(sides)]
    if any(not len(tid) for _, tid in found):
        return None, None
    low = np.minimum(*(keys.min(0) for keys, _ in found))
    high = np.maximum(*(keys.max(0) for keys, _ in found))
    sizes = [int(n) for n in high - low + 1]
    if prod(sizes) >= 1 << 62:
        raise _Unknown
    flat, size = [np.ravel_multi_index(tuple((keys - low).T), sizes) for keys, _ in found], prod(sizes)
    if size > POINTS:  # few of which are touched
        elements, places = np.unique(np.concatenate(flat), return_inverse=True)
        flat, size = np.split(places, [len(flat[0])]), len(elements)
    ends = [_ends(keys, tid, size) for keys, (_, tid) in zip(flat, found)]
    both = (ends[0][1] >= 0) & (ends[1][1] >= 0)
    return tuple((low[both], high[both]) for low, high in ends) if both.any() else (None, None)


def _ends(keys, tid, size):
    """(least, greatest) thread of each element, -1 where none touches it. Points come in the order of threads."""
    order = np.argsort(tid, kind="stable")
    low, high = np.full(size, -1), np.full(size, -1)
    high[keys[order]] = tid[order]
    low[keys[order[::-1]]] = tid[order[::-1]]
    return low, high


def _common(a, b):
    """The longest common start of two tuples of loops."""
    count = 0
    while count < min(len(a), len(b)) and a[count] is b[count]:
        count += 1
    return a[:count]


def _apart(pair, sides, an, enumerated):
    """Two indices without what they have in common; what is left in common is among the `enumerated` variables, {Var:
    values}. Raises _Unknown."""
    forms, own = [], []
    for index, side in zip(pair, sides):
        form = an.canonical.linear(index)
        if any(atom.loaded for atom in form.terms):
            raise _Unknown
        mine = {a: k for a, k in form.terms.items() if not a.vars.isdisjoint(side.varying)}
        own.append(Linear(mine, form.const))
        forms.append(Linear({a: k for a, k in form.terms.items() if a not in mine}, 0))
    own[0] = combine(own[0], combine(forms[0], forms[1], -1))
    return _as_numbers(own, pair, sides, an, enumerated)


def _as_numbers(forms, indices, sides, an, enumerated):
    """Forms of indices as expressions of variables whose values are known: a side's own ones, and the `enumerated`
    ones, to which those that sides have in common are added. Raises _Unknown."""
    try:
        exprs = [render(form, index.dtype) for form, index in zip(forms, indices)]
    except DoesNotFit:
        raise _Unknown from None
    for side, e in zip(sides, exprs):
        for v in free_vars(e):
            if v not in side.varying:
                enumerated[v] = _values(v, exprs, an.given.get(v))
            elif v in side.free:
                _bounded(side.free[v])
    return exprs


def _values(v, exprs, domain):
    """The values of a common variable that tell all: those of its range, or of one period where only remainders of it
    count. Raises _Unknown."""
    periods = [m for m in collect(tuple(exprs), FloorMod) if v in free_vars(m)]
    if periods and all(isinstance(m.b, IntImm) and _is_sum_of(m.a, v) for m in periods):
        outside = _Without(periods)
        if not any(v in free_vars(outside.visit(e)) for e in exprs):
            period = lcm(*(m.b.value for m in periods))
            if 0 < period <= MOST_VALUES:
                return np.arange(period)
    if not isinstance(domain, Range) or not _is_constant(domain):
        raise _Unknown
    if domain.extent.value > MOST_VALUES:
        raise _Unknown
    return domain.min.value + np.arange(domain.extent.value)


def _is_sum_of(e, v):
    """Whether `e` grows evenly with `v`: a sum of products by constants."""
    return e is v or v not in free_vars(e) or type(e).__name__ in ("Add", "Sub", "Mul") and all(
        _is_sum_of(x, v) for x in (e.a, e.b)) and not (type(e).__name__ == "Mul" and v in free_vars(e.a) and v in
                                                       free_vars(e.b))


class _Without:
    """Expressions without some of their parts."""

    def __init__(self, parts):
        self.parts = set(map(id, parts))

    def visit(self, e):
        """What is left of `e`, as a tuple of leaves."""
        if id(e) in self.parts:
            return ()
        if isinstance(e, Var):
            return (e,)
        return tuple(leaf for c in children(e) for leaf in self.visit(c))


class _Side:
    """One access of the two: its own variables, and the points that they make."""

    def __init__(self, access, free, threads):
        self.access, self.free, self.threads, self.guards = access, free, threads, parts_of(access.guards)
        self.varying = {*free, *threads.variables.values()}

    def points(self, indices, enumerated):
        """(an array of shape [points, indices and enumerated variables], the number of the thread of each point)."""
        used = set(free_vars(tuple(indices)))
        env = {**enumerated, **{v: self._domain(axis) for axis, v in self.threads.variables.items()}}
        for v, domain in self.free.items():
            if v in used:
                env[v] = _bounded(domain)
        if not used <= env.keys() or self.threads.count is None:
            raise _Unknown
        for guard in self.guards:  # more loops, where these tell how far a guard lets threads through
            more = {v: r for v, r in self.free.items() if v not in env and v in free_vars(guard)}
            if more and all(_is_constant(r) for r in more.values()) and set(free_vars(guard)) <= {*env, *more} and prod(
                    map(len, (*env.values(), *map(_bounded, more.values())))) <= MOST_POINTS:
                env.update((v, _bounded(r)) for v, r in more.items())
        if prod(len(x) for x in env.values()) > POINTS:
            raise _Unknown
        grid = dict(zip(env, np.meshgrid(*env.values(), indexing="ij", sparse=True)))
        runs = _where(self.guards, grid)
        tid, scale = 0, 1
        for axis in AXES:
            if axis in self.threads.variables:
                tid = tid + grid[self.threads.variables[axis]] * scale
                scale *= self.threads.extents[axis]
        columns = [value_of(e, grid) for e in indices] + [grid[v] for v in enumerated]
        *columns, tid, runs = np.broadcast_arrays(*columns, tid, runs, *grid.values())[:len(columns) + 2]
        return np.stack([c[runs] for c in columns], -1), tid[runs]

    def _domain(self, axis):
        """The threads of an axis that do it. Outside its loops the first one writes for all, but its own memory."""
        found = self.access.axes.get(axis)
        if found is not None:
            return _bounded(found)
        alone = self.access.kind in ("write", "start") and self.access.buffer.scope != "local"
        return np.arange(1 if alone else self.threads.extents[axis])


def _is_constant(domain):
    return isinstance(domain.min, IntImm) and isinstance(domain.extent, IntImm)


def _bounded(domain):
    if not _is_constant(domain):
        raise _Unknown
    return domain.min.value + np.arange(domain.extent.value)


def value_of(e, env):
    """The values of an integer or bool expression where variables have those of env, {Var: array}."""
    if isinstance(e, Var):
        if e not in env:
            raise _Unknown
        return env[e]
    if isinstance(e, IntImm):
        return np.int64(e.value) if not e.dtype.is_bool else np.bool_(e.value)
    if isinstance(e, Cast) and e.dtype.is_int and e.dtype.bits >= 32:
        return value_of(e.value, env)
    function = FUNCTIONS.get(e.op if isinstance(e, Call) else type(e))
    if function is None:
        raise _Unknown
    parts = [value_of(p, env) for p in (e.args if isinstance(e, Call) else children(e))]
    with np.errstate(all="ignore"):
        return function(*parts)


def lacking(accesses, threads, an):
    """The first load, of accesses to memory that each thread has for itself, of which a thread loads what it never
    stored; None without one, or where no numbers tell."""
    if any(x.indices is None or any(i is None for i in x.indices) for x in accesses):
        return None
    stored, loads, enumerated = [], [], {}
    sides = [_Side(x, x.ranges, threads) for x in accesses]
    try:
        indices = list(zip(*(_own_parts(dim, sides, an, enumerated) for dim in zip(*(x.indices for x in accesses)))))
        for x, side, own in zip(accesses, sides, indices):
            (stored if x.kind == "write" else loads).append((x, side.points(own, enumerated)))
    except _Unknown:
        return None
    if not stored or not loads:
        return None
    known = np.unique(np.concatenate([np.column_stack([tid, keys]) for _, (keys, tid) in stored]), axis=0)
    known = set(map(tuple, known.tolist()))
    for x, (keys, tid) in loads:
        if not known.issuperset(map(tuple, np.unique(np.column_stack([tid, keys]), axis=0).tolist())):
            return x
    return None


def _own_parts(dim, sides, an, enumerated):
    """Indices of one dimension without what all of them have in common; other common variables are enumerated."""
    forms = [an.canonical.linear(i) for i in dim]
    common = [Linear({a: k for a, k in f.terms.items() if a.vars.isdisjoint(side.varying) and not a.loaded}, 0)
              for f, side in zip(forms, sides)]
    if all(c.key == common[0].key for c in common):
        forms = [combine(f, c, -1) for f, c in zip(forms, common)]
    return _as_numbers(forms, dim, sides, an, enumerated)


def extremes(e, ranges, guards):
    """(least, greatest) value of an expression while the variables of `ranges` {Var: Range} run, where those guards
    hold that are about them alone; None where no numbers tell, or where nothing ever runs."""
    guards = parts_of(guards)
    used = set(free_vars((e, [g for g in guards if set(free_vars(g)) <= ranges.keys()])))
    try:
        env = {v: _bounded(r) for v, r in ranges.items() if v in used}
        if not used <= env.keys() or prod(map(len, env.values())) > POINTS:
            return None
        grid = dict(zip(env, np.meshgrid(*env.values(), indexing="ij", sparse=True)))
        values, runs = np.broadcast_arrays(value_of(e, grid), _where(guards, grid))
    except _Unknown:
        return None
    values = values[runs]
    return (int(values.min()), int(values.max())) if values.size else None


def in_several_blocks(access, blocks, ranges, dims):
    """Whether threads of different blocks certainly touch the same element, if dimensions `dims` are SAMPLE. blocks:
    the variables of blocks; ranges: {Var: Range} of these and of a block's threads."""
    if access.indices is None or any(i is None for i in access.indices):
        return False
    guards = parts_of(access.guards)
    used = set(free_vars((access.indices, guards)))
    if used.isdisjoint(blocks):
        return True
    try:
        sizes = {v: np.int64(SAMPLE) for v in dims}
        env = {v: value_of(r.min, sizes) + np.arange(int(value_of(r.extent, sizes)))
               for v, r in {**access.ranges, **ranges}.items() if v in used or v in blocks}
        env.update((v, np.array([n])) for v, n in sizes.items() if v in used)
        if not used <= env.keys() or prod(map(len, env.values())) > MOST_POINTS:
            return False
        grid = dict(zip(env, np.meshgrid(*env.values(), indexing="ij", sparse=True)))
        values = [value_of(e, grid) for e in (*access.indices, *guards)] + [grid[v] for v in blocks]
    except _Unknown:
        return False
    values = np.broadcast_arrays(*values, *grid.values())
    runs = np.logical_and.reduce([np.ones(values[0].shape, bool), *values[len(access.indices):][:len(guards)]])
    keys = np.stack([v[runs] for v in values[:len(access.indices)]], -1)
    block = np.stack([v[runs] for v in values[len(access.indices) + len(guards):][:len(blocks)]], -1)
    return len(np.unique(np.concatenate([keys, block], -1), axis=0)) > len(np.unique(keys, axis=0))


def parts_of(guards):
    """The conditions that some conditions are the conjunction of."""
    return tuple(c for g in guards for c in conjuncts(g))


def _where(guards, env):
    """Where those guards hold whose values are known."""
    runs = True
    for guard in guards:
        if set(free_vars(guard)) <= env.keys():
            try:
                runs = np.logical_and(runs, value_of(guard, env))
            except _Unknown:
                continue
    return runs
