"""OutlineTiles: tiles in registers whose borders differ in nothing but where they start and how many iterations they
take become calls of one function."""
from __future__ import annotations

import re

from ..arith import Analyzer
from ..arith.linear import Linear, render
from ..expr import GE, LE, Add, IntImm, Mul, PrimExpr, Ramp, Range, Sub, Var, cast, const, is_const_int
from ..node import Mutator, Node, collect
from ..tir.hints import MOST_ITERATIONS, TILE, TILE_START
from ..tir.renew import renew_defs
from ..tir.stmt import AssertStmt, AttrStmt, BufferLoad, BufferStore, DeclBuffer, For, LetStmt
from .walk import StmtMutator, statements

_ARITHMETIC = (Add, Sub, Mul, Var)


def outline_tiles(func):
    """Requires flat buffers. Ensures that the tiles of a kernel, what it does with vectors or sums that it holds in
    registers, are statements of variables for where they start in each buffer, and that those that are alike, but for
    how many iterations their loops take, are the same statements:

        if y < 18:  let acc[27]: for k: for i in unroll(9): acc[i] += x[y * 144 + i * 16 + k] * w[k] ...
        else:       let acc[27]: for k: for i in unroll(7): acc[i] += x[2592 + i * 16 + k] * w[k] ...
    becomes
        if y < 18:  tile: let x_start = y * 144, i_count = 9: let acc[27]: ... for i in unroll(i_count): ...
        else:       tile: let x_start = 2592, i_count = 7:    let acc[27]: ... for i in unroll(i_count): ...

    under AttrStmt(pragma_tile), and inside an AttrStmt(buffer, pragma_tile_start, variable) for each variable that an
    index starts at and that lies in the buffer whatever the tile then reads: what is padded may start before it. C
    prints them as one function and its calls, in which compilers find the numbers again.
    """
    within = _Within(func)
    linear, new = Analyzer().canonical.wrapped, {}  # sums are only taken apart
    for group in _alike(_tiles_of(func), linear):
        new.update(_outlined(group, linear, within))
    return func.replace(body=_Put(new).visit(func.body)) if new else func


class _Put(StmtMutator):
    def __init__(self, new):
        self.new = new

    def visit_DeclBuffer(self, decl):
        return self.new.get(id(decl)) or super().visit_DeclBuffer(decl)


class _Within:
    """Whether a place surely lies in a buffer, or at its end, in all iterations of a function's loops."""

    def __init__(self, func):
        self.analyzer = Analyzer()
        for loop in collect(func.body, For):
            self.analyzer.bind(loop.loop_var, Range(loop.min, loop.extent), allow_override=True)

    def __call__(self, place, buffer):
        return self.analyzer.can_prove(GE(place, const(0, place.dtype))) and self.analyzer.can_prove(
            LE(place, cast(buffer.shape[0], place.dtype)))


# ---------------------------------------------------------------- which statements are tiles

def _tiles_of(func):
    """The declarations of what is held in registers inside of loops, with all that they are for, in order."""
    params, found = {id(b) for b in func.buffers}, []
    _find(func.body, False, found)
    return [tile for tile in found if _is_plain(tile, params)]


def _find(stmt, in_loop, found):
    """Adds the tiles in a statement to `found`: outermost ones, with what is declared in the same place."""
    if in_loop and isinstance(stmt, DeclBuffer) and any(map(_in_registers, _declared(stmt))):
        found.append(stmt)
        return
    for inner in statements(stmt):
        _find(inner, in_loop or isinstance(stmt, For), found)


def _declared(stmt):
    """The declarations in one place."""
    while isinstance(stmt, DeclBuffer):
        yield stmt
        stmt = stmt.body


def _in_registers(decl):
    """Whether a buffer is vectors, or numbers that a loop adds to."""
    buffer = decl.buffer
    return not is_const_int(buffer.shape[0], 1) and (buffer.dtype.lanes > 1 or any(
        store.buffer is buffer and any(load.buffer is buffer for load in collect(store.value, BufferLoad))
        for store in collect(collect(decl.body, For), BufferStore)))


def _is_plain(tile, params):
    """Whether a tile is loops over parameters and buffers of its own alone."""
    own = {id(decl.buffer) for decl in collect(tile, DeclBuffer)}
    used = {id(access.buffer) for access in collect(tile, (BufferLoad, BufferStore))}
    return used <= own | params and not collect(tile, AssertStmt) and not any(
        loop.kind == "parallel" for loop in collect(tile, For))


# ---------------------------------------------------------------- which are alike

def _alike(tiles, linear):
    """Lists of [(tile, its match with the first)], the largest first: what others are matched with has most
    iterations."""
    groups = []
    for tile in sorted(tiles, key=_turns, reverse=True):
        for group in groups:
            match = _Match(group[0][0], linear)
            if match.same(group[0][0], tile):
                group.append((tile, match))
                break
        else:
            groups.append([(tile, None)])
    return groups


def _turns(stmt):
    return sum(loop.extent.value for loop in collect(stmt, For) if isinstance(loop.extent, IntImm))


class _Index:
    """An index as what it is inside of a tile, and where it starts. What is read from memory stays inside: the tile may
    write it."""

    def __init__(self, form, inside):
        self.inner = {atom: k for atom, k in form.terms.items()
                      if not atom.vars.isdisjoint(inside) or collect(atom.expr, BufferLoad)}
        self.start = {atom: k for atom, k in form.terms.items() if atom not in self.inner}
        self.const = form.const


class _Match:
    """Compares a tile with another: same(a, b). Then turns are {id of a loop of the first: turns in the other} and
    starts {(buffer, terms of the first's start): (terms in the other, how much more the constants are)}."""

    def __init__(self, tile, linear):
        self.linear = linear
        self.inside, self.own = _defined(tile), set()
        self.values, self.buffers = {}, {}
        self.turns, self.starts = {}, {}

    def same(self, a, b):
        if isinstance(a, For):
            return self.loop(a, b)
        if isinstance(a, (BufferLoad, BufferStore)):
            return type(a) is type(b) and self.access(a, b) and (
                not isinstance(a, BufferStore) or self.same(a.value, b.value))
        if isinstance(a, _ARITHMETIC) and a.dtype.is_int and a.dtype.lanes == 1 and not collect(a, BufferLoad):
            return isinstance(b, PrimExpr) and a.dtype == b.dtype and (
                self.linear(self.mapped(a)).key == self.linear(b).key)
        if isinstance(a, DeclBuffer) and isinstance(b, DeclBuffer):
            self.buffers[id(a.buffer)] = b.buffer
            self.own.add(id(a.buffer))
            return _alloc(a.buffer) == _alloc(b.buffer) and self.same(a.body, b.body)
        if isinstance(a, LetStmt) and isinstance(b, LetStmt):
            return self.same(a.value, b.value) and self.define(a.var, b.var) and self.same(a.body, b.body)
        if isinstance(a, Node):
            return type(a) is type(b) and self.fields(a, b)
        if isinstance(a, (tuple, list)):
            return type(a) is type(b) and len(a) == len(b) and all(map(self.same, a, b))
        if isinstance(a, dict):
            return isinstance(b, dict) and a.keys() == b.keys() and all(self.same(a[k], b[k]) for k in a)
        return type(a) is type(b) and a == b

    def fields(self, a, b):
        return all(self.same(getattr(a, f), getattr(b, f)) for f in a._visible)

    def define(self, var, value):
        self.values[var] = value
        self.inside |= {value} if isinstance(value, Var) else set()
        return True

    def mapped(self, e):
        return _Substitute(self.values).visit(e)

    def loop(self, a, b):
        """A loop and its like, or the one iteration that is left of it."""
        if not isinstance(b, For) or b.loop_var.name != a.loop_var.name:
            once = a.kind == "unrolled" and isinstance(a.extent, IntImm) and is_const_int(a.min)
            self.turns[id(a)] = 1
            return once and self.define(a.loop_var, a.min) and self.same(a.body, b)
        self.define(a.loop_var, b.loop_var)
        if isinstance(a.extent, IntImm) and isinstance(b.extent, IntImm):
            self.turns[id(a)] = b.extent.value
            alike = a.extent.dtype == b.extent.dtype
        else:
            alike = self.same(a.extent, b.extent)
        return alike and a.kind == b.kind and self.same((a.min, a.annotations, a.body), (b.min, b.annotations, b.body))

    def access(self, a, b):
        if self.buffers.get(id(a.buffer), a.buffer) is not b.buffer:
            return False
        (i,), (j,) = a.indices, b.indices
        if isinstance(i, Ramp) and isinstance(j, Ramp):
            if not self.same((i.stride, i.lanes, i.count), (j.stride, j.lanes, j.count)):
                return False
            i, j = i.base, j.base
        if isinstance(i, Ramp) or isinstance(j, Ramp) or i.dtype.lanes > 1 or j.dtype != i.dtype:
            return False
        first, mapped, other = (_Index(self.linear(x), self.inside) for x in (i, self.mapped(i), j))
        more = other.const - mapped.const
        if mapped.inner != other.inner:
            return False
        if id(a.buffer) in self.own:
            return mapped.start == other.start and more == 0
        key = id(a.buffer), frozenset(first.start.items())
        terms, offset = self.starts.setdefault(key, (other.start, more))
        return offset == more and terms == other.start


def _alloc(buffer):
    return tuple(map(str, buffer.shape)), buffer.dtype, buffer.scope


def _defined(stmt):
    return {x.loop_var for x in collect(stmt, For)} | {let.var for let in collect(stmt, LetStmt)}


class _Substitute(Mutator):
    def __init__(self, values):
        self.values = values

    def visit_Var(self, v):
        return self.values.get(v, v)


# ---------------------------------------------------------------- tiles of variables

def _outlined(group, linear, within):
    """{id of a tile: the statements of all tiles of a group, for its starts and turns}."""
    (first, _), *others = group
    template = _Template(first, [match for _, match in others], linear)
    body = template.visit(first)
    pointed = template.pointed(within)
    return {id(tile): template.instance(body, match, pointed) for tile, match in group}


class _Template(Mutator):
    """The first of some tiles that are alike, in terms of variables for what they differ in."""

    def __init__(self, tile, matches, linear):
        self.matches, self.linear = matches, linear
        self.inside = _defined(tile)
        self.own = {id(decl.buffer) for decl in collect(tile, DeclBuffer)}
        self.starts = {}  # (id of a buffer, terms) -> (variable, buffer, terms, the first constant)
        self.turns = {}   # turns in all tiles -> variable

    def visit_DeclBuffer(self, decl):
        return decl.replace(body=self.visit(decl.body))

    def visit_For(self, loop):
        turns = tuple(match.turns.get(id(loop), 0) for match in self.matches)
        loop = loop.replace(body=self.visit(loop.body))
        if set(turns) <= {0} or {loop.extent.value} == set(turns):
            return loop
        key = loop.extent.value, *turns
        if key not in self.turns:
            name = re.sub(r"(_\d+)+$", "", loop.loop_var.name)
            self.turns[key] = Var(f"{name}_count", loop.extent.dtype)
        unrolled = {MOST_ITERATIONS: loop.extent.value} if loop.kind == "unrolled" else {}
        return loop.replace(extent=self.turns[key], annotations={**loop.annotations, **unrolled})

    def visit_BufferLoad(self, load):
        return load.replace(indices=(self.index(load.buffer, load.indices[0]),))

    def visit_BufferStore(self, store):
        return store.replace(indices=(self.index(store.buffer, store.indices[0]),), value=self.visit(store.value))

    def index(self, buffer, index):
        if id(buffer) in self.own:
            return self.visit(index)
        if isinstance(index, Ramp):
            return index.replace(base=self.index(buffer, index.base), stride=self.visit(index.stride))
        at = _Index(self.linear(index), self.inside)
        key = id(buffer), frozenset(at.start.items())
        if key not in self.starts:
            self.starts[key] = Var(f"{buffer.name}_start", index.dtype), buffer, at.start, max(at.const, 0)
        start, _, _, first = self.starts[key]
        return render(Linear({**self.linear(start).terms, **at.inner}, at.const - first), index.dtype)

    def pointed(self, within):
        """[(variable, buffer)] of the starts that lie in their buffers in all tiles: C points there."""
        return [(var, buffer) for key, (var, buffer, *_) in self.starts.items()
                if all(within(self.start(key, match), buffer) for match in (None, *self.matches))]

    def instance(self, body, match, pointed):
        """The tile where it starts as the first does (match: None), or as in the tile of a match."""
        values = {}
        for key, var in self.turns.items():
            turns = key[0] if match is None else key[1 + self.matches.index(match)]
            values[var] = const(turns, var.dtype)
        for key, (var, *_) in self.starts.items():
            values[var] = self.start(key, match)
        fresh = {var: Var(var.name, var.dtype) for var in values}
        out = renew_defs(body, fresh)
        for var, buffer in reversed(pointed):
            out = AttrStmt(buffer, TILE_START, fresh[var], out)
        for var, value in reversed(values.items()):
            out = LetStmt(fresh[var], value, out)
        return AttrStmt(None, TILE, const(True), out)

    def start(self, key, match):
        """Where the first tile, or that of a match, starts."""
        var, _, terms, first = self.starts[key]
        other, more = (terms, 0) if match is None else match.starts[key]
        return render(Linear(other, first + more), var.dtype)
