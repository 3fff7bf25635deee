"""topi.utils: small helpers that schedules and scripts use."""
from __future__ import annotations

from ..expr import IntImm, as_expr
from ..relax.ops.common import flat_index, product, simplify, unflatten_index


def get_const_int(expr):
    """The int that an expression is. ValueError when it is symbolic."""
    value = simplify(as_expr(expr))
    if not isinstance(value, IntImm):
        raise ValueError(f"{value} is symbolic where a number is needed")
    return value.value


def get_const_tuple(in_tuple):
    """A tuple of ints; symbolic elements stay expressions."""
    return tuple(v.value if isinstance(v, IntImm) else v for v in (simplify(as_expr(e)) for e in in_tuple))


def equal_const_int(expr, value):
    """Whether an expression is the number `value`."""
    found = simplify(as_expr(expr))
    return isinstance(found, IntImm) and found.value == value


def prod(x):
    """The product of expressions."""
    return product(x)


def ravel_index(indices, shape):
    """The row-major offset of `indices`."""
    return flat_index([as_expr(i) for i in indices], shape)


def unravel_index(idx, shape):
    """The indices of row-major offset `idx`."""
    return list(unflatten_index(as_expr(idx), [as_expr(s) for s in shape]))


__all__ = ["equal_const_int", "get_const_int", "get_const_tuple", "prod", "ravel_index", "unravel_index"]
