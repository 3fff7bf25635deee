"""Select: the last IR to IR step. What the target has an instruction for becomes an explicit node."""
from __future__ import annotations

from ..ir.arith import Analyzer
from ..ir.dtype import DataType
from ..ir.expr import (Call, Cast, Div, FloatImm, FloorDiv, FloorMod, IntImm, Mod, Mul, Not, PrimExpr, Range, cast,
                       const, free_vars)
from ..ir.node import Mutator, collect

INT32 = DataType("int32")


def select(func):
    """Requires a lowered function. Ensures multiply-adds of vectors are tir.fma, floor divisions of operands known to
    be non-negative are C's truncating ones, and int64 arithmetic on int32 operands is int32 where it cannot overflow.
    """
    return func.replace(body=_Select(free_vars([b.shape for b in func.buffers])).visit(func.body))


def select_dim(e):
    """An expression of symbolic dimensions, with C's division where it is the same."""
    return _Select(free_vars(e)).visit(e)


class _Select(Mutator):
    def __init__(self, dims):
        self.analyzer = Analyzer()
        for dim in dims:  # they are at least 1
            self.analyzer.bind(dim, Range(const(1, dim.dtype), const(dim.dtype.max_value() // 2, dim.dtype)))

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
        return self._narrowed(e)

    def visit_Sub(self, e):
        return self._narrowed(self.generic_visit(e))

    visit_Mul = visit_Sub

    def _narrowed(self, e):
        """(int64)a * 12  ->  (int64)(a * 12), which an int64 operand next to it converts by itself."""
        if e.dtype != "int64":
            return e
        a, b = _as_int32(e.a), _as_int32(e.b)
        if a is None or b is None or isinstance(a, IntImm) and isinstance(b, IntImm):
            return e
        bound = self.analyzer.const_int_bound(e)
        if None in bound or bound.min_value < INT32.min_value() or bound.max_value > INT32.max_value():
            return e
        return Cast(e.dtype, type(e)(a, b))

    def visit_Cast(self, e):
        e = self.generic_visit(e)
        return cast(e.value, e.dtype) if isinstance(e.value, (FloatImm, IntImm)) else e

    def visit_IfThenElse(self, branch):
        condition = self.visit(branch.condition)
        return branch.replace(condition=condition, then_case=self._under(branch.condition, branch.then_case),
                              else_case=self._under(Not(branch.condition), branch.else_case))

    def visit_Call(self, call):
        if call.op != "tir.if_then_else":
            return self.generic_visit(call)
        condition, yes, no = call.args
        return call.replace(args=(self.visit(condition), self._under(condition, yes), self._under(Not(condition), no)))

    def _under(self, condition, branch):
        """`branch` visited with the condition known; only divisions are worth it."""
        if not collect(branch, (FloorDiv, FloorMod)):
            return self.visit(branch)
        with self.analyzer.constraint_scope(condition):
            return self.visit(branch)

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
        least = self.analyzer.const_int_bound(e).min_value
        return least is not None and least >= 0


def _as_int32(e):
    """The int32 expression of which an int64 one is the value; None when it is more."""
    if isinstance(e, IntImm) and INT32.min_value() < e.value <= INT32.max_value():
        return IntImm(INT32, e.value)
    return e.value if isinstance(e, Cast) and e.value.dtype == "int32" else None
