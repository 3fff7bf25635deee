"""Branches, loops and dimensions that a run decides, with their bounds, print and parse back."""
import numpy as np
import pytest
from control_networks import CONTROL, control_feeds
from random_control import RandomControl

from ingot.frontend.onnx import OnnxImportError, from_onnx
from ingot.ir.expr import Var
from ingot.ir.node import collect, structural_equal
from ingot.ir.relax.control import all_bindings, dims_set_by
from ingot.ir.relax.evaluate import evaluate
from ingot.ir.relax.verifier import verify
from ingot.ir.script import metadata
from ingot.ir.script.errors import ScriptError
from ingot.ir.script.functions import from_source


def there_and_back(mod):
    text = mod.script()
    back = from_source(text, metadata(mod))
    assert structural_equal(back, mod, map_free_vars=True), f"\n{text}\n{back.script()}"
    assert back.script() == text
    for a, b in zip(all_bindings(mod), all_bindings(back)):
        for p, q in zip(dims_set_by(a.value), dims_set_by(b.value)):
            assert p.name == q.name and str(p.most) == str(q.most)
    return verify(back)


@pytest.mark.parametrize("name", CONTROL)
def test_networks(name):
    mod = from_onnx(CONTROL[name]())
    back, feeds = there_and_back(mod), control_feeds(name, 1)
    for a, b in zip(evaluate(back, feeds), evaluate(mod, feeds)):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("seed", range(12))
def test_random_nests(seed):
    made, bounds = RandomControl(seed), {}
    for _ in range(20):
        try:
            mod = from_onnx(made.model, bounds=bounds)
            break
        except OnnxImportError as error:
            name = str(error).split("--bound ")[1].split("=")[0]
            bounds[name] = 5
    there_and_back(mod)


def test_bounds_of_symbolic_dimensions_come_after_these():
    mod = from_onnx(CONTROL["selected_rows"]())
    text = mod.script()
    assert "places_count = T.int64(most=3 * n)" in text
    assert text.index("n = T.int64()") < text.index("places_count = T.int64(")
    found = {v.name: v for v in collect(from_source(text, metadata(mod))["main"], Var)}
    assert found["places_count"].most is not None and found["n"].most is None


@pytest.mark.parametrize("call, message", [
    ("R.call_if(c, x, then=3, other=cls.g)", "then is a function of the module"),
    ("R.call_loop(x, body=x, index=i, turns=3, carried=1)", "body is a function of the module")])
def test_bodies_are_functions_of_the_module(call, message):
    text = ('@I.ir_module\nclass Module:\n    @R.function\n    def main(x: R.Tensor((3,), "float32"), '
            'c: R.Tensor((), "bool")):\n        i = T.int64()\n        with R.dataflow():\n'
            f'            y: R.Tensor((3,), "float32") = {call}\n            R.output(y)\n        return y\n')
    with pytest.raises(ScriptError, match=message):
        from_source(text)
