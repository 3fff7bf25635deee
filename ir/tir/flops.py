"""How much work a loop program is: its floating-point operations, and the bytes of each buffer that it touches."""
from __future__ import annotations

from math import prod

from .. import expr as E
from ..arith import Analyzer
from ..module import IRModule
from ..node import collect
from .function import PrimFunc
from .intrinsics import SCALAR_INTRINSICS, SERIES
from .stmt import Block, BlockRealize, BufferLoad, BufferStore, For, IfThenElse

# What one call counts as; a function not named here is a series.
_CALLS = {**{name: row.cost for name, row in SCALAR_INTRINSICS.items()}, "if_then_else": 0, "likely": 0, "ret": 0,
          "reinterpret": 0, "ignore_loop_partition": 0}
_ONE = (E.Add, E.Sub, E.Mul, E.Div, E.Min, E.Max)
_FLOPS = "flops"


def estimate_tir_flops(obj):
    """Floating-point operations of one run of a PrimFunc, of all of an IRModule, or of a statement: an int, or an
    expression of the symbolic dimensions.

    An FMA counts as 2, a minimum as 1, exp and its like as 16, integers not at all; of two branches the
    longer one counts. A loop whose extent depends on another loop has the extent of that one's middle turn.
    """
    if isinstance(obj, IRModule):
        return sum((estimate_tir_flops(f) for f in obj.functions.values() if isinstance(f, PrimFunc)), 0)
    return _plain(_count(obj.body if isinstance(obj, PrimFunc) else obj).get(_FLOPS, 0))


def estimate_work(func):
    """(floating-point operations of a PrimFunc, bytes that it touches of each of its buffers): ints or expressions.

    Of a buffer no more is touched than it holds, and no more than the program has loads and stores of it.
    """
    counts = _count(func.body)
    touched = (_wide(_plain(counts.get(id(b), 0))) * b.dtype.bytes for b in func.buffers)
    sizes = (_size(b) for b in func.buffers)
    return _plain(counts.get(_FLOPS, 0)), tuple(map(_smaller, touched, sizes))


def terms_of_sums(func):
    """How many terms the sums of the block have that runs most often; 0 where that is not known."""
    def extents(block, kinds):
        return [iv.dom.extent.value if isinstance(iv.dom.extent, E.IntImm) else 0 for iv in block.iter_vars
                if iv.iter_type in kinds]

    sums = [b for b in collect(func.body, Block) if b.init is not None]
    most = max(sums, key=lambda b: prod(n or 2 for n in extents(b, ("spatial", "reduce"))), default=None)
    return prod(extents(most, ("reduce",))) if most else 0


def _size(buffer):
    size = buffer.dtype.bytes
    for extent in buffer.shape:
        size = size * _wide(_plain(extent))
    return size


def _smaller(a, b):
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else E.binary(E.Min, *E.match_all((a, b)))


# ---------------------------------------------------------------- {what: how often}, as ints or expressions

def _count(n):
    """The operations (_FLOPS) and the accesses to buffers (by id) of a statement or expression."""
    if isinstance(n, For):
        return _loop(n)
    if isinstance(n, BlockRealize):
        return _bound(_count(n.block), {iv.var: v for iv, v in zip(n.block.iter_vars, n.iter_values)})
    if isinstance(n, (IfThenElse, E.Select)):
        condition, first, second = (getattr(n, field) for field in n._fields)
        return _sum(_count(condition), _longer(_count(first), _count(second)))
    if isinstance(n, (BufferLoad, BufferStore)):
        own = {id(n.buffer): n.dtype.lanes if isinstance(n, BufferLoad) else n.value.dtype.lanes}
        return own if isinstance(n, BufferLoad) else _sum(own, _count(n.value))
    if isinstance(n, E.Call):
        if n.op == "tir.if_then_else":
            return _sum(_count(n.args[0]), _longer(_count(n.args[1]), _count(n.args[2])))
        return _sum(_operations(n, _CALLS.get(str(n.op).removeprefix("tir."), SERIES)), *map(_count, n.args))
    own = _operations(n, 1) if isinstance(n, _ONE) else {}
    return _sum(own, *(_inside(getattr(n, field)) for field in getattr(n, "_visible", ())))


def _inside(value):
    return _sum(*map(_count, value)) if isinstance(value, (tuple, list)) else _count(value)


def _operations(n, count):
    return {_FLOPS: count * n.dtype.lanes} if count and n.dtype.is_float else {}


def _loop(loop):
    body, extent = _count(loop.body), _wide(_plain(loop.extent))
    body = _bound(body, {loop.loop_var: (loop.min + (loop.extent - 1) // 2).astype(loop.loop_var.dtype)})
    return {key: extent * _wide(value) for key, value in body.items()}


def _bound(counts, values):
    """Counts with values in place of variables."""
    return {key: E.substitute(n, values) if isinstance(n, E.PrimExpr) else n for key, n in counts.items()}


def _sum(*counts):
    total = {}
    for one in counts:
        for key, value in one.items():
            total[key] = total[key] + value if key in total else value
    return total


def _longer(a, b):
    """The larger of each pair of counts; of symbolic ones the first that is not 0."""
    found = {}
    for key in {**a, **b}:
        x, y = a.get(key, 0), b.get(key, 0)
        found[key] = max(x, y) if isinstance(x, int) and isinstance(y, int) else (y if isinstance(x, int) else x)
    return found


def _wide(value):
    return value if isinstance(value, int) or value.dtype.bits == 64 else value.astype("int64")


def _plain(value):
    """The int that an expression is, where it is one."""
    if isinstance(value, E.PrimExpr) and not isinstance(value, E.IntImm):
        value = Analyzer().simplify(value)
    return value.value if isinstance(value, E.IntImm) else value
