"""SplitSums: long sums are sums of blocks, so that rounding grows with a block's length and the number of blocks."""
from __future__ import annotations

from math import inf, prod

from ..expr import Add, IntImm, Min, Var, const, free_vars, is_const_int
from ..node import Mutator, collect, structural_equal
from ..relax.accuracy import CHAIN, TERMS
from ..tir.buffer import decl_buffer
from ..tir.renew import renew_defs
from ..tir.stmt import BufferLoad, BufferStore, DeclBuffer, For, IfThenElse, seq
from .walk import StmtMutator, statements

SLACK = CHAIN / TERMS  # blocks that a sum may be longer than one before it is cut
SPARE = 4  # elements that are set to zero and added for each block, for each one that its terms go to


def split_sums(func, terms=TERMS):
    """Requires flat buffers. Ensures that no serial loops add more than SLACK * `terms` terms of floats to an element
    in one chain, where a nest before them stores its first value:

        for i: acc[i] = 0;  for k in 1024: for i: acc[i] = acc[i] + term
    becomes
        for i: acc[i] = 0
        for b in 4:
            for i: part[i] = 0;  for k from b * 256 to b * 256 + 256: for i: part[i] = part[i] + term
            for i: acc[i] = acc[i] + part[i]

    Of nested loops over terms the one is cut, or made a loop over blocks as it is, whose iterations have no more than
    `terms`. A chain of n roundings has an error of up to n units in the last place of the sum of magnitudes, n / terms
    blocks one of terms + n / terms.
    """
    return func.replace(body=_Split(terms).visit(func.body))


class _Split(StmtMutator):
    def __init__(self, terms):
        self.terms = terms
        self.starts = {}  # id(buffer) -> the nests that store first values, of those around and before

    def visit_DeclBuffer(self, decl):
        if not _is_accumulator(decl):
            return super().visit_DeclBuffer(decl)
        self.starts[id(decl.buffer)] = []
        decl = super().visit_DeclBuffer(decl)
        self.starts.pop(id(decl.buffer))
        return decl

    def visit_SeqStmt(self, s):
        new, single = [], []
        for stmt in s.seq:
            new.append(self.visit(stmt))
            store = _start(stmt)
            if store is None:
                continue
            if id(store.buffer) in self.starts:
                self.starts[id(store.buffer)].append(stmt)
            elif isinstance(stmt, BufferStore):  # an element of memory, which the loops behind it may add to
                self.starts[id(store.buffer)] = [stmt]
                single.append(id(store.buffer))
        for key in single:
            self.starts.pop(key)
        return s if all(a is b for a, b in zip(new, s.seq)) else seq(*new)

    def visit_For(self, loop):
        sums = [b for b in _summed(loop) if self._is_cut_here(loop, b)] if loop.kind == "serial" else []
        return self._cut(loop, sums) if sums else super().visit_For(loop)

    def _is_cut_here(self, loop, buffer):
        starts = self.starts.get(id(buffer))
        if not starts or _chain(loop, buffer) <= SLACK * self.terms or _chain(
                loop.body, buffer) > SLACK * self.terms:
            return False
        if len(starts) == 1 and isinstance(starts[0], BufferStore):  # one element, wherever it is
            return all(structural_equal(s.indices, starts[0].indices) for s in _stores(loop.body, buffer))
        return sum(map(_points, starts)) <= SPARE * _points(loop.body, buffer)

    def _cut(self, loop, buffers):
        count = max(self.terms // max(_chain(loop.body, b) for b in buffers), 1)
        parts = {id(b): self._part(b) for b in buffers}
        body = _Renamed(parts).visit(loop.body)
        if count == 1:
            return loop.replace(body=self._block(body, buffers, parts))
        extent, length, count = _blocks(loop.extent, count)
        block = Var(f"{loop.loop_var.name}_block", loop.loop_var.dtype)
        first = loop.min + block * count
        if length is None:
            length = Min(const(count, block.dtype), loop.extent - block * count)
        inner = loop.replace(min=first, extent=length, body=body)
        return For(block, const(0, block.dtype), extent, "serial", self._block(inner, buffers, parts))

    def _part(self, buffer):
        only = self.starts[id(buffer)][0]
        shape = (1,) if isinstance(only, BufferStore) else buffer.shape
        return decl_buffer(shape, buffer.dtype, f"{buffer.name}_part", "local", data_alignment=buffer.data_alignment)

    def _block(self, body, buffers, parts):
        """A block of terms: parts start at zero, get their terms, and are added to the sums."""
        nests = [(nest, b, parts[id(b)]) for b in buffers for nest in self.starts[id(b)]]
        stmt = seq(*(_nest(nest, part, lambda store, at, part=part: (part, at, const(0.0, store.value.dtype)))
                     for nest, b, part in nests), body,
                   *(_nest(nest, part, lambda store, at, b=b, part=part: (
                       b, store.indices, BufferLoad(b, store.indices) + BufferLoad(part, at)))
                     for nest, b, part in nests))
        for part in parts.values():
            stmt = DeclBuffer(part, stmt)
        return stmt


def _blocks(extent, count):
    """(how many blocks, the length of each or None where the last may be shorter, the length of all but the last) of a
    loop that is cut into blocks of about `count` iterations and no more."""
    if not isinstance(extent, IntImm):
        return (extent + (count - 1)) // count, None, count
    n, dtype = extent.value, extent.dtype
    even = max(d for d in range(1, count + 1) if n % d == 0)
    if 2 * even >= count:
        return const(n // even, dtype), const(even, dtype), even
    return const(-(-n // count), dtype), None, count


def _is_accumulator(decl):
    """Whether a buffer holds floats, and nothing but first values, of nests, and additions is stored to it."""
    buffer = decl.buffer
    if not buffer.dtype.is_float or buffer.scope != "local":
        return False
    starts = {id(s) for nest in _nests(decl.body) if (s := _start(nest)) is not None and s.buffer is buffer}
    return all(id(s) in starts or _is_addition(s) for s in _stores(decl.body, buffer))


def _nests(stmt):
    """The statements of all sequences in one."""
    for child in statements(stmt):
        yield from _nests(child)
    yield from getattr(stmt, "seq", ())


def _start(nest):
    """The store of a nest of loops that gives each element a value which does not depend on any; None of others."""
    while isinstance(nest, For) and nest.kind != "parallel":
        nest = nest.body
    if not isinstance(nest, BufferStore) or not nest.buffer.dtype.is_float:
        return None
    return nest if not any(load.buffer is nest.buffer for load in collect(nest.value, BufferLoad)) else None


def _stores(stmt, buffer):
    return [s for s in collect(stmt, BufferStore) if s.buffer is buffer]


def _is_addition(store):
    """Whether it is buffer[i] = buffer[i] + term."""
    value = store.value
    return isinstance(value, Add) and any(
        isinstance(total, BufferLoad) and total.buffer is store.buffer
        and structural_equal(total.indices, store.indices)
        and not any(load.buffer is store.buffer for load in collect(term, BufferLoad))
        for total, term in ((value.a, value.b), (value.b, value.a)))


def _summed(loop):
    """The buffers that a loop does nothing with but add to them, at places that it does not move."""
    if any(inner.kind == "parallel" for inner in collect(loop.body, For)):
        return []
    found = {}
    for store in collect(loop.body, BufferStore):
        if store.buffer.dtype.is_float:
            found.setdefault(id(store.buffer), []).append(store)
    loads = collect(loop.body, BufferLoad)
    return [stores[0].buffer for stores in found.values()
            if all(map(_is_addition, stores)) and not _moves(loop, stores)
            and sum(load.buffer is stores[0].buffer for load in loads) == len(stores)]


def _chain(stmt, buffer):
    """How many terms are added to an element of a buffer, one after the other; inf where a run decides."""
    if isinstance(stmt, BufferStore):
        return int(stmt.buffer is buffer)
    if isinstance(stmt, IfThenElse):
        return max((_chain(s, buffer) for s in statements(stmt)), default=0)
    inside = sum(_chain(s, buffer) for s in statements(stmt))
    if not isinstance(stmt, For) or not inside:
        return inside
    extent = stmt.extent.value if isinstance(stmt.extent, IntImm) else inf
    times = 1 if _moves(stmt, _stores(stmt.body, buffer)) else extent
    return inside * times


def _points(stmt, buffer=None):
    """How many elements the loops of a nest move over, or those that move the places of a buffer's additions."""
    stores = _stores(stmt, buffer) if buffer is not None else collect(stmt, BufferStore)
    return prod(loop.extent.value for loop in collect(stmt, For)
                if isinstance(loop.extent, IntImm) and _moves(loop, stores))


def _moves(loop, stores):
    """Whether a loop moves the place of one of several stores."""
    return any(v is loop.loop_var for s in stores for v in free_vars(s.indices))


def _nest(nest, part, rewrite):
    """A copy of a nest with another store: rewrite(its store, the place of its element in a part) -> buffer, indices,
    value."""
    def store_of(stmt):
        if isinstance(stmt, For):
            return stmt.replace(body=store_of(stmt.body))
        at = (const(0),) if isinstance(nest, BufferStore) else stmt.indices
        buffer, indices, value = rewrite(stmt, at)
        return BufferStore(buffer, value, indices)
    return renew_defs(store_of(nest))


class _Renamed(Mutator):
    """Additions to parts instead of sums."""

    def __init__(self, parts):
        self.parts = parts

    def _access(self, n):
        n = self.generic_visit(n)
        part = self.parts.get(id(n.buffer))
        if part is None:
            return n
        return n.replace(buffer=part, indices=(const(0),) if is_const_int(part.shape[0], 1) else n.indices)

    visit_BufferLoad = visit_BufferStore = _access
