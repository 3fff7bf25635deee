"""What is a function of bytes is looked up, once."""
import numpy as np
import pytest
from graph_check import Graph, execute, ops, param

from ingot.ir.relax import Constant
from ingot.ir.transform.lookup_tables import lookup_tables

ALL = np.arange(256).reshape(16, 16)


def number(value):
    return Constant(np.float32(value))


def dequantized(g, x, scale, zero):
    x = g.op("subtract", g.op("astype", x, dtype="float32"), number(zero))
    return g.op("multiply", x, number(scale))


def quantized(g, x, scale, zero, dtype):
    x = g.op("add", g.op("round", g.op("divide", x, number(scale))), number(zero))
    least, most = (-128.0, 127.0) if dtype == "int8" else (0.0, 255.0)
    return g.op("astype", g.op("clip", x, min=least, max=most), dtype=dtype)


@pytest.mark.parametrize("dtype, to", [("int8", "uint8"), ("uint8", "int8"), ("int8", "int8")])
def test_an_activation(dtype, to):
    """x * sigmoid(x): its argument has two readers."""
    g = Graph(param("x", 16, 16, dtype=dtype))
    d = dequantized(g, g.params[0], 0.05, 3)
    y = quantized(g, g.op("multiply", d, g.op("sigmoid", d)), 0.03, 5, to)
    mod, x = g.module(y), (ALL - (128 if dtype == "int8" else 0)).astype(dtype)
    made = lookup_tables(mod)
    assert ops(made) == ["qnn.lookup"]
    np.testing.assert_array_equal(execute(made, x)[0], execute(mod, x)[0])


def test_one_after_the_other_are_one():
    g = Graph(param("x", 16, 16, dtype="uint8"))
    y = g.params[0]
    for function in ("tanh", "sigmoid"):
        y = quantized(g, g.op(function, dequantized(g, y, 0.01, 128)), 0.005, 100, "uint8")
    mod, x = g.module(y), ALL.astype(np.uint8)
    made = lookup_tables(mod)
    assert ops(made) == ["qnn.lookup"]
    np.testing.assert_array_equal(execute(made, x)[0], execute(mod, x)[0])


def test_conversions_that_undo_one_another_go():
    g = Graph(param("x", 16, 16, dtype="int8"))
    y = quantized(g, dequantized(g, g.params[0], 0.07, -5), 0.07, -5, "int8")
    z = g.op("abs", g.op("astype", y, dtype="int32"))
    assert ops(lookup_tables(g.module(z))) == ["astype", "abs"]


@pytest.mark.parametrize("other", ["tensor", "vector", "shape"])
def test_what_depends_on_more_than_bytes_stays(other):
    g = Graph(param("x", 16, 16, dtype="uint8"), param("y", 16, 16, dtype="uint8"))
    d = dequantized(g, g.params[0], 0.05, 3)
    if other == "tensor":
        d = g.op("add", d, dequantized(g, g.params[1], 0.05, 3))
    elif other == "vector":
        d = g.op("multiply", d, Constant(np.linspace(1, 2, 16, dtype=np.float32)))
    else:
        d = g.op("permute_dims", d, axes=(1, 0))
    mod = g.module(quantized(g, d, 0.05, 3, "uint8"))
    assert "qnn.lookup" not in ops(lookup_tables(mod))
