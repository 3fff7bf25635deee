"""Activations as exporters write them become one operator: GELU, a chain of arithmetic around erf or tanh, and SiLU."""
from __future__ import annotations

from math import isclose, pi, sqrt

from ..node import structural_equal
from ..relax.block_builder import call_op
from .graph import GraphRewriter, is_immediate, on_main

# function -> (approximate of nn.gelu, the polynomial of x that the function is taken of)
CURVES = {
    "erf": ("none", {(1, 0): sqrt(0.5)}),
    "tanh": ("tanh", {(1, 0): sqrt(2 / pi), (3, 0): 0.044715 * sqrt(2 / pi)}),
}
GELU = {(1, 0): 0.5, (1, 1): 0.5}  # x / 2 + x f / 2
ARITHMETIC = ("add", "subtract", "multiply", "divide", "square", "negative")
MOST = 12  # operators of one chain
DEGREE = 4


@on_main
def fuse_activations(func):
    """Ensures that x (1 + erf(x / sqrt(2))) / 2, and x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2, with their sums
    and products in any order, are nn.gelu, and x sigmoid(x) is nn.silu."""
    return _FuseActivations().run(func)


class _FuseActivations(GraphRewriter):
    def call(self, binding, call):
        if call.op not in ("multiply", "divide"):
            return call
        gated = self._gated_by_itself(call)
        if gated is not None:
            return call_op("nn.silu", gated)
        for f in self._behind(call):
            name, inner = CURVES.get(getattr(self.producer(f), "op", None), (None, None))
            if name is None:
                continue
            for x in self._behind(self.producer(f)):
                same = structural_equal(x.struct_info, call.struct_info)
                if same and _close(self._polynomial(self.producer(f).args[0], x), inner) and _close(
                        self._polynomial(call, x, f), GELU):
                    return call_op("nn.gelu", x, approximate=name)
        return call

    def _gated_by_itself(self, call):
        """x of x sigmoid(x); None of another call."""
        if call.op == "multiply":
            for x, gate in (call.args, call.args[::-1]):
                producer = self.producer(gate)
                if getattr(producer, "op", None) == "sigmoid" and producer.args[0] is x:
                    return x
        return None

    def _behind(self, call):
        """The computed values that a call depends on by arithmetic alone, as far as chains go; no numbers."""
        found, todo = {}, list(call.args)
        while todo and len(found) < MOST:
            value = todo.pop(0)
            if id(value) in found or is_immediate(value, "add"):
                continue
            found[id(value)] = value
            producer = self.producer(value)
            if producer is not None and producer.op in ARITHMETIC:
                todo.extend(producer.args)
        return list(found.values())

    def _polynomial(self, value, x, f=None, depth=MOST):
        """{(power of x, power of f): factor} of a value, or of a call; None where it is no short polynomial of them."""
        if value is x or value is f:
            return {(int(value is x), int(value is f)): 1.0}
        if is_immediate(value, "add"):
            return {(0, 0): float(value.data.reshape(-1)[0])}
        call = self.producer(value) if self.producer(value) is not None else value
        if getattr(call, "op", None) not in ARITHMETIC or not depth:
            return None
        parts = [self._polynomial(a, x, f, depth - 1) for a in call.args]
        return None if None in parts else _COMBINE[call.op](*parts)


def _sum(a, b):
    return {k: a.get(k, 0) + b.get(k, 0) for k in {**a, **b}}


def _product(a, b):
    found = {}
    for (i, j), p in a.items():
        for (k, m), q in b.items():
            found[i + k, j + m] = found.get((i + k, j + m), 0) + p * q
    return found if max(map(sum, found)) <= DEGREE else None


def _quotient(a, b):
    number = b.get((0, 0), 0)
    return _product(a, {(0, 0): 1 / number}) if set(b) == {(0, 0)} and number else None


def _times(factor):
    return lambda a: _product(a, {(0, 0): factor})


_COMBINE = {"add": _sum, "subtract": lambda a, b: _sum(a, _times(-1.0)(b)), "multiply": _product, "divide": _quotient,
            "square": lambda a: _product(a, a), "negative": _times(-1.0)}


def _close(a, b):
    """Whether two polynomials are equal but for the rounding of their factors."""
    return a is not None and all(isclose(a.get(k, 0), b.get(k, 0), rel_tol=1e-5, abs_tol=1e-7) for k in {**a, **b})
