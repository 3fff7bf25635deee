"""topi.utils: small helpers that schedules and scripts use."""
from __future__ import annotations

import numpy as np

from .. import te
from ..expr import FloatImm, IntImm, Select, as_expr, const, logical_and as all_of
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


def get_const_float(expr):
    """The float that an expression is. ValueError when it is symbolic or no float."""
    value = simplify(as_expr(expr))
    if not isinstance(value, FloatImm):
        raise ValueError(f"{value} is symbolic, or no float, where a float is needed")
    return value.value


def get_float_tuple(in_tuple):
    """A tuple of floats."""
    return tuple(map(get_const_float, in_tuple))


def get_max_power2_factor(n, max_value=None):
    """The greatest power of 2 that divides n, of those up to max_value. ValueError for 0, which all divide."""
    if n == 0:
        raise ValueError("every power of 2 divides 0")
    factor = 1
    while n % 2 == 0 and (max_value is None or factor * 2 <= max_value):
        factor, n = factor * 2, n // 2
    return factor


def const_matrix(matrix, name="const_matrix"):
    """A te.Tensor of an array of two dimensions."""
    rows, columns = matrix.shape

    def element(i, j):
        value = const(0.0, str(matrix.dtype))
        for at, number in reversed(list(np.ndenumerate(matrix))):
            value = Select(all_of(i.equal(at[0]), j.equal(at[1])), const(number.item(), str(matrix.dtype)), value)
        return value
    return te.compute((rows, columns), element, name=name)


def const_vector(vector, name="const_vector"):
    """A te.Tensor of an array of one dimension."""
    def element(i):
        value = const(0.0, str(vector.dtype))
        for n, number in reversed(list(enumerate(vector))):
            value = Select(i.equal(n), const(number.item(), str(vector.dtype)), value)
        return value
    return te.compute(vector.shape, element, name=name)


def get_shape(src_shape, src_layout, dst_layout):
    """The shape of a tensor whose named axes stand in another order."""
    if sorted(src_layout) != sorted(dst_layout):
        raise ValueError(f"layouts {src_layout} and {dst_layout} do not have the same axes")
    return get_const_tuple([src_shape[src_layout.index(axis)] for axis in dst_layout])


def is_empty_shape(shape):
    """Whether a dimension is 0."""
    return any(equal_const_int(dim, 0) for dim in shape)


def is_dynamic_shape(shape):
    """Whether a dimension is symbolic."""
    return not all(isinstance(simplify(as_expr(dim)), IntImm) for dim in shape)


def ceil_div(a, b):
    """a / b, rounded up."""
    return simplify((as_expr(a) + b - 1) // as_expr(b))


def swap(arr, axis):
    """A list with the element at `axis` and the last exchanged."""
    arr = list(arr)
    arr[axis], arr[-1] = arr[-1], arr[axis]
    return arr


__all__ = ["ceil_div", "const_matrix", "const_vector", "equal_const_int", "get_const_float", "get_const_int",
           "get_const_tuple", "get_float_tuple", "get_max_power2_factor", "get_shape", "is_dynamic_shape",
           "is_empty_shape", "prod", "ravel_index", "simplify", "swap", "unravel_index"]
