"""Softmax of small floats that a product reads keeps its shares in float32."""
import numpy as np
import pytest
from onnx import helper

import ingot
from ingot.frontend.onnx import from_onnx
from ingot.ir.relax.evaluate import evaluate
from ingot.ir.transform.pass_table import RELAX
from networks import make_model

node = helper.make_node


def attention(extra=()):
    """softmax(x) v in float16; `extra`: outputs besides the product."""
    nodes = [node("Softmax", ["x"], ["shares"]), node("MatMul", ["shares", "v"], ["y"])]
    outputs = {"y": (np.float16, [2, 4, 8]), **{name: (np.float16, [2, 4, 6]) for name in extra}}
    return make_model("half", nodes, {"x": (np.float16, [2, 4, 6]), "v": (np.float16, [2, 6, 8])}, outputs, {})


def kept(model):
    return RELAX["KeepShares"]()(from_onnx(model))


def test_the_result_is_rounded_once():
    rng = np.random.default_rng(0)
    x, v = (rng.standard_normal(shape).astype(np.float16) for shape in ((2, 4, 6), (2, 6, 8)))
    shares = np.exp(x.astype(np.float64))
    exact = (shares / shares.sum(-1, keepdims=True)) @ v.astype(np.float64)
    with ingot.compile(attention(), target="c", threads="none") as library:
        found = library(x, v)
    np.testing.assert_array_equal(found, exact.astype(np.float16))
    np.testing.assert_array_equal(np.asarray(evaluate(kept(attention()), [x, v])), exact.astype(np.float16))


def test_shares_that_others_read_stay_as_they_are():
    model = attention(extra=["shares"])
    assert [b.value.op for b in kept(model)["main"].bindings] == ["nn.softmax", "matmul"]


@pytest.mark.parametrize("condition, op", [(False, "nn.softmax"), (True, None)])
def test_a_choice_that_is_always_the_same_goes(condition, op):
    nodes = [node("Softmax", ["x"], ["shares"]), node("Where", ["c", "zeros", "shares"], ["y"])]
    model = make_model("choice", nodes, {"x": (np.float32, [3, 4])}, {"y": (np.float32, [3, 4])},
                       {"c": np.full((3, 1), condition), "zeros": np.zeros((3, 4), np.float32)})
    bindings = RELAX["RemoveIdentities"]()(from_onnx(model))["main"].bindings
    assert [b.value.op for b in bindings] == ([op] if op else [])
