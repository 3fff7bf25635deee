"""topi's reductions and normalizations, stage by stage as TVM has them: sums of x and x^2 in one pass, softmax in four.
"""
from __future__ import annotations

from .. import te, tir
from ..expr import Select, as_expr, cast, const, logical_and, logical_or
from ..op import InferError
from ..relax.classic import plain
from ..relax.composites import axis_in
from ..relax.ops.common import flat_index, simplify
from .elements import cast_to, compute, each, ratio
from .shapes import reshaped

_tuple_sum = te.comm_reducer(lambda a, b: (a[0] + b[0], a[1] + b[1]), lambda *t: (const(0, t[0]), const(0, t[1])),
                             "tuple_sum")


def real_axes(what, axis, rank):
    """Axes from 0, sorted, each once; None is all."""
    axis = plain(axis)
    axis = range(rank) if axis is None else (axis,) if isinstance(axis, int) else axis
    return sorted({axis_in(what, k, rank) for k in axis})


def _split(indices, axes):
    """(those at `axes`, the others)"""
    return [v for k, v in enumerate(indices) if k in axes], [v for k, v in enumerate(indices) if k not in axes]


class _Reduced:
    """What is summed over of a tensor: its axes, and the shape that remains."""

    def __init__(self, what, x, axis, keepdims=False, at_least_1d=False):
        self.x, self.keepdims, self.axes = x, keepdims, real_axes(what, axis, x.ndim)
        self.over = [te.reduce_axis((0, x.shape[k]), f"k{k}") for k in self.axes]
        shape = [1 if k in self.axes else d for k, d in enumerate(x.shape)] if keepdims else _split(
            x.shape, self.axes)[1]
        self.shape = tuple(shape) or ((1,) if at_least_1d else ())

    def at(self, indices):
        """The indices of the element that is added at an element of the result."""
        rest, over = iter(indices), iter(v.var for v in self.over)
        found = []
        for k in range(self.x.ndim):
            found.append(next(over) if k in self.axes else next(rest))
            if k in self.axes and self.keepdims:
                next(rest)
        return tuple(found)

    def count(self, dtype=None):
        """Of how many elements each is made; in a dtype, product by product."""
        total = None
        for k in self.axes:
            dim = self.x.shape[k] if dtype is None else cast(self.x.shape[k], dtype)
            total = dim if total is None else total * dim
        return as_expr(1) if total is None else total


def reduced(what, reducer, x, axis=None, keepdims=False, at_least_1d=False):
    """The tensor of reducer over `axis`."""
    r = _Reduced(what, x, axis, keepdims, at_least_1d)
    if not r.over:
        return each(x, lambda v: v)
    return compute(r.shape, lambda *i: reducer(x[r.at(i)], axis=r.over), f"{x.op.name if x.op else 'x'}_red", "ax")


def lowest(dtype):
    return const(dtype.finite_range()[0] if dtype.is_float else dtype.min_value(), dtype)


# Of softmax and pools, as TVM's from the least number of the dtype, which -inf is below.
greatest = te.comm_reducer(lambda a, b: tir.max(a, b), lowest, "max")
_any = te.comm_reducer(logical_or, lambda t: const(False, t), "any")
_all = te.comm_reducer(logical_and, lambda t: const(True, t), "all")
_REDUCERS = {"sum": te.sum, "prod": te.prod, "max": te.max, "min": te.min, "any": _any, "all": _all}


def _reduction(name):
    def function(ops, data, axis=None, keepdims=False, atleast1d=False):
        reducer = _any if name == "sum" and data.dtype.is_bool else _REDUCERS[name]
        if name in ("any", "all") and not data.dtype.is_bool:
            raise InferError(f"{name}: takes a bool tensor, got {data.dtype}")
        return reduced(name, reducer, data, axis, keepdims, atleast1d)
    return function


def arg_reducer(name, better, select_last_index=False):
    """The (place, value) of the first (or last) best of such pairs."""
    def combine(a, b):
        at = a[0] >= b[0] if select_last_index else a[0] < b[0]
        keep = logical_or(better(a[1], b[1]), logical_and(a[1].equal(b[1]), at))
        return Select(keep, a[0], b[0]), Select(better(a[1], b[1]), a[1], b[1])

    def identity(index, value):
        worst = value.min_value() if name == "argmax" else value.max_value()
        behind = index.max_value() if value.is_int and not select_last_index else -1  # integers may be the worst
        return const(behind, index), const(worst, value)
    return te.comm_reducer(combine, identity, name)


def _arg(name, better):
    """The place of the first (or last) best element along `axis`, of the flattened tensor where that is None."""
    def function(ops, data, axis=None, keepdims=False, select_last_index=False):
        if not data.ndim:
            raise InferError(f"{name}: takes a tensor of 1 dimension or more")
        reducer = arg_reducer(name, better, select_last_index)
        r = _Reduced(name, data, axis, keepdims)

        def best(*i):
            at = simplify(flat_index([v.var for v in r.over], [data.shape[k] for k in r.axes]))
            return reducer((at, data[r.at(i)]), axis=r.over)
        found = compute(r.shape, best, f"{data.op.name}_red_temp", "ax")[0]
        return compute(r.shape, lambda *i: found[i], f"{data.op.name}_red", "ax")
    return function


# ---------------------------------------------------------------- statistics

def _mean(x, axis, keepdims):
    count = _Reduced("mean", x, axis).count()
    return each(reduced("mean", te.sum, x, axis, keepdims), lambda total: ratio(total, count), "T_divide", "ax")


def mean(ops, data, axis=None, keepdims=False):
    return _mean(data, axis, keepdims)


def variance(ops, data, axis=None, keepdims=False):
    deviation = data - _mean(data, axis, True)
    return _mean(deviation * deviation, axis, keepdims)


def std(ops, data, axis=None, keepdims=False):
    return each(variance(ops, data, axis, keepdims), tir.sqrt)


# ---------------------------------------------------------------- softmax

class _Rows:
    """A tensor by its rows along an axis, and the greatest element of each."""

    def __init__(self, what, x, axis):
        self.x, self.axis = x, axis_in(what, plain(axis), x.ndim)
        self.top = self.reduced(greatest, lambda at, i: x[at], "T_softmax_maxelem")

    def others(self, i):
        """The indices of a row, of those of an element."""
        return tuple(v for k, v in enumerate(i) if k != self.axis)

    def reduced(self, reducer, value, name):
        """The tensor of reducer over value(indices of an element, those of its row)."""
        k = te.reduce_axis((0, self.x.shape[self.axis]), "k")

        def element(*i):
            return reducer(value((*i[:self.axis], k.var, *i[self.axis:]), i), axis=k)
        return compute(self.others(self.x.shape), element, name, "i")

    def mapped(self, value, name, **attrs):
        """The tensor of value(indices of an element, those of its row)."""
        return compute(self.x.shape, lambda *i: value(i, self.others(i)), name, "i", attrs)


def softmax(ops, x, axis=-1):
    rows = _Rows("softmax", x, axis)
    e = rows.mapped(lambda i, row: tir.exp(x[i] - rows.top[row]), "T_softmax_exp")
    total = rows.reduced(te.sum, lambda i, row: e[i], "T_softmax_expsum")
    return rows.mapped(lambda i, row: e[i] / total[row], "T_softmax_norm", axis=rows.axis)


def log_softmax(ops, x, axis=-1):
    rows = _Rows("log_softmax", x, axis)
    total = rows.reduced(te.sum, lambda i, row: tir.exp(x[i] - rows.top[row]), "compute")
    return rows.mapped(lambda i, row: x[i] - rows.top[row] - tir.log(total[row]), "compute", axis=rows.axis)


# ---------------------------------------------------------------- normalizations

def _moments(data, axes, wide=False):
    """(sums of x, sums of x^2, how many are summed) over `axes`; wide: in float32 of float16."""
    r = _Reduced("norm", data, axes, at_least_1d=True)

    def sums(*i):
        x = cast(data[r.at(i)], "float32") if wide else data[r.at(i)]
        return _tuple_sum((x, x * x), axis=r.over)
    return (*compute(r.shape, sums, f"{data.op.name}_red_temp", "ax"), r.count("float32" if wide else data.dtype))


def _normal(value, rest, moments, epsilon):
    """(value - mean) / standard deviation, of an element of the row `rest`."""
    x, x2, count = moments
    at = tuple(rest) or (0,)
    mean_ = x[at] / count
    spread = x2[at] / count - mean_ * mean_
    return (value - mean_) * tir.rsqrt(spread + const(epsilon, spread.dtype))


def layer_norm(ops, data, gamma, beta, axis, epsilon=1e-5):
    """(data - mean) / sqrt(variance + epsilon) * gamma + beta, over `axis`."""
    return _layer_norm("layer_norm", data, gamma, beta, axis, epsilon, "T_layer_norm")


def _layer_norm(what, data, gamma, beta, axis, epsilon, name):
    axes, half = real_axes(what, axis, data.ndim), data.dtype == "float16"
    moments = _moments(data, axes, half)

    def element(*i):
        own, rest = _split(i, axes)
        value = _normal(cast(data[i], "float32") if half else data[i], rest, moments, epsilon)
        value = cast(value, "float16") if half else value
        value = value if gamma is None else value * gamma[tuple(own)]
        return value if beta is None else value + beta[tuple(own)]
    return compute(data.shape, element, name, "ax")


def group_norm(ops, data, gamma, beta, num_groups, channel_axis, axes, epsilon=1e-5):
    """As layer_norm over `axes` and each group of channels."""
    half, groups = data.dtype == "float16", plain(num_groups)
    channel = axis_in("group_norm", plain(channel_axis), data.ndim)
    size = simplify(tir.floordiv(data.shape[channel], groups))
    split = (*data.shape[:channel], groups, size, *data.shape[channel + 1:])
    x = reshaped(data, split)
    x = cast_to(x, "float32") if half else x
    gamma, beta = (v if v is None else reshaped(v, (groups, size)) for v in (gamma, beta))
    given = real_axes("group_norm", axes, data.ndim)
    if channel in given:
        raise InferError(f"group_norm: axes {tuple(given)} contain the channels' axis {channel}")
    over = sorted([channel + 1, *(k + (k > channel) for k in given)])
    moments = _moments(x, over)

    def element(*i):
        value = _normal(x[i], _split(i, over)[1], moments, epsilon)
        value = cast(value, "float16") if half else value
        at = (i[channel], i[channel + 1])
        value = value if gamma is None else value * gamma[at]
        return value if beta is None else value + beta[at]
    return reshaped(compute(x.shape, element, "T_group_norm", "ax"), data.shape)


def rms_norm(ops, data, weight, axis, epsilon=1e-5):
    """data / sqrt(mean of squares + epsilon) * weight, computed in float32, of float64 in that."""
    axes, dtype = real_axes("rms_norm", axis, data.ndim), data.dtype
    wide = "float64" if dtype == "float64" else "float32"
    x = cast_to(data, wide)
    squares = reduced("rms_norm", te.sum, x * x, axes, at_least_1d=True)
    w, count = cast_to(weight, wide), _Reduced("rms_norm", x, axes).count(wide)
    rest_shape = tuple(_split(x.shape, axes)[1])
    scale = compute(rest_shape, lambda *i: tir.rsqrt(squares[i or (0,)] / count + const(epsilon, wide)), "rsqrt", "ax")

    def element(*i):
        own, rest = _split(i, axes)
        return scale[tuple(rest)] * x[i] * w[tuple(own)]
    return cast_to(compute(x.shape, element, "T_rms_norm", "ax"), dtype)


COMPOSITES = {
    **{name: _reduction(name) for name in _REDUCERS},
    "argmax": _arg("argmax", lambda a, b: a > b), "argmin": _arg("argmin", lambda a, b: a < b),
    "mean": mean, "variance": variance, "std": std,
    **{f"nn.{f.__name__}": f for f in (softmax, log_softmax, layer_norm, group_norm, rms_norm)},
}
