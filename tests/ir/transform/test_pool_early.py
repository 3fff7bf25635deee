"""PoolEarly: average pools come before the 1x1 convolutions they read, with the same results."""
import pytest
from graph_check import Graph, check, const, data, ops, param

from ingot.ir.expr import Var
from ingot.ir.transform.pool_early import pool_early

AVERAGE = dict(pool_size=(2, 2), strides=(2, 2))


def pooled(shape, outputs=6, kernel=1, pool="nn.avg_pool2d", attrs=AVERAGE, **conv):
    """A convolution, a pool of it and relu, after the pass."""
    g = Graph(param("x", *shape))
    weight = const(outputs, shape[1] // conv.get("groups", 1), kernel, kernel)
    y = g.op(pool, g.op("nn.conv2d", g.params[0], weight, **conv), **attrs)
    return check(g.module(g.op("nn.relu", y)), data(2, shape[1], 8, 7), passes=[pool_early])


@pytest.mark.parametrize("options", [
    {}, {"groups": 2}, {"attrs": dict(pool_size=(3, 3), strides=(2, 2), padding=(1, 1, 1, 1))},
    {"attrs": dict(pool_size=(3, 2), strides=(2, 3), padding=(1, 0, 1, 1), count_include_pad=True)},
    {"attrs": dict(pool_size=(3, 3), strides=(3, 3), ceil_mode=True)},
    {"pool": "nn.adaptive_avg_pool2d", "attrs": dict(output_size=(2, 3))},
])
def test_averages_come_before_a_1x1_convolution(options):
    mod = pooled((2, 4, 8, 7), **options)
    assert ops(mod) == [options.get("pool", "nn.avg_pool2d"), "nn.conv2d", "nn.relu"]


@pytest.mark.parametrize("shape, options", [
    ((2, 4, 8, 7), {"kernel": 2}), ((2, 4, 8, 7), {"strides": (2, 2)}), ((2, 4, 8, 7), {"padding": (1, 1, 1, 1)}),
    ((2, 4, 8, 7), {"pool": "nn.max_pool2d"}),
    ((2, 4, 8, 7), {"attrs": dict(pool_size=(3, 3), padding=(1, 1, 1, 1))}),  # as many points as before
    ((2, 12, 8, 7), {"outputs": 1, "attrs": dict(pool_size=(7, 7))}),  # sums over more channels cost more
    ((2, 4, Var("h", "int64"), 7), {}),
])
def test_other_pools_stay(shape, options):
    assert ops(pooled(shape, **options))[0] == "nn.conv2d"


def test_a_convolution_that_others_read_stays():
    g = Graph(param("x", 2, 4, 8, 8))
    y = g.op("nn.conv2d", g.params[0], const(6, 4, 1, 1))
    mod = check(g.module(y, g.op("nn.avg_pool2d", y, **AVERAGE)), data(2, 4, 8, 8), passes=[pool_early])
    assert ops(mod) == ["nn.conv2d", "nn.avg_pool2d"]


def test_an_output_keeps_its_name_and_a_convolution_its_own():
    g = Graph(param("x", 2, 4, 8, 8))
    y = g.op("nn.avg_pool2d", g.op("nn.conv2d", g.params[0], const(6, 4, 1, 1)), **AVERAGE)
    mod = check(g.module(y), data(2, 4, 8, 8), passes=[pool_early])
    assert [b.var.name for b in mod["main"].bindings][-1] == y.name
    g = Graph(param("x", 2, 4, 8, 8))
    conv = g.op("nn.conv2d", g.params[0], const(6, 4, 1, 1))
    y = g.op("nn.relu", g.op("nn.avg_pool2d", conv, **AVERAGE))
    mod = check(g.module(y), data(2, 4, 8, 8), passes=[pool_early])
    assert [b.var.name.startswith("conv2d") for b in mod["main"].bindings] == [False, True, False]
