"""GELU in the forms that exporters give it, found by its algebra, SiLU, and what is neither."""
from math import pi, sqrt

import numpy as np
import pytest
from graph_check import Graph, check, const, data, ops, param

from ingot.ir.relax import Constant
from ingot.ir.transform.fuse_activations import fuse_activations


def number(value):
    return Constant(np.array(value, np.float32), "number")


def _torch(g, x):
    e = g.op("add", g.op("erf", g.op("divide", x, number(sqrt(2)))), number(1))
    return g.op("multiply", g.op("multiply", x, e), number(0.5))


def _half_first(g, x):
    e = g.op("add", number(1), g.op("erf", g.op("multiply", number(sqrt(0.5)), x)))
    return g.op("multiply", g.op("multiply", x, number(0.5)), e)


def _halved_factor(g, x):
    e = g.op("erf", g.op("multiply", x, number(sqrt(0.5))))
    return g.op("multiply", g.op("divide", g.op("add", e, number(1)), number(2)), x)


def _gpt2(g, x, third=0.044715):
    cube = g.op("multiply", g.op("multiply", g.op("square", x), x), number(third))
    t = g.op("tanh", g.op("multiply", g.op("add", x, cube), number(sqrt(2 / pi))))
    return g.op("multiply", g.op("multiply", x, number(0.5)), g.op("add", t, number(1)))


def _factored(g, x):
    inner = g.op("add", g.op("multiply", g.op("multiply", x, x), number(0.044715)), number(1))
    t = g.op("tanh", g.op("multiply", g.op("multiply", x, number(sqrt(2 / pi))), inner))
    return g.op("multiply", g.op("multiply", x, g.op("add", t, number(1))), number(0.5))


FORMS = [(_torch, "none"), (_half_first, "none"), (_halved_factor, "none"), (_gpt2, "tanh"), (_factored, "tanh")]


@pytest.mark.parametrize("form, approximate", FORMS)
@pytest.mark.parametrize("biased", [True, False])
def test_forms(form, approximate, biased):
    """Of an input, and of a sum, whose own operators are no part of the chain."""
    x = param("x", 3, 50)
    g = Graph(x)
    y = g.op("add", g.op("matmul", x, const(50, 7)), const(7)) if biased else x
    new = check(g.module(form(g, y)), data(3, 50, scale=3), passes=[fuse_activations])
    assert ops(new) == ["matmul", "add", "nn.gelu"] if biased else ["nn.gelu"]
    assert new["main"].bindings[-1].value.attrs["approximate"] == approximate


@pytest.mark.parametrize("gate_first", [True, False])
def test_silu(gate_first):
    x = param("x", 3, 50)
    g = Graph(x)
    factors = (x, g.op("sigmoid", x))
    new = check(g.module(g.op("multiply", *factors[::-1 if gate_first else 1])), data(3, 50, scale=3),
                passes=[fuse_activations])
    assert ops(new) == ["nn.silu"]


@pytest.mark.parametrize("op", ["multiply", "add"])
def test_a_gate_of_another_value_and_a_sum_are_no_silu(op):
    x, y = param("x", 3, 50), param("y", 3, 50)
    g = Graph(x, y)
    mod = g.module(g.op(op, x, g.op("sigmoid", y if op == "multiply" else x)))
    assert ops(fuse_activations(mod)) == ["sigmoid", op]


def _another_argument(g, x):
    e = g.op("add", g.op("erf", x), number(1))
    return g.op("multiply", g.op("multiply", x, e), number(0.5))


def _another_factor(g, x):
    e = g.op("add", g.op("erf", g.op("divide", x, number(sqrt(2)))), number(1))
    return g.op("multiply", g.op("multiply", g.op("exp", x), e), number(0.5))


def _not_half(g, x):
    e = g.op("add", g.op("erf", g.op("divide", x, number(sqrt(2)))), number(1))
    return g.op("multiply", x, e)


def _divided_by(g, x):
    return g.op("divide", number(0.5), g.op("erf", g.op("divide", x, number(sqrt(2)))))


def _of_more_rows(g, x):
    e = g.op("add", g.op("erf", g.op("divide", x, number(sqrt(2)))), number(1))
    return g.op("multiply", g.op("multiply", x, e), Constant(np.full((1, 1, 1), 0.5, np.float32), "half"))


@pytest.mark.parametrize("form", [_another_argument, _another_factor, _not_half, _divided_by, _of_more_rows,
                                  lambda g, x: _gpt2(g, x, 0.05)])
def test_what_stays(form):
    x = param("x", 3, 5)
    g = Graph(x)
    mod = g.module(form(g, x))
    assert ops(fuse_activations(mod)) == ops(mod)


def test_long_sums_are_no_chains():
    x = param("x", 3, 5)
    g = Graph(x)
    y = x
    for _ in range(40):
        y = g.op("multiply", g.op("add", y, y), number(0.5))
    mod = g.module(_another_factor(g, y))
    assert ops(fuse_activations(mod)) == ops(mod)
