"""LowerIntrin: what the target has an instruction or an operator for becomes an explicit node."""
from __future__ import annotations

from ..arith import Analyzer
from ..dtype import DataType
from ..expr import (Add, Broadcast, Call, Cast, Div, FloatImm, FloorDiv, FloorMod, IntImm, Max, Min, Mod, Mul, Not,
                    Range, Sub, Var, cast, const, free_vars, is_const_int, substitute)
from ..node import Mutator, collect
from ..tir.intrin import vector_intrinsic
from ..tir.intrinsics import ALL_TAPS, CONTRACTIONS, PAIR_DOTS
from ..tir.stmt import BufferLoad, LetStmt

_DOTS = {f"tir.{name}" for name in (*CONTRACTIONS, *ALL_TAPS.values())}
# What makes a word -> what loads one whose parts follow one another.
LOADS = {"tir.word": "tir.load_word", "tir.pair": "tir.load_pair"}
_PAIR_DOTS = {f"tir.{name}" for name in PAIR_DOTS}
ALIGNED_FROM = 64  # bytes of arrays that are aligned to as many: in C, and in arenas
MOST_LIMIT = 1 << 16  # of numbers that are rounded: of 16 bits and fewer


def lower_intrin(func):
    """Requires flat buffers. Ensures that FMAs of vectors are tir.fma, or by one lane tir.fma_lane, but of integers
    that are scaled, that what is rounded, cut off, and cast is rounded last, that floor divisions of operands known to
    be non-negative are truncating ones, which C's operators are, that casts of immediates are immediates, and that lets
    stand before the statement, or, where they are not always evaluated, are replaced by their value."""
    last = len(func.buffers) - func.attrs.get("num_workspace", 0)
    return func.replace(body=_Lower(dimensions(func), func.buffers[last:]).visit(func.body))


def lower_dim(e):
    """An expression of symbolic dimensions, with C's division where it is the same."""
    return _Lower(free_vars(e)).visit(e)


def dimensions(func):
    """The symbolic dimensions of a function's buffers."""
    return free_vars([b.shape for b in func.buffers])


class WithRanges(Mutator):
    """A Mutator with an analyzer that knows the loops around, and that `dims` are at least 1, those that
    may be 0 at least that."""

    def __init__(self, dims):
        self.analyzer = Analyzer()
        for dim in dims:
            least, extent = const(int(not dim.may_be_zero), dim.dtype), const(dim.dtype.max_value() // 2, dim.dtype)
            self.analyzer.bind(dim, Range(least, extent), allow_override=True)

    def visit_For(self, loop):
        self.analyzer.bind(loop.loop_var, Range(loop.min, loop.extent), allow_override=True)
        return self.generic_visit(loop)

    def visit_LetStmt(self, let):
        self.analyzer.bind_let(let.var, let.value)
        return self.generic_visit(let)


class _Lower(WithRanges):
    lets = None  # (variable, value) of those to put before the statement; None where a let cannot stand

    def __init__(self, dims, workspace=()):
        super().__init__(dims)
        self.workspace = workspace  # which lies at multiples of ALIGNED_FROM

    def _with_lets(self, stmt):
        self.lets = []
        stmt = self.generic_visit(stmt)
        for var, value in reversed(self.lets):
            stmt = LetStmt(var, value, stmt)
        self.lets = None
        return stmt

    visit_BufferStore = visit_Evaluate = _with_lets

    def visit_Let(self, e):
        if self.lets is None:
            return self.visit(substitute(e.body, {e.var: e.value}))
        var, value = Var(e.var.name, e.var.dtype), self.visit(e.value)
        self.lets.append((var, value))
        return self.visit(substitute(e.body, {e.var: var}))

    def _sometimes(self, visit, *args):
        """visit(*args) of what is not always evaluated."""
        lets, self.lets = self.lets, None
        out = visit(*args)
        self.lets = lets
        return out

    def visit_And(self, e):
        return e.replace(a=self.visit(e.a), b=self._sometimes(self.visit, e.b))

    visit_Or = visit_And

    def visit_Add(self, e):
        e = self.generic_visit(e)
        if isinstance(e.b, Call) and e.b.op in _DOTS and _is_zero(e.b.args[2]):
            return e.b.replace(args=(*e.b.args[:2], e.a, *e.b.args[3:]))
        if e.dtype.lanes > 1 and e.dtype.is_float:
            if any(isinstance(x, Mul) and _scales_integers(x) for x in (e.a, e.b)):
                return e.replace(a=_held(e.a), b=_held(e.b))
            if isinstance(e.b, Mul):
                return _multiply_add(e.b, e.a)
            if isinstance(e.a, Mul):
                return _multiply_add(e.a, e.b)
        return e

    def visit_Cast(self, e):
        e = self.generic_visit(e)
        if e.dtype.element == "int32" and e.dtype.lanes > 1 and (rounded := _rounded(e.value)) is not None:
            return rounded
        return cast(e.value, e.dtype) if isinstance(e.value, (FloatImm, IntImm)) else e

    def visit_IfThenElse(self, branch):
        condition = self.visit(branch.condition)
        return branch.replace(condition=condition, then_case=self._under(branch.condition, branch.then_case),
                              else_case=self._under(Not(branch.condition), branch.else_case))

    def visit_Call(self, call):
        if call.op in LOADS:
            return self._word(self.generic_visit(call))
        if call.op in _PAIR_DOTS:
            call = self.generic_visit(call)
            return call.replace(args=tuple(map(self._aligned, call.args)))
        if call.op != "tir.if_then_else":
            return self.generic_visit(call)
        condition, yes, no = call.args
        return call.replace(args=(self.visit(condition), self._sometimes(self._under, condition, yes),
                                  self._sometimes(self._under, Not(condition), no)))

    def _word(self, call):
        """Numbers of a word that follow one another in memory are loaded at once; those of vectors do."""
        first, *others = call.args
        if call.dtype.lanes > 1:
            return Call(call.dtype, f"{LOADS[call.op]}s", (first,))
        if not all(isinstance(x, BufferLoad) and x.buffer is getattr(first, "buffer", None) for x in call.args):
            return call
        if first.dtype.bits * len(call.args) != call.dtype.bits:
            return call  # of wider numbers it takes the lowest bits
        in_a_row = all(is_const_int(self.analyzer.simplify(x.indices[0] - first.indices[0]), n + 1)
                       for n, x in enumerate(others))
        return Call(call.dtype, LOADS[call.op], (first,)) if in_a_row else call

    def _aligned(self, e):
        """A pair of an array of the kernel's own that lies at a multiple of 4 is loaded as such."""
        if not isinstance(e, Call) or e.op != "tir.load_pair":
            return e
        buffer, at = e.args[0].buffer, self.analyzer.modular_set(e.args[0].indices[0])
        local = buffer.scope == "local" and is_const_int(buffer.shape[0]) and (
            buffer.shape[0].value * buffer.dtype.bytes >= ALIGNED_FROM)
        own = local or any(buffer.same_as(b) for b in self.workspace)
        return e.replace(op="tir.load_aligned_pair") if own and at.coeff % 2 == at.base % 2 == 0 else e

    def _under(self, condition, branch):
        """`branch` visited with the condition known; only divisions are worth it."""
        if not collect(branch, (FloorDiv, FloorMod)):
            return self.visit(branch)
        with self.analyzer.constraint_scope(condition):
            return self.visit(branch)

    def _truncating(self, e, cls):
        e = self.generic_visit(e)
        return cls(e.a, e.b) if self._non_negative(e.a) and self._non_negative(e.b) else e

    def visit_FloorDiv(self, e):
        return self._truncating(e, Div)

    def visit_FloorMod(self, e):
        return self._truncating(e, Mod)

    def _non_negative(self, e):
        if not e.dtype.is_int:
            return False
        least = self.analyzer.interval(e).min_value
        return least is not None and least >= 0


def _is_zero(e):
    e = e.value if isinstance(e, Broadcast) else e
    return is_const_int(e, 0) or isinstance(e, FloatImm) and e.value == 0


def _scales_integers(product):
    """Whether a product is of numbers that were integers: what they stand for is rounded before anything is added, as
    where it is a tensor of its own."""
    for x in (product.a, product.b):
        while isinstance(x, (Add, Sub)) and isinstance(x.b, Broadcast):
            x = x.a
        if isinstance(x, Cast) and x.value.dtype.is_int:
            return True
    return False


def _rounded(x):
    """The integers that are x, which was rounded, maybe had an integer added, and then was cut off at two others: an
    instruction rounds as it converts what is cut off at these before. None for another x, and what may be NaN: x must
    be made of integers, as in RoundToBytes."""
    if not (isinstance(x, (Min, Max)) and x.dtype.element == "float32"):
        return None
    (outer, inner), (other, value) = _limit(x.a, x.b), (None, None)
    if outer is not None and isinstance(inner, (Min, Max)) and type(inner) is not type(x):
        other, value = _limit(inner.a, inner.b)
    if other is None:
        return None
    more = 0
    if isinstance(value, Add) and (added := _limit(value.b, value.a))[0] is not None:
        more, value = added
    if not (isinstance(value, Call) and value.op == "tir.round") or not any(
            c.value.dtype.is_int for c in collect(value, Cast)):
        return None

    def all_lanes(number, dtype):
        return Broadcast(const(number, dtype), x.dtype.lanes)
    value = inner.replace(a=all_lanes(float(other - more), "float32"), b=value.args[0])
    value = x.replace(a=all_lanes(float(outer - more), "float32"), b=value)
    made = Call(DataType("int32").with_lanes(x.dtype.lanes), "tir.nearest_f32", (value,))
    return Add(made, all_lanes(more, "int32")) if more else made


def _limit(a, b):
    """(the integer that all lanes of one operand are, the other operand); (None, None) where none is one."""
    for x, other in ((a, b), (b, a)):
        if isinstance(x, Broadcast) and isinstance(x.value, FloatImm) and abs(x.value.value) <= MOST_LIMIT and (
                x.value.value == int(x.value.value)):
            return int(x.value.value), other
    return None, None


def _held(x):
    """A product that no C compiler makes an FMA of with what it is added to."""
    return vector_intrinsic("held", x) if isinstance(x, Mul) and _scales_integers(x) else x


def _multiply_add(product, c):
    """product + c of vectors as one call."""
    a, b = product.a, product.b
    if isinstance(b, Call) and b.op == "tir.lane":
        a, b = b, a
    if isinstance(a, Call) and a.op == "tir.lane":
        return vector_intrinsic("fma_lane", *a.args, b, c)
    return Call(c.dtype, "tir.fma", (a, b, c))
