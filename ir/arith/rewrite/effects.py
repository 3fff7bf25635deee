"""What rewriting has to leave in its place: expressions that may fail."""
from __future__ import annotations

from ...expr import Call, Div, FloorDiv, FloorMod, IntImm, Mod, PrimExpr
from ...node import collect

DIVISIONS = (Div, Mod, FloorDiv, FloorMod)
HARMLESS_CALLS = ("tir.if_then_else", "tir.likely", "tir.vscale")


def may_fail(e):
    """Whether computing `e` may fail for some values of its variables: it divides, loads, or calls a function."""
    return any(_fails(n) for n in collect(e, PrimExpr))


def _fails(n):
    if type(n) in DIVISIONS:
        return not (isinstance(n.b, IntImm) and n.b.value)
    return type(n).__name__ in ("BufferLoad", "ProducerLoad") or type(n) is Call and n.op not in HARMLESS_CALLS
