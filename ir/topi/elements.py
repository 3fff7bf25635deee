"""topi's functions of single elements that are not computed as the graph's operators are: with TVM's expressions."""
from __future__ import annotations

import math

from .. import te, tir
from ..expr import Select, as_expr, cast, const, is_const_int
from ..relax.classic import plain
from ..relax.ops.common import broadcast_index, simplify, wide_dims
from ..relax.ops.elementwise import clip_bounds
from ..upper import upper


def compute(shape, function, name, axes, attrs=None):
    """te.compute, whose axes are called `axes` and a number."""
    shape = tuple(shape)
    return te.compute(shape, function, name=name, attrs=attrs, varargs_names=[f"{axes}{k}" for k in range(len(shape))])


def each(x, function, name="compute", axes="i"):
    """function of every element."""
    return compute(x.shape, lambda *i: function(x[i]), name, axes)


def ratio(total, count):
    """A mean: TVM's div, of integers towards 0."""
    if total.dtype.is_float:
        return total if is_const_int(count, 1) else total / count
    some = simplify(tir.max(as_expr(count), 1))  # what is of nothing is 0
    return cast(tir.truncdiv(total, cast(some, total.dtype)), total.dtype)


def cast_to(x, dtype):
    return each(x, lambda v: cast(v, dtype), "T_cast", "ax")


def _topi(name):
    """topi's function of two tensors, or of a tensor and a number."""
    return lambda a, b: getattr(upper("topi"), name)(a, b)


_add, _multiply, _subtract = _topi("add"), _topi("multiply"), _topi("subtract")


def _zero(v):
    return const(0, v.dtype)


def leaky_relu(ops, x, alpha):
    return each(x, lambda v: Select(v > _zero(v), v, v * const(alpha, v.dtype)))


def clip(ops, x, a_min, a_max):
    low, high = clip_bounds(x.dtype, plain(a_min), plain(a_max))

    def held(v):
        v = v if high is None else tir.min(v, const(high, v.dtype))
        return v if low is None else tir.max(v, const(low, v.dtype))
    return each(x, held)


def erf(ops, x):
    """Of float16 in float32."""
    return cast_to(each(cast_to(x, "float32"), tir.erf), "float16") if x.dtype == "float16" else each(x, tir.erf)


def gelu(ops, x):
    """x Phi(x), with Phi the normal distribution."""
    half, root = const(0.5, x.dtype), const(math.sqrt(0.5), x.dtype)
    return _multiply(x, _add(half, _multiply(erf(ops, _multiply(x, root)), half)))


def gelu_tanh(ops, x):
    """gelu by tanh instead of erf."""
    half, one, scale = (const(v, x.dtype) for v in (0.5, 1.0, math.sqrt(2 / math.pi)))
    square = _multiply(_multiply(const(0.044715, x.dtype), x), x)
    inner = _multiply(_multiply(scale, x), _add(one, square))
    return _multiply(_multiply(half, x), _add(one, each(inner, tir.tanh)))


def selu(ops, x):
    """scale * (max(0, x) + min(0, alpha * (exp(x) - 1)))"""
    alpha, scale, zero, one = (const(v, x.dtype) for v in (1.6732632423543772, 1.0507009873554805, 0.0, 1.0))
    below = _multiply(alpha, _subtract(each(x, tir.exp), one))
    return _multiply(scale, _add(_topi("maximum")(x, zero), _topi("minimum")(zero, below)))


def silu(ops, x):
    return _multiply(x, each(x, tir.sigmoid))


def sign(ops, x):
    def element(v):
        below = Select(v < _zero(v), const(-1, v.dtype), _zero(v)) if v.dtype.code != "uint" else _zero(v)
        return Select(v > _zero(v), const(1, v.dtype), below)
    return each(x, element)


def where(ops, condition, x, y):
    """x where a bool is true, or another number is not 0, else y."""
    def holds(v):
        return const(0, "int64") < cast(v, "int64") if v.dtype.is_bool else v != _zero(v)
    checked = ops("where", condition if condition.dtype.is_bool else each(condition, holds), x, y)

    def at(t, i):
        return t[broadcast_index(i, t.shape, checked.shape)] if hasattr(t, "shape") else as_expr(t, checked.dtype)
    with wide_dims():
        return compute(checked.shape, lambda *i: Select(holds(at(condition, i)), at(x, i), at(y, i)), "T_where", "ax")


COMPOSITES = {
    "where": where, "clip": clip, "cast": lambda ops, x, dtype: cast_to(x, dtype), "erf": erf, "sign": sign,
    "rsqrt": lambda ops, x: each(x, tir.rsqrt), "nn.leaky_relu": leaky_relu, "nn.gelu": gelu,
    "nn.gelu_tanh": gelu_tanh, "nn.selu": selu, "nn.silu": silu,
    "nn.relu": lambda ops, x: each(x, lambda v: tir.max(v, _zero(v))),
}
