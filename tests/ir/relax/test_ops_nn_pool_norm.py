"""Pools and normalizations: the lowering, interpreted, against the numpy reference."""
import numpy as np
import pytest
from interp import run
from ops_nn_check import array, arrays, block_names, call_of, check, evaluate, lower

from ingot.ir.expr import Call, Var
from ingot.ir.node import collect

POOLS = {
    "plain": ((2, 3, 6, 5), dict(pool_size=(2, 3), strides=(2, 1))),
    "padding": ((1, 2, 5, 5), dict(pool_size=(3, 3), strides=(2, 2), padding=(1, 1, 1, 1))),
    "asymmetric padding": ((1, 2, 5, 6), dict(pool_size=(3, 2), padding=(0, 1, 2, 0))),
    "dilated": ((1, 1, 8, 7), dict(pool_size=(3, 2), dilation=(2, 3), padding=(2, 1, 1, 1))),
    "ceil mode": ((1, 2, 6, 6), dict(pool_size=(3, 3), strides=(2, 2), ceil_mode=True)),
    "ceil mode, window in the padding dropped": (
        (1, 1, 4, 4), dict(pool_size=(2, 2), strides=(3, 3), padding=(1, 1, 1, 1), ceil_mode=True)),
    "ceil mode, dilated": (
        (1, 1, 7, 6), dict(pool_size=(2, 3), strides=(3, 2), dilation=(2, 1), padding=(1, 0, 1, 1), ceil_mode=True)),
    "overhang cut off by the stride": ((1, 1, 6, 6), dict(pool_size=(3, 3), strides=(2, 2), padding=(0, 0, 1, 1))),
}


@pytest.mark.parametrize("x, attrs", POOLS.values(), ids=POOLS)
@pytest.mark.parametrize("more", [None, dict(count_include_pad=False), dict(count_include_pad=True)],
                         ids=["max", "avg", "avg with padding"])
def test_pool2d(x, attrs, more):
    name = "nn.max_pool2d" if more is None else "nn.avg_pool2d"
    func, _ = check(name, arrays(x), **attrs, **(more or {}))
    assert block_names(func) == (["max_pool2d"] if more is None else ["avg_pool2d_sum", "avg_pool2d"])


def test_max_pool_sees_minus_infinity_in_the_padding():
    x = np.full((1, 1, 3, 3), -5, "float32")
    _, result = check("nn.max_pool2d", [x], pool_size=(3, 3), padding=(1, 1, 1, 1))
    assert (result == -5).all()
    check("nn.max_pool2d", [array((1, 1, 4, 4), dtype="int8")], pool_size=(3, 3), padding=(1, 1, 1, 1))


def test_pool_without_overhang_has_no_condition():
    for attrs in (dict(pool_size=(2, 2), strides=(2, 2)), dict(pool_size=(2, 2), strides=(2, 2), ceil_mode=True)):
        func = lower(call_of("nn.max_pool2d", [(1, 1, 6, 6)], attrs))
        assert not any(c.op == "tir.if_then_else" for c in collect(func, Call))


@pytest.mark.parametrize("rank", [1, 3])
def test_pools_of_other_ranks(rank):
    x = arrays((2, 2, 7, 5, 4)[:2 + rank])
    attrs = dict(pool_size=(2, 3, 2)[:rank], strides=(2, 1, 2)[:rank], padding=(1,) * 2 * rank)
    check(f"nn.max_pool{rank}d", x, **attrs)
    check(f"nn.avg_pool{rank}d", x, **attrs)


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("size", [4, 5, 6])
def test_pool_of_symbolic_size(size, ceil_mode):
    x = array((1, 2, size, 5))
    attrs = dict(pool_size=(3, 2), strides=(2, 2), padding=(1, 0, 0, 1), ceil_mode=ceil_mode)
    for name in ("nn.max_pool2d", "nn.avg_pool2d"):
        expected = evaluate(name, [x], **attrs)
        func = lower(call_of(name, [(1, 2, Var("h", "int64"), 5)], attrs))
        actual = np.zeros_like(expected)
        run(func, x, actual)
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_softmax(name, axis):
    x = array((3, 4, 5)) * 50 + 300  # exp overflows unless the maximum is taken off
    func, result = check("nn." + name, [x], axis=axis)
    last = ("_scale", "") if name == "softmax" else ("",)  # divided once a row
    assert block_names(func) == [name + s for s in ("_max", "_exp", "_sum", *last)]
    total = (result if name == "softmax" else np.exp(result)).sum(axis=axis)
    np.testing.assert_allclose(total, 1, rtol=1e-5)


def test_softmax_over_a_symbolic_axis():
    x, t = array((2, 5)), Var("t", "int64")
    actual = np.zeros_like(x)
    run(lower(call_of("nn.softmax", [(2, t)], dict(axis=1))), x, actual)
    np.testing.assert_allclose(actual, evaluate("nn.softmax", [x], axis=1), rtol=1e-5)


@pytest.mark.parametrize("shape, axes", [((2, 3, 5), (-1,)), ((2, 3, 5), (1, 2)), ((2, 3, 5), (1,))])
def test_layer_norm(shape, axes):
    params = tuple(shape[a] for a in axes)
    func, _ = check("nn.layer_norm", arrays(shape, params, params), axes=axes, epsilon=1e-3)
    assert block_names(func) == ["layer_norm" + s for s in ("_sum", "_mean", "_var", "_rstd", "")]


def test_layer_norm_keeps_its_digits_at_a_large_mean():
    x = (array((2, 64)) + 4000).astype("float32")
    _, result = check("nn.layer_norm", [x, np.ones(64, "float32"), np.zeros(64, "float32")], tolerance=2e-3)
    wide = x.astype("float64")
    expected = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(result, expected, atol=2e-3)


def test_instance_norm_and_batch_norm():
    x, gamma, beta, mean = arrays((2, 3, 4, 5), 3, 3, 3)
    var = np.abs(array(3, 9)) + 0.1
    func, _ = check("nn.instance_norm", [x, gamma, beta])
    assert block_names(func) == ["instance_norm" + s for s in ("_sum", "_mean", "_var", "_rstd", "")]
    func, _ = check("nn.batch_norm", [x, gamma, beta, mean, var], epsilon=1e-3)
    assert block_names(func) == ["batch_norm"]
    check("nn.batch_norm", [np.moveaxis(x, 1, -1).copy(), gamma, beta, mean, var], axis=-1)
    check("nn.batch_norm", [x[:, :, 0, 0].copy(), gamma, beta, mean, var])


@pytest.mark.parametrize("size", [1, 2, 3, 4, 9])
def test_lrn(size):
    func, _ = check("nn.lrn", [array((2, 5, 2, 3))], size=size, alpha=0.5, beta=0.6, bias=1.5)
    assert block_names(func) == ["lrn_sum", "lrn"]


@pytest.mark.parametrize("beta, roots", [(0.5, 1), (0.75, 3), (1.0, 0)])
def test_usual_exponents_of_lrn_are_roots(beta, roots):
    func, _ = check("nn.lrn", [array((2, 5, 2, 3))], size=5, alpha=0.5, beta=beta, bias=1.5)
    assert [c.op for c in collect(func.body, Call)].count("tir.sqrt") == roots


def test_float16_normalizes_in_float32():
    x = array((2, 3, 4), dtype="float16")
    check("nn.softmax", [x], tolerance=2e-3)
    check("nn.lrn", [x], tolerance=2e-3, size=3)
    check("nn.layer_norm", [x, *arrays(4, 4, dtype="float16")], tolerance=4e-3)
    check("nn.avg_pool1d", [x], tolerance=2e-3, pool_size=(3,))
