"""Shapes as values: integer tensors made of dimensions (Shape -> Gather -> Concat -> Reshape), known at import time.

Dimensions are Python ints where static and int64 expressions where symbolic. A tensor with a symbolic element is
a `Symbolic`; the graph operators that exporters put between Shape and Reshape are evaluated on it here, by the
builder that otherwise makes calls of them.
"""
from __future__ import annotations

import math
import operator
import re

import numpy as np

from ..ir import expr as ex
from ..ir.arith.analyzer import Analyzer
from ..ir.expr import IntImm, PrimExpr
from ..ir.node import structural_equal
from ..ir.relax.expr import Constant, TensorStructInfo

MOST_DIM = (1 << 31) - 1  # symbolic dimensions are taken to lie in 1 .. MOST_DIM


class Symbolic:
    """A tensor, some of whose elements are expressions of symbolic dimensions.

    array: an object array of ints, bools and PrimExpr; dtype: the tensor's. Elements of floats are whole numbers.
    """

    def __init__(self, array, dtype):
        self.array, self.dtype = array, dtype

    @property
    def struct_info(self):
        return TensorStructInfo(self.array.shape, self.dtype)


def settle(array, dtype, name=""):
    """A Constant when every element of the object array is a number, else a Symbolic."""
    array = np.asarray(array, dtype=object)
    plain = np.frompyfunc(_plain, 1, 1)(array) if array.size else array
    plain = np.asarray(plain, dtype=object)
    if any(isinstance(v, PrimExpr) for v in plain.flat):
        return Symbolic(plain, str(dtype))
    return Constant(np.ascontiguousarray(plain.astype(dtype)).reshape(plain.shape), name)


def _plain(value):
    if isinstance(value, IntImm):
        return bool(value.value) if value.dtype.is_bool else value.value
    return value


def dim(value):
    """A dimension of struct info as an int where it is one."""
    return _plain(value)


def dims_of(x):
    """The shape of a graph value as a list of ints and expressions."""
    return [dim(s) for s in x.struct_info.shape]


def same(a, b):
    """True when two dimensions are provably equal."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    if isinstance(a, PrimExpr) and isinstance(b, PrimExpr) and structural_equal(a, b):
        return True
    return prove(ex.binary(ex.EQ, a, b)) is True


def may_be_same(a, b):
    """True unless two dimensions are known to differ, for all sizes of what is symbolic in them."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return prove(ex.binary(ex.EQ, a, b)) is not False


def same_dims(a, b):
    """True when two shapes are provably equal."""
    return len(a) == len(b) and all(map(same, a, b))


def prove(condition):
    """True or False when the condition holds (fails) for all dimensions from 1 up, else None."""
    condition = _plain(condition)
    if not isinstance(condition, PrimExpr):
        return bool(condition)
    analyzer = _analyzer(condition)
    if analyzer.can_prove(condition):
        return True
    return False if analyzer.can_prove(ex.Not(condition)) else None


def simplify(value):
    """A dimension in its simplest form."""
    if not isinstance(value, PrimExpr):
        return value
    return _plain(_analyzer(value).simplify(value))


def _analyzer(value):
    """An Analyzer that knows the ranges of the dimensions in an expression: (first, extent) of each."""
    analyzer = Analyzer()
    for var in ex.free_vars(value):
        first = 0 if var.may_be_zero else 1
        last = var.most.value if isinstance(var.most, IntImm) else MOST_DIM
        analyzer.bind(var, ex.Range(ex.const(first, var.dtype), ex.const(last - first + 1, var.dtype)))
    return analyzer


def upper(dim):
    """An upper bound of a dimension that is made of the inputs' dimensions alone; None where none is known."""
    if not isinstance(dim, PrimExpr):
        return dim
    bounds = {v: v.most for v in ex.free_vars(dim) if v.most is not None}
    if bounds and not _grows(dim):
        return None
    return simplify(ex.substitute(dim, bounds)) if bounds else dim


def _grows(e):
    """Whether an expression of variables that are not negative is never less where one of them is more."""
    if isinstance(e, (ex.Add, ex.Mul, ex.Min, ex.Max)):
        return _grows(e.a) and _grows(e.b)
    if isinstance(e, ex.FloorDiv):
        return _grows(e.a) and isinstance(e.b, IntImm) and e.b.value > 0
    return isinstance(e, ex.Var) or isinstance(e, IntImm) and e.value >= 0


# ---------------------------------------------------------------- products of dimensions

def product(dims):
    """The product of dimensions, as an int or expression."""
    number, symbols = _factors(dims)
    return math.prod(symbols, start=number) if number else 0


def _factors(dims):
    """(product of the ints, list of the other factors), with products taken apart."""
    number, symbols, todo = 1, [], list(dims)
    while todo:
        d = _plain(todo.pop(0))
        if isinstance(d, PrimExpr):
            if isinstance(d, ex.Mul):
                todo[:0] = [d.a, d.b]
            else:
                symbols.append(d)
        else:
            number *= d
    return number, symbols


def quotient(dims, divisors):
    """product(dims) / product(divisors) with equal factors cancelled; None when it is known not to be whole."""
    number, symbols = _factors(dims)
    below, others = _factors(divisors)
    remaining = []
    for factor in others:
        match = next((i for i, s in enumerate(symbols) if structural_equal(s, factor)), None)
        if match is None:
            remaining.append(factor)
        else:
            del symbols[match]
    if below == 0:
        return None
    if not remaining:
        common = math.gcd(number, below)
        number, below = number // common, below // common
        if not symbols:
            return number if below == 1 else None
        total = math.prod(symbols, start=number)
        return total if below == 1 else total // below
    size = simplify(math.prod(symbols, start=number) // math.prod(remaining, start=below))
    return size if may_be_same(product(dims), product([*divisors, size])) else None


def broadcast_dims(a, b):
    """The shape that shapes a and b broadcast to. ValueError when they do not, or when it cannot be known."""
    rank = max(len(a), len(b))
    out = []
    for p, q in zip([1] * (rank - len(a)) + list(a), [1] * (rank - len(b)) + list(b)):
        if same(p, 1) or same(p, q):
            out.append(q)
        elif same(q, 1):
            out.append(p)
        else:
            raise ValueError(f"shapes {shape_text(a)} and {shape_text(b)} do not broadcast")
    return out


def shape_text(dims):
    """[1, n, 3 * m] for errors."""
    return "[" + ", ".join(re.sub(r"T\.int\d+\((-?\d+)\)", r"\1", str(d)) for d in dims) + "]"


# ---------------------------------------------------------------- operators on shape values

def _compare(cls, number):
    def apply(a, b):
        if not isinstance(a, PrimExpr) and not isinstance(b, PrimExpr):
            return number(a, b)
        condition = ex.binary(cls, a, b)
        proven = prove(condition)
        return condition if proven is None else proven
    return apply


def _divide(a, b):
    """Integer division of tensors truncates; floor division says the same of values that are not negative."""
    if not isinstance(a, PrimExpr) and not isinstance(b, PrimExpr):
        return int(math.trunc(a / b)) if abs(a) < 1 << 52 else (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)
    natural = prove(ex.binary(ex.GE, a, 0)) and prove(ex.binary(ex.GT, b, 0))
    return simplify(ex.binary(ex.FloorDiv if natural else ex.Div, a, b))


def _choose(cls, number):
    def apply(a, b):
        if not isinstance(a, PrimExpr) and not isinstance(b, PrimExpr):
            return number(a, b)
        return simplify(ex.binary(cls, a, b))
    return apply


def _select(c, x, y):
    if isinstance(c, PrimExpr):
        return ex.Select(c, ex.cast(x, "int64"), ex.cast(y, "int64"))
    return x if c else y


def _logical(combine, number):
    def apply(a, b):
        return combine(a, b) if isinstance(a, PrimExpr) or isinstance(b, PrimExpr) else number(a, b)
    return apply


def _elementwise(function):
    arity = function.__code__.co_argcount if hasattr(function, "__code__") else 2
    ufunc = np.frompyfunc(function, arity, 1)
    return lambda arrays, attrs: ufunc(*arrays)


def _reduce(ufunc):
    def apply(arrays, attrs):
        axis = attrs.get("axis")
        axis = tuple(range(arrays[0].ndim)) if axis is None else axis
        return ufunc.reduce(arrays[0], axis=axis, keepdims=attrs.get("keepdims", False))
    return apply


def _slice(arrays, attrs):
    index = [slice(None)] * arrays[0].ndim
    for axis, begin, end, step in zip(*(attrs[k] for k in ("axes", "begin", "end", "strides"))):
        index[axis] = slice(begin, None if step < 0 and end < 0 else end, step)
    return arrays[0][tuple(index)]


def _split(arrays, attrs):
    return tuple(np.split(arrays[0], np.cumsum(attrs["sections"])[:-1], axis=attrs["axis"]))


# Graph operator -> function(object arrays, attrs) -> object array or tuple. A shape argument is an array too.
_COMPARISONS = {"equal": (ex.EQ, operator.eq), "not_equal": (ex.NE, operator.ne), "less": (ex.LT, operator.lt),
                "less_equal": (ex.LE, operator.le), "greater": (ex.GT, operator.gt),
                "greater_equal": (ex.GE, operator.ge)}
SYMBOLIC = {
    "add": _elementwise(lambda a, b: a + b),
    "subtract": _elementwise(lambda a, b: a - b),
    "multiply": _elementwise(lambda a, b: a * b),
    "divide": _elementwise(_divide),
    "floor_mod": _elementwise(lambda a, b: a % b),
    "minimum": _elementwise(_choose(ex.Min, min)),
    "maximum": _elementwise(_choose(ex.Max, max)),
    "negative": _elementwise(lambda a: -a),
    "logical_not": _elementwise(lambda a: ex.Not(a) if isinstance(a, PrimExpr) else not a),
    "logical_and": _elementwise(_logical(ex.logical_and, lambda a, b: a and b)),
    "logical_or": _elementwise(_logical(ex.logical_or, lambda a, b: a or b)),
    "where": _elementwise(_select),
    "sum": _reduce(np.add),
    "prod": _reduce(np.multiply),
    "reshape": lambda arrays, attrs: arrays[0].reshape([int(d) for d in arrays[1]]),
    "broadcast_to": lambda arrays, attrs: np.broadcast_to(arrays[0], [int(d) for d in arrays[1]]),
    "permute_dims": lambda arrays, attrs: arrays[0].transpose(attrs["axes"]),
    "expand_dims": lambda arrays, attrs: np.expand_dims(arrays[0], attrs["axis"]),
    "squeeze": lambda arrays, attrs: np.squeeze(arrays[0], attrs["axis"]),
    "concat": lambda arrays, attrs: np.concatenate(arrays, attrs["axis"]),
    "split": _split,
    "strided_slice": _slice,
    "tile": lambda arrays, attrs: np.tile(arrays[0], attrs["repeats"]),
    "take": lambda arrays, attrs: np.take(arrays[0], arrays[1].astype(np.int64), attrs["axis"]),
    **{name: _elementwise(_compare(cls, number)) for name, (cls, number) in _COMPARISONS.items()},
}
