"""Data of products of bytes has the sign that the target's dot products take: the same results, bit for bit."""
import numpy as np
import pytest
from graph_check import Graph, execute, ops, param

from ingot.ir.relax import Constant
from ingot.ir.target import Target
from ingot.ir.transform.match_signs import match_signs
from ingot.ir.transform.qnn_canonicalize import qnn_canonicalize

RNG = np.random.default_rng(4)
VNNI, SDOT, USDOT, PRODUCTS, HELIUM, NEITHER = map(Target.get, (
    "x86-64-v4-vnni", "aarch64-dotprod", "aarch64-i8mm", "aarch64-cortex-a72", "cortex-m55", "x86-64-v3"))


def integers(dtype, *shape):
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max + 1, shape).astype(dtype)


def products(mod):
    """The dtypes of what is multiplied."""
    return [tuple(str(a.struct_info.dtype) for a in b.value.args[:2]) for b in mod["main"].bindings
            if b.value.op in ("matmul", "nn.conv2d", "qnn.matmul", "qnn.conv2d")]


def same(mod, target, *inputs):
    """The module by which the target multiplies, whose results are those of the other."""
    made = match_signs(mod, target)
    for found, expected in zip(execute(qnn_canonicalize(made, target), *inputs), execute(mod, *inputs)):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
    return made


def quantized(g, x, dtype, zero=0):
    """x float32, rounded and saturated."""
    limits = np.iinfo(dtype)
    x = g.op("round", x)
    x = g.op("add", x, Constant(np.float32(zero))) if zero else x
    return g.op("astype", g.op("clip", x, min=float(limits.min), max=float(limits.max)), dtype=dtype)


def convolution(g, x, zero, w):
    return g.op("qnn.conv2d", x, Constant(w, "w"), Constant(np.asarray(zero)), Constant(np.array(0, np.int8)),
                padding=(1, 1, 1, 1))


@pytest.mark.parametrize("target, dtype, expected", [
    (VNNI, "int8", "uint8"), (VNNI, "uint8", "uint8"), (SDOT, "uint8", "int8"), (SDOT, "int8", "int8"),
    (PRODUCTS, "uint8", "int8"), (PRODUCTS, "int8", "int8"), (HELIUM, "uint8", "int8"), (USDOT, "uint8", "uint8"),
    (USDOT, "int8", "int8"), (NEITHER, "int8", "int8"), (NEITHER, "uint8", "uint8")])
def test_inputs(target, dtype, expected):
    x, zero = integers(dtype, 1, 4, 6, 5), np.array(100, dtype)
    g = Graph(param("x", 1, 4, 6, 5, dtype=dtype))
    made = same(g.module(convolution(g, g.params[0], zero, integers("int8", 8, 4, 3, 3))), target, x)
    assert products(made) == [(expected, "int8")]


def test_what_quantizes_makes_the_other_sign():
    """With no operator more than before, where the zero point is one number."""
    x, w = RNG.normal(scale=90, size=(1, 4, 6, 5)).astype(np.float32), integers("int8", 8, 4, 3, 3)
    g = Graph(param("x", 1, 4, 6, 5))
    mod = g.module(convolution(g, quantized(g, g.params[0], "int8", -7), np.int8(-7), w))
    made = same(mod, VNNI, x)
    assert ops(made) == ops(mod) and products(made) == [("uint8", "int8")]


def test_what_moves_bytes_moves_the_others():
    x, w = RNG.normal(scale=90, size=(1, 4, 6, 6)).astype(np.float32), integers("int8", 8, 4, 3, 3)
    g = Graph(param("x", 1, 4, 6, 6))
    y = g.op("nn.max_pool2d", quantized(g, g.params[0], "int8"), pool_size=(2, 2), strides=(2, 2))
    y = g.op("nn.pad", g.op("permute_dims", y, axes=(0, 1, 3, 2)), pad_width=(0, 0, 0, 0, 1, 0, 0, 2), pad_value=-3)
    y = g.op("concat", y, y, axis=2)
    mod = g.module(convolution(g, y, np.int8(0), w))
    made = same(mod, VNNI, x)
    assert products(made) == [("uint8", "int8")] and [o for o in ops(made) if o != "add"] == ops(mod)


def test_other_readers_read_the_numbers():
    """A residual sum, a maximum, an output, and a product by weights without a sign."""
    x, w = RNG.normal(scale=90, size=(1, 8, 6, 6)).astype(np.float32), integers("int8", 8, 8, 3, 3)
    g = Graph(param("x", 1, 8, 6, 6))
    q = quantized(g, g.params[0], "int8", 5)
    total = g.op("astype", convolution(g, q, np.int8(5), w), dtype="float32")
    floats = g.op("subtract", g.op("astype", q, dtype="float32"), Constant(np.float32(5)))
    unsigned = g.op("qnn.conv2d", q, Constant(integers("uint8", 8, 8, 1, 1), "u"), Constant(np.int8(5)),
                    Constant(np.uint8(0)))
    mod = g.module(g.op("add", total, floats), g.op("maximum", q, Constant(np.int8(3))), q, unsigned)
    assert products(same(mod, VNNI, x)) == [("uint8", "int8"), ("int8", "uint8")]


def test_zero_points_that_a_run_knows():
    x, zero, w = integers("uint8", 3, 8), integers("uint8"), integers("int8", 8, 5)
    g = Graph(param("x", 3, 8, dtype="uint8"), param("zero", dtype="uint8"))
    mod = g.module(g.op("qnn.matmul", *g.params[:1], Constant(w, "w"), g.params[1], Constant(np.array(0, np.int8))))
    assert products(same(mod, SDOT, x, zero)) == [("int8", "int8")]


def test_numbers_that_are_no_integers_are_cut_off_first():
    x, w = RNG.normal(scale=90, size=(3, 8)).astype(np.float32), integers("int8", 8, 5)
    g = Graph(param("x", 3, 8))
    q = g.op("astype", g.op("clip", g.params[0], min=-128.0, max=127.0), dtype="int8")
    zero = Constant(np.array(0, np.int8))
    mod = g.module(g.op("qnn.matmul", q, Constant(w, "w"), zero, zero))
    assert products(same(mod, VNNI, x)) == [("uint8", "int8")]
