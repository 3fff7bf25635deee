"""BeginSums: sums of integers begin at what would be added to them when they are read."""
from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod

from ..arith import Analyzer
from ..expr import Add, Broadcast, Call, IntImm, const, free_vars, is_const_int, substitute
from ..node import Mutator, collect, structural_equal
from ..tir.intrinsics import ALL_DOTS, ALL_TAPS, DOTS
from ..tir.stmt import BufferLoad, BufferStore, DeclBuffer, For, LetStmt
from .walk import StmtMutator, all_statements

MOST_SUMS = 64  # of a tile, whose places are computed one by one
TOTAL = 2  # the place of the sum among the arguments of a call that adds products to it
_ADDING = frozenset(f"tir.{name}" for name in (
    *ALL_DOTS, *(name.replace("dot", "dot_row") for name in DOTS), *ALL_TAPS.values(), "add_scaled"))


def begin_sums(func, integers=False):
    """Requires flat buffers. Ensures that a local buffer of sums c of int32, where targets have `integers`,

        for i: c[i] = 0;  for k, i: c[i] = c[i] + a[k, i];  for j: y[j] = f(c[j] + bias[j])
    begins at the bias, c[i] = bias[i], where each use of a sum adds the same number and no iteration changes it: a sum
    that wraps around is the same in any order."""
    return func.replace(body=_BeginSums().visit(func.body)) if integers else func


class _BeginSums(StmtMutator):
    def visit_DeclBuffer(self, decl):
        decl = self._body(decl)
        if decl.buffer.dtype.element != "int32" or decl.buffer.scope != "local":
            return decl
        reads = _Reads(decl.buffer)
        reads.visit(decl.body)
        starts = [_start(zero, reads.added, decl.body) for zero in reads.zeros]
        if not reads.fits or not starts or None in starts:
            return decl
        return decl.replace(body=_Rewrite(decl.buffer, starts).visit(decl.body))


@dataclass(frozen=True)
class _Use:
    """An access to a sum: its indices, what is added to it, the loops around it, whether a condition guards it."""

    indices: tuple
    added: object
    loops: tuple[For, ...]
    guarded: bool = False


def _start(zero, uses, body):
    """What is added to each sum that a use stores 0 to, by all other uses; None where that differs, or may change."""
    starts = [_renamed(use, zero) for use in uses]
    if not starts or None in starts or not all(structural_equal(starts[0], x) for x in starts):
        return None
    return None if _changes(starts[0], body, {loop.loop_var for loop in zero.loops}) else starts[0]


def _renamed(use, zero):
    """What a use adds to a sum, by the loops in which it begins; None where they do not tell it."""
    if not {loop.loop_var for loop in use.loops} & set(free_vars(use.added)):
        return use.added  # the same to all sums
    if use.guarded or [_range(loop) for loop in use.loops] != [_range(loop) for loop in zero.loops] or (
            not _one_each(zero)):
        return None  # it might be read where it has no elements
    names = {a.loop_var: b.loop_var for a, b in zip(use.loops, zero.loops, strict=True)}
    same = all(structural_equal(substitute(a, names), b) for a, b in zip(use.indices, zero.indices, strict=True))
    return substitute(use.added, names) if same else None


def _range(loop):
    """The extent of a loop from 0; one that is like no other where it is none, or not constant."""
    return loop.extent.value if is_const_int(loop.min, 0) and isinstance(loop.extent, IntImm) else loop.loop_var


def _one_each(use):
    """Whether each iteration of the loops around an access is of another element."""
    extents, simplify = [_range(loop) for loop in use.loops], Analyzer().simplify
    if not all(isinstance(e, int) for e in extents) or prod(extents) > MOST_SUMS:
        return False
    found = [tuple(simplify(substitute(index, {loop.loop_var: const(n, loop.loop_var.dtype)
                                               for loop, n in zip(use.loops, point)})) for index in use.indices)
             for point in product(*map(range, extents))]
    return all(isinstance(i, IntImm) for at in found for i in at) and (
        len({tuple(i.value for i in at) for at in found}) == len(found))


def _changes(e, body, known):
    """Whether statements bind a variable of e that is not known, or write what it reads."""
    own, read = set(free_vars(e)) - known, [load.buffer for load in collect(e, BufferLoad)]
    for s in all_statements(body):
        if isinstance(s, For) and s.loop_var in own or isinstance(s, LetStmt) and s.var in own:
            return True
        if isinstance(s, (BufferStore, DeclBuffer)) and any(s.buffer.same_as(b) for b in read):
            return True
    return False


def _is_zero(e):
    return is_const_int(e.value if isinstance(e, Broadcast) else e, 0)


class _Of(Mutator):
    """Walks over what stores to a buffer, and what reads it."""

    def __init__(self, buffer):
        self.buffer = buffer

    def is_own(self, e):
        return isinstance(e, BufferLoad) and e.buffer.same_as(self.buffer)

    def terms(self, store):
        """What an update adds to its sum; None for another store."""
        value = store.value
        parts = value.args if isinstance(value, Call) and value.op in _ADDING else (
            (value.b, None, value.a) if isinstance(value, Add) else ())
        if len(parts) > TOTAL and self.is_own(parts[TOTAL]) and structural_equal(parts[TOTAL].indices, store.indices):
            return (*parts[:TOTAL], *parts[TOTAL + 1:])
        return None

    def other(self, e):
        """What is added to a sum; None for another expression."""
        return e.b if self.is_own(e.a) else e.a if self.is_own(e.b) else None


class _Reads(_Of):
    """fits: whether sums begin at 0, have terms added and are read, each time with something added. zeros, added: the
    uses that store 0, and those that read."""

    def __init__(self, buffer):
        super().__init__(buffer)
        self.fits, self.zeros, self.added, self.loops, self.guards = True, [], [], (), 0

    def visit_For(self, loop):
        self.loops += (loop,)
        self.generic_visit(loop)
        self.loops = self.loops[:-1]
        return loop

    def _guarded(self, node):
        self.guards += 1
        self.generic_visit(node)
        self.guards -= 1
        return node

    visit_IfThenElse = visit_Select = _guarded

    def visit_Call(self, call):
        return self._guarded(call) if call.op == "tir.if_then_else" else self.generic_visit(call)

    def visit_BufferStore(self, store):
        if not store.buffer.same_as(self.buffer):
            return self.generic_visit(store)
        terms = self.terms(store)
        if _is_zero(store.value):
            self.zeros.append(_Use(store.indices, None, self.loops))
        elif terms is None:
            self.fits = False
        self.visit(terms or ())
        return store

    def visit_Add(self, e):
        if (other := self.other(e)) is None:
            return self.generic_visit(e)
        self.added.append(_Use((e.a if other is e.b else e.b).indices, other, self.loops, self.guards > 0))
        self.visit(other)
        return e

    def visit_BufferLoad(self, load):
        self.fits &= not self.is_own(load)
        return load


class _Rewrite(_Of):
    """starts: of the stores of 0, in order."""

    def __init__(self, buffer, starts):
        super().__init__(buffer)
        self.starts = iter(starts)

    def visit_BufferStore(self, store):
        if store.buffer.same_as(self.buffer):
            return store.replace(value=next(self.starts)) if _is_zero(store.value) else store
        return self.generic_visit(store)

    def visit_Add(self, e):
        if self.other(e) is None:
            return self.generic_visit(e)
        return e.a if self.is_own(e.a) else e.b
