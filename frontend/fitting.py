"""Dimensions of an operator's arguments that must be equal, and that nothing says to be: the run checks that they are.

A model may give two symbolic dimensions different names, or compute one, and rely on their being equal. Where that is
all that an operator asks for, its arguments are viewed under shapes that agree; the check is that of the view
(codegen/dim_checks.py).
"""
from __future__ import annotations

from ..ir import op as op_table
from ..ir.expr import Var
from .shapes import dims_of, may_be_same, same

BROADCASTING = ("elementwise", "broadcast")


def fitted(op, args, attrs):
    """{number of an argument: the shape to view it under}, of those that must change for all to agree."""
    groups = _GROUPS.get(op)
    if groups is None and op in op_table.OPS and op_table.get(op).kind in BROADCASTING:
        groups = _broadcast
    if groups is None or not all(getattr(a.struct_info, "shape", None) is not None for a in args):
        return {}
    shapes = [dims_of(a) for a in args]
    found = [list(dims) for dims in shapes]
    for places, extents, broadcasts in groups(shapes, attrs):
        places = [(n, axis) for n, axis in places if 0 <= axis < len(shapes[n])]  # the operator refuses wrong ranks
        dims = [*extents, *(shapes[n][axis] for n, axis in places)]
        dims = [d for d in dims if not (broadcasts and same(d, 1))]
        if not dims:
            continue
        common = min(dims, key=_rank)
        for n, axis in places:
            d = shapes[n][axis]
            if not (broadcasts and same(d, 1)) and not same(d, common) and may_be_same(d, common):
                found[n][axis] = common
    return {n: dims for n, (dims, old) in enumerate(zip(found, shapes))
            if any(a is not b for a, b in zip(dims, old))}


def _rank(dim):
    """Numbers come before variables, these before expressions."""
    return 0 if isinstance(dim, int) else 1 if isinstance(dim, Var) else 2


# Functions (shapes, attrs) -> groups of equal dimensions: (places (argument, axis), numbers that these must be, whether
# an extent of 1 is repeated).

def _broadcast(shapes, attrs):
    rank = max(map(len, shapes))
    return [([(n, k - rank + len(s)) for n, s in enumerate(shapes)], [], True) for k in range(rank)]


def _concat(shapes, attrs):
    rank = len(shapes[0])
    return [([(n, k) for n in range(len(shapes))], [], False) for k in range(rank) if k != attrs["axis"] % rank]


def _matmul(shapes, attrs):
    a, b = shapes
    groups = [([(0, len(a) - 1), (1, max(len(b) - 2, 0))], [], False)]
    outer = _broadcast([a[:-2], b[:-2]], attrs) if len(a) > 2 or len(b) > 2 else []
    return [*groups, *outer]


def _convolution(shapes, attrs):
    x, w = shapes[:2]
    return [([(0, 1)], [w[1] * attrs.get("groups", 1)], False)] if len(w) > 1 and isinstance(w[1], int) else []


def _recurrent(shapes, attrs):
    """x [T, B, I], w [D, G*H, I], r, b, initial states [D, B, H]."""
    return [([(0, 1), *((n, 1) for n in range(4, len(shapes)))], [], False), ([(0, 2), (1, 2)], [], False)]


_GROUPS = {"concat": _concat, "matmul": _matmul, **dict.fromkeys(("nn.conv1d", "nn.conv2d", "nn.conv3d"), _convolution),
           **dict.fromkeys(("nn.gru", "nn.lstm", "nn.rnn"), _recurrent)}
