"""HoistIndex: what stays the same of the indices in a rolled loop over unrolled ones is computed before it."""
from __future__ import annotations

from ..arith import Analyzer
from ..arith.linear import Linear, render
from ..expr import Ramp, Var
from ..node import Mutator, collect
from ..tir.stmt import BufferLoad, For, LetStmt
from .walk import StmtMutator

ROLLED = "pragma_unroll"  # the annotation of such loops
LEAST_TERMS = 2  # fewer are as quick to read as a name


def hoist_index(func):
    """Requires flat buffers. Ensures that in an innermost loop annotated "pragma_unroll" the terms of an index that no
    turn changes are the value of a `let` before the loop, one for each buffer and value:

        for k: for i in unroll(14): acc[i] += x[n * 800 + y * 40 + i * 4 + k]
    becomes
        let x_at = n * 800 + y * 40:  for k: for i in unroll(14): acc[i] += x[x_at + i * 4 + k]

    C compilers fold what is left into addresses of one pointer; of whole indices gcc 12 makes a variable each, more
    than there are registers.
    """
    return func.replace(body=_Hoist().visit(func.body))


class _Hoist(StmtMutator):
    def visit_For(self, loop):
        if ROLLED not in loop.annotations or any(ROLLED in inner.annotations for inner in collect(loop.body, For)):
            return loop.replace(body=self.visit(loop.body))
        split = _Split({inner.loop_var for inner in collect(loop, For)} | {let.var for let in collect(loop, LetStmt)})
        new = split.visit(loop)
        for var, value in reversed(split.lets.values()):
            new = LetStmt(var, value, new)
        return new


class _Split(Mutator):
    """Splits the indices inside a loop into what `inside` variables change and, in lets, the rest."""

    def __init__(self, inside):
        self.inside, self.canonical = inside, Analyzer().canonical
        self.lets = {}  # (buffer, the rest of an index) -> (variable, value)

    def visit_BufferLoad(self, load):
        index, = load.indices
        return load.replace(indices=(self._shortened(load.buffer, self.visit(index)),))

    def visit_BufferStore(self, store):
        index, = store.indices
        return store.replace(indices=(self._shortened(store.buffer, self.visit(index)),), value=self.visit(store.value))

    def _shortened(self, buffer, index):
        if isinstance(index, Ramp):
            return index.replace(base=self._shortened(buffer, index.base))
        form = self.canonical.linear(index)
        outside = {atom: k for atom, k in form.terms.items()
                   if k > 0 and atom.vars.isdisjoint(self.inside) and not collect(atom.expr, BufferLoad)}
        if len(outside) < LEAST_TERMS:
            return index
        same = Linear(outside, 0)
        let = Var(f"{buffer.name}_at", index.dtype), render(same, index.dtype)
        var, _ = self.lets.setdefault((buffer, same.key), let)
        rest = {atom: k for atom, k in form.terms.items() if atom not in outside}
        return render(Linear({**self.canonical.linear(var).terms, **rest}, form.const), index.dtype)
