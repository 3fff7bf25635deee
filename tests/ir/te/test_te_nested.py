"""Reductions whose domains depend on other axes, and reducers that look at the axes and at tensors: numbers."""
import numpy as np
import pytest
from interp import run

import ingot
from ingot.ir import te, tir
from ingot.ir.expr import Range, Var, const
from ingot.ir.node import collect
from ingot.ir.tir.stmt import Block
from ingot.ir.tir.verifier import verify

RNG = np.random.default_rng(0)


def axis(least, extent, name="r"):
    return te.reduce_axis(Range.from_min_extent(least, extent), name)


def filled(func, *data, shape):
    """What a function computes, by the interpreter and by the compiler, which agree."""
    verify(func)
    out = np.full(shape, 77, "float32")
    run(func, *data, out)
    built, again = ingot.build(func, target="c"), ingot.nd.array(np.full(shape, 77, "float32"))
    built(*map(ingot.nd.array, data), again)
    np.testing.assert_allclose(again.numpy(), out, rtol=1e-6)
    return out


@pytest.mark.parametrize("first, count, init", [
    (lambda i: 0, lambda i: i + 1, "leaf"),                       # rows of a triangle
    (lambda i: i, lambda i: 8 - i, "leaf"),
    (lambda i: i // 2, lambda i: 2 + i % 2, "leaf"),              # windows of two sizes
    (lambda i: 0, lambda i: i, "before"),  # the first row has no terms
    (lambda i: i, lambda i: tir.max(4 - i, 0), "before"),
])
def test_a_domain_that_depends_on_an_axis(first, count, init):
    x = te.placeholder((3, 8, 8), name="x")

    def total(c, i):
        r = axis(first(i), count(i))
        return te.sum(x[c, i, r], r)
    func = te.create_prim_func([x, te.compute((3, 8), total, name="y")])
    blocks = {b.name_hint: b for b in collect(func.body, Block)}
    assert (blocks["y"].init is not None) == (init == "leaf") and blocks["y_1"].init is None
    data = RNG.standard_normal((3, 8, 8)).astype("float32")
    wanted = [[row[i][at:at + n].sum() for i in range(8) for at, n in [(
        first(i), max(4 - i, 0) if not isinstance(count(i), int) else count(i))]] for row in data]
    np.testing.assert_allclose(filled(func, data, shape=(3, 8)), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("least", [0, 1])
def test_a_domain_that_depends_on_another_reduced_axis(least):
    """The sum goes on from one turn of the outer domain to the next: it starts once."""
    x = te.placeholder((4, 6, 6), name="x")

    def total(i):
        r = axis(0, i + least)
        s = axis(0, r.var + 1, "s")
        return te.sum(x[i, r, s], [r, s])
    func = te.create_prim_func([x, te.compute((4,), total, name="y")])
    data = RNG.standard_normal((4, 6, 6)).astype("float32")
    wanted = [sum(data[i, r, :r + 1].sum() for r in range(i + least)) for i in range(4)]
    np.testing.assert_allclose(filled(func, data, shape=4), wanted, rtol=1e-5, atol=1e-6)


def test_a_symbolic_domain_that_depends_on_an_axis():
    n = Var("n")
    x = te.placeholder((n, n), name="x")

    def most(i):
        r = axis(0, n - i)
        return te.max(x[i, r], r)
    func = te.create_prim_func([x, te.compute((n,), most, name="y")])
    data = RNG.standard_normal((7, 7)).astype("float32")
    np.testing.assert_array_equal(filled(func, data, shape=7), [data[i, :7 - i].max() for i in range(7)])


def test_several_values_over_a_domain_that_depends_on_an_axis():
    x = te.placeholder((5, 6), name="x")
    both = te.comm_reducer(lambda a, b: (a[0] + b[0], tir.max(a[1], b[1])),
                           lambda t, u: (const(0, t), tir.min_value(u)), "both")

    def values(i):
        r = axis(0, i + 1)
        return both((x[i, r], x[i, r]), r)
    func = te.create_prim_func([x, *te.compute((5,), values, name="y")])
    data, total, most = RNG.standard_normal((5, 6)).astype("float32"), np.zeros(5, "float32"), np.zeros(5, "float32")
    run(func, data, total, most)
    np.testing.assert_allclose(total, [data[i, :i + 1].sum() for i in range(5)], rtol=1e-5)
    np.testing.assert_array_equal(most, [data[i, :i + 1].max() for i in range(5)])


def test_a_reducer_may_look_at_axes_and_tensors():
    x, w = te.placeholder((4, 6), name="x"), te.placeholder((4,), name="w")
    r = te.reduce_axis((0, 6), "r")
    func = te.create_prim_func([x, w, te.compute((4,), lambda i: te.comm_reducer(
        lambda a, b: a * w[i] + b + i, lambda t: w[i] * 2)(x[i, r], axis=r, where=x[i, r] < 1), name="y")])
    data, weights = RNG.standard_normal((4, 6)).astype("float32"), RNG.standard_normal(4).astype("float32")
    wanted = weights * 2
    for k in range(6):
        term = np.where(data[:, k] < 1, data[:, k], weights * 2)
        wanted = wanted * weights + term + np.arange(4)
    np.testing.assert_allclose(filled(func, data, weights, shape=4), wanted, rtol=1e-5)
