"""Reductions: sum, prod, max, min, and comm_reducer to make others."""
from __future__ import annotations

from ..expr import Add, IterVar, Max, Min, Mul, Var, as_expr, binary, const
from .tensor import CommReducer, Reduce


def comm_reducer(fcombine, fidentity, name="reduce"):
    """A reduction function from fcombine(lhs, rhs) and fidentity(dtype); tuples for several values at once.

    The function takes (expr, axis, where=None, init=None): reduce over the axis or axes what satisfies `where`,
    starting from `init` (a value, or one per value) instead of the identity. Called with expressions only, it combines
    them.
    """
    def reducer(expr, axis, where=None, init=None, *more):
        axes = tuple(axis) if isinstance(axis, (list, tuple)) else (axis,)
        if not isinstance(axis, (IterVar, list, tuple)):
            return _combined(fcombine, (expr, axis, where, init, *more))
        if more:
            raise TypeError(f"{name} over an axis takes expr, axis, where and init, not {4 + len(more)} arguments")
        _require_reduce_axes(name, axes)
        source = tuple(as_expr(e) for e in (expr if isinstance(expr, (tuple, list)) else (expr,)))
        start = () if init is None else tuple(init) if isinstance(init, (tuple, list)) else (init,)
        if start and len(start) != len(source):
            raise ValueError(f"{name} reduces {len(source)} values, init has {len(start)}")
        start = tuple(as_expr(i, e.dtype) for i, e in zip(start, source))
        condition = as_expr(True if where is None else where)
        combiner = _combiner(fcombine, fidentity, source, name)
        parts = tuple(Reduce(combiner, source, axes, condition, i, start) for i in range(len(source)))
        return parts[0] if len(parts) == 1 else parts
    reducer.__name__ = name
    return reducer


def _combined(fcombine, values):
    """fcombine over plain expressions: te.max(a, b)."""
    values = [v for v in values if v is not None]
    result = as_expr(values[0])
    for v in values[1:]:
        result = fcombine(result, v)
    return result


def _require_reduce_axes(name, axes):
    for a in axes:
        if not isinstance(a, IterVar) or a.iter_type != "reduce":
            shown = f"{a.var.name}, a {a.iter_type} axis" if isinstance(a, IterVar) else repr(a)
            raise TypeError(f"{name} reduces over {shown}; make the axis with te.reduce_axis")


def _combiner(fcombine, fidentity, source, name):
    lhs = tuple(Var(f"x{i}", e.dtype) for i, e in enumerate(source))
    rhs = tuple(Var(f"y{i}", e.dtype) for i, e in enumerate(source))
    if len(source) == 1:
        result, identity = (fcombine(lhs[0], rhs[0]),), (fidentity(source[0].dtype),)
    else:
        result, identity = fcombine(lhs, rhs), fidentity(*(e.dtype for e in source))
    for what, given in (("fcombine", result), ("fidentity", identity)):
        if len(given) != len(source):
            raise ValueError(f"{name} reduces {len(source)} values, {what} returned {len(given)}")
    return CommReducer(lhs, rhs, tuple(result), tuple(as_expr(i, e.dtype) for i, e in zip(identity, source)))


sum = comm_reducer(lambda a, b: binary(Add, a, b), lambda t: const(0, t), "sum")  # noqa: A001
prod = comm_reducer(lambda a, b: binary(Mul, a, b), lambda t: const(1, t), "prod")
max = comm_reducer(lambda a, b: binary(Max, a, b), lambda t: const(t.min_value(), t), "max")  # noqa: A001
min = comm_reducer(lambda a, b: binary(Min, a, b), lambda t: const(t.max_value(), t), "min")  # noqa: A001
