"""LiftTransformParams: functions that empty the weights they are given, and those that are there already."""
import numpy as np
import pytest

import ingot as tvm
from ingot import relax
from ingot.ir.node import structural_equal
from ingot.ir.script.functions import from_source

T = relax.transform


def module(text):
    return from_source("@I.ir_module\nclass M:\n" + "\n".join("    " + line for line in text.strip().splitlines()))


MAIN = '''
@R.function
def main(x: R.Tensor((2, 3), "float32"), w: R.Tensor((3, "n"), "float32"), b: R.Tensor(("n",), "float32")):
    R.func_attr({"num_input": 1})
    with R.dataflow():
        v = R.multiply(w, w)
        y = R.matmul(x, v)
        z = R.add(y, R.add(b, b))
        R.output(z)
    return z
'''
EARLIER = '''
@R.function
def main_transform_params(params: R.Tuple(R.Tensor((3, "m"), "float32"), R.Tensor(("m",), "float32"))):
    R.func_attr({"num_input": 0})
    w = params[0]
    b = params[1]
    e = R.exp(w)
    t = (e, b)
    return t
'''


def arrays():
    rng = np.random.default_rng(0)
    return [rng.normal(size=s).astype(np.float32) for s in ((2, 3), (3, 4), (4,))]


def run(mod, x, *weights):
    vm = relax.VirtualMachine(tvm.compile(mod, "c"), tvm.cpu())
    made = vm["main_transform_params"](tuple(map(tvm.nd.array, weights)))
    return vm["main"](tvm.nd.array(x), *made).numpy()


def test_weights_are_emptied_when_they_are_used():
    mod, (x, w, b) = module(MAIN), arrays()
    with tvm.transform.PassContext(config={"relax.lift_transform_params.consume_params": True}):
        after = T.LiftTransformParams()(mod)
    text = after["main_transform_params"].script()
    assert text.count("vm.builtin.tuple_reset_item") == 2 and relax.analysis.well_formed(after)
    assert "tuple_reset_item" not in T.LiftTransformParams()(mod).script()
    np.testing.assert_allclose(run(after, x, w, b), x @ (w * w) + 2 * b, rtol=1e-5, atol=1e-6)


def test_a_function_that_is_there_goes_first():
    mod, (x, w, b) = module(MAIN + EARLIER), arrays()
    after = T.LiftTransformParams()(mod)
    assert relax.analysis.well_formed(after)
    np.testing.assert_allclose(run(after, x, w, b), x @ np.exp(w) ** 2 + 2 * b, rtol=1e-5, atol=1e-6)
    same = EARLIER.replace("e = R.exp(w)\n    t = (e, b)\n    return t", "return params")
    assert structural_equal(T.LiftTransformParams()(module(MAIN + same)), T.LiftTransformParams()(module(MAIN)))


def test_a_function_of_other_weights_is_refused():
    other = EARLIER.replace("t = (e, b)", "t = (b, e)")
    with pytest.raises(ValueError, match="has a function main_transform_params already, which gives .* and the weights are"):
        T.LiftTransformParams()(module(MAIN + other))
