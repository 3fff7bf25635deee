"""Matching: is a statement the same as a description, up to where in its buffers it works?"""
from __future__ import annotations

from ..arith import Analyzer
from ..arith.canonical import INDEX_TYPES
from ..expr import BinaryExpr, Call, PrimExpr, Range, Var, free_vars, is_const_int, substitute
from ..node import Node, collect
from ..tir.stmt import BlockRealize, BufferLoad, BufferStore, For, LetStmt
from .blocks import is_true, uses


class Mismatch(Exception):
    """The first difference, in words."""


class Match:
    """The correspondence of a description with a statement.

    places: {description's buffer: (buffer, where its element 0 lies, one expression per dimension)}. Leading
    dimensions that the description leaves out stand still. Loops of one iteration may be missing on either side, and
    iterators may stand in another order. Raises Mismatch.
    """

    def __init__(self, analyzer=None):
        self.analyzer = (analyzer or Analyzer()).copy()
        self.places = {}
        self.known = {}     # variable of the description -> expression of the statement
        self.inner = set()  # variables that the statement defines
        self.constant = {}  # variables of the statement that have one value

    def stmt(self, want, have):
        """Compare two statements."""
        want, have = self._bare(want, self.known), self._bare(have, self.constant)
        if type(want) is not type(have):
            raise Mismatch(f"a {type(want).__name__} is wanted, a {type(have).__name__} found")
        {For: self._loop, BlockRealize: self._block}.get(type(want), self._fields)(want, have)

    def _bare(self, stmt, values):
        """The statement inside loops of one iteration; their variables are entered in `values`."""
        while isinstance(stmt, For) and is_const_int(stmt.extent, 1):
            values[stmt.loop_var] = stmt.min
            stmt = stmt.body
        return stmt

    def _loop(self, want, have):
        names = f"loop {want.loop_var.name} of the description and loop {have.loop_var.name}"
        for field in ("min", "extent"):
            a, b = (getattr(s, field) for s in (want, have))
            if not self.analyzer.can_prove_equal(substitute(a, self.known), b):
                raise Mismatch(f"{names} differ in {field}: {a} and {b}")
        if want.kind != have.kind or want.thread_binding != have.thread_binding:
            raise Mismatch(f"{names} differ in kind: {want.kind} and {have.kind}")
        self._define(want.loop_var, have.loop_var, Range(have.min, have.extent))
        self.stmt(want.body, have.body)

    def _define(self, want, have, extent=None):
        self.known[want] = have
        self.inner.add(have)
        if extent is not None:
            self.analyzer.bind(have, extent, allow_override=True)

    def _block(self, want, have):
        if not is_true(want.predicate) or not is_true(have.predicate):
            raise Mismatch(f"block {have.block.name_hint} runs only where {have.predicate}")
        if have.block.alloc_buffers or have.block.match_buffers or want.block.alloc_buffers:
            raise Mismatch(f"block {have.block.name_hint} has buffers of its own")
        values = [(iv, self._value(v)) for iv, v in zip(have.block.iter_vars, have.iter_values)]
        for iv, value in zip(want.block.iter_vars, want.iter_values):
            at = substitute(value, self.known)
            found = next((p for p in values if self._same_iterator(iv, at, *p)), None)
            if found is not None:
                values.remove(found)
                self._define(iv.var, found[0].var, found[0].dom)
            elif is_const_int(iv.dom.extent, 1):
                self.known[iv.var] = iv.dom.min
            else:
                raise Mismatch(f"no {iv.iter_type} iterator of block {have.block.name_hint} runs over {iv.dom.extent} "
                               f"like {iv.var.name} of the description")
        for iv, _ in values:
            if not is_const_int(iv.dom.extent, 1):
                raise Mismatch(f"iterator {iv.var.name} of block {have.block.name_hint} has no counterpart")
            self.constant[iv.var] = iv.dom.min
        if (want.block.init is None) != (have.block.init is None):
            raise Mismatch(f"block {have.block.name_hint} and the description do not both have an init")
        if want.block.init is not None:
            self.stmt(want.block.init, have.block.init)
        self.stmt(want.block.body, have.block.body)

    def _value(self, e):
        return substitute(e, self.constant) if isinstance(e, PrimExpr) else e

    def _same_iterator(self, want, at, have, value):
        equal = self.analyzer.can_prove_equal
        return (want.iter_type == have.iter_type and equal(substitute(want.dom.extent, self.known), have.dom.extent)
                and equal(substitute(want.dom.min, self.known), have.dom.min) and equal(at, value))

    # ------------------------------------------------------------ everything else

    def _any(self, want, have):
        if isinstance(want, Var):
            seen = self.constant.get(have, have) if isinstance(have, Var) else have
            if want not in self.known or not self.analyzer.can_prove_equal(self.known[want], seen):
                raise Mismatch(f"{want} is wanted, {have} found")
        elif isinstance(want, (BlockRealize, For)):
            self.stmt(want, have)
        elif isinstance(want, BinaryExpr) and self._same_number(want, have):
            return
        elif isinstance(want, Node):
            if type(want) is not type(have):
                raise Mismatch(f"{want} is wanted, {have} found")
            self._fields(want, have)
        elif isinstance(want, tuple):
            if not isinstance(have, tuple) or len(want) != len(have):
                raise Mismatch("the numbers of parts differ")
            for a, b in zip(want, have):
                self._any(a, b)
        elif want != have:
            raise Mismatch(f"{want} is wanted, {have} found")

    def _same_number(self, want, have):
        """Whether two expressions of iterators have one value, as vi % 8 and (vo * 8 + vi) % 8, wherever both are."""
        if not isinstance(have, PrimExpr) or want.dtype not in INDEX_TYPES or have.dtype != want.dtype:
            return False
        if collect((want, have), (BufferLoad, Call)) or any(v not in self.known for v in free_vars(want)):
            return False
        return self.analyzer.can_prove_equal(substitute(want, self.known), substitute(have, self.constant))

    def _fields(self, want, have):
        if isinstance(want, (BufferLoad, BufferStore)):
            self._access(want, have)
            if isinstance(want, BufferStore):
                self._any(want.value, have.value)
            return
        if isinstance(want, LetStmt):
            self._any(want.value, have.value)
            self._define(want.var, have.var)
            self.stmt(want.body, have.body)
            return
        for field in want._fields:
            self._any(getattr(want, field), getattr(have, field))

    def _access(self, want, have):
        drop = len(have.indices) - len(want.indices)
        if drop < 0 or want.buffer.dtype != have.buffer.dtype:
            raise Mismatch(f"buffer {have.buffer.name} has not the dtype and dimensions of {want.buffer.name}")
        indices = [substitute(i, self.constant) for i in have.indices]
        wanted = (*(0,) * drop, *(substitute(w, self.known) for w in want.indices))
        base = [self.analyzer.simplify(i - w) for i, w in zip(indices, wanted)]
        for at in base:
            if uses(at, self.inner):
                raise Mismatch(f"{have.buffer.name}[{', '.join(map(str, have.indices))}] does not move as "
                               f"{want.buffer.name}[{', '.join(map(str, want.indices))}] does")
        buffer, before = self.places.setdefault(want.buffer, (have.buffer, tuple(base)))
        if buffer is not have.buffer or not all(map(self.analyzer.can_prove_equal, before, base)):
            raise Mismatch(f"{want.buffer.name} stands for {buffer.name} at one place and for another at a second one")
