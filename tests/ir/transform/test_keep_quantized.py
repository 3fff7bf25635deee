"""KeepQuantized: products by integers times a scale are the same whichever way their weights are turned."""
import numpy as np
import pytest
from graph_check import Graph, check, data, ops, param

from ingot.ir.relax import Constant
from ingot.ir.transform.keep_quantized import keep_quantized


@pytest.mark.parametrize("axes, kept", [(None, True), ((1, 0), True), ((-1, -2), True), ((0, 1), False)])
def test_weights_that_are_turned(axes, kept):
    g = Graph(param("x", 3, 64))
    w = Constant(np.random.default_rng(0).integers(-8, 8, (64, 64)).astype(np.int8), "w")
    floats = g.op("multiply", g.op("astype", w, dtype="float32"), Constant(np.float32(0.25), "scale"))
    y = g.op("matmul", g.params[0], g.op("permute_dims", floats, axes=axes))
    mod = check(g.module(y), data(3, 64), passes=(keep_quantized,))
    assert ("permute_dims" not in ops(mod)) == kept
