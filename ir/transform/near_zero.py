"""Formulas that lose the digits of small numbers, as the functions that keep them."""
from __future__ import annotations

import numpy as np

from ..relax.block_builder import call_op
from ..relax.expr import Constant
from .graph import GraphRewriter, constant_last, on_main


@on_main
def near_zero(func):
    """Ensures no log(x + 1) and no exp(x) - 1: they are log1p and expm1. log(exp(x) + 1), of which only the size
    counts, stays."""
    return _NearZero().run(func)


def _is_one(call, sign):
    """Whether the second operand of a call, which leaves the first one's shape, is 1, or -1."""
    x, one = call.args
    return isinstance(one, Constant) and one.data.ndim <= x.struct_info.ndim and one.data.size == 1 and bool(
        np.all(one.data == sign))


class _NearZero(GraphRewriter):
    def call(self, binding, call):
        if call.op == "log":
            total = self.producer(call.args[0], "add")
            total = total and constant_last(total)
            if total and _is_one(total, 1) and not self.producer(total.args[0], "exp"):
                return call_op("log1p", total.args[0])
        elif call.op in ("add", "subtract"):
            raised = self.producer(constant_last(call).args[0], "exp")
            if raised and _is_one(constant_last(call), 1 if call.op == "subtract" else -1):
                return call_op("expm1", *raised.args)
        return call
