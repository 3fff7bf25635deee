"""Sums without terms: PrimFuncs for given dimensions, of which some are 0, as they are interpreted."""
from __future__ import annotations

from ..arith import Analyzer
from ..expr import const, free_vars, is_const_int, substitute
from ..tir.stmt import Evaluate
from .walk import StmtMutator

_NOTHING = Evaluate(const(0))


def with_empty_sums(func, dims):
    """The PrimFunc for `dims`, {symbolic dimension: int}. A reduction whose loops have no iterations, because a dimension is 0,
    writes what it starts with; all else is as before. Requires blocks."""
    known = substitute(func, {v: const(int(n), v.dtype) for v, n in dims.items()})
    return known.replace(body=_EmptySums().visit(known.body))


class _EmptySums(StmtMutator):
    def __init__(self):
        self.analyzer, self.empty = Analyzer(), []  # loop variables that have no value

    def visit_For(self, loop):
        loop = loop.replace(extent=self.analyzer.simplify(loop.extent))
        if not is_const_int(loop.extent, 0):
            return self._body(loop)
        self.empty.append(loop.loop_var)
        body = self.visit(loop.body)
        self.empty.pop()
        return loop.replace(extent=const(1, loop.extent.dtype), body=body)

    def visit_BlockRealize(self, realize):
        empty = {id(v) for v in self.empty}
        if not empty:
            return super().visit_BlockRealize(realize)
        block = realize.block
        spatial = [v for iv, v in zip(block.iter_vars, realize.iter_values) if iv.iter_type != "reduce"]
        if block.init is None or any(id(v) in empty for v in free_vars(spatial)):
            return _NOTHING
        return realize.replace(block=block.replace(body=block.init, init=None, reads=()))

    def visit_BufferStore(self, store):
        return _NOTHING if self.empty else store

    def visit_Evaluate(self, evaluate):
        return _NOTHING if self.empty else evaluate


__all__ = ["with_empty_sums"]
