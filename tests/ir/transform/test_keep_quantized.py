"""KeepQuantized: products by integers times a scale are the same whichever way their weights are turned."""
import numpy as np
import pytest
from graph_check import Graph, check, data, ops, param

from ingot.codegen.target import Target
from ingot.ir.relax import Constant
from ingot.ir.transform.keep_quantized import _KeepQuantized, keep_quantized


@pytest.mark.parametrize("axes, kept", [(None, True), ((1, 0), True), ((-1, -2), True), ((0, 1), False)])
def test_weights_that_are_turned(axes, kept):
    g = Graph(param("x", 3, 64))
    w = Constant(np.random.default_rng(0).integers(-8, 8, (64, 64)).astype(np.int8), "w")
    floats = g.op("multiply", g.op("astype", w, dtype="float32"), Constant(np.float32(0.25), "scale"))
    y = g.op("matmul", g.params[0], g.op("permute_dims", floats, axes=axes))
    mod = check(g.module(y), data(3, 64), passes=(keep_quantized,))
    assert ("permute_dims" not in ops(mod)) == kept


def test_what_is_no_constant_is_followed_once(monkeypatch):
    """x * sigmoid(x) of many layers is no constant; each of its two ways back doubles the work where both are gone."""
    asked = []
    array = _KeepQuantized._array
    monkeypatch.setattr(_KeepQuantized, "_array", lambda self, value: asked.append(value) or array(self, value))
    g = Graph(param("x", 4, 64))
    y = g.params[0]
    for _ in range(12):
        y = g.op("multiply", y, g.op("sigmoid", y))
    w = Constant(np.ones((64, 64), np.float32), "w")
    keep_quantized(g.module(g.op("matmul", y, w)), Target.get("x86-64-v4"))
    assert len(asked) < 100
