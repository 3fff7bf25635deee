"""Reductions. Axes are an attribute at first and an input from opset 18 on (13 for ReduceSum)."""
from __future__ import annotations

import numpy as np

from ..shapes import dims_of
from .converter import converts
from .ops_math import scalar_like


def _axes(node, from_input):
    """The axes to reduce, sorted; all when none are given, () when that means "nothing" (noop_with_empty_axes)."""
    rank = node.input(0).struct_info.ndim
    axes = node.ints(1, "axes") if from_input else node.attr("axes")
    if not axes:
        return () if node.attr("noop_with_empty_axes", 0) else tuple(range(rank))
    return tuple(sorted(node.axes(axes, rank)))


def _identity(node, x):
    return x


# ONNX operator -> (before, graph reduction, after); before and after map (node, value) to a value.
REDUCTIONS = {
    "ReduceMean": (_identity, "mean", _identity),
    "ReduceSum": (_identity, "sum", _identity),
    "ReduceMax": (_identity, "max", _identity),
    "ReduceMin": (_identity, "min", _identity),
    "ReduceProd": (_identity, "prod", _identity),
    "ReduceL1": (lambda node, x: node.call("abs", x), "sum", _identity),
    "ReduceL2": (lambda node, x: node.call("square", x), "sum", lambda node, x: node.call("sqrt", x)),
    "ReduceSumSquare": (lambda node, x: node.call("square", x), "sum", _identity),
    "ReduceLogSum": (_identity, "sum", lambda node, x: node.call("log", x)),
}


CHOICES = ("ReduceMax", "ReduceMin")
FLOATS = ("ReduceL2", "ReduceLogSum", "ReduceLogSumExp")  # of which there are none of integers


def _computed(name, reduce):
    """A converter by reduce(node, x). Sums of int32 are computed in float64, and what int32 does not hold becomes its
    least or greatest number, as runtimes do; so are those of other integers that have fractions on the way."""
    def convert(node):
        x = node.input(0)
        dtype = x.struct_info.dtype
        if not dtype.is_int or name in CHOICES or dtype != "int32" and name not in FLOATS:
            return reduce(node, x)
        result = reduce(node, node.astype(x, "float64"))
        least, greatest = float(dtype.min_value()), float(dtype.max_value())
        if greatest > dtype.max_value():  # 2^63: the greatest float64 that int64 holds is below
            greatest = float(np.nextafter(greatest, 0))
        return node.astype(node.call("clip", result, min=least, max=greatest), dtype)
    return convert


def _reduction(name, before, op, after, from_input):
    def reduce(node, x):
        axes = _axes(node, from_input)
        x = before(node, x)
        if op in ("max", "min") and any(dims_of(x)[a] == 0 for a in axes):
            return _of_nothing(node, x, op, axes)
        if axes:
            x = node.call(op, x, axis=axes, keepdims=bool(node.attr("keepdims", 1)))
        return after(node, x)
    return _computed(name, reduce)


def _of_nothing(node, x, op, axes):
    """The maximum (minimum) of no elements: the least (greatest) number there is."""
    dtype, keep = x.struct_info.dtype, node.attr("keepdims", 1)
    value = dtype.min_value() if op == "max" else dtype.max_value()
    dims = [1 if k in axes else d for k, d in enumerate(dims_of(x)) if keep or k not in axes]
    return node.filled(dims, value, dtype)


def _log_sum_exp(from_input):
    def reduce(node, x):
        """With the greatest element taken out first, so that exp cannot overflow; where that is infinite, with none, as
        infinity less infinity is no number."""
        axes, keep = _axes(node, from_input), bool(node.attr("keepdims", 1))
        if not axes:
            return x
        if any(dims_of(x)[a] == 0 for a in axes):
            return _of_nothing(node, x, "max", axes)
        greatest = node.call("max", x, axis=axes, keepdims=True)
        greatest = node.call("where", node.call("isinf", greatest), scalar_like(node, 0, x), greatest)
        total = node.call("sum", node.call("exp", node.call("subtract", x, greatest)), axis=axes, keepdims=keep)
        if not keep:
            greatest = node.call("squeeze", greatest, axis=axes)
        return node.call("add", node.call("log", total), greatest)
    return _computed("ReduceLogSumExp", reduce)


for _name, _row in REDUCTIONS.items():
    converts(_name, 1)(_reduction(_name, *_row, False))
    converts(_name, 13 if _name == "ReduceSum" else 18)(_reduction(_name, *_row, True))
converts("ReduceLogSumExp", 1)(_log_sum_exp(False))
converts("ReduceLogSumExp", 18)(_log_sum_exp(True))


def _arg(op):
    def convert(node):
        axis = node.axis(node.attr("axis", 0), node.input(0).struct_info.ndim)
        return node.call(op, node.input(0), axis=axis, keepdims=bool(node.attr("keepdims", 1)),
                         select_last_index=bool(node.attr("select_last_index", 0)))
    return convert


converts("ArgMax")(_arg("argmax"))
converts("ArgMin")(_arg("argmin"))
