"""NarrowDataType: index arithmetic in the narrowest type that provably holds it."""
from __future__ import annotations

from ..dtype import DataType
from ..expr import Cast, IntImm, Range, Var, const
from .lower_intrin import WithRanges, dimensions

INT32, INT64 = DataType("int32"), DataType("int64")


def narrow_data_type(func, target_bits=32):
    """Requires flat buffers. Ensures that int64 loops, arithmetic and comparisons of what fits in int32 are int32,
    where bounds prove that nothing overflows. target_bits: 32, or 64, which leaves the function as it is."""
    if target_bits not in (32, 64):
        raise ValueError(f"NarrowDataType: target_bits is 32 or 64, not {target_bits!r}: C computes in int at least")
    return func if target_bits == 64 else func.replace(body=_Narrow(dimensions(func)).visit(func.body))


class _Narrow(WithRanges):
    def __init__(self, dims):
        super().__init__(dims)
        self.renamed = {}  # int64 loop variable -> the int32 one in its place, cast

    def visit_Var(self, v):
        return self.renamed.get(v, v)

    def visit_For(self, loop):
        if loop.loop_var.dtype == INT64:
            low, extent = _as_int32(self.visit(loop.min)), _as_int32(self.visit(loop.extent))
            if low is not None and extent is not None and self._fits(loop.min + loop.extent):
                var = Var(loop.loop_var.name, INT32)
                self.renamed[loop.loop_var] = Cast(INT64, var)
                self.analyzer.bind(var, Range(low, extent))
                return loop.replace(loop_var=var, min=low, extent=extent, body=self.visit(loop.body))
        return super().visit_For(loop)

    def visit_BufferStore(self, store):
        store = self.generic_visit(store)
        return store.replace(indices=tuple(map(_index, store.indices)))

    def visit_BufferLoad(self, load):
        load = self.generic_visit(load)
        return load.replace(indices=tuple(map(_index, load.indices)))

    def _arithmetic(self, e):
        """(int64)a * 12  ->  (int64)(a * 12), which an int64 operand next to it converts by itself."""
        e = self.generic_visit(e)
        sides = _both(e) if e.dtype == INT64 else None
        return Cast(INT64, type(e)(*sides)) if sides and self._fits(e) else e

    visit_Add = visit_Sub = visit_Mul = visit_FloorDiv = visit_FloorMod = visit_Min = visit_Max = _arithmetic

    def visit_Cast(self, e):
        """(int32)(int64)a  ->  a, and (int64)(int32)b  ->  b where b fits."""
        e = self.generic_visit(e)
        inner = e.value if isinstance(e.value, Cast) and {e.dtype, e.value.dtype} == {INT32, INT64} else None
        if inner is None or inner.value.dtype != e.dtype:
            return e
        return inner.value if e.dtype == INT32 or self._fits(inner.value) else e

    def _comparison(self, e):
        e = self.generic_visit(e)
        sides = _both(e) if e.a.dtype == INT64 else None
        return type(e)(*sides) if sides else e

    visit_EQ = visit_NE = visit_LT = visit_LE = visit_GT = visit_GE = _comparison

    def _fits(self, e):
        low, high = self.analyzer.interval(e)
        return None not in (low, high) and low >= INT32.min_value() and high <= INT32.max_value()


def _index(e):
    """An index needs no cast: C converts it."""
    return e.value if isinstance(e, Cast) and e.dtype == INT64 and e.value.dtype == INT32 else e


def _both(e):
    """Both operands as int32; None when one does not fit, or when both are immediates."""
    a, b = _as_int32(e.a), _as_int32(e.b)
    return None if a is None or b is None or isinstance(a, IntImm) and isinstance(b, IntImm) else (a, b)


def _as_int32(e):
    """The int32 expression of which an int64 one is the value; None when it is more."""
    if e.dtype == INT32:
        return e
    if isinstance(e, IntImm) and INT32.min_value() < e.value <= INT32.max_value():
        return const(e.value, INT32)
    return e.value if isinstance(e, Cast) and e.value.dtype == INT32 else None
