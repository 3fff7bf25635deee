"""HoistIndex: what stays the same of the indices in a rolled loop over unrolled ones is computed once."""
from __future__ import annotations

from ..arith import Analyzer
from ..arith.linear import Linear, render
from ..expr import Ramp, Var, cast
from ..node import Mutator, collect
from ..tir.hints import TILE, UNROLL
from ..tir.stmt import BufferLoad, BufferStore, For, LetStmt
from .walk import StmtMutator

# Fewer are as quick to read as a name, but in parallel loops and in tiles, whose indices start at run time.
LEAST_TERMS = 2


def hoist_index(func):
    """Requires flat buffers. Ensures that in an innermost loop annotated "pragma_unroll" the terms of an index that no
    turn changes are the value of a `let` before the loop, one for each buffer and value:

        for k: for i in unroll(14): acc[i] += x[n * 800 + y * 40 + i * 4 + k]
    becomes
        let x_at = n * 800 + y * 40:  for k: for i in unroll(14): acc[i] += x[x_at + i * 4 + k]

    An index that is read from memory is computed once in each iteration, at its beginning, with all that the unrolled
    loops inside do not change:

        for k: for i in unroll(14): acc[i] += x[places[k] + i * 4]
    becomes
        for k: let x_here = places[k]: for i in unroll(14): acc[i] += x[x_here + i * 4]

    C compilers fold what is left into addresses of one pointer; of whole indices gcc 12 makes a variable each, more
    than there are registers.
    """
    return func.replace(body=_Hoist().visit(func.body))


class _Hoist(StmtMutator):
    least = LEAST_TERMS
    starts = frozenset()  # variables that the indices of a tile start at

    def visit_AttrStmt(self, stmt):
        if stmt.attr_key != TILE:
            return super().visit_AttrStmt(stmt)
        around, let, self.least = self.least, stmt.body, 1
        while isinstance(let, LetStmt):
            self.starts, let = self.starts | {let.var}, let.body
        stmt = super().visit_AttrStmt(stmt)
        self.least = around
        return stmt

    def visit_For(self, loop):
        if UNROLL not in loop.annotations or any(UNROLL in inner.annotations for inner in collect(loop.body, For)):
            outside, self.least = self.least, 1 if loop.kind == "parallel" else self.least
            loop = loop.replace(body=self.visit(loop.body))
            self.least = outside
            return loop
        before, at_start = _Split(loop, self.least, self.starts), _SplitGathered(loop.body)
        loop = before.visit(loop)
        return before.around(loop.replace(body=at_start.around(at_start.visit(loop.body))))


class _Split(Mutator):
    """Splits the indices in a statement into what variables that it defines change and, in lets, the rest."""

    def __init__(self, stmt, least=1, starts=frozenset()):
        self.least, self.starts = least, starts
        self.inside = {x.loop_var for x in collect(stmt, For)} | {let.var for let in collect(stmt, LetStmt)}
        self.linear = Analyzer().canonical.wrapped  # sums are only taken apart
        self.lets = {}  # (buffer, the rest of an index) -> (variable, value)

    def around(self, stmt):
        """The statement in its lets."""
        for var, value in reversed(self.lets.values()):
            stmt = LetStmt(var, value, stmt)
        return stmt

    def visit_BufferLoad(self, load):
        index, = load.indices
        return load.replace(indices=(self._shortened(load.buffer, self.visit(index)),))

    def visit_BufferStore(self, store):
        index, = store.indices
        return store.replace(indices=(self._shortened(store.buffer, self.visit(index)),), value=self.visit(store.value))

    def _shortened(self, buffer, index):
        if isinstance(index, Ramp):
            return index.replace(base=self._shortened(buffer, index.base))
        form = self.linear(index)
        outside = {atom: k for atom, k in form.terms.items() if k > 0 and atom.vars.isdisjoint(self.inside)}
        outside = {atom: outside[atom] for atom in self.worth(outside)}
        if not outside:
            return index
        rest = Linear({atom: k for atom, k in form.terms.items() if atom not in outside}, form.const)
        return self.named(buffer, Linear(outside, 0), rest, index.dtype)

    def worth(self, atoms):
        """The atoms of an index for which a let is profitable."""
        found = [atom for atom in atoms if not collect(atom.expr, BufferLoad)]
        return found if len([a for a in found if a.expr not in self.starts]) >= self.least else []

    def named(self, buffer, same, rest, dtype):
        """The index same + rest, with a let for `same`."""
        let = Var(f"{buffer.name}_at", dtype), render(same, dtype)
        var, _ = self.lets.setdefault((buffer, same.key), let)
        return render(Linear({**self.linear(var).terms, **rest.terms}, rest.const), dtype)


class _SplitGathered(_Split):
    """Lets for indices that are read from memory, which the statement does not write. They are as wide as addresses:
    what is added to them then needs no register of its own either."""

    def __init__(self, stmt):
        super().__init__(stmt)
        self.written = {store.buffer for store in collect(stmt, BufferStore)}

    def worth(self, atoms):
        read = [load.buffer for atom in atoms for load in collect(atom.expr, BufferLoad)]
        return atoms if read and self.written.isdisjoint(read) else []

    def named(self, buffer, same, rest, dtype):
        let = Var(f"{buffer.name}_here", "int64"), cast(render(same, dtype), "int64")
        var, _ = self.lets.setdefault((buffer, same.key), let)
        return var + cast(render(rest, dtype), "int64")
