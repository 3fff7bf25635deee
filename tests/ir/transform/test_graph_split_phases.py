"""Transposed convolutions whose phases become channels, or convolutions of their own: with the same results."""
import numpy as np
import pytest
from graph_check import Graph, check, const, data, ops, param

from ingot.ir.expr import Var
from ingot.ir.transform.graph import on_main
from ingot.ir.transform.split_phases import split_phases

SPLIT = on_main(split_phases)
SHUFFLE = ["reshape", "permute_dims", "reshape"]
TURNED = dict(strides=(2, 2), padding=(1, 1, 1, 1))


def split(shape, outputs, kernel, lanes=4, groups=1, **attrs):
    g = Graph(param("x", *shape))
    weight = const(shape[1], outputs // groups, *kernel)
    y = g.op("nn.conv2d_transpose", g.params[0], weight, groups=groups, **attrs)
    return check(g.module(y), data(*shape), passes=[lambda m: SPLIT(m, lanes)], lower=False)


@pytest.mark.parametrize("shape, outputs, kernel, attrs, cut", [
    ((1, 12, 5, 4), 1, (4, 4), TURNED, False),
    ((2, 12, 5, 4), 1, (5, 4), dict(strides=(3, 2), padding=(2, 0, 1, 1)), True),
    ((1, 12, 4, 3), 1, (9, 9), dict(strides=(3, 3), padding=(4, 4, 4, 4), output_padding=(2, 2)), False),
    ((1, 16, 4, 3), 1, (5, 6), dict(strides=(2, 2), padding=(1, 2, 0, 1)), True),
    ((1, 30, 5, 6), 1, (4, 5), dict(strides=(2, 2), padding=(4, 3, 3, 4)), True)])
def test_phases_of_few_channels_are_channels(shape, outputs, kernel, attrs, cut):
    mod = split(shape, outputs, kernel, **attrs)
    assert ops(mod) == ["nn.conv2d", *SHUFFLE, *["strided_slice"] * cut]


@pytest.mark.parametrize("shape, outputs, kernel, attrs", [
    ((1, 8, 5, 4), 8, (4, 4), TURNED), ((1, 2, 5, 4), 1, (2, 2), TURNED),
    ((1, 8, 5, 4), 1, (3, 3), dict(strides=(1, 1)))])
def test_others_of_one_group_stay(shape, outputs, kernel, attrs):
    """Full vectors as they are, a shuffle that costs more than it saves, one phase."""
    assert ops(split(shape, outputs, kernel, **attrs)) == ["nn.conv2d_transpose"]


@pytest.mark.parametrize("kernel, attrs", [
    ((4, 4), TURNED), ((2, 2), dict(strides=(2, 2))), ((3, 2), dict(strides=(2, 3), output_padding=(1, 0))),
    ((3, 3), dict(strides=(2, 2), dilation=(2, 3)))])
def test_depthwise(kernel, attrs):
    mod = split((1, 5, 4, 3), 5, kernel, groups=5, **attrs)
    phases = int(np.prod(attrs["strides"]))
    assert ops(mod)[:phases + 4] == ["nn.conv2d"] * phases + ["concat"] + SHUFFLE


def test_groups_of_whole_vectors():
    mod = split((2, 8, 4, 3), 16, (3, 3), groups=2, strides=(2, 2), output_padding=(1, 1))
    assert ops(mod) == ["split", "nn.conv2d_transpose", "nn.conv2d_transpose", "concat"]


@pytest.mark.parametrize("strides, shuffle", [((2, 3), SHUFFLE), ((1, 1), [])])
@pytest.mark.parametrize("groups, dilation", [(3, (1, 1)), (3, (2, 3)), (6, (1, 1))])
def test_other_groups(strides, shuffle, groups, dilation):
    outputs = 6 if groups == 6 and strides == (1, 1) else 12
    mod = split((2, 6, 4, 3), outputs, (3, 4), groups=groups, strides=strides, dilation=dilation, padding=(1, 0, 2, 1))
    assert [o for o in ops(mod) if o != "strided_slice"] == ["nn.conv2d", *shuffle]


def test_what_is_left_alone():
    """Weights that are no constants, images of unknown size."""
    x, w, n = param("x", 1, 12, 3, 4), param("w", 12, 1, 4, 4), Var("n", "int64")
    for first, second in ((x, w), (param("x", 1, 12, n, 4), const(12, 1, 4, 4))):
        g = Graph(first, second) if second is w else Graph(first)
        mod = g.module(g.op("nn.conv2d_transpose", first, second, **TURNED))
        assert ops(SPLIT(mod, 4)) == ["nn.conv2d_transpose"]
