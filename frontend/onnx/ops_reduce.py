"""Reductions. Axes are an attribute at first and an input from opset 18 on (13 for ReduceSum)."""
from __future__ import annotations

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


def _reduction(before, op, after, from_input):
    def convert(node):
        axes = _axes(node, from_input)
        x = before(node, node.input(0))
        if axes:
            x = node.call(op, x, axis=axes, keepdims=bool(node.attr("keepdims", 1)))
        return after(node, x)
    return convert


def _log_sum_exp(from_input):
    def convert(node):
        """With the greatest element taken out first, so that exp cannot overflow; where that is infinite, with none, as
        infinity less infinity is no number."""
        axes, keep = _axes(node, from_input), bool(node.attr("keepdims", 1))
        x = node.input(0)
        if not axes:
            return x
        greatest = node.call("max", x, axis=axes, keepdims=True)
        greatest = node.call("where", node.call("isinf", greatest), scalar_like(node, 0, x), greatest)
        total = node.call("sum", node.call("exp", node.call("subtract", x, greatest)), axis=axes, keepdims=keep)
        if not keep:
            greatest = node.call("squeeze", greatest, axis=axes)
        return node.call("add", node.call("log", total), greatest)
    return convert


for _name, _row in REDUCTIONS.items():
    converts(_name, 1)(_reduction(*_row, False))
    converts(_name, 13 if _name == "ReduceSum" else 18)(_reduction(*_row, True))
converts("ReduceLogSumExp", 1)(_log_sum_exp(False))
converts("ReduceLogSumExp", 18)(_log_sum_exp(True))


def _arg(op):
    def convert(node):
        if node.attr("select_last_index", 0):
            raise node.error("select_last_index 1 is not supported")
        axis = node.axis(node.attr("axis", 0), node.input(0).struct_info.ndim)
        return node.call(op, node.input(0), axis=axis, keepdims=bool(node.attr("keepdims", 1)))
    return convert


converts("ArgMax")(_arg("argmax"))
converts("ArgMin")(_arg("argmin"))
