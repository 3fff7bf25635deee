"""Select: the last IR to IR step. What the target has an instruction for becomes an explicit node."""
from __future__ import annotations

from ..ir.arith import Analyzer
from ..ir.expr import Call, Div, FloorDiv, FloorMod, Mod, Mul, PrimExpr, Range, Var, const
from ..ir.node import Mutator


def select(func):
    """Requires a lowered function. Ensures multiply-adds of vectors are tir.fma, floor divisions of operands known to be
    non-negative are C's truncating ones."""
    return func.replace(body=_Select(func).visit(func.body))


class _Select(Mutator):
    def __init__(self, func):
        self.analyzer = Analyzer()
        for p in func.params:  # scalar parameters are dimensions: at least 1
            if isinstance(p, Var) and p.dtype.is_int:
                self.analyzer.bind(p, Range(const(1, p.dtype), const(p.dtype.max_value() // 2, p.dtype)))

    def visit_For(self, loop):
        self.analyzer.bind(loop.loop_var, Range(loop.min, loop.extent))
        return self.generic_visit(loop)

    def visit_Add(self, e):
        e = self.generic_visit(e)
        if e.dtype.lanes > 1:
            if isinstance(e.b, Mul):
                return Call(e.dtype, "tir.fma", (e.b.a, e.b.b, e.a))
            if isinstance(e.a, Mul):
                return Call(e.dtype, "tir.fma", (e.a.a, e.a.b, e.b))
        return e

    def _truncating(self, e, cls):
        e = self.generic_visit(e)
        if self._non_negative(e.a) and self._non_negative(e.b):
            return cls(e.a, e.b)
        return e

    def visit_FloorDiv(self, e: FloorDiv):
        return self._truncating(e, Div)

    def visit_FloorMod(self, e: FloorMod):
        return self._truncating(e, Mod)

    def _non_negative(self, e: PrimExpr):
        bound = self.analyzer.const_int_bound(e)
        return bound.min_value is not None and bound.min_value >= 0
