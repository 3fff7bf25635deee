"""BeginSums: sums of integers begin at what would be added to them when they are read."""
from __future__ import annotations

from ..expr import Add, Broadcast, Call, free_vars, is_const_int
from ..node import Mutator, collect, structural_equal
from ..tir.intrinsics import ALL_DOTS, ALL_TAPS, DOTS
from ..tir.stmt import BufferLoad, BufferStore, DeclBuffer, For, LetStmt
from .walk import StmtMutator, all_statements

TOTAL = 2  # the place of the sum among the arguments of a call that adds products to it
_ADDING = frozenset(f"tir.{name}" for name in (
    *ALL_DOTS, *(name.replace("dot", "dot_row") for name in DOTS), *ALL_TAPS.values(), "add_scaled"))


def begin_sums(func, integers=False):
    """Requires flat buffers. Ensures that a local buffer of sums c of int32, where targets have `integers`,

        c[i] = 0;  for k: c[i] = c[i] + a[k];  y[i] = f(c[i] + bias)
    begins at the bias, c[i] = bias, where each use of a sum adds the same number and no iteration changes it: a sum
    that wraps around is the same in any order."""
    return func.replace(body=_BeginSums().visit(func.body)) if integers else func


class _BeginSums(StmtMutator):
    def visit_DeclBuffer(self, decl):
        decl = self._body(decl)
        if decl.buffer.dtype.element != "int32" or decl.buffer.scope != "local":
            return decl
        reads = _Reads(decl.buffer)
        reads.visit(decl.body)
        added = reads.added[0] if reads.added else None
        if not reads.fits or added is None or not all(structural_equal(added, x) for x in reads.added) or _changes(
                added, decl.body):
            return decl
        return decl.replace(body=_Rewrite(decl.buffer, added).visit(decl.body))


def _changes(e, body):
    """Whether statements bind a variable of e, or write what it reads."""
    own, read = set(free_vars(e)), [load.buffer for load in collect(e, BufferLoad)]
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
    """fits: whether sums begin at 0, have terms added and are read, each time with something added; added: that."""

    def __init__(self, buffer):
        super().__init__(buffer)
        self.fits, self.added = True, []

    def visit_BufferStore(self, store):
        if not store.buffer.same_as(self.buffer):
            return self.generic_visit(store)
        terms = self.terms(store)
        self.fits &= _is_zero(store.value) or terms is not None
        self.visit(terms or ())
        return store

    def visit_Add(self, e):
        if (other := self.other(e)) is None:
            return self.generic_visit(e)
        self.added.append(other)
        self.visit(other)
        return e

    def visit_BufferLoad(self, load):
        self.fits &= not self.is_own(load)
        return load


class _Rewrite(_Of):
    def __init__(self, buffer, added):
        super().__init__(buffer)
        self.start = added

    def visit_BufferStore(self, store):
        if store.buffer.same_as(self.buffer):
            return store.replace(value=self.start) if _is_zero(store.value) else store
        return self.generic_visit(store)

    def visit_Add(self, e):
        if self.other(e) is None:
            return self.generic_visit(e)
        return e.a if self.is_own(e.a) else e.b
