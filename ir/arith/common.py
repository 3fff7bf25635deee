"""What an expression computes more than once."""
from __future__ import annotations

from ..expr import Broadcast, PrimExpr, Ramp, as_expr
from ..node import children, structure_key
from .canonical import reads_state


def detect_common_subexpr(expr, threshold):
    """{expression: how often it is computed} of the largest parts of `expr` that are computed at least `threshold`
    times, equal ones counted together; the parts of these are not listed for what is computed inside them.

    Variables and numbers are no computations, nor are vectors of lanes, calls with effects and reads of buffers. Raises
    ValueError for a threshold that is negative.
    """
    if threshold < 0:
        raise ValueError(f"a threshold of computations is at least 0, not {threshold}")
    found, waiting = {}, {}  # waiting: {key: [expression, times]} of those that may be met again
    _meet(waiting, [as_expr(expr)], 1)
    while waiting:
        key = max(waiting, key=lambda k: _size(waiting[k][0]))  # parts are smaller than the whole: no more will come
        e, times = waiting.pop(key)
        if times >= threshold:
            found[e] = times
        else:
            _meet(waiting, children(e), times)
    return found


def _meet(waiting, parts, times):
    """Count the largest computations among the parts."""
    for e in parts:
        if not isinstance(e, PrimExpr):
            continue
        if _is_computation(e):
            waiting.setdefault(structure_key(e), [e, 0])[1] += times
        else:
            _meet(waiting, children(e), times)


def _is_computation(e):
    return _size(e) > 1 and not isinstance(e, (Ramp, Broadcast)) and not reads_state(e)


def _size(e):
    return 1 + sum(_size(part) for part in children(e) if isinstance(part, PrimExpr))
