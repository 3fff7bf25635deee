"""RoundToBytes: what rounds a scaled sum of integers, adds a zero point and saturates in few bits is one call."""
from __future__ import annotations

from ..expr import Add, Call, Cast, FloatImm, Max, Min, const
from ..node import Mutator, collect
from ..tir.intrinsics import ALL_ROUNDS


def round_to_bytes(func):
    """Requires flat buffers. Ensures that single numbers

        (int8)min(127, max(-128, round(x) + zero))      and without a zero point, and of uint8, int16 and uint16
    are round_i8(x, zero), where x is made of integers: machines convert, round and saturate in fewer instructions than
    they have for these by themselves. Of x that may be NaN, the float input of a network say, they stay as they are."""
    return func.replace(body=_RoundToBytes().visit(func.body))


class _RoundToBytes(Mutator):
    def visit_Cast(self, e):
        e = self.generic_visit(e)
        name = ALL_ROUNDS.get(str(e.dtype))
        least, most = map(float, e.dtype.finite_range()) if name else (0, 0)
        x, zero = _shifted(_other(Max, _other(Min, e.value, most), least), most - least) if name else (None, 0)
        if x is None or not any(c.value.dtype.is_int for c in collect(x, Cast)):
            return e
        return Call(e.dtype, f"tir.{name}", (x, const(zero, "int32")))


def _other(cls, e, bound):
    """What an expression bounds by a constant; None where it does not."""
    if isinstance(e, cls):
        for one, other in ((e.a, e.b), (e.b, e.a)):
            if isinstance(one, FloatImm) and one.value == bound:
                return other
    return None


def _shifted(e, limit):
    """(x, an integer) of round(x) plus the integer, up to a limit; (None, 0) for another expression."""
    zero = 0
    if isinstance(e, Add) and isinstance(e.b, FloatImm) and e.b.value == int(e.b.value):
        e, zero = e.a, int(e.b.value)
    fits = isinstance(e, Call) and e.op == "tir.round" and e.dtype == "float32" and abs(zero) <= limit
    return (e.args[0], zero) if fits else (None, 0)
