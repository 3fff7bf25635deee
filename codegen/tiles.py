"""Tiles as C functions: a kernel's main and border loops call one, by OutlineTiles."""
from __future__ import annotations

import re

from ..ir.arith import Analyzer
from ..ir.arith.linear import Linear, render
from ..ir.expr import Cast, Ramp, Var, is_const_int
from ..ir.node import Mutator, Visitor, collect
from ..ir.tir.buffer import decl_buffer
from ..ir.tir.hints import MOST_ITERATIONS, TILE_START
from ..ir.tir.stmt import AttrStmt, BufferLoad, BufferStore, DeclBuffer, For, LetStmt
from ..ir.transform.name_loops import MADE_UP
from .c_types import identifier

MOST_NAME = 24  # letters that say more about a tile than that it is one
# Letters of a function's name, before a number: compilers tell names apart by 63.
MOST_LETTERS = 60
_TILE = re.compile(r"_tile(?=_|$)")


def without_tile(name):
    """A kernel's name, in which "_tile" does not end it, as it does in those of tiles: no two of all are the same."""
    return _TILE.sub("_Tile", name)


def tile_name(kernel, what):
    """The name of the function of a kernel's tile; what: it is about, or ""."""
    name = f"{kernel}_tile_{identifier(what)}"
    return name if len(name) <= MOST_LETTERS and what else f"{kernel}_tile"


class Tile:
    """The tile of an AttrStmt(pragma_tile) as a function: parameters, arguments and statements.

    name: of the buffer that it is about; pointers: [(a view of a buffer from where the tile starts in it, the buffer,
    the index there)]; numbers: {variable: value}, the trip counts of loops, and what else the statements take from
    around them; border: {variable: the most it may be} of those counts that are less.
    """

    def __init__(self, stmt, order):
        """order: {id of a parameter: its place}, which pointers keep."""
        self.numbers, starts, body = {}, {}, stmt.body
        while isinstance(body, LetStmt):
            self.numbers[body.var], body = body.value, body.body
        while isinstance(body, AttrStmt) and body.attr_key == TILE_START:
            starts[body.value], body = body.target, body.body
        name = body.buffer.name.removesuffix("_local")
        self.name = name if len(name) <= MOST_NAME else ""
        views = _Views(starts)
        self.body = views.visit(body)
        index = {var: self.numbers.pop(var) for var in starts}
        self.pointers = [(views.of[var], starts[var], index[var]) for var in starts if var in views.of]
        own = {id(decl.buffer) for decl in collect(body, DeclBuffer)} | {id(view) for view, *_ in self.pointers}
        rest = {id(x.buffer): x.buffer for x in collect(self.body, (BufferLoad, BufferStore))}
        self.pointers += [(b, b, None) for b in rest.values() if id(b) not in own]
        self.pointers.sort(key=lambda p: order[id(p[1])])
        inside = {x.loop_var for x in collect(body, For)} | {let.var for let in collect(body, LetStmt)}
        self.numbers.update({v: index.get(v, v) for v in _used(self.body) if v not in inside | self.numbers.keys()})
        most = {loop.extent: loop.annotations[MOST_ITERATIONS] for loop in collect(self.body, For)
                if MOST_ITERATIONS in loop.annotations}
        self.border = {var: n for var, n in most.items() if not is_const_int(self.numbers[var], n)}

    def fewer(self):
        """Describe how a border's tile is smaller: loops without a name of their own only where no other is
        shorter."""
        texts = {var.name.removesuffix("_count"): f"{self.numbers[var].value} of {most}"
                 for var, most in self.border.items()}
        telling = {name: text for name, text in texts.items() if not MADE_UP.match(name)} or texts
        return [f"{text} iterations of {name}" for name, text in telling.items()]


def _used(stmt):
    """The variables that a statement computes with, in order of first use: not those of its buffers' shapes."""
    found = _Used()
    found.visit(stmt)
    return list(found.vars)


class _Used(Visitor):
    def __init__(self):
        self.vars = {}

    def visit_Var(self, v):
        self.vars[v] = None

    def visit_Buffer(self, _):
        """Nothing of it is computed here."""


class _Views(Mutator):
    """Makes of each index that starts at a variable one into a view of its buffer from there on.

    starts: {variable: buffer}. Lets of sums with such a variable lose it; `of` are the views: {variable: view}.
    """

    def __init__(self, starts):
        self.starts, self.of, self.linear = starts, {}, Analyzer().canonical.wrapped
        self.start_of = {var: var for var in starts}  # lets that a start is part of

    def visit_LetStmt(self, let):
        value, start = self.without(let.value)
        if start is None:
            return super().generic_visit(let)
        self.start_of[let.var] = start
        return let.replace(value=value, body=self.visit(let.body))

    def without(self, e):
        """An index without the start that is a term of it, and the start or None."""
        if isinstance(e, Cast):
            value, start = self.without(e.value)
            return e.replace(value=value), start
        if not e.dtype.is_int:
            return e, None
        form = self.linear(e)
        found = [atom for atom, k in form.terms.items() if k == 1 and isinstance(atom.expr, Var)
                 and atom.expr in self.start_of]
        if len(found) != 1:
            return e, None
        var = found[0].expr
        if var is not self.start_of[var]:  # a let, which has lost it
            return e, self.start_of[var]
        return render(Linear({a: k for a, k in form.terms.items() if a is not found[0]}, form.const), e.dtype), var

    def access(self, n):
        n = self.generic_visit(n)
        index, = n.indices
        base, start = self.without(index.base if isinstance(index, Ramp) else index)
        if start is None or self.starts[start] is not n.buffer:
            return n
        if start not in self.of:
            b = n.buffer
            self.of[start] = decl_buffer(b.shape, b.dtype, b.name, b.scope, data_alignment=b.data_alignment)
        new = index.replace(base=base) if isinstance(index, Ramp) else base
        return n.replace(buffer=self.of[start], indices=(new,))

    visit_BufferLoad = visit_BufferStore = access
